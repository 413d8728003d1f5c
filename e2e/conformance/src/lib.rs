//! Upstream's own end-to-end suite, run against a cluster of one node: `make conformance`.
//!
//! - Input: the suite and its images, which `make conformance` builds into the cache; a selection of specs; the stored
//!   lists in `docs/conformance`.
//! - Output: the result of every spec, compared with those that passed before and with the outcomes of the upstream
//!   kubelet; the updated lists; the output of failed specs and the logs of all programs in the cache.
//! - Invariant: the cluster is an instance of the testbed, and the suite runs inside it: however a run ends, nothing of
//!   it is left.
#![allow(
    clippy::disallowed_methods,
    reason = "a test tool: it works on real files, processes and time"
)]

pub mod cluster;
pub mod judge;
pub mod lists;
pub mod page;
pub mod progress;
pub mod report;
pub mod selection;
pub mod store;
pub mod suite;
