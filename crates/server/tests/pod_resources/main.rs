//! Responses as clients receive them: with the generated client, and byte by byte like a Go client.
#![allow(clippy::unwrap_used, reason = "what tests stand on")]

mod answers;
mod go_client;
mod node;
