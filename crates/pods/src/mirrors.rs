//! Maintains the mirror pods of static pods in the API server: creates missing ones, recreates them when they were
//! deleted or show another version, and deletes those whose static pods are gone.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use model::chain::Chain;
use model::cluster::PodTarget;
use model::ids::{PodName, PodUid};
use model::log_throttle::LogThrottle;
use model::panics::{CaughtPanic, PanicGuard, PanicStep, PanicSubject};
use model::ports::clock::WallClock;
use model::ports::cluster::{ApiError, PodWrites};
use model::ports::pod_api::PodApi;
use model::verdict::Verdict;
use podspec::view;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::decide::backoff::Backoff;
use crate::decide::mirror::{MirrorStep, OwnerNode, StaticPods, mirror_of, mirror_steps};
use crate::source::api::ApiCopies;

/// How long to wait for the watch to show a step before the step is repeated.
const ECHO: Duration = Duration::from_secs(10);

/// Dependencies of [`Mirrors`].
#[derive(Debug)]
pub struct MirrorParts {
    /// Creates pods.
    pub api: Arc<dyn PodApi>,
    /// Deletes pods.
    pub writes: Arc<dyn PodWrites>,
    /// The existing mirror pods.
    pub copies: ApiCopies,
    /// The static pods; written by the sync loop.
    pub pods: watch::Receiver<StaticPods>,
    /// The name of this node.
    pub node: String,
    /// The wall clock.
    pub clock: Arc<dyn WallClock>,
    /// Catches panics in the work for single pods.
    pub panics: PanicGuard,
}

/// The task that maintains mirror pods.
#[derive(Debug)]
pub struct Mirrors {
    parts: MirrorParts,
    /// When each static pod was first seen.
    seen: BTreeMap<PodUid, Timestamp>,
    /// Steps that the watch has not shown yet: the mirror pod before the step, and until when to wait.
    done: BTreeMap<PodName, (Option<PodUid>, Instant)>,
    /// Failed steps and their back-off: for one mirror pod, or for all of them.
    backoff: Backoff<Option<PodName>>,
    /// The origin of the time of retries.
    begun: Instant,
    throttle: LogThrottle,
}

impl Mirrors {
    /// Creates an idle task.
    pub fn new(parts: MirrorParts) -> Self {
        let (seen, done) = (BTreeMap::new(), BTreeMap::new());
        let (backoff, throttle) = (Backoff::default(), LogThrottle::default());
        Self { parts, seen, done, backoff, begun: Instant::now(), throttle }
    }

    /// Maintains mirror pods until `stop` is cancelled.
    pub async fn run(mut self, stop: CancellationToken) {
        let mut copy_changes = self.parts.copies.changes();
        loop {
            copy_changes.mark_unchanged();
            self.parts.pods.mark_unchanged();
            // Biased: stopping first. A pass is interrupted between two steps, or within a call whose
            // outcome the next agent sees.
            let again = tokio::select! {
                biased;
                () = stop.cancelled() => return,
                again = self.pass() => again,
            };
            // Biased: stopping first; the other branches all start a new pass.
            let open = tokio::select! {
                biased;
                () = stop.cancelled() => return,
                changed = self.parts.pods.changed() => changed.is_ok(),
                changed = copy_changes.changed() => changed.is_ok(),
                () = sleep_until(again.unwrap_or_else(Instant::now)), if again.is_some() => true,
            };
            if !open {
                // A sender was dropped, because the agent stops.
                stop.cancelled().await;
                return;
            }
        }
    }

    /// Does all pending steps; returns when the next pass is due.
    async fn pass(&mut self) -> Option<Instant> {
        let mirrors = self.parts.copies.mirrors()?;
        let pods = self.parts.pods.borrow().clone();
        self.note_seen(&pods);
        let there: BTreeMap<PodName, PodUid> =
            mirrors.iter().map(|mirror| (view::pod_name(mirror), view::uid(mirror))).collect();
        let now = Instant::now();
        self.done
            .retain(|name, (before, until)| there.get(name) == before.as_ref() && *until > now);
        let steps = mirror_steps(&pods, &mirrors);
        let concerned: BTreeSet<PodName> = steps.iter().map(MirrorStep::name).collect();
        self.backoff.retain(|key| key.as_ref().is_none_or(|name| concerned.contains(name)));
        for step in steps {
            let (name, now) = (step.name(), Instant::now());
            let keys = [None, Some(name.clone())];
            let waits = keys.iter().any(|key| self.backoff.waits(key, now - self.begun));
            if waits || self.done.contains_key(&name) {
                continue;
            }
            match self.act_guarded(&step).await {
                Ok(()) => {
                    for key in &keys {
                        self.backoff.succeeded(key);
                    }
                    self.done.insert(name.clone(), (there.get(&name).cloned(), now + ECHO));
                }
                Err(error) => self.failed(name, &error),
            }
        }
        if self.backoff.is_empty()
            && let Some(after) = self.throttle.recovered(Instant::now().into_std())
        {
            info!(?after, "Mirror pods are up to date again");
        }
        let again = self.backoff.next().map(|at| self.begun + at);
        self.done.values().map(|(_, until)| *until).chain(again).min()
    }

    fn failed(&mut self, name: PodName, error: &MirrorError) {
        let now = Instant::now();
        if self.throttle.failed(now.into_std()) {
            warn!(pod = %name, error = %Chain(error), "Cannot update mirror pod, retrying");
        }
        self.backoff.failed((!error.concerns_all()).then_some(name), now - self.begun);
    }

    /// Records when a static pod is first seen; its mirror pod shows this time.
    fn note_seen(&mut self, pods: &StaticPods) {
        let now = self.parts.clock.now();
        let wanted: Vec<PodUid> = pods.wanted.iter().map(|pod| view::uid(pod)).collect();
        self.seen.retain(|uid, _| wanted.contains(uid));
        for uid in wanted {
            self.seen.entry(uid).or_insert(now);
        }
    }

    async fn act_guarded(&self, step: &MirrorStep) -> Result<(), MirrorError> {
        let (uid, name) = (step.uid(), step.name());
        let of = PanicSubject::Pod(&uid, Some(&name));
        let done = self.parts.panics.catch_async(PanicStep::MirrorPod, of, self.act(step)).await;
        done.unwrap_or_else(|panic| Err(MirrorError::Panicked(panic)))
    }

    async fn act(&self, step: &MirrorStep) -> Result<(), MirrorError> {
        match step {
            MirrorStep::Create(pod) => self.create(pod).await,
            MirrorStep::Delete(mirror, why) => self.delete(mirror, why).await,
        }
    }

    async fn create(&self, pod: &Pod) -> Result<(), MirrorError> {
        let node = &self.parts.node;
        let uid = self.parts.api.node_uid(node).await.map_err(MirrorError::AskNode)?;
        let uid = uid.ok_or(MirrorError::NoNode)?;
        let seen = self.seen.get(&view::uid(pod)).copied();
        let seen = seen.unwrap_or_else(|| self.parts.clock.now());
        let mirror = mirror_of(pod, OwnerNode { name: node, uid: &uid }, seen);
        match self.parts.api.create_pod(&mirror).await {
            Ok(made) => {
                info!(pod = %view::pod_name(pod), uid = %view::uid(&made), "Created mirror pod");
                Ok(())
            }
            Err(error) => Err(MirrorError::Create(error)),
        }
    }

    async fn delete(&self, mirror: &Pod, rule: &'static str) -> Result<(), MirrorError> {
        let (uid, name) = (view::uid(mirror), view::pod_name(mirror));
        let verdict = Verdict::of_pod(&uid, &name, rule, self.parts.clock.now());
        match self.parts.writes.remove_pod(&PodTarget::of(&name, &uid), &verdict).await {
            // Another uid: the mirror pod was recreated meanwhile.
            Ok(_) | Err(ApiError::NotFound | ApiError::Conflict(_)) => Ok(()),
            Err(error) => Err(MirrorError::Delete(error)),
        }
    }
}

/// Why a mirror pod could not be updated.
#[derive(Debug, thiserror::Error)]
enum MirrorError {
    /// The node could not be read.
    #[error("get the node")]
    AskNode(#[source] ApiError),
    /// A mirror pod belongs to its node.
    #[error("the node is not registered")]
    NoNode,
    /// The mirror pod could not be created.
    #[error("create the mirror pod")]
    Create(#[source] ApiError),
    /// The mirror pod could not be deleted.
    #[error("delete the mirror pod")]
    Delete(#[source] ApiError),
    /// A step panicked.
    #[error("internal error")]
    Panicked(#[source] CaughtPanic),
}

impl MirrorError {
    /// Whether other mirror pods would fail for the same reason.
    fn concerns_all(&self) -> bool {
        match self {
            Self::AskNode(_) | Self::NoNode => true,
            Self::Create(error) | Self::Delete(error) => error.is_away(),
            Self::Panicked(_) => false,
        }
    }
}

#[cfg(test)]
#[path = "mirrors_tests.rs"]
mod tests;
