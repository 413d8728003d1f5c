//! Rotation of in-memory logs, on a paused clock.
#![allow(clippy::unwrap_used, reason = "a test, helpers included")]

mod harness;
mod rotation;
mod trouble;
