//! Passes over the images of a runtime in memory, with a clock that the tests move.
#![allow(clippy::unwrap_used, reason = "a test, helpers included")]

mod harness;
mod passes;
mod plans;
mod restarts;
mod uses;
