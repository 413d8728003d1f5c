//! The in-memory implementations pass the contracts, and support the additional actions of tests.
#![allow(clippy::unwrap_used, reason = "a test, helpers included")]

mod events;
mod faults;
mod files;
mod http;
mod lists;
mod log_files;
mod runtime;
mod segments;
mod setup;
mod test_actions;
mod volumes;
