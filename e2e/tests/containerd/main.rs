//! The agent on real containerd. Needs root and the parts that `make testbed` builds.
#![allow(
    clippy::disallowed_methods,
    reason = "tests on the real thing: real files, processes and time"
)]

mod actions;
mod admission;
mod cgroups;
mod container;
mod contract;
mod faults;
mod first_pod;
mod gc;
mod gc_explained;
mod graces;
mod image_gc;
mod image_users;
mod kernel;
mod kernel_cgroups;
mod log_rotation;
mod network;
mod probes;
mod pull_credentials;
mod pulls;
mod reserved;
mod resize;
mod restarts;
mod standalone;
mod statistics;
mod volumes;
