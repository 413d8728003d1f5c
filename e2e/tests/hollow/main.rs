//! The agent as a process of its own on a runtime without containers: real files, a real socket, real
//! time, and none of a real runtime's weight.
#![allow(clippy::disallowed_methods, reason = "tests on real files, processes and time")]

mod calls;
mod crash;
mod programs;
mod soak;
mod starts;
mod traces;
