//! Workers whose jobs do what a test says, and looks that a test makes.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::FutureExt as _;
use k8s_openapi::api::core::v1::Pod;
use model::ids::{PodName, PodUid};
use model::in_flight::InFlight;
use model::observed::{PodStatus, SandboxState, SandboxStatus};
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

use super::super::{PodSyncer, Statuses, Synced, WorkerEvent, WorkerParts, WorkersHandle, workers};
use crate::decide::worker::{Outcome, Target, Update};

/// Longer than anything takes that a test waits for.
const PATIENCE: Duration = Duration::from_mins(10);

/// What a job does.
#[derive(Debug, Clone, Copy)]
pub(super) enum Act {
    /// Ends at once.
    Ends(Outcome),
    /// Ends at once and has done something.
    Acts(Outcome),
    /// Ends after a while.
    Takes(Duration),
    Panics,
    Hangs,
}

/// Does what a test says, and complains about two jobs of one pod at a time.
#[derive(Debug)]
pub(super) struct Scripted {
    acts: Mutex<BTreeMap<String, VecDeque<Act>>>,
    /// The jobs so far and when they began.
    jobs: watch::Sender<Vec<(String, Duration)>>,
    running: Mutex<BTreeSet<PodUid>>,
    /// Of which it was said that nobody knows how they are.
    unknown: Mutex<Vec<PodUid>>,
    start: Instant,
}

/// Takes note of the end of a job, however it ends.
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
    async fn job(&self, uid: &PodUid, job: String) -> Synced {
        let alone = lock(&self.running).insert(uid.clone());
        assert!(alone, "two jobs at a time of {uid}");
        let _job = Job { syncer: self, uid: uid.clone() };
        self.jobs.send_modify(|jobs| jobs.push((job.clone(), self.start.elapsed())));
        let act = lock(&self.acts).get_mut(&job).and_then(VecDeque::pop_front);
        let done = |acted| Synced { outcome: Outcome::Done, acted };
        match act {
            None => done(false),
            Some(Act::Ends(outcome)) => Synced { outcome, acted: false },
            Some(Act::Acts(outcome)) => Synced { outcome, acted: true },
            Some(Act::Takes(time)) => {
                sleep(time).await;
                done(false)
            }
            Some(Act::Panics) => panic!("a test asked for this"),
            Some(Act::Hangs) => std::future::pending().await,
        }
    }
}

#[async_trait]
impl PodSyncer for Scripted {
    async fn sync(&self, pod: &Arc<Pod>, status: &PodStatus, _: &CancellationToken) -> Synced {
        assert_eq!(view::uid(pod), status.uid);
        self.job(&status.uid, format!("sync {}", status.uid)).await
    }

    async fn terminate(&self, _: &Target, status: &PodStatus, grace: Duration) -> Outcome {
        let job = format!("terminate {} {}", status.uid, grace.as_secs());
        self.job(&status.uid, job).await.outcome
    }

    fn status_unknown(&self, pod: &Pod, _: &RuntimeError) {
        lock(&self.unknown).push(view::uid(pod));
    }

    async fn clean_up(&self, _: &Arc<Pod>, status: &PodStatus) -> Outcome {
        self.job(&status.uid, format!("clean up {}", status.uid)).await.outcome
    }
}

type Seen = BTreeMap<PodUid, (Seq, Option<Arc<PodStatus>>)>;

/// Knows the looks that a test makes, or makes one whenever it is asked to.
#[derive(Debug)]
pub(super) struct Looks {
    seq: SeqCounter,
    /// When the last look at a pod began, and what it showed, if anything.
    seen: watch::Sender<Seen>,
    asked: Mutex<Vec<PodUid>>,
    by_themselves: bool,
    /// The pod at which looks panic.
    panics: Mutex<Option<PodUid>>,
}

impl Looks {
    /// From now on looks at a pod panic, or at none.
    pub(super) fn panic_on(&self, uid: Option<&str>) {
        *lock(&self.panics) = uid.map(PodUid::from);
    }

    fn may_panic(&self, uid: &PodUid) {
        let panics = lock(&self.panics).as_ref() == Some(uid);
        assert!(!panics, "a test asked for this");
    }

    /// A look that began then.
    pub(super) fn look(&self, uid: &str, began: Seq) {
        let status = Some(Arc::new(PodStatus::empty(uid.into())));
        self.seen.send_modify(|seen| seen.extend([(uid.into(), (began, status))]));
    }

    /// A look that begins now and shows a dead sandbox.
    pub(super) fn remains(&self, uid: &str) {
        let status = Some(Arc::new(PodStatus {
            sandboxes: vec![dead_sandbox(uid)],
            ..PodStatus::empty(uid.into())
        }));
        let began = self.seq.next();
        self.seen.send_modify(|seen| seen.extend([(uid.into(), (began, status))]));
    }

    /// A look that began then and shows a sandbox that lives.
    pub(super) fn life(&self, uid: &str, began: Seq) {
        let sandbox = SandboxStatus { state: SandboxState::Ready, ..dead_sandbox(uid) };
        let sandboxes = vec![sandbox];
        let status = Some(Arc::new(PodStatus { sandboxes, ..PodStatus::empty(uid.into()) }));
        self.seen.send_modify(|seen| seen.extend([(uid.into(), (began, status))]));
    }

    /// A look that begins now, as a relist would make.
    pub(super) fn relist(&self, uids: &[&str]) {
        for uid in uids {
            self.look(uid, self.seq.next());
        }
    }

    /// A look that begins now and shows what the last one did.
    pub(super) fn relist_unchanged(&self, uid: &str) {
        let began = self.seq.next();
        self.seen.send_modify(|seen| {
            seen.get_mut(&PodUid::from(uid)).expect("it was looked at before").0 = began;
        });
    }

    /// A look that begins now and fails.
    pub(super) fn fail(&self, uid: &str) {
        let began = self.seq.next();
        self.seen.send_modify(|seen| seen.extend([(uid.into(), (began, None))]));
    }

    /// How often looks were asked for.
    pub(super) fn asked(&self) -> usize {
        lock(&self.asked).len()
    }
}

#[async_trait]
impl Statuses for Looks {
    async fn newer_than(&self, uid: &PodUid, after: Seq) -> Result<Arc<PodStatus>, RuntimeError> {
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
            message: "a test asked for this".into(),
        })
    }

    fn known_since(
        &self,
        uid: &PodUid,
        after: Seq,
    ) -> Option<Result<Arc<PodStatus>, RuntimeError>> {
        self.may_panic(uid);
        self.newer_than(uid, after).now_or_never()
    }

    fn look_at(&self, uid: &PodUid) {
        self.may_panic(uid);
        lock(&self.asked).push(uid.clone());
        if self.by_themselves {
            self.look(uid.as_str(), self.seq.next());
        }
    }
}

/// The workers' task and what it works with.
pub(super) struct Bench {
    pub(super) looks: Arc<Looks>,
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
    /// Pods are looked at whenever that is asked for.
    pub(super) fn new() -> Self {
        Self::with(true)
    }

    /// Pods are looked at when the test says.
    pub(super) fn without_looks() -> Self {
        Self::with(false)
    }

    fn with(by_themselves: bool) -> Self {
        let (seq, clock) = (SeqCounter::default(), Arc::new(VirtualClock::new()));
        let looks = Arc::new(Looks {
            seq: seq.clone(),
            seen: watch::Sender::default(),
            asked: Mutex::default(),
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
            statuses: Arc::clone(&looks) as _,
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
            looks,
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

    /// What the next jobs of a kind do; later ones are done at once.
    pub(super) fn script<const N: usize>(&self, job: &str, acts: [Act; N]) {
        lock(&self.syncer.acts).entry(job.to_owned()).or_default().extend(acts);
    }

    pub(super) async fn create(&self, uid: &str) {
        self.handle.ask(uid.into(), Update::Create(Arc::new(pod(uid)))).await;
    }

    pub(super) async fn update(&self, uid: &str) {
        self.handle.ask(uid.into(), Update::Update(Arc::new(pod(uid)))).await;
    }

    pub(super) async fn sync(&self, uid: &str) {
        self.handle.ask(uid.into(), Update::Sync).await;
    }

    pub(super) fn target(uid: &str) -> Target {
        Target::Pod(Arc::new(pod(uid)))
    }

    pub(super) async fn kill(&self, uid: &str, grace: u64) {
        let grace = Some(Duration::from_secs(grace));
        self.handle
            .ask(uid.into(), Update::Kill { target: Self::target(uid), grace, evict: false })
            .await;
    }

    pub(super) async fn desired<const N: usize>(&self, uids: [&str; N]) {
        self.handle.desired(uids.into_iter().map(PodUid::from).collect()).await;
    }

    /// The jobs so far and when they began.
    pub(super) fn times(&self) -> Vec<(String, Duration)> {
        self.syncer.jobs.borrow().clone()
    }

    /// The jobs so far.
    pub(super) fn jobs(&self) -> Vec<String> {
        self.times().into_iter().map(|(job, _)| job).collect()
    }

    /// The jobs once there are that many, and when the last one began.
    pub(super) async fn nth(&self, count: usize) -> (Vec<String>, Duration) {
        let mut jobs = self.syncer.jobs.subscribe();
        let enough = timeout(PATIENCE, jobs.wait_for(|jobs| jobs.len() >= count)).await.is_ok();
        assert!(enough, "only {:?}", self.jobs());
        (self.jobs(), self.times()[count - 1].1)
    }

    /// The pods of which it was said that nobody knows how they are.
    pub(super) fn unknown(&self) -> Vec<PodUid> {
        lock(&self.syncer.unknown).clone()
    }

    pub(super) async fn event(&mut self) -> WorkerEvent {
        timeout(PATIENCE, self.worker_events.recv()).await.unwrap().unwrap()
    }

    /// Lets everything happen that needs no time to pass, and then this much time.
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
