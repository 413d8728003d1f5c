//! Credentials and pull records, through the port of the runtime.
#![allow(clippy::unwrap_used, reason = "a test, helpers included")]

mod access;
mod harness;
mod providers;
mod read_providers;
mod records;
