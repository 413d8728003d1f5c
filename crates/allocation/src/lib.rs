//! The allocation manager: decides which pods the node admits, and which resources each of them is allocated.
//!
//! Inputs: pods in the order of their arrival, the node, and requests for other resources. Outputs: admission
//! decisions, the pods with their allocated resources, and a checkpoint of them for the next agent.
//!
//! ```text
//!  pod ──> chain ──┬─> admitted ──> allocation ──> checkpoint
//!                  ├─> victims terminate first ──┘     │
//!                  └─> rejected                        └─> the next agent
//!  resize ──> deferred, infeasible, or granted ──> saved ──> the worker changes the pod
//! ```
//!
//! Invariants:
//! - pods that are admitted never request more than the node has;
//! - a running pod keeps what it was allocated, regardless of its requests after a restart of the agent;
//! - a granted resize takes effect once it is in the checkpoint.

mod admission_metrics;
mod checkpoint_file;
pub mod decide;
mod manager;
mod resize_message;
mod resize_metrics;
mod resizes;

pub use admission_metrics::AdmissionMetrics;
pub use checkpoint_file::CheckpointWrite;
pub use manager::{AllocationEvent, AllocationManager, AllocationParts, DecidedResize, Grant};
pub use resize_message::resize_message;
pub use resize_metrics::{ResizeMetrics, Trigger};
pub use resizes::Resizes;
