//! The container runtime over the CRI v1: the real side of the runtime port.
//!
//! Input: the runtime's socket. Output: an implementation of
//! [`Runtime`](model::ports::runtime::Runtime) in the agent's own words.
//!
//! Invariants:
//! - every call has a deadline that fits its class, sent to the runtime too, so that a hung runtime
//!   costs a call and not a task; only an open stream of events may take as long as it takes;
//! - a runtime that restarts is found again; only a call made before its end was noticed fails;
//! - an error carries the method, the object and the gRPC code;
//! - an answer that makes no sense (an object without an id or a pod) is left out of lists and is an
//!   error for the one who asked for just that object; an event that makes no sense is left out.

mod client;
mod deadline;
mod endpoint;
mod error;
mod events;
mod exec;
mod from_cri;
mod listed;
mod lists;
mod marked;
mod operations;
mod parted;
mod rewritten;
mod service;
mod signal;
mod streaming;
mod to_cri;
mod unchanged;
mod verbose;
mod wire;

pub use client::CriRuntime;
pub use deadline::Deadlines;
pub use endpoint::{Endpoint, EndpointError};
pub use operations::Operations;
