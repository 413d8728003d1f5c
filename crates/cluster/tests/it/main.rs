//! The adapter with a scripted server.
#![allow(clippy::unwrap_used, reason = "what tests stand on")]

mod absence;
mod access;
mod certificates;
mod feeds;
mod objects;
mod own_node;
mod pods_of_node;
mod relay;
mod server;
mod silence;
mod streams;
mod who;
mod writes;
