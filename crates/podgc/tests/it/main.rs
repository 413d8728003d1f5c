//! The controller with an in-memory API server, on a paused clock.
#![allow(clippy::unwrap_used, reason = "what tests stand on")]

mod deletions;
mod election;
mod events;
mod extras;
mod harness;
mod histories;
mod leaders;
mod orphaned;
mod out_of_service;
mod reported;
mod terminated;
mod unscheduled;
