//! The adapter against a server that answers by a script.
#![allow(clippy::unwrap_used, reason = "what tests stand on")]

mod access;
mod feeds;
mod pods_of_node;
mod own_node;
mod objects;
mod server;
mod writes;
