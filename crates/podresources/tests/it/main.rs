//! The answers, as callers get them: through the generated client, and byte by byte as a Go client writes.

mod answers;
mod go_client;
mod node;
