//! Passes over the images of an in-memory runtime, with a clock that tests control.
#![allow(clippy::unwrap_used, reason = "a test, helpers included")]

mod harness;
mod passes;
mod plans;
mod restarts;
mod uses;
