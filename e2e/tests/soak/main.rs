//! Tests that take too long for `make test`: run by `make soak`.
#![allow(clippy::disallowed_methods, reason = "tests on the real thing take real time")]

mod crashes;
mod faults;
mod known;
mod node;
mod node_api;
mod probes;
mod vm;
mod volumes;
