//! `bench`: the agent and the upstream kubelet, measured side by side.
//!
//! Purpose: to know the cost and the speed of an agent, as a ratio to upstream's on the same machine, in the same
//! minutes, on the same runtime.
//!
//! Inputs: a [`plan`] of scenarios, the programs, and the parts that `make testbed` built. Outputs: [`results`] with
//! every raw number, and from them, by pure functions, a [`report`] and a [`plot`].
//!
//! ```text
//! round 1: ferrolet in all scenarios, then upstream in all scenarios; round 2: the same again; …
//!
//! scenario:  agent ──> proxy ──> containerd or hollow    agent, runtime: in an instance of the
//!              │ /proc   │ calls, bytes, times              testbed that lasts for all rounds
//!              └─ bench ─┘                                  proxy: in this process, injects no faults
//! ```
//! The scenarios of a turn run at the same time, step by step together, each in its own instance: CPU time, memory and
//! calls are those of one process, and most of the time all of them wait. Deaths are measured while nothing else
//! happens.
//!
//! Invariants:
//! - both agents get the same flags, configuration and manifests, and begin with an empty runtime and an empty root
//!   directory;
//! - agents report nothing themselves: the kernel has their costs, and the proxy counts their calls;
//! - every wait has a timeout, and everything that was started ends with the instance.
#![allow(
    clippy::disallowed_methods,
    reason = "a measuring tool: it works on real files, processes and time"
)]

pub mod agent;
mod api;
pub mod cluster;
pub mod cluster_report;
pub mod collect;
pub mod deaths;
pub mod garbage;
pub mod garbage_report;
pub mod judge;
pub mod logs;
pub mod logs_report;
pub mod machine;
pub mod metrics;
pub mod node_api;
pub mod node_api_report;
pub mod place;
pub mod plan;
pub mod plot;
pub mod pod_gc;
pub mod pod_gc_report;
pub mod probes;
pub mod probes_report;
pub mod report;
pub mod results;
pub mod rounds;
pub mod runtime;
pub mod scenario;
pub mod spread;
pub mod status_report;
pub mod targets;
mod trace;
pub mod turn;
pub mod usage;
pub mod verdict;
pub mod volumes_report;

#[cfg(test)]
mod rendering_tests;
