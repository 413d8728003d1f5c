//! The volume manager on a host in memory, with a clock that the tests move.
#![allow(clippy::unwrap_used, reason = "a test, helpers included")]

mod claims;
mod ending;
mod harness;
mod histories;
mod mounting;
mod updates;
