//! Pods on a runtime in memory.
#![allow(clippy::unwrap_used, reason = "a test, helpers included")]

mod images;
mod kill;
mod restart;
mod sandbox;
mod start;
mod world;
