//! Workers with scripted jobs and observations.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::FutureExt as _;
use k8s_openapi::api::core::v1::Pod;
use model::ids::{PodName, PodUid};
use model::in_flight::InFlight;
use model::observed::{RuntimePodStatus, SandboxState, SandboxStatus};
use model::ports::runtime::{Code, RuntimeError};
use model::seq::{Seq, SeqCounter};
use podspec::view;
use testkit::clock::VirtualClock;
use testkit::events::KeptEvents;
use testkit::panics::KeptPanics;
use testkit::pods;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::super::{
    PodStatuses, PodSyncer, SyncResult, WorkerEvent, WorkerParts, WorkersHandle, workers,
};
use crate::decide::worker::{Outcome, Target, Termination, Update};

/// A timeout that is longer than anything a test waits for.
const PATIENCE: Duration = Duration::from_mins(10);

/// What a job does.
#[derive(Debug, Clone, Copy)]
pub(super) enum Act {
    /// Ends immediately.
    Ends(Outcome),
    /// Ends immediately and has changed something.
    Acts(Outcome),
    /// Ends after a while.
    Takes(Duration),
    Panics,
    Hangs,
}

/// Runs scripted jobs, and panics on two concurrent jobs of one pod.
#[derive(Debug)]
pub(super) struct Scripted {
    acts: Mutex<BTreeMap<String, VecDeque<Act>>>,
    /// The jobs so far and their start times.
    jobs: watch::Sender<Vec<(String, Duration)>>,
    running: Mutex<BTreeSet<PodUid>>,
    /// The pods whose status was reported as unknown.
    unknown: Mutex<Vec<PodUid>>,
    start: Instant,
}

/// Records the end of a job, even if it panics or is dropped.
struct Job<'a> {
    syncer: &'a Scripted,
    uid: PodUid,
}

impl Drop for Job<'_> {
    fn drop(&mut self) {
        lock(&self.syncer.running).remove(&self.uid);
    }
}

impl Scripted {
    async fn job(&self, uid: &PodUid, job: String) -> SyncResult {
        let alone = lock(&self.running).insert(uid.clone());
        assert!(alone, "two concurrent jobs of {uid}");
        let _job = Job { syncer: self, uid: uid.clone() };
        self.jobs.send_modify(|jobs| jobs.push((job.clone(), self.start.elapsed())));
        let act = lock(&self.acts).get_mut(&job).and_then(VecDeque::pop_front);
        let done = |acted| SyncResult { outcome: Outcome::Done, acted };
        match act {
            None => done(false),
            Some(Act::Ends(outcome)) => SyncResult { outcome, acted: false },
            Some(Act::Acts(outcome)) => SyncResult { outcome, acted: true },
            Some(Act::Takes(time)) => {
                sleep(time).await;
                done(false)
            }
            Some(Act::Panics) => panic!("scripted failure"),
            Some(Act::Hangs) => std::future::pending().await,
        }
    }
}

#[async_trait]
impl PodSyncer for Scripted {
    async fn sync(
        &self,
        pod: &Arc<Pod>,
        status: &RuntimePodStatus,
        _: &CancellationToken,
    ) -> SyncResult {
        assert_eq!(view::uid(pod), status.uid);
        self.job(&status.uid, format!("sync {}", status.uid)).await
    }

    async fn terminate(&self, termination: &Termination, status: &RuntimePodStatus) -> Outcome {
        let job = format!("terminate {} {}", status.uid, termination.grace.as_secs());
        self.job(&status.uid, job).await.outcome
    }

    fn status_unknown(&self, pod: &Pod, _: &RuntimeError) {
        lock(&self.unknown).push(view::uid(pod));
    }

    async fn clean_up(&self, _: &Arc<Pod>, status: &RuntimePodStatus) -> Outcome {
        self.job(&status.uid, format!("clean up {}", status.uid)).await.outcome
    }
}

type Seen = BTreeMap<PodUid, (Seq, Option<Arc<RuntimePodStatus>>)>;

/// Observations made by the test, or made whenever they are requested.
#[derive(Debug)]
pub(super) struct Observations {
    seq: SeqCounter,
    /// When the last observation of a pod began, and its result, if any.
    seen: watch::Sender<Seen>,
    requested: Mutex<Vec<PodUid>>,
    by_themselves: bool,
    /// The pod whose observation panics.
    panics: Mutex<Option<PodUid>>,
}

impl Observations {
    /// Makes observations of a pod panic; `None` clears this.
    pub(super) fn panic_on(&self, uid: Option<&str>) {
        *lock(&self.panics) = uid.map(PodUid::from);
    }

    fn may_panic(&self, uid: &PodUid) {
        let panics = lock(&self.panics).as_ref() == Some(uid);
        assert!(!panics, "scripted failure");
    }

    /// An observation that began at `began`.
    pub(super) fn observe(&self, uid: &str, began: Seq) {
        let status = Some(Arc::new(RuntimePodStatus::empty(uid.into())));
        self.seen.send_modify(|seen| seen.extend([(uid.into(), (began, status))]));
    }

    /// An observation that begins now and shows a dead sandbox.
    pub(super) fn remains(&self, uid: &str) {
        let status = Some(Arc::new(RuntimePodStatus {
            sandboxes: vec![dead_sandbox(uid)],
            ..RuntimePodStatus::empty(uid.into())
        }));
        let began = self.seq.next();
        self.seen.send_modify(|seen| seen.extend([(uid.into(), (began, status))]));
    }

    /// An observation that began at `began` and shows a ready sandbox.
    pub(super) fn life(&self, uid: &str, began: Seq) {
        let sandbox = SandboxStatus { state: SandboxState::Ready, ..dead_sandbox(uid) };
        let sandboxes = vec![sandbox];
        let status =
            Some(Arc::new(RuntimePodStatus { sandboxes, ..RuntimePodStatus::empty(uid.into()) }));
        self.seen.send_modify(|seen| seen.extend([(uid.into(), (began, status))]));
    }

    /// An observation that begins now, like a relist.
    pub(super) fn relist(&self, uids: &[&str]) {
        for uid in uids {
            self.observe(uid, self.seq.next());
        }
    }

    /// An observation that begins now and shows the same as the last one.
    pub(super) fn relist_unchanged(&self, uid: &str) {
        let began = self.seq.next();
        self.seen.send_modify(|seen| {
            seen.get_mut(&PodUid::from(uid)).expect("an earlier observation").0 = began;
        });
    }

    /// An observation that begins now and fails.
    pub(super) fn fail(&self, uid: &str) {
        let began = self.seq.next();
        self.seen.send_modify(|seen| seen.extend([(uid.into(), (began, None))]));
    }

    /// How many observations were requested.
    pub(super) fn requested(&self) -> usize {
        lock(&self.requested).len()
    }
}

#[async_trait]
impl PodStatuses for Observations {
    async fn newer_than(
        &self,
        uid: &PodUid,
        after: Seq,
    ) -> Result<Arc<RuntimePodStatus>, RuntimeError> {
        let mut seen = self.seen.subscribe();
        let fresh = |seen: &Seen| seen.get(uid).is_some_and(|(began, _)| *began > after);
        let seen = seen.wait_for(fresh).await.expect("the sender is in self");
        if let Some(status) = &seen[uid].1 {
            return Ok(Arc::clone(status));
        }
        Err(RuntimeError {
            method: "ContainerStatus",
            object: uid.to_string(),
            code: Code::Unavailable,
            message: "scripted failure".into(),
        })
    }

    fn known_since(
        &self,
        uid: &PodUid,
        after: Seq,
    ) -> Option<Result<Arc<RuntimePodStatus>, RuntimeError>> {
        self.may_panic(uid);
        self.newer_than(uid, after).now_or_never()
    }

    fn look_at(&self, uid: &PodUid) {
        self.may_panic(uid);
        lock(&self.requested).push(uid.clone());
        if self.by_themselves {
            self.observe(uid.as_str(), self.seq.next());
        }
    }
}

/// The workers' task and its dependencies.
pub(super) struct Bench {
    pub(super) observations: Arc<Observations>,
    pub(super) seq: SeqCounter,
    pub(super) clock: Arc<VirtualClock>,
    pub(super) handle: WorkersHandle,
    pub(super) stop: CancellationToken,
    pub(super) tasks: JoinSet<()>,
    pub(super) events: Arc<KeptEvents>,
    pub(super) panics: Arc<KeptPanics>,
    syncer: Arc<Scripted>,
    worker_events: mpsc::UnboundedReceiver<WorkerEvent>,
    pub(super) registry: prometheus::Registry,
}

impl Bench {
    /// Observations are made whenever they are requested.
    pub(super) fn new() -> Self {
        Self::with(true)
    }

    /// Observations are made by the test only.
    pub(super) fn without_observations() -> Self {
        Self::with(false)
    }

    fn with(by_themselves: bool) -> Self {
        let (seq, clock) = (SeqCounter::default(), Arc::new(VirtualClock::new()));
        let observations = Arc::new(Observations {
            seq: seq.clone(),
            seen: watch::Sender::default(),
            requested: Mutex::default(),
            by_themselves,
            panics: Mutex::default(),
        });
        let syncer = Arc::new(Scripted {
            acts: Mutex::default(),
            jobs: watch::Sender::default(),
            running: Mutex::default(),
            unknown: Mutex::default(),
            start: Instant::now(),
        });
        let (events, registry) = (Arc::<KeptEvents>::default(), prometheus::Registry::new());
        let (panics, guard) = KeptPanics::guard();
        let (task, handle, worker_events) = workers(WorkerParts {
            syncer: Arc::clone(&syncer) as _,
            statuses: Arc::clone(&observations) as _,
            in_flight: InFlight::default(),
            seq: seq.clone(),
            clock: Arc::clone(&clock) as _,
            events: Arc::clone(&events) as _,
            resync: Duration::from_mins(1),
            metrics: crate::Metrics::new(&registry).unwrap(),
            panics: guard,
        });
        let (stop, mut tasks) = (CancellationToken::new(), JoinSet::new());
        tasks.spawn(task.run(stop.clone()));
        Self {
            observations,
            seq,
            clock,
            handle,
            stop,
            tasks,
            events,
            panics,
            syncer,
            worker_events,
            registry,
        }
    }

    /// Scripts the next jobs of a kind; later ones end immediately.
    pub(super) fn script<const N: usize>(&self, job: &str, acts: [Act; N]) {
        lock(&self.syncer.acts).entry(job.to_owned()).or_default().extend(acts);
    }

    pub(super) async fn create(&self, uid: &str) {
        self.handle.update(uid.into(), Update::Create(Arc::new(pod(uid)))).await;
    }

    pub(super) async fn update(&self, uid: &str) {
        self.handle.update(uid.into(), Update::Update(Arc::new(pod(uid)))).await;
    }

    pub(super) async fn sync(&self, uid: &str) {
        self.handle.update(uid.into(), Update::Sync).await;
    }

    pub(super) fn target(uid: &str) -> Target {
        Target::Pod(Arc::new(pod(uid)))
    }

    pub(super) async fn kill(&self, uid: &str, grace: u64) {
        let grace = Some(Duration::from_secs(grace));
        self.handle
            .update(uid.into(), Update::Kill { target: Self::target(uid), grace, failure: None })
            .await;
    }

    pub(super) async fn desired<const N: usize>(&self, uids: [&str; N]) {
        self.handle.desired(uids.into_iter().map(PodUid::from).collect()).await;
    }

    /// The jobs so far and their start times.
    pub(super) fn times(&self) -> Vec<(String, Duration)> {
        self.syncer.jobs.borrow().clone()
    }

    /// The jobs so far.
    pub(super) fn jobs(&self) -> Vec<String> {
        self.times().into_iter().map(|(job, _)| job).collect()
    }

    /// The jobs once there are `count`, and when the last one started.
    pub(super) async fn nth(&self, count: usize) -> (Vec<String>, Duration) {
        let mut jobs = self.syncer.jobs.subscribe();
        let enough = timeout(PATIENCE, jobs.wait_for(|jobs| jobs.len() >= count)).await.is_ok();
        assert!(enough, "only {:?}", self.jobs());
        (self.jobs(), self.times()[count - 1].1)
    }

    /// The pods whose status was reported as unknown.
    pub(super) fn unknown(&self) -> Vec<PodUid> {
        lock(&self.syncer.unknown).clone()
    }

    pub(super) async fn event(&mut self) -> WorkerEvent {
        timeout(PATIENCE, self.worker_events.recv()).await.unwrap().unwrap()
    }

    /// Runs everything that needs no time, and then advances the clock.
    pub(super) async fn after(&self, time: Duration) -> Vec<String> {
        sleep(time).await;
        self.jobs()
    }
}

fn dead_sandbox(uid: &str) -> SandboxStatus {
    SandboxStatus {
        id: "s".into(),
        pod_uid: uid.into(),
        pod: PodName::new("default", uid),
        attempt: 0,
        state: SandboxState::NotReady,
        created_at: jiff::Timestamp::UNIX_EPOCH,
        ips: Vec::new(),
        host_network: false,
        given: None,
    }
}

fn pod(uid: &str) -> Pod {
    pods::pod(uid).uid(uid).grace(30).build()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
