//! Carries out decisions: a limited number of concurrent deletions, as many as the API server handles.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use model::chain::Chain;
use model::cluster::{ClusterEvent, PodRemoved, PodTarget, Version};
use model::ports::clock::WallClock;
use model::ports::cluster::{ApiError, PodWrites};
use model::verdict::Verdict;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use crate::cache::SharedCache;
use crate::decide::holds::holds;
use crate::decide::pace::{Pace, Sign};
use crate::decide::patch::{KnownStatus, failed_status};
use crate::events::PATIENCE;
use crate::explain;
use crate::metrics::Metrics;
use crate::plan::{Pass, Removal};

/// How often a throttled deletion is tried.
const TRIES: u32 = 10;

/// Deletes pods.
#[derive(Debug)]
pub(crate) struct Deletions {
    pub(crate) deletor: Deletor,
    pub(crate) pace: Pace,
    /// The origin of the pace's times.
    pub(crate) start: Instant,
}

/// Deletes one pod.
#[derive(Debug)]
pub(crate) struct Deletor {
    pub(crate) pods: Arc<dyn PodWrites>,
    pub(crate) cache: Arc<SharedCache>,
    pub(crate) clock: Arc<dyn WallClock>,
    pub(crate) metrics: Metrics,
    /// The queue of the event writer. While it is full, deletions wait.
    pub(crate) events: Option<Events>,
    pub(crate) dry_run: bool,
}

/// The event queue.
#[derive(Debug)]
pub(crate) struct Events {
    sender: mpsc::Sender<ClusterEvent>,
    /// How many deletions found room.
    found_room: AtomicU64,
    /// Whether no deletion found room for so long that deletions no longer wait, until one does.
    are_stuck: AtomicBool,
}

impl Events {
    pub(crate) fn new(sender: mpsc::Sender<ClusterEvent>) -> Self {
        Self { sender, found_room: AtomicU64::new(0), are_stuck: AtomicBool::new(false) }
    }

    /// Waits for room for an event, up to a limit. If no deletion found any in this time, later ones continue
    /// without an event.
    async fn room(&self) -> Room<'_> {
        if let Ok(permit) = self.sender.try_reserve() {
            return self.found(permit);
        }
        if self.are_stuck.load(Ordering::Relaxed) {
            return Room::None;
        }
        let before = self.found_room.load(Ordering::Relaxed);
        if let Ok(Ok(permit)) = timeout(PATIENCE, self.sender.reserve()).await {
            return self.found(permit);
        }
        let is_stuck = self.found_room.load(Ordering::Relaxed) == before;
        self.are_stuck.fetch_or(is_stuck, Ordering::Relaxed);
        Room::None
    }

    fn found<'a>(&self, permit: mpsc::Permit<'a, ClusterEvent>) -> Room<'a> {
        self.found_room.fetch_add(1, Ordering::Relaxed);
        self.are_stuck.store(false, Ordering::Relaxed);
        Room::Here(permit)
    }
}

/// The result of one deletion: done, failed, or skipped.
#[derive(Debug)]
struct DeletionResult {
    /// The load of the server, according to its response.
    sign: Sign,
    /// Whether to try again: the server throttled it.
    again: bool,
}

impl From<Sign> for DeletionResult {
    fn from(sign: Sign) -> Self {
        Self { sign, again: false }
    }
}

/// Room for the event of a deletion.
#[derive(Debug)]
enum Room<'a> {
    /// Events are disabled.
    NotNeeded,
    /// There was no room in time.
    None,
    Here(mpsc::Permit<'a, ClusterEvent>),
}

/// A deletion and the number of its attempts.
#[derive(Debug, Clone, Copy)]
struct Attempt {
    removal: Removal,
    number: u32,
    mark: Option<Mark>,
}

/// A pod that an earlier attempt marked as failed. The cache may not contain the change yet.
#[derive(Debug, Clone, Copy)]
struct Mark {
    before: Version,
    after: Version,
}

impl Deletions {
    /// Carries out all deletions and waits for them; after a stop, the rest is not started.
    pub(crate) async fn carry_out(&mut self, removals: Vec<Removal>, stop: &CancellationToken) {
        let Self { deletor, pace, start } = self;
        let mut waiting: VecDeque<Attempt> = removals.into_iter().map(Attempt::first).collect();
        let mut under_way = FuturesUnordered::new();
        while !stop.is_cancelled() {
            let pause = pace.pause(start.elapsed());
            while pause.is_zero() && under_way.len() < pace.limit() {
                let Some(attempt) = waiting.pop_front() else { break };
                under_way.push(deletor.attempt(attempt));
            }
            if under_way.is_empty() && waiting.is_empty() {
                return;
            }
            // Biased: the stop comes first, and a pause ends by itself. Calls in progress at a stop are
            // dropped: the next leader decides again.
            let ended = tokio::select! {
                biased;
                () = stop.cancelled() => return,
                Some(ended) = under_way.next() => ended,
                () = tokio::time::sleep(pause), if !pause.is_zero() => continue,
            };
            let (attempt, DeletionResult { sign, again }) = ended;
            pace.saw(sign, start.elapsed());
            if again {
                waiting.push_back(Attempt { number: attempt.number + 1, ..attempt });
            }
            deletor.metrics.concurrency(pace.limit());
        }
    }
}

impl Attempt {
    fn first(removal: Removal) -> Self {
        Self { removal, number: 1, mark: None }
    }
}

impl Deletor {
    async fn attempt(&self, mut attempt: Attempt) -> (Attempt, DeletionResult) {
        // Before the pod is checked again: this may take a while.
        let room = match &self.events {
            Some(events) if !self.dry_run => events.room().await,
            _ => Room::NotNeeded,
        };
        let Some(chosen) = self.chosen(&attempt.removal) else {
            debug!(rule = attempt.removal.rule.name(), "Pod changed since the decision, skipping");
            return (attempt, Sign::Nothing.into());
        };
        let pass = attempt.removal.rule.pass();
        let namespace = &*chosen.target.namespace;
        if self.dry_run {
            info!(verdict = %chosen.verdict, "Pod would be deleted (--dry-run)");
            self.metrics.would_delete(namespace, pass);
            self.cache.lock().mark_asked(attempt.removal.pod);
            return (attempt, Sign::Nothing.into());
        }
        let sign = match self.delete(&chosen, pass, &mut attempt.mark).await {
            Ok(removed) => {
                self.cache.lock().mark_asked(attempt.removal.pod);
                self.metrics.tried(namespace, pass, true);
                self.report_deletion(room, &chosen, &attempt.removal, removed);
                Sign::Well
            }
            Err(error) => {
                let sign = Sign::of(&error);
                if matches!(sign, Sign::Throttled(_)) && attempt.number < TRIES {
                    return (attempt, DeletionResult { sign, again: true });
                }
                self.metrics.tried(namespace, pass, false);
                let error = Chain(&error);
                warn!(pod = %chosen.name(), rule = chosen.verdict.rule, %error, "Pod was not deleted");
                sign
            }
        };
        (attempt, sign.into())
    }

    /// The pod in its current state, if the decision still holds.
    fn chosen(&self, removal: &Removal) -> Option<Chosen> {
        let cache = self.cache.lock();
        let (view, target, known) = cache.target(removal.pod)?;
        let node = cache.node(view.node);
        holds(&view, removal.rule.pass(), node.as_ref()).then(|| Chosen {
            verdict: explain::verdict(&view, &target, &removal.rule, self.clock.now()),
            node: view.node.to_owned(),
            target,
            known,
        })
    }

    /// Marks a pod as failed unless it has terminated, and deletes it. Without the mark it is not deleted: a
    /// controller that counts terminated pods would see it vanish while it ran.
    async fn delete(
        &self,
        chosen: &Chosen,
        pass: Pass,
        mark: &mut Option<Mark>,
    ) -> Result<PodRemoved, ApiError> {
        let Some(status) = failed_status(&chosen.known, pass, self.clock.now()) else {
            return self.pods.remove_pod(&chosen.target, &chosen.verdict).await;
        };
        let before = chosen.target.version;
        let marked = mark.filter(|mark| mark.before == before).map(|mark| mark.after);
        let version = match marked {
            Some(version) => version,
            None => self.pods.fail_pod(&chosen.target, &status).await?,
        };
        *mark = Some(Mark { before, after: version });
        let target = PodTarget { version, ..chosen.target.clone() };
        self.pods.remove_pod(&target, &chosen.verdict).await
    }

    fn report_deletion(
        &self,
        room: Room<'_>,
        chosen: &Chosen,
        removal: &Removal,
        removed: PodRemoved,
    ) {
        let permit = match room {
            Room::NotNeeded => return,
            Room::None => return self.metrics.events_dropped(1),
            Room::Here(permit) => permit,
        };
        let now = self.clock.now();
        let mut event = explain::event(&chosen.target, &removal.rule, &chosen.node, now);
        if removed == PodRemoved::Held {
            event.message.push_str("; finalizers still hold it");
        }
        permit.send(event);
    }
}

/// A pod to be deleted.
#[derive(Debug)]
struct Chosen {
    target: PodTarget,
    known: KnownStatus,
    verdict: Verdict,
    node: String,
}

impl Chosen {
    fn name(&self) -> String {
        format!("{}/{}", self.target.namespace, self.target.name)
    }
}
