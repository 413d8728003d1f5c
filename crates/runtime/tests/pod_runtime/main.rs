//! Pods on a runtime in memory.
#![allow(clippy::unwrap_used, reason = "a test, helpers included")]

mod api;
mod cgroups;
mod hooks;
mod images;
mod init;
mod kill;
mod last_words;
mod late;
mod resize;
mod restart;
mod restart_all;
mod sandbox;
mod setup;
mod start;
mod world;
