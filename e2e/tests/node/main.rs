//! The agent as a node of a real cluster: containerd, etcd and an API server, with controllers and a scheduler where a
//! test needs them. Needs root and the parts that `make testbed` builds.
#![allow(
    clippy::disallowed_methods,
    reason = "tests on the real thing: real files, processes and time"
)]

mod certificates;
mod emptied_store;
mod eviction;
mod expired;
mod https_api;
mod life;
mod machine;
mod make_cluster;
mod pull_secrets;
mod scenarios;
mod soak;
mod start;
mod takeover;
mod volumes;
