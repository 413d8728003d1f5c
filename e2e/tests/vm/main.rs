//! The agent in a virtual machine, with the second version of cgroups. Needs the parts that `make testbed`
//! gets.
#![allow(
    clippy::disallowed_methods,
    reason = "tests on the real thing: real files, processes and time"
)]

mod limits;
