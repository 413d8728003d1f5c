//! API clients on a real control plane. Needs root and the parts that `make testbed` builds.
#![allow(
    clippy::disallowed_methods,
    reason = "tests on the real thing: real files, processes and time"
)]

mod collector;
mod contract;
mod control_plane;
mod deployed;
mod deployment;
mod node_object;
mod node_objects;
mod node_twins;
mod objects;
mod our_node;
mod pages;
mod pod_gc;
mod port;
mod scenario;
mod service_account;
mod soak;
mod twins;
