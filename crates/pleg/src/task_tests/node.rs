//! A relist task on a runtime in memory.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use model::ids::{ContainerId, ObjectId, PodName, PodUid, SandboxId};
use model::in_flight::InFlight;
use model::lifecycle::LifecycleEvent;
use model::panics::PanicGuard;
use model::ports::runtime::{ContainerService, Runtime, SandboxService};
use model::seq::{Seq, SeqCounter};
use model::wanted::SandboxConfig;
use testkit::clock::VirtualClock;
use testkit::runtime::{MemoryRuntime, RemoteImage};
use testkit::wanted;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::cache::{Observation, Reader};
use crate::{DirtySet, Health, Metrics, Pleg, PlegParts, Settings, pleg};

pub(super) const IMAGE: &str = "ferrolet.test/workload:1";
pub(super) const FOREVER: &[&str] = &["sleep", "forever"];
/// The longest wait of a test.
const MINUTE: Duration = Duration::from_mins(1);

pub(super) struct Node {
    pub(super) seq: SeqCounter,
    pub(super) cache: Reader,
    pub(super) requests: DirtySet<()>,
    pub(super) in_flight: InFlight,
    pub(super) health: Health,
    pub(super) stop: CancellationToken,
    pub(super) tasks: JoinSet<()>,
    pub(super) registry: prometheus::Registry,
    events: DirtySet<LifecycleEvent>,
    /// Events that the test has not taken yet.
    received: BTreeMap<PodUid, Vec<LifecycleEvent>>,
    start: Instant,
}

impl Node {
    pub(super) fn watching(runtime: &Arc<MemoryRuntime>) -> Self {
        Self::with(runtime, Settings { hints: false, ..Settings::default() })
    }

    pub(super) fn with(runtime: &Arc<MemoryRuntime>, settings: Settings) -> Self {
        let (seq, registry) = (SeqCounter::default(), prometheus::Registry::new());
        let pleg = relist_of(runtime, settings, &seq, &registry);
        let Pleg { task, cache, events, requests, in_flight, health } = pleg;
        let stop = CancellationToken::new();
        let mut tasks = JoinSet::new();
        tasks.spawn(task.run(stop.clone()));
        let (received, start) = (BTreeMap::new(), Instant::now());
        Self {
            seq,
            cache,
            requests,
            in_flight,
            health,
            stop,
            tasks,
            registry,
            events,
            received,
            start,
        }
    }

    /// The next events of a pod.
    pub(super) async fn next_events(&mut self, pod: &str) -> Vec<LifecycleEvent> {
        self.next_events_of(&uid(pod)).await
    }

    /// Like `next_events`, for a pod of any uid.
    pub(super) async fn next_events_of(&mut self, uid: &PodUid) -> Vec<LifecycleEvent> {
        let next = async {
            loop {
                if let Some(events) = self.received.remove(uid) {
                    return events;
                }
                for (uid, events) in self.events.take().await {
                    self.received.entry(uid).or_default().extend(events);
                }
            }
        };
        timeout(MINUTE, next).await.unwrap_or_else(|_| panic!("no events of {uid:?}"))
    }

    pub(super) async fn expect_no_events_for(&mut self, time: Duration) {
        assert_eq!(self.received, BTreeMap::new());
        if let Ok(received) = timeout(time, self.events.take()).await {
            panic!("after {:?}: {received:?}", self.elapsed());
        }
    }

    pub(super) async fn newer_than(&self, pod: &str, after: Seq) -> Observation {
        let status = timeout(MINUTE, self.cache.newer_than(&uid(pod), after)).await;
        status.unwrap_or_else(|_| panic!("no newer status of {pod}"))
    }

    /// Requests a relist of a pod.
    pub(super) fn relist_pod(&self, pod: &str) {
        self.requests.mark(&uid(pod), []);
    }

    /// The time since the task began.
    pub(super) fn elapsed(&self) -> Duration {
        self.start.elapsed()
    }

    /// Lets the clock reach this much since the task began.
    pub(super) async fn at(&self, time: Duration) {
        tokio::time::sleep_until(self.start + time).await;
    }
}

/// A relist task that does not run yet.
pub(super) fn relist_of(
    runtime: &Arc<MemoryRuntime>,
    settings: Settings,
    seq: &SeqCounter,
    registry: &prometheus::Registry,
) -> Pleg {
    let parts = PlegParts {
        runtime: Runtime::new(Arc::clone(runtime)),
        termination_messages: Arc::new(testkit::logs::Silence),
        seq: seq.clone(),
        clock: Arc::new(VirtualClock::new()),
        metrics: Metrics::new(registry).unwrap(),
        panics: PanicGuard::default(),
    };
    pleg(parts, settings)
}

pub(super) fn runtime() -> Arc<MemoryRuntime> {
    let runtime = MemoryRuntime::new(Arc::new(VirtualClock::new()));
    runtime.add_image(&RemoteImage::new(IMAGE));
    Arc::new(runtime)
}

/// A node that has listed its only pod, `web`.
pub(super) struct Watched {
    pub(super) runtime: Arc<MemoryRuntime>,
    pub(super) node: Node,
    pub(super) web: SandboxId,
    pub(super) main: ContainerId,
}

/// A running pod, and a task that has listed it.
pub(super) async fn web() -> Watched {
    let runtime = runtime();
    let (web, main) = run(&runtime, "web", FOREVER).await;
    let mut node = Node::watching(&runtime);
    node.next_events("web").await;
    Watched { runtime, node, web, main }
}

/// Runs a pod with one container.
pub(super) async fn run(
    runtime: &MemoryRuntime,
    name: &str,
    args: &[&str],
) -> (SandboxId, ContainerId) {
    let sandbox = runtime.run_pod_sandbox(&pod(name)).await.unwrap();
    let id = start(runtime, &sandbox, name, "main", args).await;
    (sandbox, id)
}

/// Starts one more container in a pod.
pub(super) async fn start(
    runtime: &MemoryRuntime,
    sandbox: &SandboxId,
    name: &str,
    container: &str,
    args: &[&str],
) -> ContainerId {
    let config = wanted::container(&pod(name), container, IMAGE, args);
    let id = runtime.create_container(sandbox, &config, &pod(name)).await.unwrap();
    runtime.start_container(&id).await.unwrap();
    id
}

pub(super) fn pod(name: &str) -> SandboxConfig {
    wanted::sandbox(&PodName::new("default", name), &uid(name))
}

pub(super) fn uid(name: &str) -> PodUid {
    format!("uid-of-{name}").into()
}

pub(super) fn container(id: &ContainerId) -> ObjectId {
    ObjectId::Container(id.clone())
}

pub(super) fn sandbox(id: &SandboxId) -> ObjectId {
    ObjectId::Sandbox(id.clone())
}

pub(super) fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

pub(super) fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Waits until a condition holds.
pub(super) async fn eventually(what: &str, condition: impl Fn() -> bool) {
    let wait = async {
        while !condition() {
            sleep(millis(10)).await;
        }
    };
    timeout(MINUTE, wait).await.unwrap_or_else(|_| panic!("never: {what}"));
}
