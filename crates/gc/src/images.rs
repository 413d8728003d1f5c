//! Garbage collection of images.
//!
//! [`image_gc`] returns a handle, which requests plans and passes, and the task that makes a pass every
//! five minutes. The task makes all passes, one at a time; a plan reads the same state and changes
//! nothing.

mod error;
mod look;
mod metrics;
mod pass;
mod records;
mod task;

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::path::PathBuf;
use std::sync::Arc;

use jiff::Timestamp;
use model::ids::{ContainerId, PodUid};
use model::image_claims::ImageClaims;
use model::observed::ContainerStatus;
use model::panics::PanicGuard;
use model::ports::clock::WallClock;
use model::ports::disk::Disks;
use model::ports::events::NodeEvents;
use model::ports::files::HostFiles;
use model::ports::runtime::Runtime;
use tokio::sync::{mpsc, oneshot, watch};

pub use error::{Errors, ImageGcError};
pub use metrics::ImageGcMetrics;
pub use task::ImageGcTask;

use crate::decide::images::{KeptImage, NOT_REMOVED, Observed, Pins, Policy};
use crate::plan::{Item, Plan};
use look::Collector;

/// What the node's pods have to do with images.
pub trait PodImages: Debug + Send + Sync {
    /// The images that a container has mounted, if that is known without asking the runtime.
    fn mounted(&self, pod: &PodUid, container: &ContainerId) -> Option<Vec<String>>;
    /// The images of static and node-critical pods; `None` until all pod sources are ready.
    fn named(&self) -> Option<Vec<KeptImage>>;
}

/// The images among the mounts of a container.
pub fn mounted_images(status: &ContainerStatus) -> Vec<String> {
    let images = status.mounts.iter().map(|mount| &mount.image);
    images.filter(|image| !image.is_empty()).cloned().collect()
}

/// What it works with.
#[derive(Debug)]
pub struct ImageGcParts {
    /// The container runtime.
    pub runtime: Runtime,
    /// What measures disks.
    pub disks: Arc<dyn Disks>,
    /// The host's files: use times of images survive the agent there.
    pub files: Arc<dyn HostFiles>,
    /// The time of day.
    pub clock: Arc<dyn WallClock>,
    /// Records events of the node.
    pub events: Arc<dyn NodeEvents>,
    /// Images that somebody is about to use.
    pub claims: ImageClaims,
    /// The node's pods.
    pub pods: Arc<dyn PodImages>,
    /// What is counted.
    pub metrics: ImageGcMetrics,
    /// Catches panics in the work for single images.
    pub panics: PanicGuard,
}

/// How it is done.
#[derive(Debug, Clone)]
pub struct ImageGcSettings {
    /// When images go.
    pub policy: Policy,
    /// Which never do.
    pub pins: Pins,
    /// Whether images of static and node-critical pods never do.
    pub keep_pods: bool,
    /// Where the agent keeps what must survive it.
    pub state: PathBuf,
}

/// What a pass came to, or would come to.
#[derive(Debug, Default)]
pub struct PassReport {
    /// What became of every image, in the order in which it was decided.
    pub plan: Plan,
    /// Of these, what was to go and was claimed by somebody since the pass began.
    pub claimed: Vec<Item>,
    /// What went wrong, if anything did; what the plan says has happened all the same.
    pub error: Option<ImageGcError>,
    /// Whether images were gone through to make room, and each that was to go could be removed.
    pub made_room: bool,
    /// Of a plan: the event message if all removable images are not enough, computed from image sizes.
    pub not_enough: Option<String>,
}

/// The images that are there after a pass that made room.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImagesLeft {
    /// When the pass began: what came since may be there besides.
    pub began: Timestamp,
    /// All of them, by id: those in use, pinned or not come to as well.
    pub ids: BTreeSet<String>,
}

impl PassReport {
    /// How many images could not be removed.
    pub fn not_removed(&self) -> usize {
        self.plan.items.iter().filter(|item| item.rule == NOT_REMOVED).count()
    }
}

/// Asks for plans and passes. Clones ask the same task.
#[derive(Debug, Clone)]
pub struct ImageGc {
    collector: Arc<Collector>,
    requests: mpsc::Sender<Request>,
    /// Written by the task; closed when it ends.
    left: watch::Receiver<Option<Arc<ImagesLeft>>>,
}

/// What the task is asked for.
#[derive(Debug)]
struct Request {
    kind: Kind,
    answer: oneshot::Sender<PassReport>,
}

/// A kind of pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// What is too old goes, then what must for want of room.
    Ordinary,
    /// Everything goes that may.
    Everything,
}

/// How many requests may wait.
const WAITING: usize = 8;

/// Garbage collection of images, and the task that it lives in.
pub fn image_gc(parts: ImageGcParts, settings: ImageGcSettings) -> (ImageGc, ImageGcTask) {
    let collector = Arc::new(Collector::new(parts, settings));
    let (requests, received) = mpsc::channel(WAITING);
    let (tell, left) = watch::channel(None);
    let task = ImageGcTask::new(Arc::clone(&collector), received, tell);
    (ImageGc { collector, requests, left }, task)
}

impl ImageGc {
    /// What a pass would do now, and what would go wrong with it. Nothing is removed or remembered. What
    /// a pass would gain cannot be measured beforehand: the plan takes images by their word for their
    /// sizes.
    pub async fn plan(&self) -> PassReport {
        self.collector.plan(Observed::Yes).await
    }

    /// The same where no agent has observed the images. None is removed: their ages and uses are unknown.
    pub async fn plan_unobserved(&self) -> PassReport {
        self.collector.plan(Observed::No).await
    }

    /// Makes a pass now, also where none is made by itself; or after the one that is under way.
    pub async fn run_now(&self) -> PassReport {
        self.ask(Kind::Ordinary).await
    }

    /// Removes every image that may go, however much room there is.
    pub async fn delete_unused(&self) -> PassReport {
        self.ask(Kind::Everything).await
    }

    /// Which images are there after the last pass that made room, for who keeps something of every image
    /// and must not keep it for longer; nothing before the first.
    pub fn left(&self) -> watch::Receiver<Option<Arc<ImagesLeft>>> {
        self.left.clone()
    }

    async fn ask(&self, kind: Kind) -> PassReport {
        let (answer, answered) = oneshot::channel();
        let stopped = || PassReport { error: Some(ImageGcError::Stopped), ..PassReport::default() };
        match self.requests.send(Request { kind, answer }).await {
            Ok(()) => answered.await.unwrap_or_else(|_| stopped()),
            Err(_) => stopped(),
        }
    }
}
