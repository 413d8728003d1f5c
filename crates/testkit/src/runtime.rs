//! A container runtime in memory: a small honest CRI runtime that behaves as containerd does.
//!
//! Time is worked out when somebody looks: a container whose script ends after two seconds has ended
//! for whoever asks two seconds after its start, with no task that waits for it. That is cheap for
//! ten thousand containers and the same in every run. Who listens to events looks at the moment of
//! the next end.
//!
//! [`MemoryRuntime`] is used through the port [`Runtime`](model::ports::runtime::Runtime). Its own
//! methods play the rest of the world: images appear, processes die, calls fail.

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

/// Where images lie, unless a test says otherwise.
pub const IMAGE_DIRECTORY: &str = "/var/lib/images";

/// Tells what the process of a container does, from its configuration and its whole command line.
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
    world: Arc<Mutex<World>>,
    director: Arc<Director>,
    /// How much longer than others its calls take until they have an effect.
    slower_by: Duration,
    streams: Arc<Streams>,
}

/// The streams of events, which end with the runtime.
struct Streams(Arc<Mutex<World>>);

impl Drop for Streams {
    fn drop(&mut self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).store.feed.end(None);
    }
}

/// All that the runtime knows.
#[derive(Debug)]
struct World {
    store: Store,
    images: Images,
    calls: Calls,
    faults: Faults,
    runtime: RuntimeCondition,
    network: RuntimeCondition,
    handlers: Vec<RuntimeHandler>,
    image_directories: Vec<PathBuf>,
    sandbox_image: Option<String>,
    /// What lists of images show besides.
    listed_besides: Vec<Image>,
    /// How many sandboxes or containers one answer can hold.
    longest_list: usize,
    /// Where the streams of containers are.
    streaming_url: String,
}

impl MemoryRuntime {
    /// A runtime that has nothing yet. Its processes do what the workload program would do.
    pub fn new(clock: Arc<dyn WallClock>) -> Self {
        let world = Arc::new(Mutex::new(World {
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
            listed_besides: Vec::new(),
            longest_list: usize::MAX,
            streaming_url: streaming::NO_SERVER.to_owned(),
        }));
        Self {
            clock,
            streams: Arc::new(Streams(Arc::clone(&world))),
            world,
            director: Arc::new(|config, command| {
                Script::stopped_by(config.stop_signal.as_deref(), command)
            }),
            slower_by: Duration::ZERO,
        }
    }

    /// The same runtime and all that it has, as somebody meets it whose calls take so much longer
    /// until they have an effect. They have begun by then: the names of what they make are taken.
    #[must_use]
    pub fn slower(&self, by: Duration) -> Self {
        Self {
            clock: Arc::clone(&self.clock),
            world: Arc::clone(&self.world),
            director: Arc::clone(&self.director),
            slower_by: by,
            streams: Arc::clone(&self.streams),
        }
    }

    /// How much longer than others the call that arrives takes until it has an effect.
    fn delay(&self) -> Duration {
        self.slower_by.saturating_add(DELAY.try_get().unwrap_or_default())
    }

    /// The same runtime with another idea of what processes do.
    #[must_use]
    pub fn directed_by(
        mut self,
        director: impl Fn(&ContainerConfig, &[String]) -> Script + Send + Sync + 'static,
    ) -> Self {
        self.director = Arc::new(director);
        self
    }

    /// The same runtime, counting calls but not keeping them: one that runs for days must not grow.
    #[must_use]
    pub fn keeping_no_calls(self) -> Self {
        self.world().calls = Calls::only_counted();
        self
    }

    /// Puts an image into the registry, from where it can be pulled.
    pub fn publish(&self, image: RemoteImage) {
        self.world().images.publish(image);
    }

    /// Takes an image out of the registry. The runtime keeps what it has.
    pub fn unpublish(&self, name: &str) {
        self.world().images.unpublish(name);
    }

    /// Gives the runtime an image without a pull, hence without a digest, and tells its id.
    pub fn add_image(&self, image: &RemoteImage) -> String {
        self.world().images.import(image)
    }

    /// Ends the process of a container now. False when it does not run.
    pub fn kill_container(&self, id: &ContainerId, code: i32) -> bool {
        self.strike(id, |record, now| record.kill(now, code))
    }

    /// Ends the process of a container for want of memory. False when it does not run.
    pub fn oom_kill(&self, id: &ContainerId) -> bool {
        self.strike(id, ContainerRecord::oom_kill)
    }

    /// Makes the runtime lose track of a running container. False when it does not run.
    pub fn lose_container(&self, id: &ContainerId) -> bool {
        self.strike(id, ContainerRecord::lose)
    }

    /// Ends the process that holds a sandbox open: it is no longer ready, but keeps its network.
    /// False when it was not ready.
    pub fn kill_sandbox(&self, id: &SandboxId) -> bool {
        let now = self.clock.now();
        self.world().store.kill_sandbox(id, now)
    }

    /// Makes the runtime say whether it can run containers.
    pub fn set_runtime_ready(&self, ready: bool) {
        self.world().runtime = condition(ready);
    }

    /// Makes the network of pods work or not: without it, only pods on the host's network start.
    pub fn set_network_ready(&self, ready: bool) {
        self.world().network = condition(ready);
    }

    /// Makes the runtime say which handlers it has.
    pub fn set_handlers(&self, handlers: Vec<RuntimeHandler>) {
        self.world().handlers = handlers;
    }

    /// Makes the runtime say on which file systems images lie.
    pub fn set_image_directories(&self, directories: Vec<PathBuf>) {
        self.world().image_directories = directories;
    }

    /// Makes the runtime say which image its sandboxes are made from.
    pub fn set_sandbox_image(&self, image: &str) {
        self.world().sandbox_image = Some(image.to_owned());
    }

    /// Makes lists show one more image, which is nowhere else.
    pub fn list_besides(&self, image: Image) {
        self.world().listed_besides.push(image);
    }

    /// Makes one answer hold no more than so many sandboxes or containers: longer lists fail, as those do
    /// that are larger than a runtime may send.
    pub fn set_longest_list(&self, entries: usize) {
        self.world().longest_list = entries;
    }

    /// Sets the URL that the runtime returns for streams into containers.
    pub fn set_streaming_url(&self, url: impl Into<String>) {
        self.world().streaming_url = url.into();
    }

    /// Bytes that all images take together: layers that they share once.
    pub fn image_bytes(&self) -> u64 {
        self.world().images.bytes()
    }

    /// Takes an image away, without a call.
    pub fn drop_image(&self, id: &str) {
        self.world().images.remove(id);
    }

    /// Lets calls go wrong from now on.
    pub fn inject(&self, rule: Rule) {
        self.world().faults.add(rule);
    }

    /// Lets events go wrong from now on, for everybody who listens.
    pub fn inject_on_events(&self, rule: EventRule) {
        self.world().store.feed.faults.add(rule);
    }

    /// Lets all calls and events work again. Calls that hang keep hanging, and events that were
    /// delayed stay so.
    pub fn clear_faults(&self) {
        let mut world = self.world();
        world.faults.clear();
        world.store.feed.faults.clear();
    }

    /// Ends every open stream of events, with an error or without. What was told before still
    /// arrives.
    pub fn end_event_streams(&self, code: Option<Code>) {
        self.world().store.feed.end(code);
    }

    /// Drops the events that are kept for the next listener while there is none.
    pub fn forget_events(&self) {
        let now = self.clock.now();
        let mut world = self.world();
        world.store.advance(now);
        world.store.feed.forget();
    }

    /// The calls so far, in the order in which they arrived.
    pub fn calls(&self) -> Vec<Call> {
        self.world().calls.log().to_vec()
    }

    /// How often a method was called.
    pub fn count(&self, method: Method) -> usize {
        self.world().calls.count(method)
    }

    /// Forgets the calls so far.
    pub fn forget_calls(&self) {
        self.world().calls.forget();
    }

    /// Every sandbox, without a call: nothing is counted and nothing goes wrong.
    pub fn sandboxes(&self) -> Vec<Sandbox> {
        self.world().store.sandboxes(&SandboxFilter::default())
    }

    /// Every container, without a call.
    pub fn containers(&self) -> Vec<Container> {
        let now = self.clock.now();
        self.world().store.containers(&ContainerFilter::default(), now)
    }

    /// As what a container was made, without a call.
    pub fn container_config(&self, id: &ContainerId) -> Option<ContainerConfig> {
        let now = self.clock.now();
        self.world().store.container(id, now).map(|record| record.config.clone())
    }

    /// As what a sandbox was made, without a call.
    pub fn sandbox_config(&self, id: &SandboxId) -> Option<SandboxConfig> {
        self.world().store.sandbox(id).map(|record| record.config.clone())
    }

    /// Every image, without a call.
    pub fn images(&self) -> Vec<Image> {
        self.world().images.list()
    }

    /// Does something to a container that runs.
    fn strike(&self, id: &ContainerId, blow: impl FnOnce(&mut ContainerRecord, Timestamp)) -> bool {
        let now = self.clock.now();
        let struck = self.world().store.change(id, now, |record| {
            let running = record.is_running();
            if running {
                blow(record, now);
            }
            running
        });
        struck.unwrap_or(false)
    }

    /// Opens a stream of what happens.
    pub(crate) fn listen(&self) -> Listening {
        Listening::new(&self.world, Arc::clone(&self.clock))
    }

    /// A test that panicked elsewhere must not hide its own message behind a poisoned lock.
    fn world(&self) -> MutexGuard<'_, World> {
        self.world.lock().unwrap_or_else(PoisonError::into_inner)
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
