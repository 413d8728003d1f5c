//! The eviction manager's view of pods, garbage collection and disks, and its plan on the agent's socket.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use allocation::Resizes;
use async_trait::async_trait;
use eviction::decide::layout::{Devices, DiskLayout};
use eviction::decide::observation::{available, bytes, count};
use eviction::decide::plan::{EvictionPlan, Ranking, SignalPlan};
use eviction::decide::rank::Ranked;
use eviction::decide::record::amount;
use eviction::decide::signal::{Resource, Signal};
use eviction::decide::threshold::Level;
use eviction::{EvictError, EvictionHandle, EvictionPods, FileSystems, NodeReclaimer};
use gc::containers::ContainerGc;
use gc::images::ImageGc;
use gc::plan::Fate;
use k8s_openapi::api::core::v1::Pod;
use model::chain::Chain;
use model::go_duration::milliseconds;
use model::ids::PodUid;
use model::pod_failure::PodFailure;
use model::ports::clock::WallClock;
use model::ports::disk::Disks;
use model::ports::runtime::Runtime;
use model::pressure::Pressure;
use node::NodeHandle;
use pods::decide::worker::Target;
use pods::workers::WorkersHandle;
use podspec::view;
use server::EvictionView;
use server::wire::{EvictLimit, EvictPlan, EvictPod, EvictRanking, EvictSignal};
use status::store::StatusReader;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tracing::warn;

/// The pods that may be evicted.
#[derive(Debug)]
pub(crate) struct PodsOfNode {
    pub(crate) statuses: StatusReader,
    pub(crate) workers: WorkersHandle,
    pub(crate) resizes: Arc<Resizes>,
}

#[async_trait]
impl EvictionPods for PodsOfNode {
    fn candidates(&self) -> Vec<Arc<Pod>> {
        let states = self.workers.states();
        let may_run = |uid: &PodUid| states.get(uid).is_some_and(|state| !state.terminated);
        let entries = self.statuses.entries().into_iter();
        let running = entries.filter(|(uid, _)| may_run(uid));
        running.map(|(_, entry)| self.resizes.allocated(&entry.pod)).collect()
    }

    async fn evict(
        &self,
        pod: &Arc<Pod>,
        grace: Duration,
        failure: PodFailure,
    ) -> Result<(), EvictError> {
        let (uid, target) = (view::uid(pod), Target::Pod(Arc::clone(pod)));
        let ended = self.workers.kill_and_wait(uid, target, grace, failure).await;
        ended.map_err(|error| EvictError(error.to_string()))
    }

    fn is_cleaned_up(&self, uid: &PodUid) -> bool {
        // Its reason counts once it is cleaned up.
        self.workers.states().get(uid).is_none_or(|state| state.evicted || state.deleted)
    }
}

/// Garbage collection of containers and images.
#[derive(Debug)]
pub(crate) struct Collectors {
    pub(crate) containers: ContainerGc,
    pub(crate) images: ImageGc,
}

#[async_trait]
impl NodeReclaimer for Collectors {
    async fn delete_unused_containers(&self) -> u64 {
        let pass = self.containers.delete_all_unused().await;
        let Ok(report) = pass.report.await else { return 0 };
        for problem in &report.problems {
            warn!(error = %Chain(problem), "Eviction manager: failed to remove dead containers");
        }
        report.removed()
    }

    async fn delete_unused_images(&self) -> u64 {
        let report = self.images.delete_unused().await;
        if let Some(error) = &report.error {
            warn!(error = %Chain(error), "Eviction manager: failed to remove unused images");
        }
        let removed = report.plan.items.iter().filter(|item| item.fate == Fate::Remove);
        u64::try_from(removed.count()).unwrap_or(u64::MAX)
    }
}

/// The disks of the root directory and of the container runtime.
#[derive(Debug)]
pub(crate) struct DisksOfNode {
    pub(crate) runtime: Runtime,
    pub(crate) disks: Arc<dyn Disks>,
    pub(crate) root_dir: PathBuf,
}

impl DisksOfNode {
    async fn device(&self, path: &Path) -> Result<u64, String> {
        let space = self.disks.space(path).await;
        space.map(|space| space.device).map_err(|error| Chain(&error).to_string())
    }
}

#[async_trait]
impl FileSystems for DisksOfNode {
    async fn devices(&self) -> Result<Devices, String> {
        let info = self.runtime.images.image_fs_info().await.map_err(|error| error.to_string())?;
        let images = info.images.first().ok_or("the runtime reports no image filesystem")?;
        let containers = info.containers.first().unwrap_or(images);
        Ok(Devices {
            root: self.device(&self.root_dir).await?,
            images: self.device(&images.mount_point).await?,
            containers: self.device(&containers.mount_point).await?,
        })
    }
}

/// Publishes the conditions in the node's status.
pub(crate) async fn publish_pressure(
    mut pressure: watch::Receiver<Pressure>,
    node: NodeHandle,
    stop: CancellationToken,
) {
    loop {
        let now = *pressure.borrow_and_update();
        node.set_pressure(now);
        // Biased: the stop comes once. The sender ends only with the agent.
        tokio::select! {
            biased;
            () = stop.cancelled() => return,
            Ok(()) = pressure.changed() => {}
            else => return,
        }
    }
}

/// The plan of the eviction manager; without one there is no plan.
#[derive(Debug)]
pub(crate) struct EvictionPlans {
    pub(crate) manager: Option<EvictionHandle>,
    pub(crate) clock: Arc<dyn WallClock>,
}

#[async_trait]
impl EvictionView for EvictionPlans {
    async fn plan(&self) -> EvictPlan {
        let mut plan = EvictPlan { generated_at: self.clock.now(), ..EvictPlan::default() };
        let Some(manager) = &self.manager else {
            plan.problems.push("this agent does not measure usage".to_owned());
            return plan;
        };
        let EvictionPlan { layout, pressure, signals, rankings, violations, problems } =
            manager.plan().await;
        plan.layout = layout.map(DiskLayout::as_str).map(str::to_owned);
        plan.conditions = pressure.conditions().into_iter().map(str::to_owned).collect();
        plan.signals = signals.iter().map(signal).collect();
        plan.rankings = rankings.iter().map(ranking).collect();
        let limits = violations.into_iter().map(|(pod, violation)| EvictLimit {
            pod: pod.to_string(),
            signal: violation.signal.to_owned(),
            name: violation.name,
            usage: violation.used.to_string(),
            limit: violation.limit.to_string(),
        });
        plan.limits = limits.collect();
        plan.problems = problems;
        plan
    }
}

fn signal(plan: &SignalPlan) -> EvictSignal {
    let SignalPlan { threshold, observed, met_for } = plan;
    let signal = threshold.signal;
    let level = match (&threshold.level, observed) {
        (_, Some(observed)) => Some(threshold.amount(observed)),
        (Level::Amount(amount), None) => Some(*amount),
        (Level::Share(_), None) => None,
    };
    EvictSignal {
        signal: signal.to_string(),
        threshold: level.map(|level| level.to_string()),
        available: observed.map(|observed| available(signal, &observed).to_string()),
        capacity: observed.map(|observed| capacity(signal, observed.capacity)),
        grace_period: (!threshold.is_hard()).then(|| milliseconds(threshold.grace)),
        met: plan.is_met(),
        met_for: met_for.map(|time| milliseconds(Duration::from_secs(time.as_secs()))),
    }
}

fn capacity(signal: Signal, number: i64) -> String {
    match Resource::of(signal) {
        Resource::Memory | Resource::EphemeralStorage => bytes(number).to_string(),
        Resource::Inodes | Resource::Pids => count(number).to_string(),
    }
}

fn ranking(ranking: &Ranking) -> EvictRanking {
    let resource = ranking.resource;
    let pod = |ranked: &Ranked| EvictPod {
        pod: ranked.name.to_string(),
        pod_uid: ranked.uid.to_string(),
        usage: ranked.usage.map(|usage| amount(resource, usage).to_string()),
        request: (resource != Resource::Pids).then(|| bytes(ranked.request).to_string()),
        priority: ranked.priority,
        exceeds_request: ranked.exceeds,
        critical: ranked.critical,
    };
    EvictRanking {
        resource: resource.to_string(),
        signals: ranking.signals.iter().map(ToString::to_string).collect(),
        pods: ranking.pods.iter().map(pod).collect(),
    }
}
