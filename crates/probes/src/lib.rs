//! The probe manager: probes containers and keeps the results.
//!
//! ```text
//!  pod synced ──────> workers: one per container and probe ──> schedule ──> attempts (bounded, side by side)
//!  status published ─>    ^                                                      │
//!                         └────────────── verdict ───────────────────────────────┘ ──> changed pods ──> status, sync
//! ```
//!
//! Inputs: pods that run, and their published statuses. Outputs: results for pod statuses and for kills, events,
//! metrics, and a file that keeps the results over a restart of the agent.
//!
//! Invariants:
//! - a probe has one attempt at a time;
//! - a result changes only after as many equal verdicts in a row as its threshold;
//! - a result belongs to a container instance, never to a name;
//! - probes are neither tasks nor threads: one task has a schedule of all of them.

mod attempt;
pub mod decide;
mod manager;
mod metrics;
mod saved;
mod state;
mod task;

pub use decide::timing::STARTUP_PERIOD;
pub use manager::{ManagerParts, ProbeManager};
pub use metrics::Metrics;
