//! The sync loop: hears what is wanted and what happened, and tells the pods' workers.
//!
//! Work is done where something changed. Once a minute all pods are gone through, which repairs what
//! was missed and finds nothing otherwise; on a node where nothing stirs, every five minutes.

mod admit;
mod copies;
mod fresh_node;
mod guarded;
mod passes;
mod removals;
mod resize;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use model::ids::{ObjectId, PodName, PodUid};
use model::lifecycle::LifecycleEvent;
use model::panics::PanicGuard;
use model::ports::clock::WallClock;
use model::ports::events::{Events, PodEvent};
use model::ports::files::FileError;
use node::NodeHandle;
use pods::decide::mirror::StaticPods;
use pods::decide::pod_retries::PodRetries;
use pods::decide::worker::{Target, Update};
use pods::source::{SourceChange, Sources};
use pods::workers::{News, WorkersHandle};
use podspec::view;
use runtime::{PodDirectories, PodRuntime};
use status::manager::PodStatusManager;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, MissedTickBehavior, sleep_until};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::admission::Admission;
use crate::allocations::Allocations;
use crate::decide::ending::{Parted, kill, parted};
use crate::decide::housekeeping::{Pods, Step, Wanted, is_stranger, steps};
use crate::decide::news::{Answer, Came, Given, Known, answer, is_mended};
use crate::pulse::Pulse;
use crate::remains::Remains;
use crate::resize_metrics::Trigger;
use crate::resizes::Resizes;
use crate::runtime_state::Ready;
use crate::served_pods::ServedPods;
use crate::sync_metrics::SyncMetrics;
use admit::{Arrivals, Awaited};
use guarded::LoopStep;
use passes::Passes;
use pods::decide::intake::OutdatedCopies;
use removals::DirectoryRemovals;
use resize::Asking;

/// How often all pods are gone through without need, if anything stirred.
const HOUSEKEEPING: Duration = Duration::from_mins(1);

/// What the loop listens to and talks to.
#[derive(Debug)]
pub(crate) struct SyncLoopParts {
    /// The pods that are wanted.
    pub(crate) sources: Sources,
    /// Whether the runtime was listed.
    pub(crate) pleg: pleg::Health,
    /// Pods that changed in the runtime.
    pub(crate) lifecycle: pleg::Marks<LifecycleEvent>,
    /// The last known status of every pod.
    pub(crate) cache: pleg::cache::Reader,
    /// What became of pods.
    pub(crate) news: mpsc::UnboundedReceiver<News>,
    /// Where pods have their own files.
    pub(crate) directories: PodDirectories,
    /// The pods' workers.
    pub(crate) workers: WorkersHandle,
    /// Whom people hear from.
    pub(crate) events: Arc<dyn Events>,
    /// Publishes pods and their statuses.
    pub(crate) status: Arc<PodStatusManager>,
    /// Shows which manifests were refused.
    pub(crate) served: Arc<ServedPods>,
    /// Shows that the loop turns.
    pub(crate) pulse: Pulse,
    /// Which pods may run.
    pub(crate) admission: Admission,
    /// What the runtime can do.
    pub(crate) runtime: Ready,
    /// What is left of pods.
    pub(crate) remains: Remains,
    /// What pods were given.
    pub(crate) allocations: Allocations,
    /// Pods whose resources change, between here and their workers.
    pub(crate) resizes: Arc<Resizes>,
    /// Who knows what containers have; none where there are none.
    pub(crate) pod_runtime: Option<Arc<PodRuntime>>,
    /// The time of day.
    pub(crate) clock: Arc<dyn WallClock>,
    /// Who shows static pods to a cluster, where there is one.
    pub(crate) statics: Option<watch::Sender<StaticPods>>,
    /// The node as its cluster has it, where there is one.
    pub(crate) node: Option<NodeHandle>,
    /// What is counted.
    pub(crate) metrics: SyncMetrics,
    /// Catches panics in the work for single pods.
    pub(crate) panics: PanicGuard,
}

/// The loop's state; nobody else touches it.
#[derive(Debug)]
pub(crate) struct SyncLoop {
    parts: SyncLoopParts,
    /// Pods that cannot be run.
    refused: BTreeSet<PodUid>,
    /// Pods that are to be let in, and those that were.
    arrivals: Arrivals,
    /// Pods that ask for other resources than they were given.
    resizing: BTreeMap<PodUid, Asking>,
    /// Pods that have a worker.
    working: BTreeSet<PodUid>,
    /// Pods that went before it was known whether they run. Once it is, there are none.
    parted: BTreeMap<PodUid, Arc<Pod>>,
    /// Stored copies of manifests that are older than what runs.
    outdated: OutdatedCopies,
    /// Whether it is known what runs. Before that a pod could meet its earlier self.
    listed: bool,
    /// Whether directories of pods that went while no agent ran were looked for.
    swept: bool,
    /// When all pods are gone through.
    passes: Passes,
    /// Directories of pods that are gone.
    removals: DirectoryRemovals,
    /// Steps for single pods that panicked.
    retries: PodRetries<LoopStep>,
    /// From when their waits count.
    begun: Instant,
}

impl SyncLoop {
    pub(crate) fn new(parts: SyncLoopParts) -> Self {
        let (refused, working, parted) = (BTreeSet::new(), BTreeSet::new(), BTreeMap::new());
        let (arrivals, resizing) = (Arrivals::default(), BTreeMap::new());
        Self {
            parts,
            refused,
            arrivals,
            resizing,
            working,
            parted,
            outdated: OutdatedCopies::default(),
            listed: false,
            swept: false,
            passes: Passes::default(),
            removals: DirectoryRemovals::default(),
            retries: PodRetries::default(),
            begun: Instant::now(),
        }
    }

    /// Runs until told to stop, or until there is nobody left to hear from; not at all where it cannot be
    /// read what earlier agents gave to pods.
    pub(crate) async fn run(mut self, stop: CancellationToken) -> Result<(), FileError> {
        if stop.run_until_cancelled(self.load()).await.transpose()?.is_none() {
            return Ok(());
        }
        self.turn(&stop).await;
        self.removals.stop().await;
        self.parts.allocations.flush().await;
        Ok(())
    }

    async fn load(&mut self) -> Result<(), FileError> {
        self.parts.allocations.load().await?;
        match &self.parts.pod_runtime {
            Some(pod_runtime) => {
                pod_runtime.check_resolver_file().await;
                pod_runtime.load_sizes().await
            }
            None => Ok(()),
        }
    }

    async fn turn(&mut self, stop: &CancellationToken) {
        let first = Instant::now() + HOUSEKEEPING;
        let mut tick = tokio::time::interval_at(first, HOUSEKEEPING);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            self.parts.pulse.beat();
            let retry = self.retries.next().map(|at| self.begun + at);
            // Biased: stopping first; the first list comes once, the tick once a minute; steps that panicked come
            // after a wait; then what is wanted, which changes at the pace of people; then news, at most two
            // for each pod that ends, room that was made, once for each critical pod that needs some, and the node's object,
            // once for each pod that its labels are in the way of; directories that are removed, a few at a
            // time; resizes that are over or on record;
            // lifecycle events are merged by pod and so wait without growing.
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                () = self.parts.pleg.relisted(), if !self.listed => {
                    self.listed = true;
                    self.look_after_all(Trigger::PodsAdded).await;
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
                news = self.parts.news.recv() => match news {
                    Some(news) => self.heard(news).await,
                    None => return,
                },
                awaited = self.arrivals.awaited() => match awaited {
                    Awaited::Room(made) => self.room_made(made).await,
                    Awaited::Node(looked) => self.node_looked_at(looked).await,
                },
                event = self.removals.ended() => self.removal_ended(event).await,
                pods = self.parts.resizes.done() => self.resized(pods).await,
                written = self.parts.allocations.written() => self.allocations_written(written).await,
                events = self.parts.lifecycle.take() => self.happened(events).await,
            }
            self.passes.stir();
        }
    }

    async fn source_changed(&mut self, change: SourceChange) {
        self.parts.served.set_refusals(self.parts.sources.refusals());
        for refused in &change.refused {
            let reason = "FailedValidation".into();
            self.tell_invalid(&refused.pod, &refused.uid, reason, &refused.to_string());
        }
        // Before anything comes of it: nothing of a pod that came may go.
        self.tell_known();
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
        // Before what comes: a pod that comes back must not meet its own remains.
        self.tell_desired().await;
        for pod in changes.added {
            self.step(&view::uid(&pod), LoopStep::Came(pod, Came::Added)).await;
        }
        for pod in changes.updated.into_iter().chain(changes.deleted) {
            self.step(&view::uid(&pod), LoopStep::Came(pod, Came::Changed)).await;
        }
        self.look_after_all(trigger).await;
    }

    /// Tells whoever shows static pods to a cluster which there are. Of one that nobody has decided about
    /// yet, what is shown stays.
    fn tell_static(&self) {
        let Some(told) = &self.parts.statics else { return };
        let is_run = |uid: &PodUid| !self.refused.contains(uid);
        let is_held = |uid: &PodUid| self.outdated.held.contains(uid);
        let is_let_in =
            |uid: &PodUid| is_run(uid) && !self.arrivals.is_waiting(uid) && !is_held(uid);
        let wanted =
            self.parts.sources.pods().filter(|(uid, pod)| view::is_static(pod) && is_let_in(uid));
        let wanted: Vec<_> = wanted.map(|(_, pod)| Arc::clone(pod)).collect();
        self.parts.metrics.mirrors(wanted.len());
        let mut present = self.parts.status.reader().static_pods();
        present.retain(|uid, _| is_run(uid));
        let all_heard = self.parts.sources.all_ready();
        let now = StaticPods { wanted, present, all_heard };
        told.send_if_modified(|before| {
            let is_new = *before != now;
            *before = now;
            is_new
        });
    }

    /// Tells whoever looks after remains which pods there are.
    fn tell_known(&self) {
        let sources = &self.parts.sources;
        self.parts.remains.known(sources.pods(), &self.unread(), sources.all_ready());
    }

    /// Pods that are neither to be run nor unwanted.
    fn unread(&self) -> BTreeSet<PodUid> {
        let mut unread = self.parts.sources.unread();
        unread.extend(self.outdated.kept_running.iter().cloned());
        unread
    }

    async fn came(&mut self, pod: Arc<Pod>, came: Came) {
        let uid = view::uid(&pod);
        self.parted.remove(&uid);
        let working = self.working.contains(&uid);
        let refusal = if working {
            self.parts.admission.refusal(&pod)
        } else {
            self.parts.admission.unsupported(&pod)
        };
        let known = Known {
            given: Given::of(&pod),
            refused: self.refused.contains(&uid),
            working,
            supported: refusal.is_none(),
        };
        let answer = answer(came, known);
        if is_mended(known) {
            self.parts.status.forgotten(&uid);
        }
        if !matches!(answer, Answer::Refuse { .. }) {
            info!(pod = %view::pod_name(&pod), %uid, ?came, ?answer, "pod came");
            self.parts.status.desired(&pod);
        }
        // After what may panic: whether it was refused decides about the answer.
        if answer != Answer::StaysRefused {
            self.refused.remove(&uid);
            self.parts.remains.not_refused(&uid);
        }
        match answer {
            Answer::StaysRefused => {}
            Answer::Refuse { kill } => {
                self.arrivals.went(&uid);
                if let Some(rejection) = refusal {
                    self.reject(&pod, &rejection);
                }
                let pod = self.allocated(&pod);
                self.forget_resize(&uid);
                if kill {
                    let update =
                        Update::Kill { target: Target::Pod(pod), grace: None, evict: false };
                    self.parts.workers.ask(uid, update).await;
                }
            }
            // By looking after all pods, which follows.
            Answer::Admit => self.arrivals.came(uid),
            // Its directory must not go while it starts.
            Answer::StartOver if self.removals.puts_off(&uid) => {}
            Answer::StartOver => self.parts.workers.ask(uid, Update::Create(pod)).await,
            Answer::Update => {
                // What it asks for it may get when all that came are looked at.
                let pod = self.changed(&uid, &pod);
                self.parts.workers.ask(uid, Update::Update(pod)).await;
            }
        }
    }

    async fn removed(&mut self, pod: Arc<Pod>) {
        let uid = view::uid(&pod);
        info!(pod = %view::pod_name(&pod), %uid, "pod removed");
        self.refused.remove(&uid);
        self.arrivals.went(&uid);
        // As it was given resources: its class tells where its cgroup is.
        let status = self.parts.cache.get(&uid).ok();
        let sizes = self.sizes().await;
        let pod = self.parts.allocations.last_known(&pod, status.as_deref(), &sizes);
        let all_found = self.listed && self.parts.sources.all_ready();
        match parted(self.working.contains(&uid), all_found) {
            Parted::Works => {
                self.parts.status.terminating(&pod);
                // After what may panic: it is still needed if the step is repeated.
                self.forget_resize(&uid);
                let update = Update::Kill { target: Target::Pod(pod), grace: None, evict: false };
                self.parts.workers.ask(uid, update).await;
            }
            Parted::MayRun => {
                self.parts.status.forgotten(&uid);
                self.forget_resize(&uid);
                self.parted.insert(uid, pod);
            }
            Parted::Never => {
                self.parts.status.forgotten(&uid);
                self.forget_resize(&uid);
            }
        }
    }

    fn tell_refused(&self, name: &PodName, uid: &PodUid, reason: Cow<'static, str>, message: &str) {
        let event = PodEvent::warning(uid.clone(), name.clone(), reason, message.to_owned());
        self.parts.events.record(event);
    }

    fn is_wanted(&self, uid: &PodUid) -> bool {
        self.parts.sources.get(uid).is_some() && !self.refused.contains(uid)
    }

    async fn heard(&mut self, news: News) {
        match news {
            News::Finished(uid) => {
                self.step(&uid, LoopStep::Finished).await;
                self.tell_desired().await;
                self.retry_resizes(Trigger::PodTerminated).await;
            }
            News::Forgotten(uid) => {
                self.step(&uid, LoopStep::Forgotten).await;
                if self.parts.sources.get(&uid).is_some() {
                    self.look_after_all(Trigger::PodsAdded).await;
                } else {
                    self.tell_static();
                }
            }
        }
    }

    async fn forgotten(&mut self, uid: PodUid) {
        self.working.remove(&uid);
        self.forget_resize(&uid);
        self.parts.remains.forgotten(&uid);
        // What was told of it holds no more, also if it starts over.
        self.parts.status.forgotten(&uid);
        // As if it had come anew: why it was refused must not get lost over its end.
        if let Some(pod) = self.parts.sources.get(&uid).cloned() {
            let is_static = view::is_static(&pod);
            self.came(pod, Came::Added).await;
            if self.is_wanted(&uid) {
                self.parts.metrics.restarted(is_static);
            }
            return;
        }
        self.removals.request(uid.clone());
        self.remove_directories();
        self.parts.remains.ended(&uid);
        // Something of it may have appeared after it was seen to have ended.
        self.end_if_stranger(uid).await;
    }

    /// Lets the workers forget what has finished and is not wanted any more.
    async fn tell_desired(&self) {
        let told = self.parts.sources.pods().map(|(uid, _)| uid.clone());
        let desired = told.filter(|uid| !self.refused.contains(uid)).collect();
        self.parts.workers.desired(desired).await;
    }

    async fn happened(&mut self, events: BTreeMap<PodUid, Vec<LifecycleEvent>>) {
        for (uid, events) in events {
            self.step(&uid, LoopStep::Happened(events)).await;
        }
        // Of a pod that is kept instead of a stored copy, the last container may have ended.
        if !self.arrivals.waiting.is_empty() || !self.outdated.held.is_empty() {
            self.look_after_all(Trigger::PodsAdded).await;
        }
    }

    async fn happened_to(&mut self, uid: PodUid, events: Vec<LifecycleEvent>) {
        self.parts.remains.happened(&uid, &self.parts.cache.get(&uid), &events);
        for died in events.iter().filter_map(LifecycleEvent::died) {
            if let (ObjectId::Container(id), Some(pods)) = (died, &self.parts.pod_runtime) {
                pods.container_died(id);
            }
        }
        // What showed that it had ended may have been the remains of an earlier life, gone by now.
        if self.arrivals.was_over(&uid) && self.parts.cache.live(&uid).is_some() {
            self.arrivals.came(uid.clone());
        }
        if !self.is_wanted(&uid) {
            self.end_if_stranger(uid).await;
        } else if events.iter().any(LifecycleEvent::wants_sync) {
            self.parts.workers.ask(uid, Update::Sync).await;
        }
    }

    async fn end_if_stranger(&mut self, uid: PodUid) {
        let is_known = self.is_wanted(&uid) || self.parts.sources.is_unread(&uid);
        let stays = is_known || self.is_spared(&uid);
        let working = self.working.contains(&uid);
        if is_stranger(stays, working, self.parts.sources.all_ready())
            && let Some(name) = self.parts.cache.live(&uid)
        {
            self.end(uid, name).await;
        }
    }

    /// Repairs what was missed, if anything was.
    async fn housekeeping(&mut self) {
        if self.passes.begin(self.parts.cache.version()) {
            self.go_through_all().await;
        } else {
            self.retry_resizes(Trigger::Periodic).await;
        }
        self.parts.remains.housekeeping();
        self.retry_removals();
        if self.listed && self.parts.sources.all_ready() && !self.swept {
            self.swept = true;
            self.sweep_directories().await;
        }
        self.parts.allocations.tidy();
    }

    async fn go_through_all(&mut self) {
        self.tell_desired().await;
        let (sources, working) = (&self.parts.sources, &self.working);
        self.parts.status.retain(|uid| sources.get(uid).is_some() || working.contains(uid));
        self.look_after_all(Trigger::Periodic).await;
    }

    /// Gives a worker to each pod that has none and needs one, once it is known what runs.
    async fn look_after_all(&mut self, trigger: Trigger) {
        if self.listed {
            self.look_after_all_listed(trigger).await;
        }
        self.tell_static();
    }

    async fn look_after_all_listed(&mut self, trigger: Trigger) {
        self.admit_waiting().await;
        if !self.all_are_looked_after() {
            self.look_after_the_others().await;
        }
        // Once all sources were heard, who has no worker is gone.
        if self.parts.sources.all_ready() {
            self.parted.clear();
            self.parts.status.sources_complete();
            self.parts.remains.all_looked_after();
        }
        self.retry_resizes(trigger).await;
        let desired = self.parts.sources.pods().map(|(_, pod)| view::is_static(pod));
        let active = self.active().map(|(_, pod)| view::is_static(pod));
        self.parts.metrics.count(desired, active);
        let pods = self.parts.sources.pods().filter_map(|(_, pod)| view::spec(pod));
        let ephemeral = pods.filter_map(|spec| spec.ephemeral_containers.as_ref());
        self.parts.metrics.ephemeral(ephemeral.map(Vec::len).sum());
    }

    async fn look_after_the_others(&mut self) {
        self.passes.stir();
        let are_copies_other = self.compare_copies();
        let live = self.parts.cache.all_live();
        let is_run =
            |uid: &PodUid| !self.refused.contains(uid) && !self.outdated.held.contains(uid);
        let runnable = self.parts.sources.pods().filter(|(uid, _)| is_run(uid));
        let wanted = runnable.map(|(uid, pod)| {
            let (name, is_static) = (view::pod_name(pod), view::is_static(pod));
            (uid.clone(), Wanted { name, is_static })
        });
        let all = steps(&Pods {
            wanted: wanted.collect(),
            working: &self.working,
            live: &live,
            unread: self.unread(),
            all_heard: self.parts.sources.all_ready(),
        });
        for step in all {
            let uid = match &step {
                Step::End(uid, _) | Step::Create(uid) => uid.clone(),
            };
            // One that waits after a panic is looked after when that is over.
            if !self.retries.waits(&uid) {
                self.step(&uid, LoopStep::LookAfter(step)).await;
            }
        }
        // After that: a pod that is kept no longer has a worker by now, and nothing else ends it.
        if are_copies_other {
            self.tell_known();
        }
    }

    async fn look_after_one(&mut self, step: Step) {
        match step {
            Step::End(uid, name) => self.end(uid, name).await,
            Step::Create(uid) if self.arrivals.is_held(&uid) => {}
            Step::Create(uid) if self.removals.is_running(&uid) => {}
            Step::Create(uid) => {
                let Some(pod) = self.parts.sources.get(&uid) else { return };
                let pod = self.allocated(pod);
                self.work_on(&uid);
                self.parts.workers.ask(uid, Update::Create(pod)).await;
            }
        }
    }

    pub(super) fn work_on(&mut self, uid: &PodUid) {
        self.working.insert(uid.clone());
        // Before the worker is asked: until it begins, nobody else would know.
        self.parts.remains.worked_on(uid);
    }

    /// Whether every pod that is wanted or lives has a worker: mostly so, which is why it is asked
    /// before anything is compared at length.
    fn all_are_looked_after(&self) -> bool {
        let mut told = self.parts.sources.pods().map(|(uid, _)| uid);
        told.all(|uid| self.working.contains(uid) || self.refused.contains(uid))
            && self.parts.cache.all_live_are_in(&self.working)
    }

    /// Ends a pod of the runtime that no source wants.
    async fn end(&mut self, uid: PodUid, name: PodName) {
        warn!(pod = %name, %uid, "a pod runs that nobody wants; stopping it");
        if let Some(pod) = self.parted.get(&uid) {
            self.parts.status.terminating(pod);
        }
        self.parts.metrics.orphaned();
        // After what may panic: one that is worked on is not found again.
        self.work_on(&uid);
        let known = self.parted.remove(&uid);
        self.parts.workers.ask(uid, kill(known, name)).await;
    }
}

#[cfg(test)]
#[path = "sync_loop_tests.rs"]
mod tests;
