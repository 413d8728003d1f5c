//! The node's API: commands, clients and requests that take too long for `make test`.

mod clients;
mod commands;
mod latency;
mod local;
mod python;
mod requests;
