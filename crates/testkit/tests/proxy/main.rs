//! Fault injection in front of the runtime in memory, and the program `cri-proxy`.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests of a program: real files, processes and sockets"
)]

mod faults;
mod pair;
mod passing;
mod program;
