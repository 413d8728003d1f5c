//! Tests that take too long for `make test`: run by `make soak`.
#![allow(clippy::disallowed_methods, reason = "tests on the real thing take real time")]

mod crashes;
mod faults;
mod images;
mod known;
mod node;
mod node_api;
mod probes;
mod statistics;
mod vm;
mod volumes;
