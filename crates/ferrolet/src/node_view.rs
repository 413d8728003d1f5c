//! What is known of the pods of this node, for whoever asks.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use allocation::Resizes;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{self, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use model::cgroup::CgroupValues;
use model::ids::{ContainerId, PodName, PodUid};
use model::observed::PodStatus;
use model::pod_failure::PodFailure;
use model::ports::addresses::HostIps;
use model::ports::clock::WallClock;
use pods::source::Refusal;
use podspec::view;
use prometheus::{Registry, TextEncoder};
use server::wire::RefusedManifest;
use server::{Check, HealthChecks, LogPaths, MetricsText, PodAndStatus, PodView};
use status::decide::{
    NodeFacts, Phase, Resizing, StatusInput, Waiting, is_restarting_all, pod_status, terminated,
};
use status::store::{StatusReader, StatusStore};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::pod_metrics::PodMetrics;
use crate::pulse::Pulse;
use crate::stuck_calls::{self, StuckCalls};

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
    /// Pods that ask for other resources than they were given.
    resizes: Arc<Resizes>,
    metrics: PodMetrics,
}

/// What is known of a pod besides what was observed.
#[derive(Debug, Clone, Copy, Default)]
#[expect(clippy::struct_excessive_bools, reason = "facts that have nothing to do with one another")]
pub(crate) struct Outlook<'a> {
    /// Why containers did not start, by name.
    pub(crate) start_failures: Option<&'a BTreeMap<String, Waiting>>,
    /// Whether a sandbox was just made for it that has not been observed.
    pub(crate) has_new_sandbox: bool,
    /// Why the whole pod has failed.
    pub(crate) failure: Option<&'a PodFailure>,
    /// Whether nothing of it will run again.
    pub(crate) stopped_for_good: bool,
    /// Whether it has not yet the resources that it was given.
    pub(crate) resizes: bool,
    /// What is in the way of that.
    pub(crate) resize_error: Option<&'a str>,
    /// What its cgroup has, if that is known.
    pub(crate) cgroup: Option<&'a CgroupValues>,
    /// Bytes of memory that its containers were given, where that is not what they should have.
    pub(crate) memory_requests: Option<&'a BTreeMap<String, i64>>,
    /// Whether what is mounted below a read-only mount of it can be kept from being written too.
    pub(crate) recursive_read_only: bool,
}

impl NodeView {
    /// Of a node of which this is told, and these addresses.
    pub(crate) fn new(
        (node, host_ips): (NodeFacts, Arc<dyn HostIps>),
        clock: Arc<dyn WallClock>,
        resizes: Arc<Resizes>,
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
            resizes,
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
    pub(crate) fn publish(&self, pod: &Pod, observed: &PodStatus, outlook: &Outlook<'_>) {
        let publishing = self.publishing.lock().unwrap_or_else(PoisonError::into_inner);
        let previous = self.reader.get(&observed.uid);
        if previous.as_ref().is_some_and(|previous| previous.finished) {
            return;
        }
        let none = BTreeMap::new();
        let pending = self.resizes.pending(&observed.uid);
        let facts = NodeFacts { host_ips: self.host_ips.host_ips(), ..self.node.clone() };
        let status = pod_status(&StatusInput {
            pod,
            observed,
            previous: previous.as_ref().map(|published| &*published.status),
            start_failures: outlook.start_failures.unwrap_or(&none),
            has_new_sandbox: outlook.has_new_sandbox,
            failure: outlook.failure,
            stopped_for_good: outlook.stopped_for_good,
            resizing: Resizing {
                pending: pending.as_deref(),
                in_progress: outlook.resizes,
                error: outlook.resize_error,
                cgroup: outlook.cgroup,
                memory_requests: outlook.memory_requests,
            },
            recursive_read_only: outlook.recursive_read_only,
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

/// Where the runtime says that logs are.
#[derive(Debug)]
pub(crate) struct RuntimeLogs(pub(crate) pleg::cache::Reader);

impl LogPaths for RuntimeLogs {
    fn log_path(&self, pod: &PodUid, container: &ContainerId) -> Option<PathBuf> {
        let status = self.0.get(pod).ok()?;
        let instance = status.containers.iter().find(|instance| instance.id == *container)?;
        (!instance.log_path.is_empty()).then(|| PathBuf::from(&*instance.log_path))
    }
}

/// The checks of the agent itself. Restarting it mends what fails here, so the systemd watchdog uses these, as
/// upstream: trouble of the runtime or the PLEG is not among them.
#[derive(Debug, Clone)]
pub(crate) struct AgentHealth {
    pub(crate) sync_loop: Pulse,
}

impl HealthChecks for AgentHealth {
    fn checks(&self) -> Vec<Check> {
        vec![
            Check { name: "ping", result: Ok(()) },
            Check { name: "syncloop", result: self.sync_loop.check(Instant::now()) },
        ]
    }
}

/// The checks that the agent's own socket shows: also whether the PLEG still relists, which a node outside a cluster
/// has no Ready condition for.
#[derive(Debug)]
pub(crate) struct NodeHealth {
    pub(crate) agent: AgentHealth,
    pub(crate) pleg: pleg::Health,
    pub(crate) stuck: StuckCalls,
}

impl HealthChecks for NodeHealth {
    fn checks(&self) -> Vec<Check> {
        let mut checks = self.agent.checks();
        let now = Instant::now();
        let result = self.pleg.check(now).map_err(|unhealthy| unhealthy.to_string());
        checks.push(Check { name: "PLEG", result });
        checks.push(Check { name: stuck_calls::CHECK, result: self.stuck.check(now) });
        checks
    }
}

/// The agent's metrics as text.
#[derive(Debug)]
pub(crate) struct Metrics(pub(crate) Registry);

impl MetricsText for Metrics {
    fn text(&self) -> String {
        // Only a metric with labels of different kinds under one name cannot be written, and the
        // registry has refused those.
        TextEncoder::new().encode_to_string(&self.0.gather()).unwrap_or_default()
    }
}
