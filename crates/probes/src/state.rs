//! The workers of all pods, and when they probe.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Pod, PodStatus};
use model::ids::PodUid;
use model::probe::{LastAttempt, PodProbes, ProbeKind, ProbeReport, ProbeVerdict};
use podspec::view;
use tokio::time::Instant;

use crate::attempt::{Attempt, AttemptResult, Target, probe};
use crate::decide::handler::{needs_pod_ip, request};
use crate::decide::shown::{Class, shown};
use crate::decide::timing::Timing;
use crate::decide::view::{ContainerView, is_terminal};
use crate::decide::worker::{AgentStart, Worker, ran_before};
use crate::saved::{Saved, SavedProbe};

/// Attempts start at multiples of this time, so that many of them share a wake-up of the task.
const TICK: Duration = Duration::from_millis(10);

/// The number of a worker.
pub(crate) type WorkerId = u64;

/// The classes of attempts.
const CLASSES: [Class; 2] = [Class::Exec, Class::Network];

/// How many attempts of a class run at a time. Others wait for their turn.
const fn limit(class: Class) -> usize {
    match class {
        Class::Exec => 128,
        Class::Network => 1024,
    }
}

/// The event that a worker waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WorkerState {
    /// There is nothing to probe.
    Idle,
    /// The next attempt starts then.
    Due(Instant),
    /// It waits for other attempts to end. It was due then.
    Queued(Instant),
    /// An attempt runs.
    Running,
}

#[derive(Debug)]
struct Record {
    target: Arc<Target>,
    worker: Worker,
    state: WorkerState,
    /// Whether to probe the container, by its status.
    is_active: bool,
    /// Before this moment the current instance is not probed.
    first_at: Option<Instant>,
    last: Option<LastAttempt>,
}

#[derive(Debug)]
struct PodRecord {
    workers: Vec<WorkerId>,
    status: Option<Arc<PodStatus>>,
}

/// When something is observed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Moment {
    /// The wall clock.
    pub(crate) now: Timestamp,
    pub(crate) instant: Instant,
    /// A number from zero to one, for the first attempt after a restart.
    pub(crate) jitter: f64,
}

/// The workers of all pods.
#[derive(Debug)]
pub(crate) struct State {
    start: AgentStart,
    base: Instant,
    pods: BTreeMap<PodUid, PodRecord>,
    workers: BTreeMap<WorkerId, Record>,
    next_id: WorkerId,
    schedule: BTreeSet<(Instant, WorkerId)>,
    /// Workers that wait for a slot, by class.
    queued: [VecDeque<WorkerId>; 2],
    running: [usize; 2],
    /// Results of an earlier agent.
    saved: Saved,
    /// Pods with a result that changed.
    changed: BTreeSet<PodUid>,
    /// Whether a result changed since the last snapshot.
    is_unsaved: bool,
}

impl State {
    pub(crate) fn new(start: AgentStart, base: Instant) -> Self {
        Self {
            start,
            base,
            pods: BTreeMap::new(),
            workers: BTreeMap::new(),
            next_id: 0,
            schedule: BTreeSet::new(),
            queued: Default::default(),
            running: [0; 2],
            saved: Saved::default(),
            changed: BTreeSet::new(),
            is_unsaved: false,
        }
    }

    pub(crate) fn load(&mut self, probes: Vec<SavedProbe>) {
        self.saved = Saved::new(probes);
    }

    /// Adds the probes of a pod, unless it is known.
    pub(crate) fn add_pod(&mut self, pod: &Arc<Pod>) {
        let uid = view::uid(pod);
        if self.pods.contains_key(&uid) {
            return;
        }
        let mut workers = Vec::new();
        let regular = view::containers(pod).iter().map(|_| false).enumerate();
        let sidecars = view::init_containers(pod).iter().enumerate();
        let sidecars = sidecars.filter(|(_, init)| view::is_sidecar(init));
        for (index, is_init) in regular.chain(sidecars.map(|(index, _)| (index, true))) {
            workers.extend(ProbeKind::ALL.into_iter().filter_map(|kind| {
                let record = new_record(pod, is_init, index, kind)?;
                self.next_id += 1;
                self.workers.insert(self.next_id, record);
                Some(self.next_id)
            }));
        }
        if !workers.is_empty() {
            self.pods.insert(uid, PodRecord { workers, status: None });
        }
    }

    /// Takes the published status of a pod. Returns whether the schedule changed.
    pub(crate) fn observe(
        &mut self,
        uid: &PodUid,
        status: &Arc<PodStatus>,
        moment: Moment,
    ) -> bool {
        let Some(pod) = self.pods.get_mut(uid) else { return false };
        if pod.status.as_ref().is_some_and(|before| Arc::ptr_eq(before, status)) {
            return false;
        }
        pod.status = Some(Arc::clone(status));
        let is_over = is_terminal(status);
        for id in pod.workers.clone() {
            let Some(record) = self.workers.get_mut(&id) else { continue };
            let container = &record.target.container().name;
            let view = if is_over {
                ContainerView::default()
            } else {
                ContainerView::of(status, container)
            };
            let before = record.worker.counted().clone();
            let instance = record.worker.instance().cloned();
            let (kind, saved) = (record.worker.kind(), &mut self.saved);
            let taken = |instance: &_| saved.take(uid, instance, kind);
            let wait = record.worker.observe(&view, taken, self.start, moment.now);
            self.is_unsaved |= before != *record.worker.counted();
            let is_same = instance.as_ref() == record.worker.instance();
            if !is_same {
                record.last = None;
            }
            let was_active = std::mem::replace(&mut record.is_active, wait.is_some()) && is_same;
            let Some(mut wait) = wait else {
                self.unschedule(id);
                continue;
            };
            if !was_active {
                if ran_before(&view, self.start) {
                    wait += spread(record, moment, self.base);
                }
                record.first_at = Some(rounded(self.base, moment.instant + wait));
            }
            let at = rounded(self.base, moment.instant + wait);
            match record.state {
                WorkerState::Idle => self.schedule(id, at),
                WorkerState::Due(_) if !was_active => self.schedule(id, at),
                WorkerState::Due(due)
                    if was_active && record.worker.wants_trigger() && at < due =>
                {
                    self.schedule(id, at);
                }
                WorkerState::Due(_) | WorkerState::Queued(_) | WorkerState::Running => {}
            }
        }
        if self.records(uid).all(|record| record.worker.instance().is_some()) {
            // The rest belongs to removed instances.
            self.saved.remove(uid);
        }
        true
    }

    fn schedule(&mut self, id: WorkerId, at: Instant) {
        self.unschedule(id);
        let Some(record) = self.workers.get_mut(&id) else { return };
        record.state = WorkerState::Due(at);
        self.schedule.insert((at, id));
    }

    fn unschedule(&mut self, id: WorkerId) {
        let Some(record) = self.workers.get_mut(&id) else { return };
        if let WorkerState::Due(at) = record.state {
            self.schedule.remove(&(at, id));
            record.state = WorkerState::Idle;
        }
    }

    /// The attempts that start now, and when the next one is due.
    pub(crate) fn take_due(&mut self, now: Instant) -> (Vec<Attempt>, Option<Instant>) {
        let mut attempts = Vec::new();
        for class in CLASSES {
            while self.has_room(class) {
                let Some(id) = self.queued[class as usize].pop_front() else { break };
                let queued = self.workers.get(&id).map(|record| record.state);
                if let Some(WorkerState::Queued(due)) = queued {
                    attempts.extend(self.start(id, due, now));
                }
            }
        }
        while let Some(&(due, id)) = self.schedule.first().filter(|(due, _)| *due <= now) {
            self.schedule.pop_first();
            let Some(class) = self.workers.get(&id).map(class) else { continue };
            if self.has_room(class) {
                attempts.extend(self.start(id, due, now));
            } else if let Some(record) = self.workers.get_mut(&id) {
                record.state = WorkerState::Queued(due);
                self.queued[class as usize].push_back(id);
            }
        }
        (attempts, self.schedule.first().map(|(due, _)| *due))
    }

    fn has_room(&self, class: Class) -> bool {
        self.running[class as usize] < limit(class)
    }

    /// Starts the attempt of a worker.
    fn start(&mut self, id: WorkerId, due: Instant, now: Instant) -> Option<Attempt> {
        let record = self.workers.get_mut(&id)?;
        record.state = WorkerState::Idle;
        if let Some(at) = record.first_at.filter(|at| *at > now) {
            // It was due for an earlier instance.
            self.schedule(id, at);
            return None;
        }
        let instance = record.worker.instance().filter(|_| record.is_active)?.clone();
        let (target, class) = (Arc::clone(&record.target), class(record));
        let status = self.pods.get(&target.uid).and_then(|pod| pod.status.as_ref());
        let ip = status.and_then(|status| status.pod_ip.as_deref()).unwrap_or_default();
        if ip.is_empty() && needs_pod_ip(target.probe()) {
            let next = next_due(due, record.worker.period(), now);
            self.schedule(id, next);
            return None;
        }
        let pod = format!("{}_{}", target.pod_name.name, target.pod_name.namespace);
        let request = request(target.probe(), target.container(), &pod, ip);
        let timeout = record.worker.timing().timeout;
        record.state = WorkerState::Running;
        self.running[class as usize] += 1;
        Some(Attempt { worker: id, class, target, instance, request, timeout, due })
    }

    /// Takes the result of an attempt. Returns the probe unless it has ended meanwhile.
    pub(crate) fn ended(&mut self, ended: &AttemptResult, moment: Moment) -> Option<Arc<Target>> {
        let running = &mut self.running[ended.class as usize];
        *running = running.saturating_sub(1);
        let record = self.workers.get_mut(&ended.worker)?;
        let target = Arc::clone(&record.target);
        record.state = WorkerState::Idle;
        if record.worker.instance() == Some(&ended.instance) {
            record.last = Some(last_attempt(ended, moment.now));
        }
        if let Ok(output) = &ended.returned {
            let before = record.worker.counted().clone();
            let due = record.first_at.map(|first| ended.due.saturating_duration_since(first));
            let due = due.unwrap_or_default();
            let (passes, output) = (passes(output.verdict), shown(&output.output, ended.class));
            if record.worker.record(&ended.instance, passes, &output, due) {
                self.changed.insert(target.uid.clone());
            }
            self.is_unsaved |= before != *record.worker.counted();
        }
        record.is_active &= !record.worker.counted().on_hold;
        if record.is_active {
            let next = next_due(ended.due, record.worker.period(), moment.instant);
            let next = record.first_at.map_or(next, |first| next.max(first));
            self.schedule(ended.worker, next);
        }
        Some(target)
    }

    /// Stops the liveness and startup probes of the regular containers of a terminating pod. Returns the stopped
    /// probes.
    pub(crate) fn stop_liveness_and_startup(&mut self, uid: &PodUid) -> Vec<Arc<Target>> {
        let Some(pod) = self.pods.get_mut(uid) else { return Vec::new() };
        let workers = &self.workers;
        let stops = |id: &WorkerId| {
            let record = workers.get(id);
            record.is_some_and(|one| !one.target.is_init && one.target.kind != ProbeKind::Readiness)
        };
        let (stopped, kept) = std::mem::take(&mut pod.workers).into_iter().partition(stops);
        pod.workers = kept;
        self.remove_workers(stopped)
    }

    /// Ends all probes of a pod. Returns what ended.
    pub(crate) fn remove_pod(&mut self, uid: &PodUid) -> Vec<Arc<Target>> {
        self.saved.remove(uid);
        self.changed.remove(uid);
        let pod = self.pods.remove(uid);
        pod.map(|pod| self.remove_workers(pod.workers)).unwrap_or_default()
    }

    fn remove_workers(&mut self, ids: Vec<WorkerId>) -> Vec<Arc<Target>> {
        let mut removed = Vec::new();
        for id in ids {
            self.unschedule(id);
            removed.extend(self.workers.remove(&id).map(|record| record.target));
        }
        self.is_unsaved |= !removed.is_empty();
        removed
    }

    /// Ends the probes of all other pods. Returns what ended.
    pub(crate) fn retain(&mut self, is_kept: impl Fn(&PodUid) -> bool) -> Vec<Arc<Target>> {
        self.saved.retain(&is_kept);
        let gone: Vec<PodUid> = self.pods.keys().filter(|uid| !is_kept(uid)).cloned().collect();
        gone.iter().flat_map(|uid| self.remove_pod(uid)).collect()
    }

    /// The results of a pod.
    pub(crate) fn results(&self, uid: &PodUid) -> PodProbes {
        let resets_before = self.start.resets.then_some(self.start.at);
        let mut results = PodProbes { resets_before, ..PodProbes::default() };
        for record in self.records(uid) {
            let Some(id) = record.worker.instance() else { continue };
            let instance = results.instances.entry(id.clone()).or_default();
            let result = record.worker.counted().result;
            match record.worker.kind() {
                ProbeKind::Startup => instance.startup = result,
                ProbeKind::Readiness => instance.readiness = result,
                ProbeKind::Liveness => {}
            }
            instance.failure = instance.failure.take().or_else(|| record.worker.kill());
        }
        results
    }

    /// The state of a pod's probes, for display.
    pub(crate) fn reports(&self, uid: &PodUid) -> Vec<ProbeReport> {
        let report = |record: &Record| ProbeReport {
            container: record.target.container().name.clone(),
            kind: record.worker.kind(),
            passes: record.worker.counted().result,
            run: record.worker.run_length(),
            last: record.last.clone(),
        };
        self.records(uid).map(report).collect()
    }

    fn records(&self, uid: &PodUid) -> impl Iterator<Item = &Record> {
        let ids = self.pods.get(uid).into_iter().flat_map(|pod| &pod.workers);
        ids.filter_map(|id| self.workers.get(id))
    }

    /// Takes the pods with results that changed.
    pub(crate) fn take_changed(&mut self) -> BTreeSet<PodUid> {
        std::mem::take(&mut self.changed)
    }

    pub(crate) fn has_changed(&self) -> bool {
        !self.changed.is_empty()
    }

    pub(crate) fn is_unsaved(&self) -> bool {
        self.is_unsaved
    }

    /// The state to save, if it changed.
    pub(crate) fn take_unsaved(&mut self) -> Option<Vec<SavedProbe>> {
        if !std::mem::take(&mut self.is_unsaved) {
            return None;
        }
        let current = self.workers.values().filter_map(|record| {
            let instance = record.worker.instance()?.to_string();
            let (kind, counted) = (record.worker.kind(), record.worker.counted().clone());
            Some(SavedProbe { pod: record.target.uid.to_string(), instance, kind, counted })
        });
        Some(self.saved.iter().cloned().chain(current).collect())
    }

    /// Saves again: the last snapshot was not written.
    pub(crate) fn set_unsaved(&mut self) {
        self.is_unsaved = true;
    }
}

fn new_record(pod: &Arc<Pod>, is_init: bool, index: usize, kind: ProbeKind) -> Option<Record> {
    let (list, field) = if is_init {
        (view::init_containers(pod), "initContainers")
    } else {
        (view::containers(pod), "containers")
    };
    let container = list.get(index)?;
    let timing = Timing::new(pod, probe(container, kind)?);
    let target = Target {
        uid: view::uid(pod),
        pod_name: view::pod_name(pod),
        pod: Arc::clone(pod),
        is_init,
        index,
        kind,
        field_path: format!("spec.{field}{{{}}}", container.name).into(),
    };
    Some(Record {
        target: Arc::new(target),
        worker: Worker::new(kind, timing),
        state: WorkerState::Idle,
        is_active: false,
        first_at: None,
        last: None,
    })
}

/// How much later the first attempt starts of a container that ran before the agent, so that not all probes of the node
/// run at the same moment.
fn spread(record: &Record, moment: Moment, base: Instant) -> Duration {
    let period = record.worker.timing().period;
    let is_start = moment.instant.duration_since(base) < period;
    if is_start { period.mul_f64(moment.jitter) } else { Duration::ZERO }
}

/// When the next attempt is due: a whole number of periods later. Like a ticker of Go it makes up for one attempt that was
/// missed, at once, and leaves out the others.
fn next_due(due: Instant, period: Duration, now: Instant) -> Instant {
    let late = now.saturating_duration_since(due + period);
    let missed = late.as_nanos() / period.as_nanos().max(1);
    due + period * u32::try_from(missed + 1).unwrap_or(u32::MAX)
}

/// The next multiple of the tick.
fn rounded(base: Instant, at: Instant) -> Instant {
    let tick = TICK.as_nanos();
    let ticks = at.duration_since(base).as_nanos().div_ceil(tick);
    let nanos = u64::try_from(ticks * tick).unwrap_or(u64::MAX);
    base + Duration::from_nanos(nanos)
}

fn class(record: &Record) -> Class {
    if record.target.probe().exec.is_some() { Class::Exec } else { Class::Network }
}

fn passes(verdict: ProbeVerdict) -> bool {
    match verdict {
        ProbeVerdict::Success | ProbeVerdict::Warning => true,
        ProbeVerdict::Failure | ProbeVerdict::Unknown => false,
    }
}

/// An attempt for display.
fn last_attempt(ended: &AttemptResult, now: Timestamp) -> LastAttempt {
    let (verdict, output) = match &ended.returned {
        Ok(output) if passes(output.verdict) && ended.class == Class::Network => {
            (Some(output.verdict), String::new())
        }
        Ok(output) => (Some(output.verdict), shown(&output.output, ended.class)),
        Err(error) => (None, shown(error, ended.class)),
    };
    let took_millis = u64::try_from(ended.took.as_millis()).unwrap_or(u64::MAX);
    LastAttempt { at: now, took_millis, verdict, output }
}
