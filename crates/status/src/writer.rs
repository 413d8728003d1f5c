//! Writes changed statuses to the API server, several pods concurrently, the newest first; and deletes a pod
//! when it has terminated.
//!
//! Each write follows only from the latest status and the latest copy of the API server, regardless of what
//! happened in between. No pod is fetched before it is written: the copy is the one that the source received, or
//! the response to the last write if that is newer, and a patch contains only differences.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use model::chain::Chain;
use model::cluster::PodTarget;
use model::ids::PodUid;
use model::log_throttle::LogThrottle;
use model::panics::{PanicGuard, PanicStep, PanicSubject};
use model::ports::clock::WallClock;
use model::ports::cluster::{ApiError, PodWrites};
use model::ports::pod_api::PodApi;
use model::verdict::Verdict;
use podspec::view;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval_at, sleep_until};
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use crate::decide::{
    LastWrite, Queue, RequestedDeletion, Response, Write, WriteInput, WriteOutcome,
    changes_readiness, deletion_detail, is_deleted, is_written, needs_reconcile, newest, outcome,
    write,
};
use crate::metrics::Metrics;
use crate::start_times::StartTimes;
use crate::store::StatusReader;

/// How often all copies are compared with the statuses, as upstream does. It only repairs missed changes.
const RESYNC: Duration = Duration::from_secs(10);

/// Why a pod is deleted from the API server.
const RULE: &str = "pod-ended";

/// State of pods that the writer needs in addition to their statuses.
pub trait ApiView: Debug + Send + Sync {
    /// The API server's copy of a pod; for a static pod its mirror pod.
    fn copy(&self, uid: &PodUid) -> Option<Arc<Pod>>;
    /// The pods whose copies changed after that change, and the number of the latest change.
    fn changed_since(&self, change: u64) -> (Vec<PodUid>, u64);
    /// A receiver of the number of changes of copies.
    fn changes(&self) -> watch::Receiver<u64>;
    /// How many complete lists were received.
    fn listings(&self) -> u64;
    /// Whether containers of a pod may still run.
    fn may_run(&self, uid: &PodUid) -> bool;
}

/// Dependencies of the writer.
#[derive(Debug, Clone)]
pub struct WriterParts {
    /// Writes statuses.
    pub api: Arc<dyn PodApi>,
    /// Deletes pods.
    pub writes: Arc<dyn PodWrites>,
    /// The API server's copies.
    pub copies: Arc<dyn ApiView>,
    /// The statuses.
    pub statuses: StatusReader,
    /// The wall clock.
    pub clock: Arc<dyn WallClock>,
    /// Metrics.
    pub metrics: Metrics,
    /// Measures pod starts.
    pub starts: StartTimes,
    /// Catches panics in the work for a single pod.
    pub panics: PanicGuard,
}

/// The result of writing a pod.
#[derive(Debug)]
struct WriteJob {
    uid: PodUid,
    wrote: WriteOutcome,
    written: Option<LastWrite>,
    /// Whether a status was written.
    patched: bool,
    /// Set if its deletion was requested.
    deleted: Option<RequestedDeletion>,
    /// The time since when its status has differed from the API server's.
    since: Option<Instant>,
}

/// The state of the writer's task, which is its only user.
#[derive(Debug)]
pub struct Writer {
    parts: WriterParts,
    queue: Queue,
    jobs: JoinSet<WriteJob>,
    written: BTreeMap<PodUid, LastWrite>,
    /// Pods whose deletion was requested.
    deleted: BTreeMap<PodUid, RequestedDeletion>,
    /// The time since when each pod's status has differed from the API server's.
    since: BTreeMap<PodUid, Instant>,
    /// The last processed changes of statuses and of copies.
    seen: (u64, u64),
    /// How many complete lists had been received then.
    listings: u64,
    throttle: LogThrottle,
    /// The origin of the queue's times.
    begun: Instant,
}

impl Writer {
    /// Creates an idle writer.
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

    /// Writes until `stop` is cancelled.
    pub async fn run(mut self, stop: CancellationToken) {
        let mut statuses = self.parts.statuses.subscribe();
        let mut copies = self.parts.copies.changes();
        let mut resync = interval_at(Instant::now() + RESYNC, RESYNC);
        resync.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            statuses.mark_unchanged();
            copies.mark_unchanged();
            self.process_changes();
            self.start();
            let next = self.queue.next_at();
            let due = self.begun + next.unwrap_or_default();
            // Biased: stopping first; then jobs, of which there are few; the other branches all
            // process the same changes.
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
                // A sender has ended, and the agent with it.
                stop.cancelled().await;
                return;
            }
        }
    }

    /// Processes changes.
    fn process_changes(&mut self) {
        let (statuses, copies) = self.seen;
        for (uid, change) in self.parts.statuses.changed_since(statuses) {
            self.seen.0 = self.seen.0.max(change);
            self.mark(&uid, change);
            self.since.entry(uid).or_insert_with(Instant::now);
        }
        self.process_listing();
        let (changed, number) = self.parts.copies.changed_since(copies);
        self.seen.1 = number;
        for uid in changed {
            if let Some(copy) = self.parts.copies.copy(&uid) {
                let (guard, name) = (&self.parts.panics, view::pod_name(&copy));
                let of = PanicSubject::Pod(&uid, Some(&name));
                // Only a measurement is lost: nothing must be repeated.
                guard.catch(PanicStep::StatusWrite, of, || self.parts.starts.observe(&copy)).ok();
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

    /// Queues a pod. Changes of readiness are written first.
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

    /// After a new list, responses no longer count: the list may show an earlier state.
    fn process_listing(&mut self) {
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
            let begun = WriteJob {
                uid,
                wrote: WriteOutcome::Well,
                written,
                patched: false,
                deleted,
                since,
            };
            self.jobs.spawn(async move { parts.write_guarded(begun).await });
        }
    }

    fn ended(&mut self, ended: Result<WriteJob, tokio::task::JoinError>) {
        let WriteJob { uid, wrote, written, patched, deleted, .. } = match ended {
            Ok(ended) => ended,
            Err(error) => std::panic::resume_unwind(error.into_panic()),
        };
        let now = Instant::now().into_std();
        let published = self.parts.statuses.get(&uid);
        let change = published.as_ref().map_or(0, |published| published.version);
        self.queue.done(&uid, wrote, change, self.begun.elapsed());
        match wrote {
            WriteOutcome::Away(_) => {
                if self.throttle.failed(now) {
                    warn!("Failed to update pod statuses, retrying");
                }
            }
            // Whether the API server is reachable is unknown.
            WriteOutcome::Later(_) | WriteOutcome::Panicked => {}
            WriteOutcome::Well | WriteOutcome::Refused | WriteOutcome::Failed => {
                if let Some(after) = self.throttle.recovered(now) {
                    info!(?after, "Pod status updates succeed again");
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
        if patched || wrote == WriteOutcome::Well {
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
                // A new list was received before this was known.
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
    /// Writes a pod. After a panic the outcome of the write is unknown: the next copy
    /// shows it.
    async fn write_guarded(&self, begun: WriteJob) -> WriteJob {
        let (uid, since) = (begun.uid.clone(), begun.since);
        let name = self.copies.copy(&uid).map(|pod| view::pod_name(&pod));
        let of = PanicSubject::Pod(&uid, name.as_ref());
        let ended = self.panics.catch_async(PanicStep::StatusWrite, of, self.write(begun)).await;
        ended.unwrap_or_else(|_| {
            let (wrote, patched) = (WriteOutcome::Panicked, false);
            WriteJob { uid, wrote, written: None, patched, deleted: None, since }
        })
    }

    /// Writes a pod.
    async fn write(&self, mut ended: WriteJob) -> WriteJob {
        // A status and then the deletion, or a status that changed meanwhile.
        for _ in 0..3 {
            match self.step(&mut ended).await {
                Ok(true) => {}
                Ok(false) => break,
                Err(error) => {
                    ended.wrote = outcome(&error);
                    log_failure(&ended, &error);
                    break;
                }
            }
        }
        ended
    }

    /// Makes one write. Returns whether more may follow.
    async fn step(&self, ended: &mut WriteJob) -> Result<bool, ApiError> {
        let Some(published) = self.statuses.get(&ended.uid) else { return Ok(false) };
        let may_run = self.copies.may_run(&ended.uid);
        // Before the copy: a list between the two is processed again.
        let listings = self.copies.listings();
        let Some(received) = self.copies.copy(&ended.uid) else { return Ok(false) };
        let answer = ended.written.as_ref().and_then(|written| written.answer.as_ref());
        let api = Arc::clone(newest(&received, listings, answer));
        if let Some(written) = &mut ended.written
            && Arc::ptr_eq(&api, &received)
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
                ended.wrote = WriteOutcome::Later(time);
                Ok(false)
            }
            Write::Patch(patch) => {
                debug!(pod = %view::pod_name(&api), uid = %ended.uid, patch, "Status for pod updated successfully");
                let answer = self.api.patch_status(&view::pod_name(&api), patch).await?;
                ended.patched = true;
                let listings = self.copies.listings();
                ended.written = Some(LastWrite {
                    status: published.version,
                    may_run,
                    version: view::version(&answer).to_owned(),
                    listings,
                    answer: Some(Response { pod: answer, listings }),
                });
                Ok(true)
            }
            Write::Delete => {
                let deleted = ended.deleted.as_ref();
                if !deleted.is_some_and(|deleted| is_deleted(deleted, listings, &api)) {
                    self.delete(&api).await?;
                    let version = view::version(&api).to_owned();
                    ended.deleted = Some(RequestedDeletion { version, listings });
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
            Ok(_) => info!(pod = %name, %uid, "Pod fully terminated and removed from API server"),
            // Another pod has its name.
            Err(ApiError::NotFound | ApiError::Conflict(_)) => {
                debug!(pod = %name, %uid, "Terminated pod is already removed from API server");
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }
}

/// Logs an error. An unreachable server is logged once for all pods; a conflict
/// is resolved by the next event of the watch.
fn log_failure(ended: &WriteJob, error: &ApiError) {
    if matches!(ended.wrote, WriteOutcome::Refused | WriteOutcome::Failed)
        && !matches!(error, ApiError::Conflict(_))
    {
        let (uid, error) = (&ended.uid, Chain(error));
        warn!(%uid, %error, "Failed to update status for pod");
    }
}

#[cfg(test)]
#[path = "writer_tests.rs"]
mod tests;
