//! The agent as a node of a real cluster: containerd, etcd and an API server. Needs root and the parts that
//! `make testbed` builds.
#![allow(
    clippy::disallowed_methods,
    reason = "tests on the real thing: real files, processes and time"
)]

mod absence;
mod life;
mod mirror;
