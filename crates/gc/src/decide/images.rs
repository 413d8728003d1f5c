//! Decides which images are removed.
//!
//! A pass: [`detect`] which images are used, [`sort`] out those that must stay, remove those unused for
//! too long ([`by_age`]), measure the disk ([`usage`]), and while it is too full, [`sweep`] the rest,
//! least recently used first.

pub mod by_age;
pub mod candidates;
pub mod detect;
pub mod pins;
pub mod policy;
pub mod settle;
pub mod sweep;
pub mod usage;
pub mod worth;

pub use by_age::{Ages, by_age};
pub use candidates::{Candidate, ImageFacts, Keeper, KeptImage, Observed, SortedImages, sort};
pub use detect::{Detected, ImageKey, Listing, ObservedImage, Records, Times, Use, detect};
pub use pins::{PinError, Pins};
pub use policy::{Policy, PolicyError};
pub use settle::{PATIENCE, Settling, Shown};
pub use sweep::{End, FREE_DISK_SPACE_FAILED, Goal, NOT_REMOVED, Sweep, SweepResult, stay};
pub use usage::{Usage, human_size};
pub use worth::RemovalGain;

#[cfg(test)]
mod tests;
