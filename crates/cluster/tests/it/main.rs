//! The adapter with a scripted server.
#![allow(clippy::unwrap_used, reason = "what tests stand on")]

mod access;
mod authentication;
mod certificates;
mod dead_connection;
mod feeds;
mod objects;
mod outage;
mod own_node;
mod pods_of_node;
mod relay;
mod server;
mod streams;
mod writes;
