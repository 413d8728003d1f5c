//! The twins keep the contracts, and do what tests ask of them beyond.
#![allow(clippy::unwrap_used, reason = "a test, helpers included")]

mod events;
mod faults;
mod files;
mod http;
mod lists;
mod log_files;
mod outside;
mod runtime;
mod segments;
mod setup;
mod volumes;
