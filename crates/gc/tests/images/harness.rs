//! An in-memory node: a runtime, a disk, and image garbage collection.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use gc::decide::images::{KeptImage, Pins, Policy};
use gc::images::{
    ImageGc, ImageGcMetrics, ImageGcParts, ImageGcSettings, PassReport, PodImages, image_gc,
};
use gc::plan::{Fate, Plan};
use jiff::{SignedDuration, Timestamp};
use model::ids::{ContainerId, PodName, PodUid};
use model::image_claims::ImageClaims;
use model::panics::PanicGuard;
use model::ports::clock::WallClock;
use model::ports::runtime::{ContainerService, Runtime, SandboxService};
use model::verdict::Subject;
use model::wanted::{ContainerConfig, Mount};
use prometheus::{Registry, TextEncoder};
use testkit::clock::VirtualClock;
use testkit::disk::MemoryDisk;
use testkit::events::KeptNodeEvents;
use testkit::files::MemoryFiles;
use testkit::runtime::{IMAGE_DIRECTORY, MemoryRuntime, RemoteImage};
use testkit::wanted;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// Mounts that are known without a runtime call.
#[derive(Debug, Default)]
pub(crate) struct Pods {
    pub(crate) mounts: Mutex<BTreeMap<ContainerId, Vec<String>>>,
    pub(crate) named: Mutex<Vec<KeptImage>>,
}

impl PodImages for Pods {
    fn mounted(&self, _: &PodUid, container: &ContainerId) -> Option<Vec<String>> {
        self.mounts.lock().unwrap().get(container).cloned()
    }

    fn named(&self) -> Option<Vec<KeptImage>> {
        Some(self.named.lock().unwrap().clone())
    }
}

/// The time of day, which tests can set.
#[derive(Debug)]
pub(crate) struct SetClock {
    steady: VirtualClock,
    offset: Mutex<SignedDuration>,
}

impl WallClock for SetClock {
    fn now(&self) -> Timestamp {
        self.steady.now() + *self.offset.lock().unwrap()
    }
}

pub(crate) struct Harness {
    pub(crate) runtime: Arc<MemoryRuntime>,
    pub(crate) disk: Arc<MemoryDisk>,
    pub(crate) files: Arc<MemoryFiles>,
    pub(crate) events: Arc<KeptNodeEvents>,
    pub(crate) claims: ImageClaims,
    pub(crate) pods: Arc<Pods>,
    pub(crate) policy: Policy,
    pub(crate) pins: Vec<&'static str>,
    clock: Arc<SetClock>,
    registry: Mutex<Registry>,
}

/// A running image garbage collection.
pub(crate) struct Running {
    pub(crate) gc: ImageGc,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl Running {
    /// Stops it at any point, like `kill -9`.
    pub(crate) async fn kill(self) {
        self.task.abort();
        drop(self.task.await);
    }

    pub(crate) async fn stop(self) {
        self.stop.cancel();
        self.task.await.unwrap();
    }
}

impl Harness {
    /// A node with a large empty disk. Images have no minimum age.
    pub(crate) fn new() -> Self {
        let steady = VirtualClock::new();
        let clock = Arc::new(SetClock { steady, offset: Mutex::default() });
        let runtime = Arc::new(MemoryRuntime::new(Arc::clone(&clock) as _));
        let disk = MemoryDisk::new(IMAGE_DIRECTORY, 1 << 50).holding(Arc::clone(&runtime));
        Self {
            runtime,
            disk: Arc::new(disk),
            files: Arc::default(),
            events: Arc::default(),
            claims: ImageClaims::default(),
            pods: Arc::default(),
            policy: Policy { minimum_age: Duration::ZERO, ..Policy::default() },
            pins: Vec::new(),
            clock,
            registry: Mutex::default(),
        }
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Sets the clock.
    pub(crate) fn set_clock(&self, by: SignedDuration) {
        *self.clock.offset.lock().unwrap() += by;
    }

    /// Adds an image of one layer; returns its id.
    pub(crate) fn image(&self, name: &str, size: u64) -> String {
        self.runtime.add_image(&RemoteImage::new(name).size(size))
    }

    /// Starts the collection. The first pass runs at once.
    #[expect(clippy::disallowed_methods, reason = "a test has no set of tasks")]
    pub(crate) fn start(&self) -> Running {
        let registry = Registry::new();
        let parts = ImageGcParts {
            runtime: Runtime::new(Arc::clone(&self.runtime)),
            disks: Arc::clone(&self.disk) as _,
            files: Arc::clone(&self.files) as _,
            clock: Arc::clone(&self.clock) as _,
            events: Arc::clone(&self.events) as _,
            claims: self.claims.clone(),
            pods: Arc::clone(&self.pods) as _,
            metrics: ImageGcMetrics::new(&registry).unwrap(),
            panics: PanicGuard::default(),
        };
        *self.registry.lock().unwrap() = registry;
        let settings = ImageGcSettings {
            policy: self.policy.clone(),
            pins: Pins::parse(&self.pins).unwrap(),
            keep_pods: true,
            state: "/state".into(),
        };
        let (gc, task) = image_gc(parts, settings);
        let stop = CancellationToken::new();
        let task = tokio::spawn(task.run(stop.clone()));
        Running { gc, stop, task }
    }

    /// Like `start`, after a first pass with enough space; then the disk gets this capacity.
    pub(crate) async fn started(&self, capacity: u64) -> Running {
        self.disk.set_capacity(1 << 50);
        let running = self.start();
        tokio::time::sleep(Duration::from_secs(1)).await;
        self.disk.set_capacity(capacity);
        running
    }

    /// Images with increasing first detection, which is the order of removals.
    pub(crate) async fn one_by_one(&self, running: &Running, images: Vec<RemoteImage>) {
        for image in images {
            self.runtime.add_image(&image);
            assert!(running.gc.run_now().await.error.is_none());
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    }

    /// Creates a container with a mounted image, without starting it.
    pub(crate) async fn container(
        &self,
        name: &str,
        image: &str,
        mount: Option<&str>,
    ) -> ContainerId {
        let config = wanted::sandbox(&PodName::new("default", name), &name.into());
        let sandbox = self.runtime.run_pod_sandbox(&config).await.unwrap();
        let mount = mount.map(|image| Mount { image: image.to_owned(), ..Mount::default() });
        let container = ContainerConfig {
            mounts: mount.into_iter().collect(),
            ..wanted::container(&config, "main", image, &["sleep", "forever"])
        };
        self.runtime.create_container(&sandbox, &container, &config).await.unwrap()
    }

    /// The short names of the remaining images.
    pub(crate) fn left(&self) -> Vec<String> {
        let images = self.runtime.images();
        let mut names: Vec<String> =
            images.iter().map(|image| short(&image.repo_tags[0])).collect();
        names.sort();
        names
    }

    /// The reasons of all events so far.
    pub(crate) fn reasons(&self) -> Vec<&'static str> {
        self.events.all().iter().map(|event| event.reason).collect()
    }

    /// The number of removed images by reason, from the metric.
    pub(crate) fn counted(&self, reason: &str) -> u64 {
        let gathered = self.registry.lock().unwrap().gather();
        let text = TextEncoder::new().encode_to_string(&gathered).unwrap();
        let name = format!("kubelet_image_garbage_collected_total{{reason=\"{reason}\"}} ");
        let line = text.lines().find_map(|line| line.strip_prefix(&name));
        line.map_or(0, |count| count.parse().unwrap())
    }

    pub(crate) fn records(&self) -> String {
        let content = self.files.content(Path::new("/state/image-use.json")).unwrap_or_default();
        String::from_utf8(content).unwrap()
    }
}

fn short(name: &str) -> String {
    let last = name.rsplit('/').next().unwrap_or(name);
    last.split(':').next().unwrap_or(last).to_owned()
}

/// The name and rule of every image of a plan, in the order of the plan.
pub(crate) fn fates(plan: &Plan) -> Vec<String> {
    plan.items.iter().map(|item| format!("{} {}", short(&item.name), item.rule)).collect()
}

/// The ids of removed images.
pub(crate) fn removals(plan: &Plan) -> Vec<String> {
    let goes = plan.items.iter().filter(|item| item.fate == Fate::Remove);
    goes.map(|item| match &item.subject {
        Subject::Image(id) => id.clone(),
        other => panic!("{other} is not an image"),
    })
    .collect()
}

/// The text of a pass's error.
pub(crate) fn error(report: &PassReport) -> String {
    report.error.as_ref().map_or(String::new(), |error| model::chain::Chain(error).to_string())
}
