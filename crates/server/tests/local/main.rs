//! The server on a real socket, with views that tests write.
#![allow(clippy::unwrap_used, reason = "tests, helpers included")]

mod answers;
mod garbage;
mod harness;
mod health_port;
mod logs;
mod watch;
