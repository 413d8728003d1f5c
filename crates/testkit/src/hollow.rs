//! `hollow`: the runtime in memory as a real CRI server on a Unix socket.
//!
//! Purpose: a node agent, this one or upstream's, runs thousands of pods on it without a single process, on a
//! machine that could not run them, and is measured and tested with faults.
//!
//! Inputs: CRI calls, a population of pods that run from the start, delays and failures per method. Outputs:
//! responses from the store of [`MemoryRuntime`], events, and the number of calls per method.
//!
//! Invariants:
//! - a client sees through the socket what the port of the runtime shows: both pass the same
//!   contract;
//! - every call is counted before it may fail, under the name that the CRI gives it;
//! - nothing grows with the number of calls.
//!
//! Streaming (exec, attach, port forwarding), checkpoints and chunked lists are not supported and return
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

pub use control::serve_control;
pub use gate::{Count, Delay, Failure, Gate};
pub use options::{Options, USAGE};
pub use population::{Population, PopulationContainer, PopulationPod, PopulationState};
pub use server::serve;

/// Images below this name contain only the workload, as the test images of a real runtime do. Every other image
/// contains every program.
const TEST_IMAGES: &str = "ferrolet.test/";

/// The options of a hollow runtime.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The only images that can be pulled; `None` allows every name.
    pub images: Option<Vec<String>>,
    /// The reported path of the image file system. A node agent measures that file system.
    pub image_directory: PathBuf,
    /// Whether containers write a log: a line at their start.
    pub write_logs: bool,
    /// The user of images, by name; other images have none.
    pub users: BTreeMap<String, ImageUser>,
    /// The directory for recordings of requests that create objects.
    pub requests: Option<PathBuf>,
    /// The size limit of a list response in bytes; `None` is unlimited.
    pub send_limit: Option<usize>,
}

/// A hollow runtime. Clones share it.
#[derive(Debug, Clone)]
pub struct Hollow {
    runtime: Arc<MemoryRuntime>,
    gate: Arc<Gate>,
    kept: Arc<Kept>,
    settings: Arc<Settings>,
    /// The number of recorded requests; counted by calls.
    recorded: Arc<AtomicUsize>,
}

impl Hollow {
    /// A runtime without objects. Must be called inside a tokio runtime, whose time it uses.
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

    /// The runtime behind the socket, for actions that no client can do.
    pub fn runtime(&self) -> &Arc<MemoryRuntime> {
        &self.runtime
    }

    /// The gate that every call passes: counters, delays and failures.
    pub fn gate(&self) -> &Gate {
        &self.gate
    }
}

/// An image with this name.
fn image(name: &str, users: &BTreeMap<String, ImageUser>) -> RemoteImage {
    let image = RemoteImage::new(name);
    let image = match users.get(name) {
        Some(user) => image.user(user.clone()),
        None => image,
    };
    if name.starts_with(TEST_IMAGES) { image } else { image.runs_anything() }
}
