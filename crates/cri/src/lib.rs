//! The container runtime over CRI v1: the implementation of the runtime port.
//!
//! Input: the runtime's socket. Output: an implementation of [`Runtime`](model::ports::runtime::Runtime) with
//! model types.
//!
//! Invariants:
//! - every call has the deadline of its class, which is sent to the runtime too, so that a hanging runtime
//!   blocks a call and not a task; only an open event stream has no deadline;
//! - a restarted runtime is reconnected; only a call made before the restart was noticed fails;
//! - an error contains the method, the object and the gRPC code;
//! - a malformed object (without an id or name) is left out of lists, and is an error for a request of that
//!   object; malformed events are dropped.

mod client;
mod deadline;
mod endpoint;
mod error;
mod events;
mod exec;
mod from_cri;
mod list_fingerprint;
mod listed;
mod lists;
mod operations;
mod rewritten_body;
mod service;
mod signal;
mod split_body;
mod streaming;
mod to_cri;
mod unchanged;
mod verbose;
mod wire;

pub use client::CriRuntime;
pub use deadline::Deadlines;
pub use endpoint::{Endpoint, EndpointError};
pub use operations::Operations;
