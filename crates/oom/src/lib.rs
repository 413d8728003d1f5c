//! The OOM watcher: reports processes that the kernel killed because of missing memory.
//!
//! ```text
//!  kernel log ──lines──> MessageParser ──kill──> victim's cgroup ──> pod and container
//!                                                      │
//!                     node event, pod event, incident, last kill <──┘
//! ```
//!
//! Inputs: the lines of the kernel's log from the start of the agent on, and the pods of the node. Outputs: the
//! event `SystemOOM` of the node, the event `OOMKilling` of a pod, incidents for the journal, and
//! the last kill of each container, [`OomKills`](model::oom::OomKills).
//!
//! Invariants:
//! - lines that programs write into the log are ignored;
//! - a log that cannot be read costs one warning and nothing else;
//! - a node without kills costs nothing: the kernel wakes the watcher.
#![warn(missing_docs)]

pub mod decide;
mod watcher;

pub use watcher::{OomParts, OomWatcher, Victims};
