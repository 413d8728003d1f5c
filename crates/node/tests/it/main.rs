//! The tasks of a node on an API server and a runtime in memory, under a paused clock.
#![allow(clippy::unwrap_used, reason = "what tests stand on")]

mod csi_node;
mod lease;
mod registration;
mod status;
mod world;
