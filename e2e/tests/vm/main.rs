//! The agent in a virtual machine with cgroup v2. Needs the parts that `make testbed` builds.
#![allow(
    clippy::disallowed_methods,
    reason = "tests on the real thing: real files, processes and time"
)]

mod limits;
