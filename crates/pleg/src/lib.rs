//! The pod lifecycle event generator: tells which pods changed in the container runtime.
//!
//! Inputs: what the runtime lists now, and what it listed before. Outputs: lifecycle events per pod.
//!
//! Invariants:
//! - equal observations give no events;
//! - events replayed on the old observation give the new one, so nothing is lost between two looks.

pub mod decide;
