//! The adapter against a server that answers by a script.

mod access;
mod feeds;
mod server;
mod writes;
