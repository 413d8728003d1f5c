//! The data types and ports that all parts of the agent share.
//!
//! Purpose: identifiers, the observed state of the container runtime, lifecycle events, configurations for
//! the runtime, reasons for removals, the ports (traits) of the agent to the
//! outside, and the formats of names and quantities. Everything here is plain data: no runtime, no clock, no I/O,
//! but for [`lists`] and [`checkpoint`], which use a port.
//!
//! Invariants:
//! - a [`PodUid`](ids::PodUid) identifies a pod, a
//!   [`ContainerId`](ids::ContainerId) a container; a name alone never identifies either;
//! - every removal has a [`Verdict`](verdict::Verdict), so that it can be explained later.
#![warn(missing_docs)]

pub mod admission;
pub mod cgroup;
pub mod chain;
pub mod checkpoint;
pub mod cluster;
pub mod environment;
pub mod fingerprint;
pub mod go_duration;
pub mod go_path;
pub mod go_text;
pub mod ids;
pub mod image_access;
pub mod image_claims;
pub mod in_flight;
pub mod intercept;
pub mod jitter;
pub mod labels;
pub mod lifecycle;
pub mod lists;
pub mod log_layout;
pub mod log_throttle;
pub mod machine;
pub mod mountinfo;
pub mod names;
#[cfg(test)]
mod names_tests;
pub mod objects;
pub mod observed;
pub mod oom;
pub mod panics;
pub mod pod_certificates;
pub mod pod_directory;
pub mod pod_failure;
pub mod pod_resources;
pub mod pod_state;
pub mod ports;
pub mod pressure;
pub mod probe;
pub mod program;
pub mod quantity;
#[cfg(test)]
mod quantity_tests;
pub mod rotated_log;
pub mod selector;
pub mod seq;
pub mod signing;
pub mod stats;
pub mod storage;
pub mod sysctl;
pub mod tokens;
pub mod verdict;
pub mod volume;
pub mod wait;
pub mod wanted;
pub mod watched_object;
