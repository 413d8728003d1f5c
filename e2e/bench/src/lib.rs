//! `bench`: the agent and the upstream kubelet, measured side by side.
//!
//! Purpose: to know what an agent costs and how fast it is, as a ratio to upstream's on the same
//! machine, in the same minutes, on the same runtime.
//!
//! Inputs: a [`plan`] of scenarios, the programs, and the parts that `make testbed` built. Outputs:
//! [`results`] with every raw number, and from them, by pure functions, a [`report`] and a [`plot`].
//!
//! ```text
//!  round 1: idle: ferrolet, upstream; 30 pods: ferrolet, upstream; …   round 2: the same again; …
//!
//!  agent ──> tap ──> containerd or hollow        agent, runtime: in one instance of the testbed
//!    │ /proc  │ calls, bytes, times                tap: in this process
//!    └─ bench ┘
//! ```
//!
//! Invariants:
//! - both agents get the same flags, configuration and manifests, and begin with an empty runtime and
//!   an empty root directory;
//! - nothing is asked of an agent: what it costs the kernel tells, what it did the tap saw;
//! - every wait has an end, and everything started goes with the instance.
#![allow(
    clippy::disallowed_methods,
    reason = "a measuring tool: it works on real files, processes and time"
)]

pub mod agent;
pub mod deaths;
pub mod machine;
pub mod metrics;
pub mod place;
pub mod plan;
pub mod plot;
pub mod report;
pub mod results;
pub mod rounds;
pub mod runtime;
pub mod scenario;
pub mod spread;
pub mod targets;
pub mod usage;

#[cfg(test)]
mod rendering_tests;
