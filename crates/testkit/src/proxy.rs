//! `cri-proxy`: sits between a node agent and a container runtime and injects faults into calls.
//!
//! Purpose: tests how an agent behaves when its runtime fails, hangs, or finishes a call after the agent
//! considered it failed, on a real runtime and without waiting for such an accident.
//!
//! Inputs: connections of agents, the socket of a runtime, and [`Fault`]s for methods of the CRI. Outputs: the
//! runtime's responses, or those of the faults; the number of calls per method, with their bytes and times.
//!
//! ```text
//!  agent ──> cri-proxy ──> runtime      a call without a fault: headers, bytes and trailers are unchanged
//!              │  ^                     unavailable, not-found, deadline: answered here, not forwarded
//!              └──┘ faults, counts      hang: neither answered nor forwarded
//!                                       late: forwarded, its response is dropped
//! ```
//!
//! Invariants:
//! - it knows methods by their path only, so calls and streams of newer versions are forwarded too;
//! - an agent's connection and its own to the runtime end together; only late calls are
//!   finished after the agent has disconnected;
//! - nothing grows with the number of calls.

mod call;
mod control;
mod count;
mod fault;
mod options;
mod relay;
mod script;

use std::path::PathBuf;
use std::sync::Arc;

pub use control::serve_control;
pub use count::Count;
pub use fault::{Fault, Kind};
pub use options::{Options, USAGE};
pub use relay::serve;
pub use script::Script;

/// A proxy of one runtime. Clones share it.
#[derive(Debug, Clone)]
pub struct Proxy {
    runtime: Arc<PathBuf>,
    script: Arc<Script>,
}

impl Proxy {
    /// A proxy of the runtime on this socket.
    pub fn new(runtime: PathBuf) -> Self {
        Self { runtime: Arc::new(runtime), script: Arc::default() }
    }

    /// The faults and counts of calls.
    pub fn script(&self) -> &Script {
        &self.script
    }
}
