//! The Pod GC controller: removes pods from the API server that no other controller removes.
//!
//! ```text
//!  API server ──pods, nodes──> SharedCache ──views──> decide: terminated, out of service, orphaned, unscheduled
//!      ^                            ^                    │ removals: which pod, which rule, which numbers
//!      └──status, delete, events──  act  <──────────────┘
//! ```
//! Inputs: watches of all pods and nodes, reads of single nodes, the time. Outputs: pods
//! marked as failed and deleted, metrics, events, and verdicts for the journal.
//!
//! Invariants:
//! - a pod is deleted only at the uid and the version that were seen;
//! - the pods of a node are deleted only when its name was missing for the quarantine and the API server
//!   itself says that there is no such node, or when it says that the node is out of service;
//! - a pod that has not ended is marked as failed first, or not deleted; one that ended is never marked;
//! - of terminated pods exactly those beyond the threshold go: the evicted first, then the oldest;
//! - a deleted pod is not deleted again before the next event about it;
//! - only the holder of the lease acts, and it stops before another process can hold it.

mod act;
pub mod cache;
pub mod decide;
pub mod election;
pub mod events;
pub mod explain;
pub mod metrics;
pub mod plan;
pub mod task;
