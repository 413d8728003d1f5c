//! The sync loop: feeds events of the sources, the runtime and the workers into the pod intake, and executes the
//! commands that follow.
//!
//! Syncs are triggered by changes. Housekeeping compares all pods once a minute and repairs what was
//! missed. Without any event it runs every five minutes.

mod admit;
mod commands;
mod copies;
mod guarded;
mod node_refresh;
mod removals;
mod resize;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use allocation::{AllocationManager, Trigger};
use k8s_openapi::api::core::v1::Pod;
use logs::LogRotation;
use model::ids::{ObjectId, PodName, PodUid};
use model::lifecycle::LifecycleEvent;
use model::panics::PanicGuard;
use model::ports::events::{Events, PodEvent};
use model::ports::files::FileError;
use model::ports::incidents::IncidentRecord;
use model::pressure::Pressure;
use node::NodeHandle;
use pods::decide::intake::{Intake, IntakeCommand, IntakeEvent, Passes};
use pods::decide::mirror::StaticPods;
use pods::decide::pod_retries::PodRetries;
use pods::source::{SourceChange, Sources};
use pods::workers::{WorkerEvent, WorkersHandle};
use podspec::view;
use probes::ProbeManager;
use runtime::{PodDirectories, PodRuntime};
use status::manager::PodStatusManager;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, MissedTickBehavior, sleep_until};
use tokio_util::sync::CancellationToken;
use volumes::VolumeManager;

use crate::decide::incidents::oom_kill;
use crate::gc_notifier::GcNotifier;
use crate::pulse::Pulse;
use crate::runtime_state::Ready;
use crate::served_pods::ServedPods;
use crate::sync_metrics::SyncMetrics;
use admit::Preemptions;
use guarded::LoopStep;
use node_refresh::NodeRefresh;
use removals::DirectoryRemovals;

/// The period of housekeeping.
const HOUSEKEEPING: Duration = Duration::from_mins(1);

/// The inputs and outputs of the loop.
#[derive(Debug)]
pub(crate) struct SyncLoopParts {
    /// The desired pods.
    pub(crate) sources: Sources,
    /// Whether the runtime was listed.
    pub(crate) pleg: pleg::Health,
    /// Pods that changed in the runtime.
    pub(crate) lifecycle: pleg::DirtySet<LifecycleEvent>,
    /// The last known status of every pod.
    pub(crate) cache: pleg::cache::Reader,
    /// Events of the workers.
    pub(crate) worker_events: mpsc::UnboundedReceiver<WorkerEvent>,
    /// The directories of pods.
    pub(crate) directories: PodDirectories,
    /// Unmounts the volumes of pods that are gone.
    pub(crate) volumes: VolumeManager,
    /// Probes containers.
    pub(crate) probes: ProbeManager,
    /// The pods' workers.
    pub(crate) workers: WorkersHandle,
    /// Records events.
    pub(crate) events: Arc<dyn Events>,
    /// Records OOM kills and rejections.
    pub(crate) incidents: Arc<dyn IncidentRecord>,
    /// Publishes pods and their statuses.
    pub(crate) status: Arc<PodStatusManager>,
    /// Shows which manifests were refused.
    pub(crate) served: Arc<ServedPods>,
    /// Shows that the loop turns.
    pub(crate) pulse: Pulse,
    /// What the runtime can do.
    pub(crate) runtime: Ready,
    /// Garbage collection, with the index of pods.
    pub(crate) gc: GcNotifier,
    /// Rotates the logs of containers; `None` in some tests.
    pub(crate) logs: Option<LogRotation>,
    /// Admits pods, and grants resizes.
    pub(crate) allocation: AllocationManager,
    /// Stores the sizes of containers; `None` in some tests.
    pub(crate) pod_runtime: Option<Arc<PodRuntime>>,
    /// Creates mirror pods in a cluster, if there is one.
    pub(crate) statics: Option<watch::Sender<StaticPods>>,
    /// The Node object in a cluster, if there is one.
    pub(crate) node: Option<NodeHandle>,
    /// The resources that the node is short of; none if it evicts no pods.
    pub(crate) pressure: Option<watch::Receiver<Pressure>>,
    /// Counts pods.
    pub(crate) metrics: SyncMetrics,
    /// Catches panics in the work for single pods.
    pub(crate) panics: PanicGuard,
}

/// The loop and its state.
#[derive(Debug)]
pub(crate) struct SyncLoop {
    parts: SyncLoopParts,
    /// The state of every pod.
    intake: Intake,
    /// Waits for victims of critical pods.
    preemptions: Preemptions,
    /// Requests for the Node object.
    node_refresh: NodeRefresh,
    /// Whether the directories of pods that were removed while no agent ran were listed.
    swept: bool,
    /// When housekeeping compares all pods.
    passes: Passes,
    /// Directories of pods that are gone.
    removals: DirectoryRemovals,
    /// Steps for single pods that panicked.
    retries: PodRetries<LoopStep>,
    /// The time from which their waits count.
    begun: Instant,
}

impl SyncLoop {
    pub(crate) fn new(parts: SyncLoopParts) -> Self {
        Self {
            parts,
            intake: Intake::default(),
            preemptions: Preemptions::default(),
            node_refresh: NodeRefresh::default(),
            swept: false,
            passes: Passes::default(),
            removals: DirectoryRemovals::default(),
            retries: PodRetries::default(),
            begun: Instant::now(),
        }
    }

    /// Runs until it is stopped or an input ends. A checkpoint that cannot be read is an error.
    pub(crate) async fn run(mut self, stop: CancellationToken) -> Result<(), FileError> {
        if stop.run_until_cancelled(self.load()).await.transpose()?.is_none() {
            return Ok(());
        }
        self.run_loop(&stop).await;
        self.removals.stop().await;
        self.parts.allocation.flush().await;
        Ok(())
    }

    async fn load(&mut self) -> Result<(), FileError> {
        self.parts.status.load().await?;
        self.parts.probes.load().await;
        self.parts.allocation.load().await?;
        match &self.parts.pod_runtime {
            Some(pod_runtime) => {
                pod_runtime.check_resolver_file().await;
                pod_runtime.load_sizes().await
            }
            None => Ok(()),
        }
    }

    async fn run_loop(&mut self, stop: &CancellationToken) {
        let first = Instant::now() + HOUSEKEEPING;
        let mut tick = tokio::time::interval_at(first, HOUSEKEEPING);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            self.parts.pulse.beat();
            let retry = self.retries.next().map(|at| self.begun + at);
            let is_relisted = self.intake.is_relisted();
            // Biased: stopping first; the first list comes once, the tick once a minute; steps that panicked come
            // after a wait; sources change rarely; workers send two events for each pod that ends;
            // victims end once for each critical pod, and the Node object is fetched once for each pod that its
            // labels are in the way of; few directories are removed at a time; lifecycle events are merged by pod
            // and so wait without growing.
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                () = self.parts.pleg.relisted(), if !is_relisted => {
                    self.feed(IntakeEvent::Relisted).await;
                    self.reconcile_all(Trigger::PodsAdded).await;
                }
                _ = tick.tick() => {
                    self.housekeeping().await;
                    continue;
                }
                () = sleep_until(retry.unwrap_or(self.begun)), if retry.is_some() => self.retry_steps().await,
                change = self.parts.sources.changed() => match change {
                    Some(change) => self.source_changed(change).await,
                    None => return,
                },
                event = self.parts.worker_events.recv() => match event {
                    Some(event) => self.worker_event(event).await,
                    None => return,
                },
                made = self.preemptions.next_result() => self.finish_preemption(made).await,
                pods = self.node_refresh.ended() => self.node_refreshed(pods).await,
                event = self.removals.ended() => self.removal_ended(event).await,
                event = self.parts.allocation.event() => self.allocation_event(event).await,
                events = self.parts.lifecycle.take() => self.lifecycle_events(events).await,
            }
            self.passes.mark_active();
        }
    }

    async fn source_changed(&mut self, change: SourceChange) {
        self.parts.served.set_refusals(self.parts.sources.refusals());
        for refused in &change.refused {
            let reason = "FailedValidation".into();
            self.report_invalid(&refused.pod, &refused.uid, reason, &refused.to_string());
        }
        // Before any decision that depends on it: garbage collection must not remove anything of a listed pod.
        let (sources, all_ready) = (&self.parts.sources, self.parts.sources.all_ready());
        let pods = sources.pods().map(|(uid, pod)| (uid.clone(), Arc::clone(pod))).collect();
        let undecodable = sources.unread();
        self.feed(IntakeEvent::Sources { pods, undecodable, all_ready }).await;
        self.parts.gc.sources_ready(all_ready);
        let changes = change.changes;
        let trigger = if !changes.removed.is_empty() {
            Trigger::PodsRemoved
        } else if changes.updated.is_empty() {
            Trigger::PodsAdded
        } else {
            Trigger::PodUpdated
        };
        for pod in changes.removed {
            self.step(&view::uid(&pod), LoopStep::Removed(pod)).await;
        }
        // Before pods are added: the worker of a pod that comes back is dropped first if it has finished.
        self.send_desired().await;
        for pod in changes.added.iter().chain(&changes.updated).chain(&changes.deleted) {
            self.step(&view::uid(pod), LoopStep::Changed).await;
        }
        self.reconcile_all(trigger).await;
    }

    fn pod_changed(&mut self, uid: PodUid) -> Vec<IntakeCommand> {
        let checks = self.checks(&uid);
        self.decide(IntakeEvent::PodChanged { uid, checks })
    }

    async fn pod_removed(&mut self, uid: PodUid, pod: &Arc<Pod>) -> Vec<IntakeCommand> {
        // With its allocated resources: its QoS class determines the cgroup.
        let status = self.parts.cache.get(&uid).ok();
        let sizes = self.sizes().await;
        let pod = self.parts.allocation.last_known(pod, status.as_deref(), &sizes);
        self.decide(IntakeEvent::PodRemoved { uid, pod })
    }

    fn record_warning(
        &self,
        name: &PodName,
        uid: &PodUid,
        reason: Cow<'static, str>,
        message: &str,
    ) {
        let event = PodEvent::warning(uid.clone(), name.clone(), reason, message.to_owned());
        self.parts.events.record(event);
    }

    async fn worker_event(&mut self, event: WorkerEvent) {
        match event {
            WorkerEvent::Finished(uid) => {
                self.step(&uid, LoopStep::WorkerFinished).await;
                self.send_desired().await;
                self.retry_resizes(Trigger::PodTerminated).await;
            }
            WorkerEvent::Forgotten(uid) => {
                self.step(&uid, LoopStep::WorkerForgotten).await;
                if self.intake.pod(&uid).is_some() {
                    self.reconcile_all(Trigger::PodsAdded).await;
                } else {
                    self.publish_static_pods();
                }
            }
        }
    }

    fn worker_forgotten(&mut self, uid: &PodUid) -> Vec<IntakeCommand> {
        let checks = self.checks(uid);
        let commands = self.decide(IntakeEvent::WorkerForgotten { uid: uid.clone(), checks });
        if let Some(pod) = self.intake.pod(uid).filter(|_| self.intake.is_desired(uid)) {
            self.parts.metrics.restarted(view::is_static(pod));
        }
        commands
    }

    /// Sends the desired pods to the workers: those that have finished and are not among them are dropped.
    async fn send_desired(&self) {
        self.parts.workers.desired(self.intake.desired()).await;
    }

    async fn lifecycle_events(&mut self, events: BTreeMap<PodUid, Vec<LifecycleEvent>>) {
        for (uid, events) in events {
            self.step(&uid, LoopStep::RuntimeChanged(events)).await;
        }
        // Some pods keep running because the stored copy of their manifest is older. The last
        // container of one may have ended.
        if !self.intake.awaiting_admission().is_empty() || !self.intake.outdated().held.is_empty() {
            self.reconcile_all(Trigger::PodsAdded).await;
        }
    }

    fn runtime_changed(&mut self, uid: PodUid, events: &[LifecycleEvent]) -> Vec<IntakeCommand> {
        let status = self.parts.cache.get(&uid);
        self.parts.gc.changed(&uid, &status, events);
        if let (Some(logs), Ok(status)) = (&self.parts.logs, &status) {
            logs.observe(status);
        }
        for died in events.iter().filter_map(LifecycleEvent::died) {
            if let (ObjectId::Container(id), Some(pods)) = (died, &self.parts.pod_runtime) {
                pods.container_died(id);
            }
            self.record_oom_kill(&uid, died);
        }
        let needs_sync = events.iter().any(LifecycleEvent::needs_sync);
        self.decide(IntakeEvent::RuntimeChanged { uid, needs_sync })
    }

    /// Records that the kernel killed a container, if it did.
    fn record_oom_kill(&self, uid: &PodUid, died: &ObjectId) {
        let ObjectId::Container(id) = died else { return };
        let Ok(status) = self.parts.cache.get(uid) else { return };
        let Some(instance) = status.containers.iter().find(|one| one.id == *id) else { return };
        let observed = || status.sandboxes.first().map(|sandbox| sandbox.pod.clone());
        let Some(name) = self.known_name(uid).or_else(observed) else { return };
        let pod = self.intake.pod(uid).map(|pod| &**pod);
        if let Some(incident) = oom_kill(&name, uid, pod, instance) {
            self.parts.incidents.record_incident(incident);
        }
    }

    /// Repairs missed changes, if there were any.
    async fn housekeeping(&mut self) {
        if self.passes.begin(self.parts.cache.version()) {
            self.send_desired().await;
            let intake = &self.intake;
            self.parts.status.retain(|uid| intake.pod(uid).is_some() || intake.has_worker(uid));
            if intake.is_started() {
                self.parts.probes.retain(|uid| intake.has_worker(uid));
            }
            self.reconcile_all(Trigger::Periodic).await;
        } else {
            self.retry_resizes(Trigger::Periodic).await;
        }
        self.parts.gc.housekeeping();
        self.retry_removals();
        if self.intake.is_started() && !self.swept {
            self.swept = true;
            self.sweep_directories().await;
        }
        self.parts.allocation.tidy();
    }

    /// Admits pods and compares all of them with the runtime, once that was listed.
    async fn reconcile_all(&mut self, trigger: Trigger) {
        if self.intake.is_relisted() {
            self.admit_waiting().await;
            if !self.intake.is_settled(&self.parts.cache.all_live()) {
                self.passes.mark_active();
                let before = self.intake.outdated().clone();
                let commands = self.decide(IntakeEvent::Reconcile);
                self.log_copies(&before);
                self.execute_all(commands).await;
            }
            if self.intake.is_started() {
                self.parts.status.sources_complete();
                self.parts.gc.complete();
            }
            self.retry_resizes(trigger).await;
            self.count_pods();
        }
        self.publish_static_pods();
    }

    fn count_pods(&self) {
        let desired = self.parts.sources.pods().map(|(_, pod)| view::is_static(pod));
        let active = self.active().map(|(_, pod)| view::is_static(pod));
        self.parts.metrics.count(desired, active);
        let pods = self.parts.sources.pods().filter_map(|(_, pod)| view::spec(pod));
        let ephemeral = pods.filter_map(|spec| spec.ephemeral_containers.as_ref());
        self.parts.metrics.ephemeral(ephemeral.map(Vec::len).sum());
    }

    /// Publishes the static pods that get mirror pods.
    fn publish_static_pods(&self) {
        let Some(statics) = &self.parts.statics else { return };
        let wanted: Vec<_> = self.intake.mirrored().cloned().collect();
        self.parts.metrics.mirrors(wanted.len());
        let mut present = self.parts.status.reader().static_pods();
        present.retain(|uid, _| !self.intake.is_rejected(uid));
        let all_sources_ready = self.parts.sources.all_ready();
        let now = StaticPods { wanted, present, all_sources_ready };
        statics.send_if_modified(|before| {
            let is_new = *before != now;
            *before = now;
            is_new
        });
    }
}

#[cfg(test)]
#[path = "sync_loop_tests.rs"]
mod tests;
