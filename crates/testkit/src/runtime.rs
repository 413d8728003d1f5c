//! A container runtime in memory: a small CRI runtime that behaves as containerd does.
//!
//! State is computed on access: a container whose script ends after two seconds has ended for a caller two
//! seconds after its start, without a task that waits for it. That is cheap for ten thousand containers and the
//! same in every run. Event streams wake up at the time of the next exit.
//!
//! [`MemoryRuntime`] is used through the port [`Runtime`](model::ports::runtime::Runtime). Its own methods act
//! as the environment: images appear, processes die, calls fail.

mod by_pod;
mod calls;
mod container;
mod event_faults;
mod faults;
mod feed;
mod image_port;
mod images;
mod listening;
#[cfg(feature = "hollow")]
pub(crate) mod look;
mod numbers;
mod port;
mod script;
mod store;
mod streaming;

use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use model::ids::{ContainerId, SandboxId};
use model::observed::{Container, Sandbox};
use model::ports::clock::WallClock;
use model::ports::runtime::{
    Code, ContainerFilter, Image, RuntimeCondition, RuntimeHandler, SandboxFilter,
};
use model::wanted::{ContainerConfig, SandboxConfig};

pub use calls::{Call, Method};
pub use event_faults::{EventFault, EventRule};
pub use faults::{Fault, Rule};
pub use images::RemoteImage;
pub use script::{OnTerm, Script};

use calls::Calls;
use container::ContainerRecord;
use faults::Faults;
use images::Images;
use listening::Listening;
use store::Store;

/// The default path of the image file system.
pub const IMAGE_DIRECTORY: &str = "/var/lib/images";

/// Decides what the process of a container does, from its configuration and its full command line.
type Director = dyn Fn(&ContainerConfig, &[String]) -> Script + Send + Sync;

tokio::task_local! {
    /// See [`delayed`].
    static DELAY: Duration;
}

/// Delays the effects of the calls in a future. As with [`MemoryRuntime::slower`], the calls begin at once.
pub async fn delayed<F: Future>(by: Duration, calls: F) -> F::Output {
    DELAY.scope(by, calls).await
}

/// The runtime. Share it with an [`Arc`].
pub struct MemoryRuntime {
    clock: Arc<dyn WallClock>,
    /// Read and written by every call and every open stream, never held across an await.
    inner: Arc<Mutex<Inner>>,
    director: Arc<Director>,
    /// An additional delay before its calls take effect.
    slower_by: Duration,
    streams: Arc<Streams>,
}

/// The event streams, which end with the runtime.
struct Streams(Arc<Mutex<Inner>>);

impl Drop for Streams {
    fn drop(&mut self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).store.feed.end(None);
    }
}

/// The state of the runtime.
#[derive(Debug)]
struct Inner {
    store: Store,
    images: Images,
    calls: Calls,
    faults: Faults,
    runtime: RuntimeCondition,
    network: RuntimeCondition,
    handlers: Vec<RuntimeHandler>,
    image_directories: Vec<PathBuf>,
    sandbox_image: Option<String>,
    /// An additional image in lists.
    additional_images: Vec<Image>,
    /// The limit of sandboxes or containers in one response.
    longest_list: usize,
    /// The URL of streams into containers.
    streaming_url: String,
}

impl MemoryRuntime {
    /// A runtime without objects. Its processes behave as the workload program.
    pub fn new(clock: Arc<dyn WallClock>) -> Self {
        let inner = Arc::new(Mutex::new(Inner {
            store: Store::default(),
            images: Images::default(),
            calls: Calls::default(),
            faults: Faults::default(),
            runtime: condition(true),
            network: condition(true),
            handlers: vec![RuntimeHandler {
                name: String::new(),
                user_namespaces: true,
                recursive_read_only_mounts: true,
            }],
            image_directories: vec![PathBuf::from(IMAGE_DIRECTORY)],
            sandbox_image: None,
            additional_images: Vec::new(),
            longest_list: usize::MAX,
            streaming_url: streaming::NO_SERVER.to_owned(),
        }));
        Self {
            clock,
            streams: Arc::new(Streams(Arc::clone(&inner))),
            inner,
            director: Arc::new(|config, command| {
                Script::stopped_by(config.stop_signal.as_deref(), command)
            }),
            slower_by: Duration::ZERO,
        }
    }

    /// The same runtime and state for a caller whose calls take effect this much later. They begin at once: the
    /// names of created objects are reserved.
    #[must_use]
    pub fn slower(&self, by: Duration) -> Self {
        Self {
            clock: Arc::clone(&self.clock),
            inner: Arc::clone(&self.inner),
            director: Arc::clone(&self.director),
            slower_by: by,
            streams: Arc::clone(&self.streams),
        }
    }

    /// The delay before the current call takes effect.
    fn delay(&self) -> Duration {
        self.slower_by.saturating_add(DELAY.try_get().unwrap_or_default())
    }

    /// The same runtime with another director of processes.
    #[must_use]
    pub fn directed_by(
        mut self,
        director: impl Fn(&ContainerConfig, &[String]) -> Script + Send + Sync + 'static,
    ) -> Self {
        self.director = Arc::new(director);
        self
    }

    /// The same runtime, counting calls but not recording them: one that runs for days must not grow.
    #[must_use]
    pub fn keeping_no_calls(self) -> Self {
        self.inner().calls = Calls::only_counted();
        self
    }

    /// Adds an image to the registry, from where it can be pulled.
    pub fn publish(&self, image: RemoteImage) {
        self.inner().images.publish(image);
    }

    /// Removes an image from the registry. The runtime keeps its copy.
    pub fn unpublish(&self, name: &str) {
        self.inner().images.unpublish(name);
    }

    /// Adds an image to the runtime without a pull, hence without a digest, and returns its id.
    pub fn add_image(&self, image: &RemoteImage) -> String {
        self.inner().images.import(image)
    }

    /// Ends the process of a container now. Returns false if it does not run.
    pub fn kill_container(&self, id: &ContainerId, code: i32) -> bool {
        self.strike(id, |record, now| record.kill(now, code))
    }

    /// Ends the process of a container as OOM-killed. Returns false if it does not run.
    pub fn oom_kill(&self, id: &ContainerId) -> bool {
        self.strike(id, ContainerRecord::oom_kill)
    }

    /// Makes the state of a running container unknown. Returns false if it does not run.
    pub fn lose_container(&self, id: &ContainerId) -> bool {
        self.strike(id, ContainerRecord::lose)
    }

    /// Ends the pause process of a sandbox: it is no longer ready, but keeps its network. Returns false if it
    /// was not ready.
    pub fn kill_sandbox(&self, id: &SandboxId) -> bool {
        let now = self.clock.now();
        self.inner().store.kill_sandbox(id, now)
    }

    /// Sets the condition `RuntimeReady`.
    pub fn set_runtime_ready(&self, ready: bool) {
        self.inner().runtime = condition(ready);
    }

    /// Sets the condition `NetworkReady`: without it, only host-network pods start.
    pub fn set_network_ready(&self, ready: bool) {
        self.inner().network = condition(ready);
    }

    /// Sets the runtime handlers.
    pub fn set_handlers(&self, handlers: Vec<RuntimeHandler>) {
        self.inner().handlers = handlers;
    }

    /// Sets the image file systems.
    pub fn set_image_directories(&self, directories: Vec<PathBuf>) {
        self.inner().image_directories = directories;
    }

    /// Sets the sandbox image.
    pub fn set_sandbox_image(&self, image: &str) {
        self.inner().sandbox_image = Some(image.to_owned());
    }

    /// Adds an image to lists only.
    pub fn list_additional(&self, image: Image) {
        self.inner().additional_images.push(image);
    }

    /// Limits the sandboxes or containers in one response: longer lists fail, as those that exceed the message
    /// limit of a runtime.
    pub fn set_longest_list(&self, entries: usize) {
        self.inner().longest_list = entries;
    }

    /// Sets the URL that the runtime returns for streams into containers.
    pub fn set_streaming_url(&self, url: impl Into<String>) {
        self.inner().streaming_url = url.into();
    }

    /// Bytes of all images, with shared layers counted once.
    pub fn image_bytes(&self) -> u64 {
        self.inner().images.bytes()
    }

    /// Removes an image without a call.
    pub fn drop_image(&self, id: &str) {
        self.inner().images.remove(id);
    }

    /// Adds a fault of calls.
    pub fn inject(&self, rule: Rule) {
        self.inner().faults.add(rule);
    }

    /// Adds a fault of events, on all streams.
    pub fn inject_on_events(&self, rule: EventRule) {
        self.inner().store.feed.faults.add(rule);
    }

    /// Clears all faults of calls and events. Hung calls stay hung, and delayed events stay delayed.
    pub fn clear_faults(&self) {
        let mut inner = self.inner();
        inner.faults.clear();
        inner.store.feed.faults.clear();
    }

    /// Ends every open event stream, with an error or without. Earlier events are still delivered.
    pub fn end_event_streams(&self, code: Option<Code>) {
        self.inner().store.feed.end(code);
    }

    /// Drops the events that are kept for the next stream.
    pub fn forget_events(&self) {
        let now = self.clock.now();
        let mut inner = self.inner();
        inner.store.advance(now);
        inner.store.feed.forget();
    }

    /// The calls so far, in the order of their arrival.
    pub fn calls(&self) -> Vec<Call> {
        self.inner().calls.log().to_vec()
    }

    /// The number of calls of a method.
    pub fn count(&self, method: Method) -> usize {
        self.inner().calls.count(method)
    }

    /// Clears the recorded calls.
    pub fn forget_calls(&self) {
        self.inner().calls.forget();
    }

    /// Every sandbox, without a call: it is not counted and no fault applies.
    pub fn sandboxes(&self) -> Vec<Sandbox> {
        self.inner().store.sandboxes(&SandboxFilter::default())
    }

    /// Every container, without a call.
    pub fn containers(&self) -> Vec<Container> {
        let now = self.clock.now();
        self.inner().store.containers(&ContainerFilter::default(), now)
    }

    /// The configuration of a container, without a call.
    pub fn container_config(&self, id: &ContainerId) -> Option<ContainerConfig> {
        let now = self.clock.now();
        self.inner().store.container(id, now).map(|record| record.config.clone())
    }

    /// The configuration of a sandbox, without a call.
    pub fn sandbox_config(&self, id: &SandboxId) -> Option<SandboxConfig> {
        self.inner().store.sandbox(id).map(|record| record.config.clone())
    }

    /// Every image, without a call.
    pub fn images(&self) -> Vec<Image> {
        self.inner().images.list()
    }

    /// Changes a running container.
    fn strike(&self, id: &ContainerId, blow: impl FnOnce(&mut ContainerRecord, Timestamp)) -> bool {
        let now = self.clock.now();
        let struck = self.inner().store.change(id, now, |record| {
            let running = record.is_running();
            if running {
                blow(record, now);
            }
            running
        });
        struck.unwrap_or(false)
    }

    /// Opens an event stream.
    pub(crate) fn listen(&self) -> Listening {
        Listening::new(&self.inner, Arc::clone(&self.clock))
    }

    /// The panic message of another test thread must not be hidden by a poisoned lock.
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for MemoryRuntime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryRuntime").finish_non_exhaustive()
    }
}

fn condition(ready: bool) -> RuntimeCondition {
    let (reason, message) = if ready { ("", "") } else { ("NotReady", "a test made it so") };
    RuntimeCondition { ready, reason: reason.into(), message: message.into() }
}
