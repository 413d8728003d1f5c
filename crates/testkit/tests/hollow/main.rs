//! The program `hollow`, as a separate process.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests of a program: real files, processes and sockets"
)]

mod program;
mod services;
mod steering;
