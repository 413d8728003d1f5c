//! The pod lifecycle event generator: tells which pods changed in the container runtime.
//!
//! Inputs: the runtime port, and requests to look at a pod now. Outputs: lifecycle events per pod, a
//! cache with the last known status of every pod, and whether the runtime is still being listed.
//!
//! ```text
//!  timer ─────> list all ──┐            ┌─ unchanged ─────────────────> cache: "as before"
//!  requests ──> list one ──┴─> diff ────┤
//!                                       └─ changed ──> inspect ──> cache ──> record ──> events
//! ```
//!
//! Invariants:
//! - equal observations give no events;
//! - events replayed on the old observation give the new one, so nothing is lost between two looks;
//! - a record advances only after the status was read and stored: a failed read is tried again;
//! - an observation is as old as the *start* of the look that made it;
//! - the task never waits for who reads its events, nor for one slow pod.

pub mod cache;
pub mod decide;
mod health;
mod hints;
mod inspect;
mod marks;
mod metrics;
mod records;
mod task;

pub use health::{Health, Unhealthy};
pub use marks::Marks;
pub use metrics::Metrics;
pub use task::{Pleg, PlegParts, Relist, Settings, pleg};
