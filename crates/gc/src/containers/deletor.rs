//! Removes old instances as soon as newer ones have exited.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use model::ids::PodName;
use model::observed::{Container, ContainerState, Instance, RuntimePodStatus};
use model::verdict::Verdict;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tracing::debug;

use super::{ContainerGcParts, act};
use crate::decide::deletor::{DeletorScope, ObservedPod, beyond, item, keep};

/// The length of the queue. Further removals are left to the next pass.
const QUEUE: usize = 50;

/// A queued removal.
#[derive(Debug)]
struct Removal {
    container: Container,
    verdict: Verdict,
}

/// Receives exits. Never blocks.
#[derive(Debug, Clone)]
pub struct Deletor {
    keep: usize,
    /// Read by the task; closed when it ends.
    queue: mpsc::Sender<Removal>,
}

/// Removes queued containers, one at a time.
#[derive(Debug)]
pub struct DeletorTask {
    parts: ContainerGcParts,
    queue: mpsc::Receiver<Removal>,
}

impl Deletor {
    /// Creates a deletor and its task.
    pub fn new(parts: ContainerGcParts) -> (DeletorTask, Self) {
        let (sender, queue) = mpsc::channel(QUEUE);
        let keep = keep(parts.policy.per_container);
        (DeletorTask { parts, queue }, Self { keep, queue: sender })
    }

    /// Containers or sandboxes of a pod exited. Queues instances beyond the newest, or all instances of a
    /// terminated pod, with the rule that requires it.
    pub fn died(
        &self,
        ids: impl Iterator<Item = String>,
        pod: ObservedPod<'_>,
        all: Option<&'static str>,
        now: Timestamp,
    ) {
        let ObservedPod { status, name } = pod;
        let mut doomed = BTreeMap::new();
        let (keep, rule) = all.map_or((self.keep, "per-container-cap"), |rule| (0, rule));
        let died: BTreeSet<String> = ids.collect();
        // One instance of each name is enough, and there may be many.
        let mut names = BTreeSet::new();
        let known = status.instances().filter(|one| died.contains(one.id.as_str()));
        let one_each = known.filter(|one| names.insert(one.name));
        for id in one_each.map(|one| one.id.to_string()).chain(died.first().cloned()) {
            let which = if all.is_some() { DeletorScope::All } else { DeletorScope::SameAs(&id) };
            doomed
                .extend(beyond(status, which, keep).into_iter().map(|one| (one.instance.id, one)));
        }
        let mut left = 0;
        let cap = all.is_none().then_some(keep);
        for one in doomed.into_values() {
            let item = item(&one, pod, rule, cap, now);
            let Some(verdict) = item.verdict(now) else { continue };
            let removal = Removal { container: listed(&one.instance, status, name), verdict };
            left += usize::from(self.queue.try_send(removal).is_err());
        }
        if left > 0 {
            debug!(uid = %status.uid, left, "Deletor queue is full, leaving removals to the next pass");
        }
    }
}

/// An instance in the form of a list entry.
fn listed(instance: &Instance<'_>, status: &RuntimePodStatus, pod: &PodName) -> Container {
    Container {
        id: instance.id.clone(),
        sandbox_id: instance.sandbox_id.clone(),
        pod_uid: status.uid.clone(),
        pod: pod.clone(),
        name: Arc::clone(instance.name),
        attempt: 0,
        state: ContainerState::Exited,
        created_at: instance.created_at,
        image_ref: Arc::clone(instance.image_ref),
    }
}

impl DeletorTask {
    /// Removes queued containers until stopped.
    pub async fn run(mut self, stop: CancellationToken) {
        loop {
            // Biased: the stop comes first.
            let removal = tokio::select! {
                biased;
                () = stop.cancelled() => return,
                removal = self.queue.recv() => removal,
            };
            // All senders have stopped, so this task is about to be stopped too.
            let Some(Removal { container, verdict }) = removal else {
                stop.cancelled().await;
                return;
            };
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                () = act::remove_one(&self.parts, &container, &verdict) => {}
            }
        }
    }
}
