//! The cgroups of this machine: the implementation of the cgroups port.
//!
//! Purpose: creates cgroups, writes their limits, and removes them with all processes in them.
//!
//! Inputs: the mounted hierarchies, found once ([`Tree::of_machine`]); names and values of the model. Outputs:
//! directories and control files of either version of cgroups; the usage that the kernel accounts.
//!
//! Invariants:
//! - a name never leads out of a hierarchy: paths are resolved below its root, without links;
//! - a cgroup exists in all v1 hierarchies, or has all v2 controllers;
//! - only processes of the removed cgroup are killed, even if process ids are reused;
//! - no caller waits for a control file longer than a minute;
//! - removal of a busy cgroup fails after a moment and can be tried again.
#![allow(
    clippy::disallowed_methods,
    reason = "this is where the agent reads and writes control files"
)]

mod alarm;
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
mod usage;
mod write;

#[cfg(test)]
mod fake;
#[cfg(test)]
mod tests;

pub use alarm::MemoryAlarms;
pub use host::HostCgroups;
pub use systemd::{Manager, SystemdCgroups};
pub use tree::Tree;
pub use usage::UsageReader;
