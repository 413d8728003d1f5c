//! Graceful shutdown of the node: pods are terminated by priority before the machine goes down.
//!
//! ```text
//!  login manager ──shutdown begins──> ShutdownManager ──> node not ready, no pod is admitted
//!        ^                                  │
//!        │                                  v  for each phase, the lowest priority first
//!        │                        terminate its pods ──> volumes unmounted, statuses sent
//!        └────────delay is released─────────┘  at the latest when the time of the phase is over
//! ```
//!
//! Inputs: the grace periods of the configuration, and shutdowns from the login manager. Outputs: terminated pods, the
//! state of the node, events, metrics, and the file `graceful_node_shutdown_state`.
//!
//! Invariants:
//! - a pod of a lower phase is terminated before one of a higher phase;
//! - no phase takes longer than its time;
//! - the delay is released once, after the last phase;
//! - an agent that starts during a shutdown goes on with it, in the time that is left.
#![warn(missing_docs)]

pub mod decide;
mod manager;
mod metrics;

pub use manager::{ShutdownManager, ShutdownParts, ShutdownPods};
pub use metrics::ShutdownMetrics;

/// The reason and the message of a pod that the shutdown terminated.
pub const REASON: &str = "Terminated";
/// The message.
pub const MESSAGE: &str = "Pod was terminated in response to imminent node shutdown.";
