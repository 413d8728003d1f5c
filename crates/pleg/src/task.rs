//! The relist task: looks at the runtime, and tells what changed.
//!
//! Nothing here waits for a single pod. Lists and inspections are futures that the loop polls side
//! by side; while one of a pod is under way the pod is *busy*, and a change seen meanwhile is looked
//! at again afterwards. So a pod whose inspection hangs costs that pod its freshness and nobody else
//! anything.

mod panics;
mod stream;
mod told;

use std::collections::{BTreeMap, BTreeSet};
use std::mem::take;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use model::in_flight::InFlight;
use model::fingerprint::Fingerprint;
use model::ids::{ObjectId, PodUid};
use model::lifecycle::LifecycleEvent;
use model::observed::RuntimePod;
use model::panics::{CaughtPanic, PanicGuard};
use model::ports::clock::WallClock;
use model::ports::termination_message::TerminationMessageReader;
use model::ports::runtime::{ContainerEventKind, Runtime, RuntimeError};
use model::seq::{Seq, SeqCounter};
use model::log_throttle::LogThrottle;
use tokio::sync::{Semaphore, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use crate::cache::{Observation, Reader, Writer, cache};
use crate::decide::{PodRecord, StreamTrust, diff, relist_period};
use crate::health::Health;
use crate::hints::{Hint, Hints};
use crate::inspect::{self, Before};
use crate::marks::Marks;
use crate::metrics::{Counts, Metrics};
use crate::records::{Busy, Record, Records};

/// How long a pod whose status could not be read waits at most for the next try.
const LONGEST_RETRY: Duration = Duration::from_secs(8);

/// How often to look, and how long to wait.
#[derive(Debug, Clone)]
pub struct Settings {
    /// From the end of a relist to the start of the next.
    pub relist_period: Duration,
    /// The same while the runtime's event stream reports what happens: then a relist only repairs what was missed.
    pub relist_period_with_hints: Duration,
    /// Whether to listen to what the runtime tells.
    pub hints: bool,
    /// How old the last relist may be for the agent to be healthy.
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

/// The relist task and all that others use of it.
#[derive(Debug)]
pub struct Pleg {
    /// To be run until the agent stops.
    pub task: Relist,
    /// The last known status of every pod.
    pub cache: Reader,
    /// Pods with lifecycle events, for the sync loop.
    pub events: Marks<LifecycleEvent>,
    /// Pods to look at now; with a word, also at what a list does not show.
    pub requests: Marks<()>,
    /// Pods that a worker acts on now; it inspects them afterwards.
    pub in_flight: InFlight,
    /// Whether the runtime is still being listed.
    pub health: Health,
}

/// What the relist task works with.
#[derive(Debug)]
pub struct PlegParts {
    /// The runtime to look at.
    pub runtime: Runtime,
    /// What ended containers left behind.
    pub termination_messages: Arc<dyn TerminationMessageReader>,
    /// Orders looks and actions.
    pub seq: SeqCounter,
    /// The time of day, for metrics.
    pub clock: Arc<dyn WallClock>,
    /// What is counted and timed.
    pub metrics: Metrics,
    /// Catches panics in the work for single pods.
    pub panics: PanicGuard,
}

/// Makes the relist task of a runtime.
pub fn pleg(parts: PlegParts, settings: Settings) -> Pleg {
    let PlegParts { runtime, termination_messages, seq, clock, metrics, panics } = parts;
    let (writer, reader) = cache();
    let (relisted, receiver) = watch::channel(None);
    let events = Marks::default();
    let requests = Marks::default();
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
        told: BTreeMap::new(),
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

/// The task's state; nobody else touches it.
pub struct Relist {
    runtime: Runtime,
    termination_messages: Arc<dyn TerminationMessageReader>,
    seq: SeqCounter,
    settings: Settings,
    writer: Writer,
    /// Written here, taken by the sync loop.
    events: Marks<LifecycleEvent>,
    /// Written by whoever wants a pod looked at, taken here.
    requests: Marks<()>,
    /// Pods that a worker acts on; the workers write it.
    in_flight: InFlight,
    /// When the last successful relist began; closed when the task ends.
    relisted: watch::Sender<Option<Instant>>,
    /// Bounds the inspections under way.
    permits: Arc<Semaphore>,
    /// The same for pods whose status could not be read before, so that they do not stand in the way of
    /// those whose status can.
    retry_permits: Arc<Semaphore>,
    hints: Hints,
    clock: Arc<dyn WallClock>,
    metrics: Metrics,
    panics: PanicGuard,
    records: Records,
    /// Pods of which something changed that a list does not show: to be read again.
    stale: BTreeSet<PodUid>,
    /// What the runtime told last of parts of pods, while it can wait for a look.
    told: BTreeMap<PodUid, BTreeMap<ObjectId, ContainerEventKind>>,
    /// Pods with a look or an inspection under way.
    busy: BTreeMap<PodUid, Busy>,
    work: FuturesUnordered<BoxFuture<'static, Done>>,
    /// When the next relist begins; `None` while one is under way.
    next: Option<Instant>,
    /// Whether the next relist compares every pod, whatever the runtime says.
    in_full: bool,
    /// Whether the event stream, while it is open, reports what happens.
    stream: StreamTrust,
    /// Whether a list that began after the stream was opened has ended: what an earlier one or that one finds may have
    /// happened before.
    has_baseline: bool,
    /// When the stream was last opened.
    opened: Instant,
    /// Whether something happened during the list under way that it may not show.
    list_again: bool,
    /// When the task was made: from then on the times of `stream` count.
    began: Instant,
    /// With listing the runtime.
    throttle: LogThrottle,
}

impl std::fmt::Debug for Relist {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Relist").field("records", &self.records.len()).finish_non_exhaustive()
    }
}

/// A look or inspection that ended.
enum Done {
    Listed {
        began: Instant,
        at: Seq,
        /// What the records said when it began.
        known: Option<Fingerprint>,
        /// `None` when the runtime has just that.
        pods: Result<Option<BTreeMap<PodUid, RuntimePod>>, RuntimeError>,
    },
    Looked {
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
    /// The wait after a look that failed is over.
    LookAgain(PodUid),
    /// What was told of a pod has waited for long enough.
    Due(PodUid),
    /// The event of a change that a relist found should have arrived.
    StreamCheck,
}

/// What a list of everything showed.
enum Listed {
    Pods(BTreeMap<PodUid, RuntimePod>),
    /// Just what the records say.
    AsKnown,
    /// Just what they said when it began.
    Outdated,
}

/// How a list differs from the record of a pod.
struct Difference {
    at: Seq,
    seen: PodRecord,
    events: Vec<LifecycleEvent>,
}

/// An inspection that ended, and the look that it was made for.
struct Inspected {
    uid: PodUid,
    at: Seq,
    seen: PodRecord,
    counts: Counts,
    events: Vec<LifecycleEvent>,
    observation: Observation,
}

impl Relist {
    /// Looks at the runtime until told to stop.
    pub async fn run(mut self, stop: CancellationToken) {
        loop {
            let next = self.next;
            // Biased: stopping first; then finished work, which is bounded by what was started; the
            // timer before requests and hints, because a relist answers all that were made before
            // it; requests, which are merged by pod, before hints, which are told one by one.
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                Some(done) = self.work.next() => self.finish(done),
                () = tokio::time::sleep_until(next.unwrap_or_else(Instant::now)), if next.is_some() => {
                    self.start_relist();
                }
                requests = self.requests.take() => {
                    for (uid, news) in requests {
                        if !news.is_empty() {
                            self.stale.insert(uid.clone());
                        }
                        self.look_at(uid);
                    }
                }
                hint = self.hints.next() => self.hinted(hint),
            }
        }
    }

    fn hinted(&mut self, hint: Hint) {
        match hint {
            Hint::Told(event) => {
                self.stream = self.stream.event();
                let uid = event.pod_uid.clone();
                self.event_guarded(&uid, |relist| relist.hear(event));
            }
            Hint::Opened(took) => {
                debug!("the runtime tells what happens; listing it less often");
                self.metrics.opened(took);
                (self.has_baseline, self.opened) = (false, Instant::now());
                // What happened before the stream was open was told to nobody.
                self.next = self.next.map(|_| Instant::now());
            }
            Hint::Broken(error) => {
                let why = error.map_or_else(|| "it ended".to_owned(), |error| error.to_string());
                debug!(why, "the runtime does not tell what happens; listing it more often");
                self.metrics.broken();
                self.relist_within(self.settings.relist_period);
            }
        }
    }

    fn start_relist(&mut self) {
        self.next = None;
        let runtime = self.runtime.clone();
        // Taken before the first call: what happens during the listing may or may not be in it.
        let (at, began) = (self.seq.next(), Instant::now());
        // Of a pod that is being looked at, less is known than the list shows; of one that is stale, the list
        // shows less than changed.
        let in_full = take(&mut self.in_full) || !self.busy.is_empty() || !self.stale.is_empty();
        let known = if in_full { None } else { self.records.fingerprint() };
        self.work.push(Box::pin(async move {
            let pods = inspect::list(&runtime, known.as_ref()).await;
            Done::Listed { began, at, known, pods }
        }));
    }

    /// Brings the next relist forward, unless it begins before that anyway.
    fn relist_within(&mut self, wait: Duration) {
        // One that is under way may have passed what is to be seen.
        self.list_again |= self.next.is_none();
        let soon = Instant::now() + wait;
        self.next = self.next.map(|next| next.min(soon));
    }

    /// Whether the runtime reports what happens.
    fn has_hints(&self) -> bool {
        self.hints.flow() && self.stream.is_trusted()
    }

    fn look_at(&mut self, uid: PodUid) {
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
            Done::Looked { uid, began, at, pod }
        });
    }

    /// Takes in what a look gave.
    fn finish(&mut self, done: Done) {
        match done {
            Done::Listed { began, at, known, pods } => {
                // What became known meanwhile was not compared.
                let pods = pods.map(|pods| match pods {
                    None if known != self.records.fingerprint() => Listed::Outdated,
                    None => Listed::AsKnown,
                    Some(pods) => Listed::Pods(pods),
                });
                self.listed(began, at, pods);
            }
            Done::Looked { uid, began, at, pod } => {
                self.metrics.looked(began.elapsed());
                self.looked(uid, at, pod);
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
            Done::LookAgain(uid) => self.look_at(uid),
            Done::Due(uid) => self.event_guarded(&uid.clone(), |relist| relist.due(uid)),
            Done::StreamCheck => self.check_stream(),
        }
    }

    fn listed(&mut self, began: Instant, at: Seq, pods: Result<Listed, RuntimeError>) {
        // Hints say nothing of the time before a list that succeeds.
        let listed = matches!(pods, Ok(Listed::Pods(_) | Listed::AsKnown));
        match pods {
            Ok(pods) => {
                if let Some(lasted) = self.throttle.recovered(Instant::now().into_std()) {
                    info!(after = ?lasted, "the runtime answers again");
                }
                match pods {
                    Listed::Pods(pods) => self.relisted(began, at, Some(pods)),
                    Listed::AsKnown => self.relisted(began, at, None),
                    Listed::Outdated => self.in_full = true,
                }
            }
            // Said rarely: a runtime that is down is asked every second.
            Err(error) => {
                if self.throttle.failed(Instant::now().into_std()) {
                    warn!(%error, "cannot list the pods of the runtime; trying again");
                }
            }
        }
        let (plain, with_hints) =
            (self.settings.relist_period, self.settings.relist_period_with_hints);
        let hints = listed && self.has_hints() && !take(&mut self.list_again);
        let wait = relist_period(hints, plain, with_hints);
        self.next = Some(Instant::now() + wait);
    }

    /// A look at a pod failed: tries again before long, however far away the next relist is.
    fn look_again(&self, uid: PodUid, wait: Duration) {
        if !self.has_hints() {
            // The next relist is near.
            return;
        }
        self.work.push(Box::pin(async move {
            tokio::time::sleep(wait).await;
            Done::LookAgain(uid)
        }));
    }

    /// Everything was listed: `pods`, or just what is known.
    fn relisted(&mut self, began: Instant, at: Seq, pods: Option<BTreeMap<PodUid, RuntimePod>>) {
        // What began before this list may show less than it does.
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
        // The look at a pod may have failed that neither was nor is there.
        let (records, busy) = (&self.records, &self.busy);
        self.stale.retain(|uid| records.get(uid).is_some() || busy.contains_key(uid));
    }

    /// That something of a pod may live is known from the list even while a look at it hangs, which would
    /// tell more: whoever waits for the end of an earlier self must not miss it.
    fn note_live(&self, uid: &PodUid, pod: Option<&RuntimePod>, at: Seq) {
        let newer = self.records.get(uid).is_some_and(|record| record.at > at);
        if let Some(pod) = pod.filter(|pod| !newer && pod.may_be_alive()) {
            self.writer.listed(uid, Some(&pod.pod));
        }
    }

    fn looked(&mut self, uid: PodUid, at: Seq, pod: Result<Option<RuntimePod>, RuntimeError>) {
        match pod {
            Ok(pod) => match self.reconcile_guarded(&uid, pod, at, true) {
                Reconciled::Inspecting => return,
                Reconciled::Unchanged => self.writer.unchanged(&uid, at),
                // Its empty record stays until a relist agrees: one that began before this look may
                // still list the pod, and must not bring it back.
                Reconciled::Gone | Reconciled::Waiting => {}
            },
            Err(error) => {
                warn!(%uid, %error, "cannot list a pod of the runtime");
                self.look_again(uid.clone(), self.settings.relist_period);
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
        let old = Before {
            status: record.status.clone(),
            // After a failure nothing is taken for granted.
            holds: !record.reinspect && !is_stale,
        };
        self.busy.entry(uid.clone()).or_insert(Busy { since: at, again: false });
        self.inspect(pod, old, Difference { at, seen, events });
        Reconciled::Inspecting
    }

    fn inspect(&self, pod: RuntimePod, old: Before, difference: Difference) {
        let Difference { at, seen, events } = difference;
        let runtime = self.runtime.clone();
        let words = Arc::clone(&self.termination_messages);
        let permits = Arc::clone(if old.holds { &self.permits } else { &self.retry_permits });
        let deadline = self.settings.inspection_deadline;
        let counts = Counts::from(&pod);
        let (uid, name) = (pod.uid.clone(), Some(pod.pod.clone()));
        self.start_work(uid, name, at, async move {
            let _permit = permits.acquire().await.expect("the semaphore is never closed");
            let uid = pod.uid.clone();
            // Only what has a permit needs room for it: very many may wait.
            let status = Box::pin(inspect::status(&runtime, &*words, pod, &old));
            let status = inspect::within(deadline, "ContainerStatus", &uid, status).await;
            let observation = status.map(Arc::new);
            Done::Inspected(Inspected { uid, at, seen, counts, events, observation })
        });
    }

    /// Stores what an inspection gave. Only one that succeeded advances the record: otherwise the
    /// next relist must see the same difference again, or the events would be lost.
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
        debug!(%uid, ?events, "pod lifecycle events");
        self.events.mark(uid, events);
    }

    /// The pod is no longer busy; looks again if that was asked for meanwhile.
    fn settle(&mut self, uid: PodUid) {
        if self.busy.remove(&uid).is_some_and(|busy| busy.again) {
            self.look_at(uid);
        }
    }
}

/// What a comparison of a pod with its record led to.
#[derive(Debug, PartialEq, Eq)]
enum Reconciled {
    Unchanged,
    Inspecting,
    /// It could not be read and waits for its next turn.
    Waiting,
    /// The runtime has nothing of the pod.
    Gone,
}

/// Whoever heard of a status that could not be read hears when it is known, whatever it is.
fn or_pod_sync(mut events: Vec<LifecycleEvent>, reinspected: bool) -> Vec<LifecycleEvent> {
    if reinspected && events.is_empty() {
        events.push(LifecycleEvent::PodSync);
    }
    events
}

#[cfg(test)]
#[path = "task_tests.rs"]
mod tests;
