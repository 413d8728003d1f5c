//! Pods on a runtime in memory.
#![allow(clippy::unwrap_used, reason = "a test, helpers included")]

mod api;
mod cgroups;
mod harness;
mod hooks;
mod image_volumes;
mod images;
mod init;
mod kill;
mod late;
mod prepare;
mod pull_access;
mod pulls;
mod resize;
mod restart;
mod restart_all;
mod sandbox;
mod setup;
mod start;
mod termination_message;
