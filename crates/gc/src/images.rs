//! Garbage collection of images.
//!
//! [`image_gc`] returns a handle, which requests plans and passes, and the task that makes a pass every
//! five minutes. The task makes all passes, one at a time; a plan reads the same state and changes
//! nothing.

mod error;
mod metrics;
mod pass;
mod records;
mod snapshot;
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
use snapshot::Collector;

/// The pods of the node, for image garbage collection.
pub trait PodImages: Debug + Send + Sync {
    /// The images that a container mounts, if known without a runtime call.
    fn mounted(&self, pod: &PodUid, container: &ContainerId) -> Option<Vec<String>>;
    /// The images of static and node-critical pods; `None` until all pod sources are ready.
    fn named(&self) -> Option<Vec<KeptImage>>;
}

/// The images among the mounts of a container.
pub fn mounted_images(status: &ContainerStatus) -> Vec<String> {
    let images = status.mounts.iter().map(|mount| &mount.image);
    images.filter(|image| !image.is_empty()).cloned().collect()
}

/// The dependencies of image garbage collection.
#[derive(Debug)]
pub struct ImageGcParts {
    /// The container runtime.
    pub runtime: Runtime,
    /// Measures disks.
    pub disks: Arc<dyn Disks>,
    /// The host's files. Use times of images are stored there.
    pub files: Arc<dyn HostFiles>,
    /// The wall clock.
    pub clock: Arc<dyn WallClock>,
    /// Records events of the node.
    pub events: Arc<dyn NodeEvents>,
    /// Claims on images that are about to be used.
    pub claims: ImageClaims,
    /// The node's pods.
    pub pods: Arc<dyn PodImages>,
    /// The metrics.
    pub metrics: ImageGcMetrics,
    /// Catches panics in the work for single images.
    pub panics: PanicGuard,
}

/// The settings.
#[derive(Debug, Clone)]
pub struct ImageGcSettings {
    /// When images are removed.
    pub policy: Policy,
    /// Which images are pinned.
    pub pins: Pins,
    /// Whether images of static and node-critical pods are kept.
    pub keep_pods: bool,
    /// The state directory of the agent.
    pub state: PathBuf,
}

/// The result of a pass, or its prediction.
#[derive(Debug, Default)]
pub struct PassReport {
    /// The fate of every image, in order of the decisions.
    pub plan: Plan,
    /// The planned removals whose images were claimed since the pass began.
    pub claimed: Vec<Item>,
    /// The error, if any; the plan's removals took place nevertheless.
    pub error: Option<ImageGcError>,
    /// Whether the pass swept images for space, and every chosen image could be removed.
    pub made_room: bool,
    /// Of a plan: the event message if all removable images are not enough, computed from image sizes.
    pub not_enough: Option<String>,
}

/// The images that remain after a sweep.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImagesLeft {
    /// The start of the pass: later images may exist as well.
    pub began: Timestamp,
    /// All of them, by id, including used, pinned and unreached ones.
    pub ids: BTreeSet<String>,
}

impl PassReport {
    /// How many images could not be removed.
    pub fn not_removed(&self) -> usize {
        self.plan.items.iter().filter(|item| item.rule == NOT_REMOVED).count()
    }
}

/// Requests plans and passes. Clones use the same task.
#[derive(Debug, Clone)]
pub struct ImageGc {
    collector: Arc<Collector>,
    requests: mpsc::Sender<Request>,
    /// Written by the task; closed when it ends.
    left: watch::Receiver<Option<Arc<ImagesLeft>>>,
}

/// A request to the task.
#[derive(Debug)]
struct Request {
    kind: Kind,
    answer: oneshot::Sender<PassReport>,
}

/// A kind of pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Images that are too old, then images for space.
    Ordinary,
    /// Every image that may be removed.
    Everything,
}

/// The length of the request queue.
const WAITING: usize = 8;

/// Returns the handle of image garbage collection and its task.
pub fn image_gc(parts: ImageGcParts, settings: ImageGcSettings) -> (ImageGc, ImageGcTask) {
    let collector = Arc::new(Collector::new(parts, settings));
    let (requests, received) = mpsc::channel(WAITING);
    let (publisher, left) = watch::channel(None);
    let task = ImageGcTask::new(Arc::clone(&collector), received, publisher);
    (ImageGc { collector, requests, left }, task)
}

impl ImageGc {
    /// What a pass would do now, and its error. Nothing is removed or recorded. The gain of a pass cannot be
    /// measured in advance: the plan relies on reported image sizes.
    pub async fn plan(&self) -> PassReport {
        self.collector.plan(Observed::Yes).await
    }

    /// Like `plan`, without observations of an agent. No image is removed: their ages and uses are unknown.
    pub async fn plan_unobserved(&self) -> PassReport {
        self.collector.plan(Observed::No).await
    }

    /// Makes a pass now, even if periodic passes are disabled; or after the one in progress.
    pub async fn run_now(&self) -> PassReport {
        self.request(Kind::Ordinary).await
    }

    /// Removes every image that may be removed, for any disk usage.
    pub async fn delete_unused(&self) -> PassReport {
        self.request(Kind::Everything).await
    }

    /// The images that remain after the last sweep, for consumers that store data per image; `None` before the
    /// first.
    pub fn left(&self) -> watch::Receiver<Option<Arc<ImagesLeft>>> {
        self.left.clone()
    }

    async fn request(&self, kind: Kind) -> PassReport {
        let (answer, answered) = oneshot::channel();
        let stopped = || PassReport { error: Some(ImageGcError::Stopped), ..PassReport::default() };
        match self.requests.send(Request { kind, answer }).await {
            Ok(()) => answered.await.unwrap_or_else(|_| stopped()),
            Err(_) => stopped(),
        }
    }
}
