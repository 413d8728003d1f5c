//! The cgroups of this machine: the real side of the cgroups port.
//!
//! Purpose: makes cgroups, writes limits to them, and removes them with all that is in them.
//!
//! Inputs: the mounted hierarchies, found once ([`Tree::of_machine`]); names and values in the agent's
//! own words. Outputs: directories and control files of either version of cgroups.
//!
//! Invariants:
//! - a name never leads out of a hierarchy: paths are followed below its root, without links;
//! - a cgroup lies in all hierarchies of the first version, or has all controllers of the second;
//! - nothing is killed but what is in the cgroup that goes, whatever its number meant a moment ago;
//! - no caller waits for a control file longer than a minute;
//! - a cgroup that others keep busy is given up after a moment and can be tried again.
#![allow(
    clippy::disallowed_methods,
    reason = "this is where the agent reads and writes control files"
)]

mod beneath;
mod files;
mod host;
mod kernel;
mod kill;
mod look;
mod make;
mod mountinfo;
mod remove;
mod systemd;
mod tree;
mod write;

#[cfg(test)]
mod fake;
#[cfg(test)]
mod tests;

pub use host::HostCgroups;
pub use systemd::{Manager, SystemdCgroups};
pub use tree::Tree;
