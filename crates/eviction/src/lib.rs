//! The eviction manager: evicts pods before the node runs out of memory, disk space, inodes or process ids.
//!
//! Inputs: the usage of the node and its pods, the thresholds, and the pods that run. Outputs: the node's pressure
//! conditions, removals of dead containers and unused images, and at most one evicted pod in a round.
//!
//! ```text
//!  usage ──> thresholds met ──> conditions ──> node status, admission
//!                  │ grace period is over
//!                  v
//!            limits of local storage ──> evict each pod beyond its limit
//!                  │ none
//!                  v
//!            remove dead containers, unused images ──> enough? done
//!                  │ not enough
//!                  v
//!            rank pods ──> evict the first one that is not critical
//! ```
//!
//! Invariants:
//! - a critical pod is never evicted;
//! - one measurement evicts at most one pod for a threshold;
//! - a round without a met threshold and without limits reads nothing of any pod.

pub mod decide;
mod manager;
mod metrics;
mod parts;
mod triggers;

pub use manager::{EvictionHandle, EvictionTask, eviction};
pub use metrics::EvictionMetrics;
pub use parts::{
    EvictError, EvictionParts, EvictionPods, EvictionSettings, FileSystems, NodeReclaimer,
};
pub use triggers::{TriggerRules, watch_memory};
