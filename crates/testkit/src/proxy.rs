//! `cri-proxy`: stands between a node agent and a container runtime and spoils calls.
//!
//! Purpose: what an agent does when its runtime fails, hangs, or does in the end what it was thought
//! not to have done, on a real runtime and without waiting for bad luck.
//!
//! Inputs: connections of agents, the socket of a runtime, and [`Fault`]s for methods of the CRI.
//! Outputs: the runtime's answers, or what the faults make of them; how often each method was called,
//! with how many bytes, and when.
//!
//! ```text
//!  agent ──> cri-proxy ──> runtime      a call without a fault: headers, bytes and trailers as they are
//!              │  ^                     unavailable, not-found, deadline: answered here, not passed on
//!              └──┘ faults, counts      hang: neither answered nor passed on
//!                                       late: passed on, its answer thrown away
//! ```
//!
//! Invariants:
//! - it knows methods by their path alone, so calls and streams pass that did not exist when it was
//!   written;
//! - an agent's connection and its own to the runtime live and die together; only late calls are
//!   finished after the agent has gone;
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

pub use control::answer_questions;
pub use count::Count;
pub use fault::{Fault, Kind};
pub use options::{Options, USAGE};
pub use relay::serve;
pub use script::Script;

/// A proxy of one runtime. Clones are the same one.
#[derive(Debug, Clone)]
pub struct Proxy {
    runtime: Arc<PathBuf>,
    script: Arc<Script>,
}

impl Proxy {
    /// A proxy of the runtime that listens on a socket.
    pub fn new(runtime: PathBuf) -> Self {
        Self { runtime: Arc::new(runtime), script: Arc::default() }
    }

    /// What is done to calls, and what is known of them.
    pub fn script(&self) -> &Script {
        &self.script
    }
}
