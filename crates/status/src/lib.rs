//! The status manager: the API status of every pod of the node.
//!
//! Inputs: pods, observations of the runtime, and [`StatusOverrides`](decide::StatusOverrides), for the
//! [`manager`]. Outputs: each pod's status ([`decide::pod_status`]), its line in a list of pods
//! ([`decide::summary`]), the last status of every pod for readers ([`store`]), and statuses in the API
//! server ([`writer`]) or, where there is none, in a [checkpoint](StatusCheckpoint) for the next agent.
//!
//! ```text
//!  pod ───────────┐
//!  observed ──────┤
//!  overrides ─────┼─> container statuses ──> phase ──> conditions ──> status ──> store ──> readers
//!  status before ─┘                                                     └─ the status before, next time
//! ```
//!
//! Invariants:
//! - only the manager writes statuses;
//! - a status shows what was observed, never what is expected;
//! - a terminal phase is never left;
//! - restart counts never shrink, even when the runtime has removed the instances;
//! - equal inputs yield equal statuses: no time stamp changes without a reason;
//! - every container of the specification has one status;
//! - nothing is written about another pod of the same name, and no pod is deleted before nothing of it is left.

mod checkpoint;
#[cfg(test)]
mod checkpoint_tests;
pub mod decide;
pub mod manager;
mod metrics;
mod pod_metrics;
mod start_times;
pub mod store;
#[cfg(test)]
mod store_tests;
pub mod writer;

pub use checkpoint::StatusCheckpoint;
pub use metrics::{Metrics, START_BUCKETS};
pub use pod_metrics::PodMetrics;
pub use start_times::StartTimes;
