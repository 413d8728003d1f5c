//! The status manager: the only writer of pod statuses.
//!
//! The sync loop adds, rejects and removes pods; pod workers report observations. All of that is one map behind
//! one lock ([`crate::store`]), which is never held across an await: an observation becomes a status from the
//! status before it, with no other writer in between, and the worker gets the result back at once.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Pod, PodStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use model::ids::PodUid;
use model::observed;
use model::ports::addresses::HostIps;
use model::ports::clock::WallClock;
use model::ports::files::FileError;
use model::probe::PodProbes;
use podspec::view;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tracing::error;

use crate::checkpoint::StatusCheckpoint;
use crate::decide::{
    NodeFacts, StatusInput, StatusOverrides, first_steps, illegal_transition, pod_status,
    saved_base, terminated, with_probes,
};
use crate::pod_metrics::PodMetrics;
use crate::store::{LockedStore, Published, StatusReader, StatusStore, StoredStatus};

/// Dependencies of the manager.
#[derive(Debug)]
pub struct StatusParts {
    /// Facts about the node, without its addresses.
    pub node: NodeFacts,
    /// The node's addresses.
    pub host_ips: Arc<dyn HostIps>,
    /// The wall clock.
    pub clock: Arc<dyn WallClock>,
    /// Metrics of pods.
    pub metrics: PodMetrics,
    /// Counts changes of pods and of statuses.
    pub changes: watch::Sender<u64>,
}

/// The pods of the node and their statuses.
#[derive(Debug)]
pub struct PodStatusManager {
    parts: StatusParts,
    store: StatusStore,
    reader: StatusReader,
    checkpoint: Option<StatusCheckpoint>,
}

impl PodStatusManager {
    /// A manager without pods.
    pub fn new(parts: StatusParts) -> Self {
        let store = StatusStore::new();
        let reader = store.reader();
        Self { parts, store, reader, checkpoint: None }
    }

    /// The same manager, with statuses that survive restarts of the agent.
    #[must_use]
    pub fn with_checkpoint(self, checkpoint: StatusCheckpoint) -> Self {
        Self { checkpoint: Some(checkpoint), ..self }
    }

    /// Loads the statuses that an earlier agent saved. Call it before adding the first pod.
    pub async fn load(&self) -> Result<(), FileError> {
        if let Some(checkpoint) = &self.checkpoint {
            let loaded = checkpoint.load().await?;
            self.store.lock().restore(loaded.statuses());
            checkpoint.set_loaded(loaded);
        }
        Ok(())
    }

    /// Saves statuses for the next agent until `stop` is cancelled.
    pub async fn save(&self, stop: CancellationToken) {
        match &self.checkpoint {
            Some(checkpoint) => checkpoint.run(&self.reader, stop).await,
            None => stop.cancelled().await,
        }
    }

    /// Reads pods and statuses.
    pub fn reader(&self) -> &StatusReader {
        &self.reader
    }

    /// Adds or updates a pod of a source.
    pub fn desired(&self, pod: &Arc<Pod>) {
        self.store.lock().set_pod(pod, self.parts.clock.now());
        self.changed();
    }

    /// Marks a pod as terminating: sets a deletion timestamp, like on a deleted pod of the API.
    pub fn terminating(&self, pod: &Pod) {
        let mut pod = pod.clone();
        pod.metadata.deletion_timestamp.get_or_insert(Time(self.parts.clock.now()));
        self.desired(&Arc::new(pod));
    }

    /// Publishes the rejection of a pod of a source.
    pub fn rejected(&self, pod: &Arc<Pod>, reason: &str, message: &str) {
        let now = self.parts.clock.now();
        let status = PodStatus {
            phase: Some("Failed".to_owned()),
            reason: Some(reason.to_owned()),
            message: Some(message.to_owned()),
            qos_class: Some(podspec::qos_class(pod).as_str().to_owned()),
            start_time: Some(Time(now)),
            observed_generation: pod.metadata.generation.filter(|generation| *generation != 0),
            ..PodStatus::default()
        };
        let mut store = self.store.lock();
        store.set_pod(pod, now);
        store.set_status(pod, status);
        drop(store);
        self.changed();
    }

    /// Drops a pod that neither a source nor a worker has any more.
    pub fn forgotten(&self, uid: &PodUid) {
        let removed = self.store.lock().remove(uid);
        if removed {
            self.changed();
        }
    }

    /// Drops all other pods.
    pub fn retain(&self, mut is_kept: impl FnMut(&PodUid) -> bool) {
        let mut store = self.store.lock();
        let gone: Vec<PodUid> = store.uids().filter(|uid| !is_kept(uid)).cloned().collect();
        for uid in &gone {
            store.remove(uid);
        }
        drop(store);
        if !gone.is_empty() {
            self.changed();
        }
    }

    /// Records that all sources are ready, and each of their pods was added.
    pub fn sources_complete(&self) {
        self.store.lock().set_sources_complete();
    }

    /// Publishes the status of a pod from an observation of its worker. A final status stays.
    pub fn observed(
        &self,
        pod: &Arc<Pod>,
        observed: &observed::RuntimePodStatus,
        overrides: &StatusOverrides,
    ) -> Published {
        let now = self.parts.clock.now();
        let node =
            NodeFacts { host_ips: self.parts.host_ips.host_ips(), ..self.parts.node.clone() };
        let mut store = self.store.lock();
        let previous = store.published(&observed.uid);
        if let Some(last) = previous.as_ref().filter(|previous| previous.finished) {
            return last.clone();
        }
        let saved = store.saved(&observed.uid);
        let saved = saved_base(saved.as_deref(), observed);
        let previous = previous.as_ref().map(|previous| &*previous.status).or(saved);
        let status = pod_status(&StatusInput {
            pod,
            observed,
            previous,
            start_failures: &overrides.start_failures,
            has_new_sandbox: overrides.has_new_sandbox,
            failure: overrides.failure.as_ref(),
            stopped_for_good: overrides.stopped_for_good,
            resizing: overrides.resize.resizing(),
            recursive_read_only: overrides.recursive_read_only,
            probes: &overrides.probes,
            node: &node,
            now,
        });
        let violation = previous.and_then(|before| illegal_transition(pod, before, &status));
        if let (Some(error), Some(last)) = (violation, store.published(&observed.uid)) {
            error!(pod = %view::pod_name(pod), uid = %observed.uid, %error, "Status update on pod aborted");
            return last;
        }
        self.measure_start(&mut store, &observed.uid, previous, &status);
        self.parts.metrics.observe_status(pod, previous, &status);
        let StoredStatus { published, is_new } = store.set_status(pod, status);
        drop(store);
        if is_new {
            self.changed();
        }
        published
    }

    /// Publishes the results of a pod's probes before its next observation. Returns the status if it changed.
    pub fn probed(&self, uid: &PodUid, probes: &PodProbes) -> Option<Published> {
        let now = self.parts.clock.now();
        let mut store = self.store.lock();
        let entry = store.entry(uid)?;
        let status = entry.status.as_ref().filter(|_| !entry.finished)?;
        let (pod, status) = (Arc::clone(&entry.pod), with_probes(&entry.pod, status, probes, now));
        let StoredStatus { published, is_new } = store.set_status(&pod, status);
        drop(store);
        if is_new {
            self.changed();
        }
        is_new.then_some(published)
    }

    /// Makes the last status of a pod final: nothing of the pod is left.
    pub fn terminated(&self, pod: &Pod) {
        let uid = view::uid(pod);
        let mut store = self.store.lock();
        if let Some(last) = store.published(&uid) {
            store.finish(&uid, terminated(pod, PodStatus::clone(&last.status)));
        }
        drop(store);
        self.changed();
    }

    /// Makes the API writer process a status again, because the state of the pod's worker changed.
    pub fn recheck(&self, uid: &PodUid) {
        self.store.lock().touch(uid);
    }

    /// Measures how long the pod took to get its first status, and to run.
    fn measure_start(
        &self,
        store: &mut LockedStore<'_>,
        uid: &PodUid,
        before: Option<&PodStatus>,
        status: &PodStatus,
    ) {
        let phase_before = before.and_then(|before| before.phase.as_deref());
        if before.is_some() && phase_before == status.phase.as_deref() {
            return;
        }
        let steps = first_steps(phase_before, status.phase.as_deref());
        let Some(entry) = store.arrived(uid) else { return };
        let arrived = if steps.is_over { entry.take() } else { *entry };
        let Some(arrived) = arrived else { return };
        let took = self.parts.clock.now().duration_since(arrived);
        self.parts.metrics.observe_start(steps, Duration::try_from(took).unwrap_or_default());
    }

    fn changed(&self) {
        self.parts.changes.send_modify(|count| *count += 1);
    }
}

#[cfg(test)]
#[path = "manager_tests.rs"]
mod tests;
