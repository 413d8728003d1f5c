//! The agent as a process on a runtime without containers: real files, a real socket and real time, but a light
//! runtime.
#![allow(clippy::disallowed_methods, reason = "tests on real files, processes and time")]

mod calls;
mod crash;
mod programs;
mod soak;
mod starts;
mod traces;
