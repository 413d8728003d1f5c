//! The tasks of a node on an API server and a runtime in memory, under a paused clock.
#![allow(clippy::unwrap_used, reason = "tests may panic")]

mod csi_node;
mod harness;
mod lease;
mod registration;
mod status;
