//! The answers, as callers get them: through the generated client, and byte by byte as a Go client writes.
#![allow(clippy::unwrap_used, reason = "what tests stand on")]

mod answers;
mod go_client;
mod node;
