//! Tests of the whole agent on a real container runtime.
//!
//! Inputs: the programs under test and the parts that `make testbed` built. Outputs: a [`node`] of
//! its own for each test, looked at from the outside: through the runtime's own tools and through
//! files, never through the agent.
//!
//! Invariant: nothing of a node is left when its test ends, however it ends.
#![allow(
    clippy::disallowed_methods,
    reason = "a test tool: it works on real files, processes and time"
)]

pub mod cri_proxy;
pub mod ctr;
pub mod faults;
pub mod node;
pub mod registry;
pub mod tidy;
