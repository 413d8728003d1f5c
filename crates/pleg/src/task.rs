//! The relist task: lists the runtime and reports changes.
//!
//! The task never waits for a single pod. Lists and inspections are futures that the loop polls
//! concurrently. While one of a pod is in progress the pod is *busy*, and a change found meanwhile leads
//! to another relist of it. A hung inspection delays its own pod only.

mod event;
mod panics;
mod stream;

use std::collections::{BTreeMap, BTreeSet};
use std::mem::take;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use model::fingerprint::Fingerprint;
use model::ids::{ObjectId, PodUid};
use model::in_flight::InFlight;
use model::lifecycle::LifecycleEvent;
use model::log_throttle::LogThrottle;
use model::observed::RuntimePod;
use model::panics::{CaughtPanic, PanicGuard};
use model::ports::clock::WallClock;
use model::ports::runtime::{ContainerEventKind, Runtime, RuntimeError};
use model::ports::termination_message::TerminationMessageReader;
use model::seq::{Seq, SeqCounter};
use tokio::sync::{Semaphore, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use crate::cache::{Observation, Reader, Writer, cache};
use crate::decide::{PodRecord, StreamTrust, diff, relist_period};
use crate::dirty_set::DirtySet;
use crate::health::Health;
use crate::hints::{Hint, Hints};
use crate::inspect::{self, PreviousStatus};
use crate::metrics::{Counts, Metrics};
use crate::records::{Busy, Record, Records};

/// The longest wait before a failed status read is retried.
const LONGEST_RETRY: Duration = Duration::from_secs(8);

/// Periods and deadlines.
#[derive(Debug, Clone)]
pub struct Settings {
    /// From the end of a relist to the start of the next.
    pub relist_period: Duration,
    /// Like `relist_period`, while the runtime's event stream reports changes: then a relist only finds lost events.
    pub relist_period_with_hints: Duration,
    /// Whether to use the runtime's event stream.
    pub hints: bool,
    /// The largest age of the last relist of a healthy agent.
    pub relist_threshold: Duration,
    /// How long listing one pod may take, and how long reading its status.
    pub inspection_deadline: Duration,
    /// How many pods are inspected at the same time.
    pub parallel_inspections: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            relist_period: Duration::from_secs(1),
            relist_period_with_hints: Duration::from_mins(1),
            hints: true,
            relist_threshold: Duration::from_mins(3),
            inspection_deadline: Duration::from_secs(10),
            parallel_inspections: 16,
        }
    }
}

/// The relist task and the handles to it.
#[derive(Debug)]
pub struct Pleg {
    /// To be run until the agent stops.
    pub task: Relist,
    /// The last known status of every pod.
    pub cache: Reader,
    /// Pods with lifecycle events, for the sync loop.
    pub events: DirtySet<LifecycleEvent>,
    /// Pods to relist now; with an item, their statuses are read again even if the list is unchanged.
    pub requests: DirtySet<()>,
    /// Pods that a worker acts on now; it inspects them afterwards.
    pub in_flight: InFlight,
    /// Whether the runtime is still being listed.
    pub health: Health,
}

/// The dependencies of the relist task.
#[derive(Debug)]
pub struct PlegParts {
    /// The runtime to list.
    pub runtime: Runtime,
    /// Reads termination messages of ended containers.
    pub termination_messages: Arc<dyn TerminationMessageReader>,
    /// Orders lists and actions.
    pub seq: SeqCounter,
    /// The time of day, for metrics.
    pub clock: Arc<dyn WallClock>,
    /// The metrics.
    pub metrics: Metrics,
    /// Catches panics in the work for single pods.
    pub panics: PanicGuard,
}

/// Makes the relist task of a runtime.
pub fn pleg(parts: PlegParts, settings: Settings) -> Pleg {
    let PlegParts { runtime, termination_messages, seq, clock, metrics, panics } = parts;
    let (writer, reader) = cache();
    let (relisted, receiver) = watch::channel(None);
    let events = DirtySet::default();
    let requests = DirtySet::default();
    let in_flight = InFlight::default();
    let health = Health { relisted: receiver, threshold: settings.relist_threshold };
    let task = Relist {
        permits: Arc::new(Semaphore::new(settings.parallel_inspections)),
        retry_permits: Arc::new(Semaphore::new(settings.parallel_inspections.div_ceil(4))),
        hints: Hints::new(Arc::clone(&runtime.info), settings.hints),
        clock,
        metrics,
        panics,
        runtime,
        termination_messages,
        seq,
        settings,
        writer,
        events: events.clone(),
        requests: requests.clone(),
        in_flight: in_flight.clone(),
        relisted,
        records: Records::default(),
        stale: BTreeSet::new(),
        pending_events: BTreeMap::new(),
        busy: BTreeMap::new(),
        work: FuturesUnordered::new(),
        next: Some(Instant::now()),
        in_full: false,
        stream: StreamTrust::default(),
        has_baseline: false,
        opened: Instant::now(),
        list_again: false,
        began: Instant::now(),
        throttle: LogThrottle::default(),
    };
    Pleg { task, cache: reader, events, requests, in_flight, health }
}

/// The state of the relist task.
pub struct Relist {
    runtime: Runtime,
    termination_messages: Arc<dyn TerminationMessageReader>,
    seq: SeqCounter,
    settings: Settings,
    writer: Writer,
    /// Written here, taken by the sync loop.
    events: DirtySet<LifecycleEvent>,
    /// Written by consumers that need a pod relisted, taken here.
    requests: DirtySet<()>,
    /// Pods that a worker acts on; the workers write it.
    in_flight: InFlight,
    /// When the last successful relist began; closed when the task ends.
    relisted: watch::Sender<Option<Instant>>,
    /// Bounds the parallel inspections.
    permits: Arc<Semaphore>,
    /// Like `permits`, for pods whose last status read failed, so that they do not delay the others.
    retry_permits: Arc<Semaphore>,
    hints: Hints,
    clock: Arc<dyn WallClock>,
    metrics: Metrics,
    panics: PanicGuard,
    records: Records,
    /// Pods with a change that a list does not show: their statuses must be read again.
    stale: BTreeSet<PodUid>,
    /// The last event of each container and sandbox that waits for a relist.
    pending_events: BTreeMap<PodUid, BTreeMap<ObjectId, ContainerEventKind>>,
    /// Pods with a list or an inspection in progress.
    busy: BTreeMap<PodUid, Busy>,
    work: FuturesUnordered<BoxFuture<'static, Done>>,
    /// When the next relist begins; `None` while one is in progress.
    next: Option<Instant>,
    /// Whether the next relist compares every pod, even if the fingerprint is unchanged.
    in_full: bool,
    /// Whether the open event stream reports changes.
    stream: StreamTrust,
    /// Whether a list that began after the stream was opened has ended: changes found until then may be older than
    /// the stream.
    has_baseline: bool,
    /// When the stream was last opened.
    opened: Instant,
    /// Whether an event arrived during the list in progress, which may not show it.
    list_again: bool,
    /// When the task was created: the times of `stream` count from here.
    began: Instant,
    /// With listing the runtime.
    throttle: LogThrottle,
}

impl std::fmt::Debug for Relist {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Relist").field("records", &self.records.len()).finish_non_exhaustive()
    }
}

/// A list or inspection that ended.
enum Done {
    Listed {
        began: Instant,
        at: Seq,
        /// The fingerprint of the records when it began.
        known: Option<Fingerprint>,
        /// `None` when the runtime's fingerprint equals `known`.
        pods: Result<Option<BTreeMap<PodUid, RuntimePod>>, RuntimeError>,
    },
    PodListed {
        uid: PodUid,
        began: Instant,
        at: Seq,
        pod: Result<Option<RuntimePod>, RuntimeError>,
    },
    Inspected(Inspected),
    /// It panicked.
    Panicked {
        uid: PodUid,
        at: Seq,
        panic: CaughtPanic,
    },
    /// The wait after a failed single-pod relist is over.
    RelistPodAgain(PodUid),
    /// Pending events of a pod are due.
    Due(PodUid),
    /// The event of a change that a relist found should have arrived.
    StreamCheck,
}

/// The result of a full list.
enum Listed {
    Pods(BTreeMap<PodUid, RuntimePod>),
    /// It equals the records.
    AsKnown,
    /// It equals the records as they were when it began.
    Outdated,
}

/// How a list differs from the record of a pod.
struct Difference {
    at: Seq,
    seen: PodRecord,
    events: Vec<LifecycleEvent>,
}

/// An inspection that ended, and the list that led to it.
struct Inspected {
    uid: PodUid,
    at: Seq,
    seen: PodRecord,
    counts: Counts,
    events: Vec<LifecycleEvent>,
    observation: Observation,
}

impl Relist {
    /// Runs until it is cancelled.
    pub async fn run(mut self, stop: CancellationToken) {
        loop {
            let next = self.next;
            // Biased: cancellation first; then finished work, which is bounded by the started work; the
            // timer before requests and hints, because a relist answers all earlier ones; requests,
            // which are merged by pod, before hints, which arrive one by one.
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                Some(done) = self.work.next() => self.finish(done),
                () = tokio::time::sleep_until(next.unwrap_or_else(Instant::now)), if next.is_some() => {
                    self.start_relist();
                }
                requests = self.requests.take() => {
                    for (uid, items) in requests {
                        if !items.is_empty() {
                            self.stale.insert(uid.clone());
                        }
                        self.relist_pod(uid);
                    }
                }
                hint = self.hints.next() => self.hinted(hint),
            }
        }
    }

    fn hinted(&mut self, hint: Hint) {
        match hint {
            Hint::Event(event) => {
                self.stream = self.stream.event();
                let uid = event.pod_uid.clone();
                self.event_guarded(&uid, |relist| relist.on_event(event));
            }
            Hint::Opened(took) => {
                debug!("Event stream of the runtime opened, relisting less often");
                self.metrics.opened(took);
                (self.has_baseline, self.opened) = (false, Instant::now());
                // Changes before the stream was open had no event.
                self.next = self.next.map(|_| Instant::now());
            }
            Hint::Broken(error) => {
                let why = error.map_or_else(|| "it ended".to_owned(), |error| error.to_string());
                debug!(why, "Event stream of the runtime ended, relisting every period");
                self.metrics.broken();
                self.relist_within(self.settings.relist_period);
            }
        }
    }

    fn start_relist(&mut self) {
        self.next = None;
        let runtime = self.runtime.clone();
        // Taken before the first call: a change during the listing may or may not be in it.
        let (at, began) = (self.seq.next(), Instant::now());
        // The record of a busy pod is older than the list; the list does not show the change of a stale pod.
        let in_full = take(&mut self.in_full) || !self.busy.is_empty() || !self.stale.is_empty();
        let known = if in_full { None } else { self.records.fingerprint() };
        self.work.push(Box::pin(async move {
            let pods = inspect::list(&runtime, known.as_ref()).await;
            Done::Listed { began, at, known, pods }
        }));
    }

    /// Brings the next relist forward, unless it begins before that anyway.
    fn relist_within(&mut self, wait: Duration) {
        // A list in progress may not show the change.
        self.list_again |= self.next.is_none();
        let soon = Instant::now() + wait;
        self.next = self.next.map(|next| next.min(soon));
    }

    /// Whether the runtime reports changes.
    fn has_hints(&self) -> bool {
        self.hints.flow() && self.stream.is_trusted()
    }

    fn relist_pod(&mut self, uid: PodUid) {
        if let Some(busy) = self.busy.get_mut(&uid) {
            busy.again = true;
            return;
        }
        let at = self.seq.next();
        self.busy.insert(uid.clone(), Busy { since: at, again: false });
        let runtime = self.runtime.clone();
        let (deadline, began) = (self.settings.inspection_deadline, Instant::now());
        let name = self.name_of(&uid);
        self.start_work(uid.clone(), name, at, async move {
            let list = inspect::list_pod(&runtime, &uid);
            let pod = inspect::within(deadline, "ListContainers", &uid, list).await;
            Done::PodListed { uid, began, at, pod }
        });
    }

    /// Handles the result of finished work.
    fn finish(&mut self, done: Done) {
        match done {
            Done::Listed { began, at, known, pods } => {
                // Records that changed meanwhile were not compared.
                let pods = pods.map(|pods| match pods {
                    None if known != self.records.fingerprint() => Listed::Outdated,
                    None => Listed::AsKnown,
                    Some(pods) => Listed::Pods(pods),
                });
                self.listed(began, at, pods);
            }
            Done::PodListed { uid, began, at, pod } => {
                self.metrics.pod_listed(began.elapsed());
                self.pod_listed(uid, at, pod);
            }
            Done::Inspected(inspected) => {
                let uid = inspected.uid.clone();
                self.inspected_guarded(inspected);
                self.settle(uid);
            }
            Done::Panicked { uid, at, panic } => {
                self.panicked(&uid, at, &panic);
                self.settle(uid);
            }
            Done::RelistPodAgain(uid) => self.relist_pod(uid),
            Done::Due(uid) => self.event_guarded(&uid.clone(), |relist| relist.on_due(uid)),
            Done::StreamCheck => self.check_stream(),
        }
    }

    fn listed(&mut self, began: Instant, at: Seq, pods: Result<Listed, RuntimeError>) {
        // Hints do not cover the time before the first successful list.
        let listed = matches!(pods, Ok(Listed::Pods(_) | Listed::AsKnown));
        match pods {
            Ok(pods) => {
                if let Some(lasted) = self.throttle.recovered(Instant::now().into_std()) {
                    info!(after = ?lasted, "Runtime answers again");
                }
                match pods {
                    Listed::Pods(pods) => self.relisted(began, at, Some(pods)),
                    Listed::AsKnown => self.relisted(began, at, None),
                    Listed::Outdated => self.in_full = true,
                }
            }
            // Throttled: a runtime that is down is listed every second.
            Err(error) => {
                if self.throttle.failed(Instant::now().into_std()) {
                    warn!(%error, "Cannot list pods of the runtime, retrying");
                }
            }
        }
        let (plain, with_hints) =
            (self.settings.relist_period, self.settings.relist_period_with_hints);
        let hints = listed && self.has_hints() && !take(&mut self.list_again);
        let wait = relist_period(hints, plain, with_hints);
        self.next = Some(Instant::now() + wait);
    }

    /// Retries a failed single-pod relist, because the next full relist may be far away.
    fn relist_pod_later(&self, uid: PodUid, wait: Duration) {
        if !self.has_hints() {
            // The next full relist is near.
            return;
        }
        self.work.push(Box::pin(async move {
            tokio::time::sleep(wait).await;
            Done::RelistPodAgain(uid)
        }));
    }

    /// Handles a full list: `pods`, or `None` if it equals the records.
    fn relisted(&mut self, began: Instant, at: Seq, pods: Option<BTreeMap<PodUid, RuntimePod>>) {
        // Work that began before this list may have an older state.
        for busy in self.busy.values_mut() {
            busy.again |= busy.since < at;
        }
        if let Some(pods) = pods {
            self.reconcile_all(at, pods);
        } else {
            let busy = &self.busy;
            self.records.forget_gone(|uid, record| record.at > at || busy.contains_key(uid));
        }
        self.has_baseline |= began >= self.opened;
        self.writer.relisted(at, self.busy.keys().cloned().collect());
        let last = self.relisted.send_replace(Some(began));
        self.metrics.relisted(began.elapsed(), last.map(|last| began.duration_since(last)));
        self.metrics.seen_at(self.clock.now().as_duration().as_secs_f64());
    }

    fn reconcile_all(&mut self, at: Seq, mut pods: BTreeMap<PodUid, RuntimePod>) {
        let known: BTreeSet<PodUid> = self.records.uids().chain(pods.keys()).cloned().collect();
        let announced = !self.has_baseline || !self.hints.flow();
        for uid in known {
            let pod = pods.remove(&uid);
            if self.busy.contains_key(&uid) {
                self.note_live(&uid, pod.as_ref(), at);
            } else if self.reconcile_guarded(&uid, pod, at, announced) == Reconciled::Gone {
                self.records.remove(&uid);
            }
        }
        // A single-pod relist may have failed for a pod that never existed.
        let (records, busy) = (&self.records, &self.busy);
        self.stale.retain(|uid| records.get(uid).is_some() || busy.contains_key(uid));
    }

    /// Marks a busy pod as live from the full list, even while its own relist hangs: a pod that waits for the
    /// termination of an earlier pod of its name must see it.
    fn note_live(&self, uid: &PodUid, pod: Option<&RuntimePod>, at: Seq) {
        let newer = self.records.get(uid).is_some_and(|record| record.at > at);
        if let Some(pod) = pod.filter(|pod| !newer && pod.may_be_alive()) {
            self.writer.listed(uid, Some(&pod.pod));
        }
    }

    fn pod_listed(&mut self, uid: PodUid, at: Seq, pod: Result<Option<RuntimePod>, RuntimeError>) {
        match pod {
            Ok(pod) => match self.reconcile_guarded(&uid, pod, at, true) {
                Reconciled::Inspecting => return,
                Reconciled::Unchanged => self.writer.unchanged(&uid, at),
                // Its empty record stays until a relist confirms it: one that began before this list may
                // still have the pod, and must not bring it back.
                Reconciled::Gone | Reconciled::Waiting => {}
            },
            Err(error) => {
                warn!(%uid, %error, "Cannot list containers of pod");
                self.relist_pod_later(uid.clone(), self.settings.relist_period);
            }
        }
        self.settle(uid);
    }

    /// Compares a pod with its record and starts an inspection if it differs.
    fn reconcile(&mut self, uid: &PodUid, pod: Option<RuntimePod>, at: Seq) -> Reconciled {
        let record = self.records.of(uid);
        if record.at > at {
            return Reconciled::Unchanged;
        }
        let live = pod.as_ref().filter(|pod| pod.may_be_alive());
        self.writer.listed(uid, live.map(|pod| &pod.pod));
        let seen = pod.as_ref().map(PodRecord::from).unwrap_or_default();
        let events = diff(&record.seen, &seen);
        let is_stale = self.stale.remove(uid);
        let Some(pod) = pod.filter(|_| !seen.is_empty()) else {
            let events = or_pod_sync(events, record.reinspect);
            self.metrics.recount(record.counts, Counts::default());
            *record = Record { at, ..Record::default() };
            self.writer.forget(uid, at);
            self.report(uid, events);
            return Reconciled::Gone;
        };
        if events.is_empty() && !record.reinspect && !is_stale {
            record.at = at;
            return Reconciled::Unchanged;
        }
        if record.retry.is_some_and(|(not_before, _)| Instant::now() < not_before) {
            return Reconciled::Waiting;
        }
        let old = PreviousStatus {
            status: record.status.clone(),
            // After a failure no old status is reused.
            holds: !record.reinspect && !is_stale,
        };
        self.busy.entry(uid.clone()).or_insert(Busy { since: at, again: false });
        self.inspect(pod, old, Difference { at, seen, events });
        Reconciled::Inspecting
    }

    fn inspect(&self, pod: RuntimePod, old: PreviousStatus, difference: Difference) {
        let Difference { at, seen, events } = difference;
        let runtime = self.runtime.clone();
        let messages = Arc::clone(&self.termination_messages);
        let permits = Arc::clone(if old.holds { &self.permits } else { &self.retry_permits });
        let deadline = self.settings.inspection_deadline;
        let counts = Counts::from(&pod);
        let (uid, name) = (pod.uid.clone(), Some(pod.pod.clone()));
        self.start_work(uid, name, at, async move {
            let _permit = permits.acquire().await.expect("the semaphore is never closed");
            let uid = pod.uid.clone();
            // Boxed after the permit was acquired: very many inspections may wait.
            let status = Box::pin(inspect::status(&runtime, &*messages, pod, &old));
            let status = inspect::within(deadline, "ContainerStatus", &uid, status).await;
            let observation = status.map(Arc::new);
            Done::Inspected(Inspected { uid, at, seen, counts, events, observation })
        });
    }

    /// Stores the result of an inspection. Only a successful one advances the record: after a failure the
    /// next relist must find the same difference again, or the events would be lost.
    fn inspected(&mut self, inspected: Inspected) {
        let Inspected { uid, at, seen, counts, events, observation } = inspected;
        let record = self.records.of(&uid);
        match observation {
            Ok(status) => {
                let events = or_pod_sync(events, record.reinspect);
                let observation = Ok(Arc::clone(&status));
                let status = Some(status);
                self.metrics.recount(record.counts, counts);
                *record = Record { seen, at, status, counts, ..Record::default() };
                self.writer.store(&uid, observation, at);
                self.report(&uid, events);
            }
            Err(error) => self.unreadable(&uid, error, at),
        }
    }

    fn report(&self, uid: &PodUid, mut events: Vec<LifecycleEvent>) {
        events.retain(|event| !matches!(event, LifecycleEvent::Changed(_)));
        if events.is_empty() {
            return;
        }
        debug!(%uid, ?events, "Pod lifecycle events");
        self.events.mark(uid, events);
    }

    /// Marks the pod as no longer busy, and relists it if that was requested meanwhile.
    fn settle(&mut self, uid: PodUid) {
        if self.busy.remove(&uid).is_some_and(|busy| busy.again) {
            self.relist_pod(uid);
        }
    }
}

/// The result of comparing a pod with its record.
#[derive(Debug, PartialEq, Eq)]
enum Reconciled {
    Unchanged,
    Inspecting,
    /// Its last read failed and its retry is not due.
    Waiting,
    /// The runtime has no object of the pod.
    Gone,
}

/// Adds a `PodSync` event when a failed status read recovers without a change, so that consumers of the error sync.
fn or_pod_sync(mut events: Vec<LifecycleEvent>, reinspected: bool) -> Vec<LifecycleEvent> {
    if reinspected && events.is_empty() {
        events.push(LifecycleEvent::PodSync);
    }
    events
}

#[cfg(test)]
#[path = "task_tests.rs"]
mod tests;
