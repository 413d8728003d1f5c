//! Writes statuses to the API server: what changed, several pods at a time, the newest first; and that a pod
//! is gone, once it is.
//!
//! What is to be written follows from the last status and the last copy of the API server alone, whatever
//! happened in between. No pod is asked for before it is written: the copy is the one that the source heard, or
//! the answer to our last write if that is newer, and a patch says only what differs.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use model::chain::Chain;
use model::cluster::PodTarget;
use model::ids::PodUid;
use model::ports::clock::WallClock;
use model::ports::cluster::{ApiError, PodWrites};
use model::ports::pod_api::PodApi;
use model::trouble::Trouble;
use model::verdict::{Detail, Input, Verdict};
use podspec::view;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use crate::decide::{Queue, Write, WriteInput, Wrote, write};
use crate::store::StatusReader;

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
}

/// What was written last about a pod.
#[derive(Debug, Clone)]
struct Written {
    /// The status.
    version: u64,
    /// Whether the pod may have been running.
    may_run: bool,
    /// The version that the pod had then.
    answered: Option<String>,
    /// The pod as the API server had it then, until the source has heard of it.
    answer: Option<Arc<Pod>>,
}

/// How the writing about a pod ended.
#[derive(Debug)]
struct Ended {
    uid: PodUid,
    wrote: Wrote,
    written: Option<Written>,
    /// Whether its deletion was asked for.
    deleted: bool,
}

/// The task's state; nobody else touches it.
#[derive(Debug)]
pub struct Writer {
    parts: WriterParts,
    queue: Queue,
    jobs: JoinSet<Ended>,
    written: BTreeMap<PodUid, Written>,
    /// Pods that only their finalizers hold any more.
    deleted: BTreeSet<PodUid>,
    /// The last changes that were taken in: of statuses, and of copies.
    seen: (u64, u64),
    trouble: Trouble,
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
            deleted: BTreeSet::new(),
            seen: (0, 0),
            trouble: Trouble::default(),
            begun: Instant::now(),
        }
    }

    /// Writes until told to stop.
    pub async fn run(mut self, stop: CancellationToken) {
        let mut statuses = self.parts.statuses.subscribe();
        let mut copies = self.parts.copies.changes();
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
            self.queue.mark(&uid, change);
        }
        let (changed, number) = self.parts.copies.changed_since(copies);
        self.seen.1 = number;
        for uid in changed {
            if let Some(published) = self.parts.statuses.get(&uid) {
                self.queue.mark(&uid, published.version);
            }
        }
        if self.written.len() + self.deleted.len() > 2 * self.parts.statuses.count() {
            let statuses = &self.parts.statuses;
            self.written.retain(|uid, _| statuses.get(uid).is_some());
            self.deleted.retain(|uid| statuses.get(uid).is_some());
        }
    }

    fn start(&mut self) {
        while let Some(uid) = self.queue.take(self.begun.elapsed()) {
            let parts = self.parts.clone();
            let written = self.written.get(&uid).cloned();
            let deleted = self.deleted.contains(&uid);
            self.jobs.spawn(async move { parts.write(uid, written, deleted).await });
        }
    }

    fn ended(&mut self, ended: Result<Ended, tokio::task::JoinError>) {
        let Ended { uid, wrote, written, deleted } = match ended {
            Ok(ended) => ended,
            Err(error) => std::panic::resume_unwind(error.into_panic()),
        };
        let now = Instant::now().into_std();
        let published = self.parts.statuses.get(&uid);
        let change = published.as_ref().map_or(0, |published| published.version);
        self.queue.done(&uid, wrote, change, self.begun.elapsed());
        if let Wrote::Away(_) = wrote {
            if self.trouble.failed(now) {
                warn!("statuses do not reach the API server; trying again");
            }
        } else if let Some(after) = self.trouble.over(now) {
            info!(?after, "statuses reach the API server again");
        }
        if published.is_none() {
            self.queue.forget(&uid);
            self.written.remove(&uid);
            self.deleted.remove(&uid);
            return;
        }
        if let Some(written) = written {
            self.written.insert(uid.clone(), written);
        }
        if deleted {
            self.deleted.insert(uid);
        }
    }
}

impl WriterParts {
    /// Writes what is to be written about a pod.
    async fn write(&self, uid: PodUid, written: Option<Written>, deleted: bool) -> Ended {
        let mut ended = Ended { uid, wrote: Wrote::Well, written, deleted };
        // A status and the end behind it, or a status that changed meanwhile.
        for _ in 0..3 {
            match self.step(&mut ended).await {
                Ok(true) => {}
                Ok(false) => break,
                Err(error) => {
                    ended.wrote = meaning(&ended.uid, &error);
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
        let Some(heard) = self.copies.copy(&ended.uid) else { return Ok(false) };
        let answer = ended.written.as_ref().and_then(|written| written.answer.clone());
        let api = newest(Arc::clone(&heard), answer);
        if let Some(written) = &mut ended.written
            && Arc::ptr_eq(&api, &heard)
        {
            written.answer = None;
        }
        let is_written = ended.written.as_ref().is_some_and(|written| {
            let same = written.version == published.version && written.may_run == may_run;
            same && written.answered.as_deref() == version(&api)
        });
        let input = WriteInput {
            api: &api,
            ours: &published.status,
            may_run,
            finished: published.finished,
            written: is_written,
            now: self.clock.now(),
        };
        match write(&input) {
            Write::Nothing => Ok(false),
            Write::Patch(patch) => {
                debug!(pod = %view::pod_name(&api), uid = %ended.uid, patch, "status written");
                let answer = self.api.patch_status(&view::pod_name(&api), patch).await?;
                ended.written = Some(Written {
                    version: published.version,
                    may_run,
                    answered: version(&answer).map(ToOwned::to_owned),
                    answer: Some(answer),
                });
                Ok(true)
            }
            Write::Delete if ended.deleted => Ok(false),
            Write::Delete => {
                self.delete(&api).await?;
                ended.deleted = true;
                Ok(false)
            }
        }
    }

    async fn delete(&self, pod: &Pod) -> Result<(), ApiError> {
        let (uid, name) = (view::uid(pod), view::pod_name(pod));
        let phase = pod.status.as_ref().and_then(|status| status.phase.clone());
        let detail = Detail::default().with("phase", Input::Text(phase.unwrap_or_default()));
        let verdict = Verdict { detail, ..Verdict::of_pod(&uid, &name, RULE, self.clock.now()) };
        self.writes.remove_pod(&PodTarget::of(&name, &uid), &verdict).await?;
        info!(pod = %name, %uid, "pod has ended and is deleted");
        Ok(())
    }
}

/// The newer of what was heard and what was answered. Of two that cannot be compared it is what was heard.
fn newest(heard: Arc<Pod>, answer: Option<Arc<Pod>>) -> Arc<Pod> {
    let number = |pod: &Pod| version(pod).and_then(|version| version.parse::<u64>().ok());
    let newer = answer.filter(|answer| number(answer) > number(&heard));
    newer.filter(|answer| view::uid(answer) == view::uid(&heard)).unwrap_or(heard)
}

fn version(pod: &Pod) -> Option<&str> {
    pod.metadata.resource_version.as_deref()
}

/// What an error means for what is tried next.
fn meaning(uid: &PodUid, error: &ApiError) -> Wrote {
    match error {
        // The feed tells what is there instead.
        ApiError::NotFound => Wrote::Well,
        ApiError::Throttled { retry_after } => Wrote::Away(retry_after.unwrap_or_default()),
        // So says whoever stands before a server that is away; 500 may be said of one pod alone.
        ApiError::Unreachable(_)
        | ApiError::TooSlow(_)
        | ApiError::Refused { code: 502..=504, .. } => Wrote::Away(Duration::ZERO),
        error => {
            warn!(%uid, error = %Chain(error), "the API server does not take the status of a pod");
            Wrote::Refused
        }
    }
}

#[cfg(test)]
#[path = "writer_tests.rs"]
mod tests;
