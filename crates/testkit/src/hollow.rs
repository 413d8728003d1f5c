//! `hollow`: the runtime in memory as a real CRI server on a Unix socket.
//!
//! Purpose: a node agent, this one or upstream's, runs thousands of pods on it without a single
//! process, on a machine that could not run them, and is measured and disturbed while it does.
//!
//! Inputs: calls of the CRI, a population of pods that run from the start, delays and failures per
//! method. Outputs: answers from the store of [`MemoryRuntime`], events as they happen, and how often
//! each method was called.
//!
//! Invariants:
//! - what a client sees through the socket is what the port of the runtime shows: both keep the same
//!   contract;
//! - every call is counted before it may fail, under the name that the CRI gives it;
//! - nothing grows with the number of calls.
//!
//! Streaming (exec, attach, port forwarding), checkpoints and lists in parts are not here and answer
//! `Unimplemented`, as an older runtime would.

mod control;
mod events;
mod from_cri;
mod gate;
mod image_service;
mod kept;
mod logs;
mod options;
mod population;
mod recording;
mod runtime_service;
mod server;
mod stats;
mod to_cri;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use jiff::Timestamp;
use model::ports::runtime::ImageUser;

use crate::clock::VirtualClock;
use crate::runtime::{MemoryRuntime, RemoteImage};
use kept::Kept;

pub use control::answer_questions;
pub use gate::{Count, Delay, Failure, Gate};
pub use options::{Options, USAGE};
pub use population::{Population, PopulationContainer, PopulationPod, PopulationState};
pub use server::serve;

/// Images below this name have the workload in them and nothing else, as the test images do that a
/// real runtime gets. Every other image has every program in it.
const TEST_IMAGES: &str = "ferrolet.test/";

/// How a hollow runtime differs from another.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The only images that can be pulled; without it, every name can.
    pub images: Option<Vec<String>>,
    /// Where the images are said to lie. A node agent measures that file system.
    pub image_directory: PathBuf,
    /// Whether containers write a log: a line at their start.
    pub write_logs: bool,
    /// Whom images run as, by name; the others name nobody.
    pub users: BTreeMap<String, ImageUser>,
    /// Where requests that make something are written as they came, if anywhere.
    pub requests: Option<PathBuf>,
    /// How many bytes an answer with a list may have; without it, as many as it takes.
    pub send_limit: Option<usize>,
}

/// A hollow runtime. Clones are the same one.
#[derive(Debug, Clone)]
pub struct Hollow {
    runtime: Arc<MemoryRuntime>,
    gate: Arc<Gate>,
    kept: Arc<Kept>,
    settings: Arc<Settings>,
    /// How many requests were written; counted by calls.
    recorded: Arc<AtomicUsize>,
}

impl Hollow {
    /// A runtime that has nothing yet. Must be called inside a tokio runtime, whose time is its.
    #[allow(clippy::disallowed_methods, reason = "clients compare its times with their own clock")]
    pub fn new(settings: Settings) -> Self {
        let clock = VirtualClock::starting_at(Timestamp::now());
        let runtime = MemoryRuntime::new(Arc::new(clock)).keeping_no_calls();
        for name in settings.images.iter().flatten() {
            runtime.publish(image(name, &settings.users));
        }
        Self {
            runtime: Arc::new(runtime),
            gate: Arc::default(),
            kept: Arc::default(),
            settings: Arc::new(settings),
            recorded: Arc::default(),
        }
    }

    /// The runtime behind the socket, to do to it what no client can.
    pub fn runtime(&self) -> &Arc<MemoryRuntime> {
        &self.runtime
    }

    /// What every call goes through: counters, delays and failures.
    pub fn gate(&self) -> &Gate {
        &self.gate
    }
}

/// An image of a name.
fn image(name: &str, users: &BTreeMap<String, ImageUser>) -> RemoteImage {
    let image = RemoteImage::new(name);
    let image = match users.get(name) {
        Some(user) => image.user(user.clone()),
        None => image,
    };
    if name.starts_with(TEST_IMAGES) { image } else { image.runs_anything() }
}
