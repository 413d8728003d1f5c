//! The loop on a node where no event of the runtime arrives.

use std::net::IpAddr;

use allocation::decide::{AdmissionChain, AllowedSysctls};
use allocation::{AdmissionMetrics, AllocationParts, ResizeMetrics, Resizes};
use async_trait::async_trait;
use gc::containers::{ContainerGcParts, Deletor, Removals, StopUnknown, container_gc};
use gc::policy::ContainerPolicy;
use model::observed::{Container, ContainerStatus, RuntimePodStatus, SandboxState};
use model::ports::incidents::NoIncidents;
use model::ports::runtime::{Runtime, RuntimeError, SandboxService};
use model::seq::{Seq, SeqCounter};
use pods::decide::worker::{Outcome, Termination};
use pods::source::{PodList, RefusalList, SourceName, SourceWatch};
use pods::workers::{PodStatuses, PodSyncer, SyncResult, WorkerParts, workers};
use podspec::resources::Amounts;
use runtime::LogLayout;
use status::PodMetrics;
use status::decide::NodeFacts;
use status::manager::StatusParts;
use testkit::clock::VirtualClock;
use testkit::events::{KeptEvents, KeptNodeEvents};
use testkit::probes::MemoryProbes;
use testkit::runtime::MemoryRuntime;
use testkit::{pods as test_pods, wanted};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::*;
use crate::cgroup_sweep::CgroupSweep;
use crate::pod_index::PodIndex;
use crate::pod_volumes::VolumeNode;
use crate::runtime_state::runtime_state;
use crate::served_pods::PodWaits;

/// Stops the sandboxes of pods that end, and does nothing else.
#[derive(Debug)]
struct Ender(Arc<MemoryRuntime>);

#[async_trait]
impl PodSyncer for Ender {
    async fn sync(&self, _: &Arc<Pod>, _: &RuntimePodStatus, _: &CancellationToken) -> SyncResult {
        SyncResult { outcome: Outcome::Done, acted: false }
    }

    async fn terminate(&self, _: &Termination, status: &RuntimePodStatus) -> Outcome {
        for sandbox in &status.sandboxes {
            self.0.stop_pod_sandbox(&sandbox.id).await.unwrap();
        }
        Outcome::Done
    }

    fn status_unknown(&self, pod: &Pod, error: &RuntimeError) {
        panic!("{pod:?}: {error}");
    }

    async fn clean_up(&self, _: &Arc<Pod>, _: &RuntimePodStatus) -> Outcome {
        Outcome::Done
    }
}

#[derive(Debug)]
struct Looks(pleg::cache::Reader, pleg::DirtySet<()>);

#[async_trait]
impl PodStatuses for Looks {
    async fn newer_than(
        &self,
        uid: &PodUid,
        after: Seq,
    ) -> Result<Arc<RuntimePodStatus>, RuntimeError> {
        self.0.newer_than(uid, after).await
    }

    fn known_since(
        &self,
        uid: &PodUid,
        after: Seq,
    ) -> Option<Result<Arc<RuntimePodStatus>, RuntimeError>> {
        self.0.known_since(uid, after)
    }

    fn look_at(&self, uid: &PodUid) {
        self.1.mark(uid, []);
    }
}

struct Bench {
    runtime: Arc<MemoryRuntime>,
    status: Arc<PodStatusManager>,
    pulse: Pulse,
    source: watch::Sender<Option<PodList>>,
    _refusals: watch::Sender<RefusalList>,
    _tasks: JoinSet<()>,
}

/// No garbage collection.
fn gc_notifier(
    runtime: &Arc<MemoryRuntime>,
    clock: &Arc<VirtualClock>,
    workers: pods::WorkerStates,
) -> GcNotifier {
    let index = Arc::new(PodIndex::new(workers));
    let parts = ContainerGcParts {
        runtime: Runtime::new(Arc::clone(runtime)),
        files: Arc::new(testkit::files::MemoryFiles::new()),
        clock: Arc::clone(clock) as _,
        pods: Arc::clone(&index) as _,
        stop: Arc::new(NeverStops),
        events: Arc::new(KeptNodeEvents::default()),
        logs: LogLayout { pod_logs: "/logs".into(), container_links: "/links".into() },
        policy: ContainerPolicy::default(),
        removals: Removals::default(),
        panics: PanicGuard::default(),
    };
    let (_, deletor) = Deletor::new(parts.clone());
    let (_, containers) = container_gc(parts);
    let (clock, cgroups) = (Arc::clone(clock) as _, CgroupSweep::default());
    GcNotifier { index, containers, deletor, clock, cgroups }
}

/// Volumes in memory.
fn volume_manager(clock: &Arc<VirtualClock>) -> VolumeManager {
    let files = Arc::new(testkit::files::MemoryFiles::new());
    VolumeManager::new(volumes::ManagerParts {
        host: Arc::new(testkit::volumes::MemoryVolumes::new(Arc::clone(&files))),
        files,
        objects: None,
        tokens: None,
        trust_bundles: None,
        certificates: None,
        storage: None,
        events: Arc::new(KeptEvents::default()),
        clock: Arc::clone(clock) as _,
        layout: model::volume::VolumeLayout { pods: "/pods".into() },
        node: Arc::new(VolumeNode { allocatable: Amounts::default(), node: None }),
        resync: Duration::from_mins(1),
        metrics: volumes::Metrics::new(&prometheus::Registry::new()).unwrap(),
        panics: PanicGuard::default(),
    })
}

#[derive(Debug)]
struct NeverStops;

#[async_trait]
impl StopUnknown for NeverStops {
    async fn stop(&self, container: &Container, _: &ContainerStatus) -> Result<(), String> {
        panic!("{container:?}");
    }
}

fn admits_all() -> AdmissionChain {
    AdmissionChain {
        pressure: Pressure::default(),
        sysctls: AllowedSysctls::new((6, 1), &[]),
        apparmor: false,
        invalid_restart_rules_have_upstream_errors: true,
        node: crate::decide::node::unlimited_node("node"),
    }
}

fn allocation(clock: &Arc<VirtualClock>) -> AllocationManager {
    let counted = ResizeMetrics::new(&prometheus::Registry::new()).unwrap();
    let parts = AllocationParts {
        chain: admits_all(),
        resizes: Arc::new(Resizes::new(counted)),
        metrics: AdmissionMetrics::new(&prometheus::Registry::new()).unwrap(),
        events: Arc::new(KeptEvents::default()),
        clock: Arc::clone(clock) as _,
        files: Arc::new(testkit::files::MemoryFiles::new()),
    };
    AllocationManager::new(parts, std::path::Path::new("/state"))
}

fn observer(
    runtime: &Arc<MemoryRuntime>,
    clock: &Arc<VirtualClock>,
    seq: &SeqCounter,
) -> pleg::Pleg {
    let parts = pleg::PlegParts {
        runtime: Runtime::new(Arc::clone(runtime)),
        termination_messages: Arc::new(testkit::logs::Silence),
        seq: seq.clone(),
        clock: Arc::clone(clock) as _,
        metrics: pleg::Metrics::new(&prometheus::Registry::new()).unwrap(),
        panics: PanicGuard::default(),
    };
    pleg::pleg(parts, pleg::Settings::default())
}

fn probe_manager(runtime: &Arc<MemoryRuntime>, clock: &Arc<VirtualClock>) -> ProbeManager {
    let parts = probes::ManagerParts {
        containers: Arc::clone(runtime) as _,
        network: Arc::<MemoryProbes>::default(),
        events: Arc::<KeptEvents>::default(),
        clock: Arc::clone(clock) as _,
        files: Arc::new(testkit::files::MemoryFiles::new()),
        state: "/state".into(),
        metrics: probes::Metrics::new(&prometheus::Registry::new()).unwrap(),
        panics: PanicGuard::default(),
        resets_on_restart: false,
        jitter: || 0.0,
    };
    ProbeManager::new(parts)
}

fn status_manager(clock: &Arc<VirtualClock>) -> Arc<PodStatusManager> {
    Arc::new(PodStatusManager::new(StatusParts {
        node: NodeFacts { runtime_name: "memory".to_owned(), ..NodeFacts::default() },
        host_ips: Arc::<Vec<IpAddr>>::default(),
        clock: Arc::clone(clock) as _,
        metrics: PodMetrics::new(&prometheus::Registry::new()).unwrap(),
        changes: watch::Sender::new(0),
    }))
}

fn served_pods(
    status: &PodStatusManager,
    volumes: &VolumeManager,
    probes: &ProbeManager,
) -> Arc<ServedPods> {
    let waits = PodWaits { volumes: volumes.clone(), probes: probes.clone() };
    Arc::new(ServedPods::new(status.reader().clone(), waits, watch::Sender::new(0)))
}

impl Bench {
    fn start() -> Self {
        let clock = Arc::new(VirtualClock::new());
        let runtime = Arc::new(MemoryRuntime::new(Arc::clone(&clock) as _));
        let seq = SeqCounter::default();
        let pleg = observer(&runtime, &clock, &seq);
        let (workers_task, workers, worker_events) = workers(WorkerParts {
            syncer: Arc::new(Ender(Arc::clone(&runtime))),
            statuses: Arc::new(Looks(pleg.cache.clone(), pleg.requests)),
            in_flight: pleg.in_flight,
            seq,
            clock: Arc::clone(&clock) as _,
            events: Arc::<KeptEvents>::default(),
            resync: Duration::from_mins(1),
            metrics: pods::Metrics::new(&prometheus::Registry::new()).unwrap(),
            panics: PanicGuard::default(),
        });
        let gc = gc_notifier(&runtime, &clock, workers.states());
        let (status, pulse) = (status_manager(&clock), Pulse::new(Duration::from_mins(1)));
        let (source, pods) = watch::channel(Some(PodList::default()));
        let (no_refusals, refusals) = watch::channel(RefusalList::default());
        let watch = SourceWatch { pods, refusals, unread: None, copies: None };
        let volumes = volume_manager(&clock);
        let probes = probe_manager(&runtime, &clock);
        let sync_loop = SyncLoop::new(SyncLoopParts {
            sources: Sources::new(vec![(SourceName::File, watch)]),
            pleg: pleg.health,
            lifecycle: pleg::DirtySet::default(), // not the relist task's
            cache: pleg.cache,
            worker_events,
            directories: PodDirectories::new(
                Arc::new(testkit::files::MemoryFiles::new()),
                Arc::clone(&clock) as _,
                "/pods".into(),
            ),
            volumes: volumes.clone(),
            workers,
            events: Arc::new(KeptEvents::default()),
            incidents: Arc::new(NoIncidents),
            status: Arc::clone(&status),
            served: served_pods(&status, &volumes, &probes),
            probes,
            pulse: pulse.clone(),
            runtime: runtime_state(Arc::clone(&runtime) as _, None).1,
            gc,
            logs: None,
            allocation: allocation(&clock),
            pod_runtime: None,
            statics: None,
            node: None,
            pressure: None,
            metrics: SyncMetrics::new(&prometheus::Registry::new()).unwrap(),
            panics: PanicGuard::default(),
        });
        let (stop, mut tasks) = (CancellationToken::new(), JoinSet::new());
        tasks.spawn(pleg.task.run(stop.clone()));
        tasks.spawn(workers_task.run(stop.clone()));
        tasks.spawn(volumes.run(stop.clone()));
        tasks.spawn(async { sync_loop.run(stop).await.expect("no checkpoint to read") });
        Self { runtime, status, pulse, source, _refusals: no_refusals, _tasks: tasks }
    }

    fn live(&self) -> usize {
        let sandboxes = self.runtime.sandboxes();
        sandboxes.iter().filter(|sandbox| sandbox.state == SandboxState::Ready).count()
    }
}

// behaviour: WRK-20
#[tokio::test(start_paused = true)]
async fn housekeeping_finds_a_pod_without_an_event() {
    let bench = Bench::start();
    tokio::time::sleep(Duration::from_secs(70)).await;
    let orphan = wanted::sandbox(&PodName::new("default", "orphan"), &"orphan".into());
    bench.runtime.run_pod_sandbox(&orphan).await.unwrap();
    let ours = Arc::new(test_pods::pod("ours").build());
    bench.status.desired(&ours);
    let repaired = async {
        while bench.live() > 0 || !bench.status.reader().entries().is_empty() {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    let begun = Instant::now();
    timeout(Duration::from_mins(3), repaired).await.expect("a repair in time");
    assert!(begun.elapsed() > Duration::from_secs(10), "an event arrived after all");
}

// behaviour: WRK-24
#[tokio::test(start_paused = true)]
async fn idle_loop_is_healthy() {
    let bench = Bench::start();
    for _ in 0..30 {
        tokio::time::sleep(Duration::from_mins(1)).await;
        assert_eq!(bench.pulse.check(Instant::now()), Ok(()));
    }
    drop(bench.source);
    // The loop has stopped.
    tokio::time::sleep(Duration::from_mins(6)).await;
    bench.pulse.check(Instant::now()).unwrap_err();
}
