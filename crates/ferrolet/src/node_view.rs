//! What is known of the pods of this node, for whoever asks.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{self, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use model::ids::{PodName, PodUid};
use model::observed::PodStatus;
use model::ports::addresses::HostIps;
use model::ports::clock::WallClock;
use pods::source::Refusal;
use podspec::view;
use server::wire::RefusedManifest;
use server::{PodAndStatus, PodView};
use status::PodMetrics;
use status::decide::{
    NodeFacts, Phase, StatusInput, StatusOverrides, is_restarting_all, pod_status, terminated,
};
use status::store::{StatusReader, StatusStore};
use tokio::sync::watch;


/// The pods and their statuses. The sync loop says which pods there are, the pods' workers how they
/// are.
#[derive(Debug)]
pub(crate) struct NodeView {
    /// Never held across an await.
    pods: Mutex<BTreeMap<PodUid, Arc<Pod>>>,
    /// Never held across an await.
    refused: Mutex<Vec<RefusedManifest>>,
    statuses: StatusStore,
    reader: StatusReader,
    /// Held while a status is made from the one before: what one writer says must not get lost over
    /// another. Never held across an await.
    publishing: Mutex<()>,
    /// Whether all sources were heard, and their pods are here. Written by the sync loop.
    complete: AtomicBool,
    /// Counts changes of either; read by who watches.
    changes: watch::Sender<u64>,
    /// But for its addresses.
    node: NodeFacts,
    host_ips: Arc<dyn HostIps>,
    clock: Arc<dyn WallClock>,
    metrics: PodMetrics,
}

impl NodeView {
    /// Of a node of which this is told, and these addresses.
    pub(crate) fn new(
        (node, host_ips): (NodeFacts, Arc<dyn HostIps>),
        clock: Arc<dyn WallClock>,
        metrics: PodMetrics,
    ) -> Self {
        let statuses = StatusStore::new();
        let reader = statuses.reader();
        let changes = watch::Sender::new(0);
        let (pods, refused) = (Mutex::default(), Mutex::default());
        Self {
            pods,
            refused,
            statuses,
            reader,
            publishing: Mutex::default(),
            complete: AtomicBool::new(false),
            changes,
            node,
            host_ips,
            clock,
            metrics,
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<PodUid, Arc<Pod>>> {
        self.pods.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All sources were heard, and each of their pods was told of.
    pub(crate) fn complete(&self) {
        self.complete.store(true, Ordering::Release);
    }

    /// Whether there is no pod that may yet come of a source that was not heard.
    pub(crate) fn all_are_shown(&self) -> bool {
        self.complete.load(Ordering::Acquire)
    }

    /// The pod is one of the node's.
    pub(crate) fn show(&self, pod: &Arc<Pod>) {
        let uid = view::uid(pod);
        if self.lock().insert(uid.clone(), Arc::clone(pod)).is_none() {
            self.metrics.came(&uid, self.clock.now());
        }
        self.changed();
    }

    /// The pod is ending: shown as a pod of the API would be that somebody deleted.
    pub(crate) fn ending(&self, pod: &Pod) {
        let mut pod = pod.clone();
        pod.metadata.deletion_timestamp.get_or_insert(Time(self.clock.now()));
        self.show(&Arc::new(pod));
    }

    /// The pod is one of the node's and will not run.
    pub(crate) fn refuse(&self, pod: &Arc<Pod>, reason: &str, message: &str) {
        let status = v1::PodStatus {
            phase: Some("Failed".to_owned()),
            reason: Some(reason.to_owned()),
            message: Some(message.to_owned()),
            qos_class: Some(podspec::qos_class(pod).as_str().to_owned()),
            start_time: Some(Time(self.clock.now())),
            observed_generation: pod.metadata.generation.filter(|generation| *generation != 0),
            ..v1::PodStatus::default()
        };
        self.statuses.set(&view::uid(pod), status);
        self.show(pod);
    }

    /// The pod is gone.
    pub(crate) fn hide(&self, uid: &PodUid) {
        let shown = self.lock().remove(uid).is_some();
        self.metrics.went(uid);
        if self.statuses.remove(uid) || shown {
            self.changed();
        }
    }

    /// Only these pods are the node's.
    pub(crate) fn retain(&self, mut is_ours: impl FnMut(&PodUid) -> bool) {
        let gone: Vec<PodUid> = self.lock().keys().filter(|uid| !is_ours(uid)).cloned().collect();
        for uid in &gone {
            self.hide(uid);
        }
    }

    /// These manifests do not have their way, and no others.
    pub(crate) fn refusals(&self, refusals: Vec<Refusal>) {
        let told = refusals.into_iter().map(|refusal| RefusedManifest {
            manifest: refusal.manifest,
            message: refusal.message,
            pod: refusal.pod.map(|pod| pod.to_string()),
            last_good_stays: refusal.last_good_stays,
        });
        let told: Vec<_> = told.collect();
        let before = {
            let mut refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::replace(&mut *refused, told.clone())
        };
        if before != told {
            self.changed();
        }
    }

    /// How the pod is, by what was observed of it. Its last status stays, whatever appears of it later.
    pub(crate) fn publish(&self, pod: &Pod, observed: &PodStatus, overrides: &StatusOverrides) {
        let publishing = self.publishing.lock().unwrap_or_else(PoisonError::into_inner);
        let previous = self.reader.get(&observed.uid);
        if previous.as_ref().is_some_and(|previous| previous.finished) {
            return;
        }
        let facts = NodeFacts { host_ips: self.host_ips.host_ips(), ..self.node.clone() };
        let status = pod_status(&StatusInput {
            pod,
            observed,
            previous: previous.as_ref().map(|published| &*published.status),
            start_failures: &overrides.start_failures,
            has_new_sandbox: overrides.has_new_sandbox,
            failure: overrides.failure.as_ref(),
            stopped_for_good: overrides.stopped_for_good,
            resizing: overrides.resize.resizing(),
            recursive_read_only: overrides.recursive_read_only,
            node: &facts,
            now: self.clock.now(),
        });
        let before = previous.as_ref().map(|before| before.status.phase.as_deref());
        let phases = (before.flatten(), status.phase.as_deref());
        if before.is_none() || phases.0 != phases.1 {
            self.metrics.told(&observed.uid, phases, self.clock.now());
        }
        self.metrics.is_now(pod, previous.as_ref().map(|before| &*before.status), &status);
        let is_new = self.statuses.set(&observed.uid, status);
        drop(publishing);
        if is_new {
            self.changed();
        }
    }

    /// Whoever hears of statuses looks at this one again: what stands between it and them changed.
    pub(crate) fn look_again(&self, uid: &PodUid) {
        self.statuses.touch(uid);
    }

    /// Nothing of the pod is left: its last status.
    pub(crate) fn finish(&self, pod: &Pod) {
        let uid = view::uid(pod);
        let publishing = self.publishing.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(last) = self.reader.get(&uid) {
            self.statuses.finish(&uid, terminated(pod, v1::PodStatus::clone(&last.status)));
        }
        drop(publishing);
        self.changed();
    }

    /// The statuses, for who reads them.
    pub(crate) fn statuses(&self) -> StatusReader {
        self.reader.clone()
    }

    /// The static pods of which something is there.
    pub(crate) fn static_pods(&self) -> BTreeMap<PodUid, PodName> {
        let pods = self.lock();
        let fixed = pods.iter().filter(|(_, pod)| view::is_static(pod));
        fixed.map(|(uid, pod)| (uid.clone(), view::pod_name(pod))).collect()
    }

    /// The name of a static pod of which something is there.
    pub(crate) fn static_pod(&self, uid: &PodUid) -> Option<PodName> {
        self.lock().get(uid).filter(|pod| view::is_static(pod)).map(|pod| view::pod_name(pod))
    }

    /// Whether the pod, as last published, starts over with all its containers.
    pub(crate) fn is_restarting_all(&self, uid: &PodUid) -> bool {
        self.reader.get(uid).is_some_and(|published| is_restarting_all(&published.status))
    }

    /// When the pod began, as last published.
    pub(crate) fn began(&self, uid: &PodUid) -> Option<Timestamp> {
        self.reader.get(uid)?.status.start_time.as_ref().map(|began| began.0)
    }

    /// Whether the pod, as last published, is over.
    pub(crate) fn is_over(&self, uid: &PodUid) -> bool {
        let phase = self.reader.get(uid).and_then(|published| Phase::of(&published.status));
        phase.is_some_and(Phase::is_terminal)
    }

    fn changed(&self) {
        self.changes.send_modify(|count| *count += 1);
    }
}

impl PodView for NodeView {
    fn pods(&self) -> Vec<PodAndStatus> {
        let pods: Vec<Arc<Pod>> = self.lock().values().cloned().collect();
        let with_status = |pod: Arc<Pod>| {
            let status = self.reader.get(&view::uid(&pod)).map(|published| published.status);
            PodAndStatus { pod, status }
        };
        pods.into_iter().map(with_status).collect()
    }

    fn refused(&self) -> Vec<RefusedManifest> {
        self.refused.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }
}
