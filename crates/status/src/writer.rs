//! Writes statuses to the API server: what changed, several pods at a time, the newest first; and that a pod
//! is gone, once it is.
//!
//! What is to be written follows from the last status and the last copy of the API server alone, whatever
//! happened in between. No pod is asked for before it is written: the copy is the one that the source heard, or
//! the answer to our last write if that is newer, and a patch says only what differs.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use model::chain::Chain;
use model::cluster::PodTarget;
use model::ids::PodUid;
use model::panics::{PanicGuard, PanicStep, PanicSubject};
use model::ports::clock::WallClock;
use model::ports::cluster::{ApiError, PodWrites};
use model::ports::pod_api::PodApi;
use model::log_throttle::LogThrottle;
use model::verdict::Verdict;
use podspec::view;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval_at, sleep_until};
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use crate::decide::{
    Answer, Deleted, Queue, Write, WriteInput, Written, Wrote, changes_readiness, deletion_detail,
    is_deleted, is_written, needs_reconcile, newest, outcome, write,
};
use crate::metrics::Metrics;
use crate::start_times::StartTimes;
use crate::store::StatusReader;

/// How often all copies are compared with the statuses, as upstream does. It only repairs what was missed.
const RESYNC: Duration = Duration::from_secs(10);

/// Why a pod is deleted from the API server.
const RULE: &str = "pod-ended";

/// What the writer must know of pods besides their statuses.
pub trait ApiView: Debug + Send + Sync {
    /// What the API server has of a pod; of a static pod that is its mirror.
    fn copy(&self, uid: &PodUid) -> Option<Arc<Pod>>;
    /// The pods whose copies changed after that change, and the number of the last one.
    fn changed_since(&self, change: u64) -> (Vec<PodUid>, u64);
    /// Counts changes of copies.
    fn changes(&self) -> watch::Receiver<u64>;
    /// How often all copies were told from the beginning, to the end.
    fn listings(&self) -> u64;
    /// Whether containers of a pod may still run.
    fn may_run(&self, uid: &PodUid) -> bool;
}

/// What the writer works with.
#[derive(Debug, Clone)]
pub struct WriterParts {
    /// Changes statuses.
    pub api: Arc<dyn PodApi>,
    /// Deletes pods.
    pub writes: Arc<dyn PodWrites>,
    /// What the API server has.
    pub copies: Arc<dyn ApiView>,
    /// How the pods are.
    pub statuses: StatusReader,
    /// The time of day.
    pub clock: Arc<dyn WallClock>,
    /// What is timed.
    pub metrics: Metrics,
    /// Hears how pods start.
    pub starts: StartTimes,
    /// Catches panics in the work for single pods.
    pub panics: PanicGuard,
}

/// How the writing about a pod ended.
#[derive(Debug)]
struct Ended {
    uid: PodUid,
    wrote: Wrote,
    written: Option<Written>,
    /// Whether a status was.
    patched: bool,
    /// If its deletion was asked for.
    deleted: Option<Deleted>,
    /// Since when it has a status that the API server has not.
    since: Option<Instant>,
}

/// The task's state; nobody else touches it.
#[derive(Debug)]
pub struct Writer {
    parts: WriterParts,
    queue: Queue,
    jobs: JoinSet<Ended>,
    written: BTreeMap<PodUid, Written>,
    /// Pods whose deletion was asked for.
    deleted: BTreeMap<PodUid, Deleted>,
    /// Since when each pod has a status that the API server has not.
    since: BTreeMap<PodUid, Instant>,
    /// The last changes that were taken in: of statuses, and of copies.
    seen: (u64, u64),
    /// How often all copies had been told then.
    listings: u64,
    throttle: LogThrottle,
    /// From when the queue counts.
    begun: Instant,
}

impl Writer {
    /// A writer that has written nothing yet.
    pub fn new(parts: WriterParts) -> Self {
        Self {
            parts,
            queue: Queue::default(),
            jobs: JoinSet::new(),
            written: BTreeMap::new(),
            deleted: BTreeMap::new(),
            since: BTreeMap::new(),
            seen: (0, 0),
            listings: 0,
            throttle: LogThrottle::default(),
            begun: Instant::now(),
        }
    }

    /// Writes until told to stop.
    pub async fn run(mut self, stop: CancellationToken) {
        let mut statuses = self.parts.statuses.subscribe();
        let mut copies = self.parts.copies.changes();
        let mut resync = interval_at(Instant::now() + RESYNC, RESYNC);
        resync.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            statuses.mark_unchanged();
            copies.mark_unchanged();
            self.take_in();
            self.start();
            let next = self.queue.next_at();
            let due = self.begun + next.unwrap_or_default();
            // Biased: stopping first; then jobs, of which there are few; the others all mean to look
            // again, at whatever changed.
            let open = tokio::select! {
                biased;
                () = stop.cancelled() => return,
                Some(ended) = self.jobs.join_next() => {
                    self.ended(ended);
                    true
                }
                changed = statuses.changed() => changed.is_ok(),
                changed = copies.changed() => changed.is_ok(),
                () = sleep_until(due), if next.is_some() => true,
                _ = resync.tick() => {
                    self.resync();
                    true
                }
            };
            if !open {
                // Who tells has ended, and with it the agent.
                stop.cancelled().await;
                return;
            }
        }
    }

    /// Takes in what changed.
    fn take_in(&mut self) {
        let (statuses, copies) = self.seen;
        for (uid, change) in self.parts.statuses.changed_since(statuses) {
            self.seen.0 = self.seen.0.max(change);
            self.mark(&uid, change);
            self.since.entry(uid).or_insert_with(Instant::now);
        }
        self.take_in_listing();
        let (changed, number) = self.parts.copies.changed_since(copies);
        self.seen.1 = number;
        for uid in changed {
            if let Some(copy) = self.parts.copies.copy(&uid) {
                let (guard, name) = (&self.parts.panics, view::pod_name(&copy));
                let of = PanicSubject::Pod(&uid, Some(&name));
                // Only a measurement is lost: nothing is to be done again.
                guard.catch(PanicStep::StatusWrite, of, || self.parts.starts.heard(&copy)).ok();
            }
            if let Some(published) = self.parts.statuses.get(&uid) {
                self.mark(&uid, published.version);
            }
        }
        let known = self.parts.statuses.count();
        self.parts.starts.retain(2 * known + 100, |uid| self.parts.copies.copy(uid).is_some());
        let kept = self.written.len() + self.deleted.len() + self.since.len();
        if kept > 3 * known {
            let statuses = &self.parts.statuses;
            self.written.retain(|uid, _| statuses.get(uid).is_some());
            self.deleted.retain(|uid, _| statuses.get(uid).is_some());
            self.since.retain(|uid, _| statuses.get(uid).is_some());
        }
    }

    /// A pod may have to be written. Changes of readiness are written first.
    fn mark(&mut self, uid: &PodUid, change: u64) {
        self.queue.mark(uid, change);
        let answer = self.written.get(uid).and_then(|written| written.answer.as_ref());
        let copy = self.parts.copies.copy(uid);
        let copy = copy.as_ref().map(|copy| newest(copy, self.listings, answer));
        let published = self.parts.statuses.get(uid);
        let is_prioritized = copy.zip(published).is_some_and(|(copy, published)| {
            changes_readiness(copy.status.as_ref(), &published.status)
        });
        self.queue.prioritize(uid, is_prioritized);
    }

    /// When all was told anew, answers count no more: what they were about may be as it was heard before.
    fn take_in_listing(&mut self) {
        let listings = self.parts.copies.listings();
        if std::mem::replace(&mut self.listings, listings) == listings {
            return;
        }
        for uid in self.written.iter().filter(|(_, one)| one.answer.is_some()).map(|(uid, _)| uid) {
            if let Some(published) = self.parts.statuses.get(uid) {
                self.queue.mark(uid, published.version);
            }
        }
    }

    /// Finds copies that differ although no change of them was reported.
    fn resync(&mut self) {
        for (uid, entry) in self.parts.statuses.entries() {
            let (Some(ours), Some(copy)) = (entry.status, self.parts.copies.copy(&uid)) else {
                continue;
            };
            let answer = self.written.get(&uid).and_then(|written| written.answer.as_ref());
            let api = newest(&copy, self.listings, answer);
            let may_run = self.parts.copies.may_run(&uid);
            if needs_reconcile(api, &ours, may_run, self.parts.clock.now()) {
                self.mark(&uid, entry.version);
            }
        }
    }

    fn start(&mut self) {
        while let Some(uid) = self.queue.take(self.begun.elapsed()) {
            let parts = self.parts.clone();
            let written = self.written.get(&uid).cloned();
            let deleted = self.deleted.get(&uid).cloned();
            let since = self.since.get(&uid).copied();
            let begun = Ended { uid, wrote: Wrote::Well, written, patched: false, deleted, since };
            self.jobs.spawn(async move { parts.write_guarded(begun).await });
        }
    }

    fn ended(&mut self, ended: Result<Ended, tokio::task::JoinError>) {
        let Ended { uid, wrote, written, patched, deleted, .. } = match ended {
            Ok(ended) => ended,
            Err(error) => std::panic::resume_unwind(error.into_panic()),
        };
        let now = Instant::now().into_std();
        let published = self.parts.statuses.get(&uid);
        let change = published.as_ref().map_or(0, |published| published.version);
        self.queue.done(&uid, wrote, change, self.begun.elapsed());
        match wrote {
            Wrote::Away(_) => {
                if self.throttle.failed(now) {
                    warn!("statuses do not reach the API server; trying again");
                }
            }
            // Whether the API server answers is not known.
            Wrote::Later(_) | Wrote::Panicked => {}
            Wrote::Well | Wrote::Refused | Wrote::Failed => {
                if let Some(after) = self.throttle.recovered(now) {
                    info!(?after, "statuses reach the API server again");
                }
            }
        }
        if published.is_none() {
            self.queue.forget(&uid);
            self.written.remove(&uid);
            self.deleted.remove(&uid);
            self.since.remove(&uid);
            return;
        }
        if patched || wrote == Wrote::Well {
            let since = self.since.remove(&uid);
            if let Some(since) = since.filter(|_| patched) {
                self.parts.metrics.written(since.elapsed());
            }
            if self.queue.is_waiting(&uid) {
                self.since.insert(uid.clone(), Instant::now());
            }
        }
        if let Some(written) = written {
            let answer = written.answer.as_ref();
            if answer.is_some_and(|answer| answer.listings < self.listings) {
                // All was told anew before this was known.
                self.queue.mark(&uid, change);
            }
            self.written.insert(uid.clone(), written);
        }
        if let Some(deleted) = deleted {
            self.deleted.insert(uid, deleted);
        }
    }
}

impl WriterParts {
    /// Writes what is to be written about a pod. After a panic nothing is known to be written: what is
    /// follows from the next copy.
    async fn write_guarded(&self, begun: Ended) -> Ended {
        let (uid, since) = (begun.uid.clone(), begun.since);
        let name = self.copies.copy(&uid).map(|pod| view::pod_name(&pod));
        let of = PanicSubject::Pod(&uid, name.as_ref());
        let ended = self.panics.catch_async(PanicStep::StatusWrite, of, self.write(begun)).await;
        ended.unwrap_or_else(|_| {
            let (wrote, patched) = (Wrote::Panicked, false);
            Ended { uid, wrote, written: None, patched, deleted: None, since }
        })
    }

    /// Writes what is to be written about a pod.
    async fn write(&self, mut ended: Ended) -> Ended {
        // A status and the end behind it, or a status that changed meanwhile.
        for _ in 0..3 {
            match self.step(&mut ended).await {
                Ok(true) => {}
                Ok(false) => break,
                Err(error) => {
                    ended.wrote = outcome(&error);
                    tell(&ended, &error);
                    break;
                }
            }
        }
        ended
    }

    /// Writes one thing. Whether there may be more.
    async fn step(&self, ended: &mut Ended) -> Result<bool, ApiError> {
        let Some(published) = self.statuses.get(&ended.uid) else { return Ok(false) };
        let may_run = self.copies.may_run(&ended.uid);
        // Before the copy: what is told anew between the two is looked at again.
        let listings = self.copies.listings();
        let Some(heard) = self.copies.copy(&ended.uid) else { return Ok(false) };
        let answer = ended.written.as_ref().and_then(|written| written.answer.as_ref());
        let api = Arc::clone(newest(&heard, listings, answer));
        if let Some(written) = &mut ended.written
            && Arc::ptr_eq(&api, &heard)
        {
            written.answer = None;
        }
        let written = ended.written.as_ref();
        let written = written
            .is_some_and(|last| is_written(last, listings, published.version, may_run, &api));
        let input = WriteInput {
            api: &api,
            ours: &published.status,
            may_run,
            finished: published.finished,
            written,
            waited: ended.since.map_or(Duration::MAX, |since| since.elapsed()),
            now: self.clock.now(),
        };
        match write(&input) {
            Write::Nothing => Ok(false),
            Write::Later(time) => {
                ended.wrote = Wrote::Later(time);
                Ok(false)
            }
            Write::Patch(patch) => {
                debug!(pod = %view::pod_name(&api), uid = %ended.uid, patch, "status written");
                let answer = self.api.patch_status(&view::pod_name(&api), patch).await?;
                ended.patched = true;
                let listings = self.copies.listings();
                ended.written = Some(Written {
                    status: published.version,
                    may_run,
                    version: view::version(&answer).to_owned(),
                    listings,
                    answer: Some(Answer { pod: answer, listings }),
                });
                Ok(true)
            }
            Write::Delete => {
                let deleted = ended.deleted.as_ref();
                if !deleted.is_some_and(|deleted| is_deleted(deleted, listings, &api)) {
                    self.delete(&api).await?;
                    let version = view::version(&api).to_owned();
                    ended.deleted = Some(Deleted { version, listings });
                }
                Ok(false)
            }
        }
    }

    async fn delete(&self, pod: &Pod) -> Result<(), ApiError> {
        let (uid, name) = (view::uid(pod), view::pod_name(pod));
        let detail = deletion_detail(pod);
        let verdict = Verdict { detail, ..Verdict::of_pod(&uid, &name, RULE, self.clock.now()) };
        match self.writes.remove_pod(&PodTarget::of(&name, &uid), &verdict).await {
            Ok(_) => info!(pod = %name, %uid, "pod has ended and is deleted"),
            // Another pod has its name.
            Err(ApiError::NotFound | ApiError::Conflict(_)) => {
                debug!(pod = %name, %uid, "pod has ended and is gone");
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }
}

/// Says what people should hear of an error. That the server is away is said once for all pods; a conflict
/// is over when the feed has told of it.
fn tell(ended: &Ended, error: &ApiError) {
    if matches!(ended.wrote, Wrote::Refused | Wrote::Failed)
        && !matches!(error, ApiError::Conflict(_))
    {
        let (uid, error) = (&ended.uid, Chain(error));
        warn!(%uid, %error, "the API server does not take the status of a pod");
    }
}

#[cfg(test)]
#[path = "writer_tests.rs"]
mod tests;
