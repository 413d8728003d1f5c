//! The program `hollow`, run as others run it.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests of a program: real files, processes and sockets"
)]

mod program;
mod services;
mod steering;
