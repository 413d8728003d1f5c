//! The pod lifecycle event generator (PLEG): reports which pods changed in the container runtime.
//!
//! Inputs: the runtime port, and requests to relist a pod now. Outputs: lifecycle events per pod, a
//! cache with the last known status of every pod, and whether the runtime is still being listed.
//!
//! ```text
//!  timer ─────> list all ──┐            ┌─ unchanged ─────────────────> cache: still valid
//!  requests ──> list one ──┴─> diff ────┤
//!                                       └─ changed ──> inspect ──> cache ──> record ──> events
//! ```
//!
//! Invariants:
//! - equal observations give no events;
//! - events replayed on the old observation give the new one, so nothing is lost between two lists;
//! - a record advances only after the status was read and stored: a failed read is retried;
//! - an observation has the time at which its list *began*;
//! - the task never waits for the reader of its events, nor for one slow pod.

pub mod cache;
pub mod decide;
mod dirty_set;
mod health;
mod hints;
mod inspect;
mod metrics;
mod records;
mod task;

pub use dirty_set::DirtySet;
pub use health::{Health, Unhealthy};
pub use metrics::Metrics;
pub use task::{Pleg, PlegParts, Relist, Settings, pleg};
