//! The volumes of all pods: the desired and mounted ones, and the pods that wait for them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use model::ids::{PodName, PodUid};
use model::panics::PanicGuard;
use model::ports::clock::WallClock;
use model::ports::events::{Events, PodEvent};
use model::ports::files::HostFiles;
use model::ports::objects::{PodObjects, StorageReads};
use model::ports::volumes::VolumeHost;
use model::volume::{VolumeId, VolumeLayout};
use model::wait::{Retry, Wait, WaitOn};
use podspec::view;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use crate::decide::pod_volumes::{MountState, PodVolumes};
use crate::decide::resolve::{Resolved, Unresolved, VolumeSpec};
use crate::decide::waiting;
use crate::metrics::Metrics;
use crate::mounter::{ClusterTrustBundles, Content, NodeFacts, PodCertificates, PodTokens};

/// How long a pod waits for its volumes, or for their end, before its sync starts over.
const LONGEST_WAIT: Duration = Duration::from_secs(123);

/// The ports and settings of a [`VolumeManager`].
#[derive(Debug)]
pub struct ManagerParts {
    /// Mounts and volume directories.
    pub host: Arc<dyn VolumeHost>,
    /// Removes volumes, with a reason on record.
    pub files: Arc<dyn HostFiles>,
    /// Secrets and config maps; `None` without an API server.
    pub objects: Option<Arc<dyn PodObjects>>,
    /// Tokens of service accounts; `None` without an API server.
    pub tokens: Option<Arc<dyn PodTokens>>,
    /// Trust bundles; `None` without an API server, and while their feature gate is off.
    pub trust_bundles: Option<Arc<dyn ClusterTrustBundles>>,
    /// Certificates of pods; `None` without an API server, and while their feature gate is off.
    pub certificates: Option<Arc<dyn PodCertificates>>,
    /// Claims and persistent volumes; `None` without an API server.
    pub storage: Option<Arc<dyn StorageReads>>,
    /// Records events.
    pub events: Arc<dyn Events>,
    /// The wall clock.
    pub clock: Arc<dyn WallClock>,
    /// The layout of volumes.
    pub layout: VolumeLayout,
    /// The node.
    pub node: Arc<dyn NodeFacts>,
    /// How often volumes with content are checked without a reason.
    pub resync: Duration,
    /// Counts volumes and times operations.
    pub metrics: Metrics,
    /// Catches panics in the work for single pods.
    pub panics: PanicGuard,
}

/// The volume manager. Clones share the state.
#[derive(Debug, Clone)]
pub struct VolumeManager {
    pub(crate) shared: Arc<Shared>,
}

#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) parts: ManagerParts,
    /// Written by callers and by the task. Never held across an await.
    state: Mutex<State>,
    /// Wakes the task: a pod is dirty.
    pub(crate) dirty: Notify,
}

#[derive(Debug, Default)]
pub(crate) struct State {
    pub(crate) pods: BTreeMap<PodUid, PodRecord>,
    /// Pods that the task processes next.
    pub(crate) dirty: BTreeSet<PodUid>,
    /// When pods are processed without a change.
    pub(crate) timers: BTreeSet<(Timestamp, PodUid)>,
    /// Pods known only by their directories whose volumes are being cleaned, and whether that failed.
    orphans: BTreeMap<PodUid, bool>,
}

/// Whether all volumes of a pod are determined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Processing {
    /// The volumes are not determined yet.
    Needed,
    /// That is under way; `again` if it has to be repeated.
    Running { again: bool },
    /// They are.
    Done,
}

/// A pod whose volumes are managed.
#[derive(Debug)]
pub(crate) struct PodRecord {
    /// The pod; `None` when it has ended or is known only by its directory.
    pub(crate) pod: Option<Arc<Pod>>,
    /// Its name, if known.
    pub(crate) name: Option<PodName>,
    pub(crate) processing: Processing,
    /// Whether the host was searched for mounts of an earlier agent.
    pub(crate) is_scanned: bool,
    pub(crate) volumes: PodVolumes,
    pub(crate) specs: BTreeMap<VolumeId, Arc<VolumeSpec>>,
    pub(crate) unresolved: Vec<Unresolved>,
    /// The content that was written last.
    pub(crate) written: BTreeMap<VolumeId, Content>,
    /// When the content was last requested to be checked.
    checked_at: Timestamp,
    /// Changes with every change of this record.
    pub(crate) version: watch::Sender<u64>,
}

impl PodRecord {
    fn new(name: Option<PodName>) -> Self {
        Self {
            pod: None,
            name,
            processing: Processing::Needed,
            is_scanned: false,
            volumes: PodVolumes::default(),
            specs: BTreeMap::new(),
            unresolved: Vec::new(),
            written: BTreeMap::new(),
            checked_at: Timestamp::UNIX_EPOCH,
            version: watch::Sender::new(0),
        }
    }

    fn needs_processing(&mut self) {
        self.processing = match self.processing {
            Processing::Running { .. } => Processing::Running { again: true },
            Processing::Needed | Processing::Done => Processing::Needed,
        };
    }

    /// The volumes of the pod are determined.
    pub(crate) fn set_resolved(&mut self, mut resolved: Resolved) {
        let known: Vec<VolumeSpec> =
            self.specs.values().map(|spec| VolumeSpec::clone(spec)).collect();
        resolved.keep_known(&known);
        let specs = resolved.volumes.into_iter();
        self.specs = specs.map(|spec| (spec.id.clone(), Arc::new(spec))).collect();
        self.unresolved = resolved.failed;
        self.volumes.set_desired(self.specs.keys().cloned());
    }

    pub(crate) fn changed(&self) {
        self.version.send_modify(|version| *version = version.wrapping_add(1));
    }

    /// The names of volumes that are not mounted, with the failures of their last operations.
    fn unmounted(&self) -> Vec<waiting::Unmounted> {
        let states = self.volumes.volumes.iter();
        let unmounted =
            states.filter(|(_, state)| state.desired && state.mount != MountState::Mounted);
        let mut all = Vec::new();
        for (id, state) in unmounted {
            let failure = state.failure.as_ref().map(|failure| failure.message.clone());
            for outer in self.specs.get(id).iter().flat_map(|spec| &spec.outer_names) {
                let (name, failure) = (outer.name.to_string(), failure.clone());
                all.push(waiting::Unmounted { name, failure });
            }
        }
        all
    }
}

/// Volumes of a pod that has ended are still mounted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("mounted volumes=[{}]: {cause}", volumes.join(" "))]
pub struct UnmountError {
    /// Their names.
    pub volumes: Vec<String>,
    /// Why.
    pub cause: String,
}

impl VolumeManager {
    /// A manager of no volumes.
    pub fn new(parts: ManagerParts) -> Self {
        let (state, dirty) = (Mutex::default(), Notify::new());
        Self { shared: Arc::new(Shared { parts, state, dirty }) }
    }

    /// A pod that runs was synced: its volumes are mounted, and their content is checked if the pod changed or it was
    /// not checked for a while.
    pub fn update(&self, pod: &Arc<Pod>) {
        let uid = view::uid(pod);
        let now = self.shared.parts.clock.now();
        let mut state = self.shared.state();
        if !has_volumes(pod) && !state.pods.contains_key(&uid) {
            return;
        }
        let name = || Some(view::pod_name(pod));
        let record = state.pods.entry(uid.clone()).or_insert_with(|| PodRecord::new(name()));
        let is_same = record.pod.as_ref().is_some_and(|known| Arc::ptr_eq(known, pod));
        let resync = jiff::SignedDuration::try_from(self.shared.parts.resync).unwrap_or_default();
        let is_checked = now.duration_since(record.checked_at) < resync;
        if is_same && is_checked && record.unresolved.is_empty() {
            return;
        }
        record.pod = Some(Arc::clone(pod));
        record.checked_at = now;
        record.needs_processing();
        record.volumes.mark_stale();
        state.dirty.insert(uid);
        drop(state);
        self.shared.dirty.notify_one();
    }

    /// Objects that a pod refers to have changed.
    pub fn content_changed(&self, uid: &PodUid) {
        let mut state = self.shared.state();
        let Some(record) = state.pods.get_mut(uid) else { return };
        record.volumes.mark_changed();
        state.dirty.insert(uid.clone());
        drop(state);
        self.shared.dirty.notify_one();
    }

    /// Trust bundles of the cluster have changed.
    pub fn trust_bundles_changed(&self) {
        let mut state = self.shared.state();
        let State { pods, dirty, .. } = &mut *state;
        for (uid, record) in pods {
            if record.pod.as_deref().is_some_and(needs_trust_bundles) {
                record.volumes.mark_changed();
                dirty.insert(uid.clone());
            }
        }
        drop(state);
        self.shared.dirty.notify_one();
    }

    /// Waits until all volumes of a pod are mounted, or the pod terminates. Returns what the pod still waits for if that
    /// cannot work or takes too long.
    pub async fn wait(&self, pod: &Pod, cancel: &CancellationToken) -> Option<Wait> {
        let uid = view::uid(pod);
        let until = Instant::now() + LONGEST_WAIT;
        loop {
            let mut version = {
                let state = self.shared.state();
                let record = state.pods.get(&uid)?;
                if record.processing == Processing::Done {
                    if !record.unresolved.is_empty() {
                        return Some(failed_wait(pod, record));
                    }
                    if record.volumes.all_mounted() {
                        return None;
                    }
                }
                record.version.subscribe()
            };
            // Biased: a terminating pod does not wait, and changes come before the timeout.
            tokio::select! {
                biased;
                () = cancel.cancelled() => return Some(self.pending_wait(&uid)),
                changed = version.changed() => if changed.is_err() { return None },
                () = sleep_until(until) => return Some(self.pending_wait(&uid)),
            }
        }
    }

    /// The result of a wait that timed out. The operations have reported their failures already.
    fn pending_wait(&self, uid: &PodUid) -> Wait {
        let names = self.waiting(uid).into_iter().map(|one| one.name).collect();
        Wait { on: WaitOn::Volumes(names), at_latest: Retry::Failure, event: None }
    }

    /// The volumes that a pod waits for, and why.
    pub fn waiting(&self, uid: &PodUid) -> Vec<waiting::Unmounted> {
        let state = self.shared.state();
        let Some(record) = state.pods.get(uid) else { return Vec::new() };
        let mut all: Vec<waiting::Unmounted> = record
            .unresolved
            .iter()
            .map(|one| waiting::Unmounted {
                name: one.name.to_string(),
                failure: Some(one.error.to_string()),
            })
            .collect();
        all.extend(record.unmounted());
        all
    }

    /// A mounted volume of a pod, by its name in the pod.
    pub fn mounted(&self, uid: &PodUid, volume: &str) -> Option<Arc<VolumeSpec>> {
        let state = self.shared.state();
        let record = state.pods.get(uid)?;
        let has_name = |spec: &VolumeSpec| spec.outer_names.iter().any(|one| &*one.name == volume);
        let spec = record.specs.values().find(|spec| has_name(spec))?;
        let is_mounted = record.volumes.volumes.get(&spec.id)?.mount == MountState::Mounted;
        is_mounted.then(|| Arc::clone(spec))
    }

    /// The mounted volumes of all pods that run.
    pub fn all_mounted(&self) -> Vec<(PodUid, Vec<Arc<VolumeSpec>>)> {
        let state = self.shared.state();
        let mounted = |record: &PodRecord| {
            let is_mounted = |spec: &&Arc<VolumeSpec>| {
                let state = record.volumes.volumes.get(&spec.id);
                state.is_some_and(|state| state.mount == MountState::Mounted)
            };
            record.specs.values().filter(is_mounted).cloned().collect()
        };
        let running = state.pods.iter().filter(|(_, record)| record.pod.is_some());
        running.map(|(uid, record)| (uid.clone(), mounted(record))).collect()
    }

    /// The groups that the persistent volumes of a pod belong to.
    pub fn groups(&self, uid: &PodUid) -> BTreeSet<i64> {
        let state = self.shared.state();
        let Some(record) = state.pods.get(uid) else { return BTreeSet::new() };
        let volumes = record.specs.values().filter(|spec| {
            let state = record.volumes.volumes.get(&spec.id);
            state.is_some_and(|state| state.mount == MountState::Mounted)
        });
        let group = |spec: &Arc<VolumeSpec>| spec.persistent.as_ref()?.group.map(i64::from);
        volumes.filter_map(group).collect()
    }

    /// Unmounts the volumes of a pod that has ended, or is known only by its directory, and waits until that is done.
    pub async fn release(&self, uid: &PodUid, name: Option<PodName>) -> Result<(), UnmountError> {
        let is_orphan = name.is_none();
        if is_orphan {
            self.count_orphan(uid, Some(false));
        }
        let released = self.unmount_all(uid, name).await;
        if is_orphan {
            self.count_orphan(uid, released.is_err().then_some(true));
        }
        released
    }

    /// Counts an orphan until it is cleaned, and whether that failed.
    fn count_orphan(&self, uid: &PodUid, failed: Option<bool>) {
        let mut state = self.shared.state();
        match failed {
            Some(failed) => drop(state.orphans.insert(uid.clone(), failed)),
            None => drop(state.orphans.remove(uid)),
        }
        let failed = state.orphans.values().filter(|failed| **failed).count();
        self.shared.parts.metrics.set_orphans(state.orphans.len(), failed);
    }

    async fn unmount_all(&self, uid: &PodUid, name: Option<PodName>) -> Result<(), UnmountError> {
        let until = Instant::now() + LONGEST_WAIT;
        self.end(uid, name);
        loop {
            let mut version = {
                let mut state = self.shared.state();
                let Some(record) = state.pods.get(uid) else { return Ok(()) };
                // A pod of the same uid is back.
                if record.pod.is_some() {
                    return Ok(());
                }
                if record.processing == Processing::Done && record.volumes.is_empty() {
                    state.pods.remove(uid);
                    drop(state);
                    if let Some(tokens) = &self.shared.parts.tokens {
                        tokens.forget(uid);
                    }
                    if let Some(certificates) = &self.shared.parts.certificates {
                        certificates.forget(uid);
                    }
                    return Ok(());
                }
                record.version.subscribe()
            };
            // Biased: changes come before the timeout.
            tokio::select! {
                biased;
                changed = version.changed() => if changed.is_err() { return Ok(()) },
                () = sleep_until(until) => return Err(self.still_mounted(uid)),
            }
        }
    }

    fn end(&self, uid: &PodUid, name: Option<PodName>) {
        let mut state = self.shared.state();
        let record = state.pods.entry(uid.clone()).or_insert_with(|| PodRecord::new(name));
        record.pod = None;
        record.specs.clear();
        record.unresolved.clear();
        record.volumes.end();
        if !record.is_scanned {
            record.needs_processing();
        }
        state.dirty.insert(uid.clone());
        drop(state);
        self.shared.dirty.notify_one();
    }

    fn still_mounted(&self, uid: &PodUid) -> UnmountError {
        let state = self.shared.state();
        let record = state.pods.get(uid);
        let states = record.iter().flat_map(|record| &record.volumes.volumes);
        let (mut volumes, mut cause) = (Vec::new(), None);
        for (id, state) in states {
            volumes.push(id.name.to_string());
            cause = cause.or_else(|| state.failure.as_ref().map(|failure| failure.message.clone()));
        }
        let cause = cause.unwrap_or_else(|| "timed out waiting for the condition".to_owned());
        UnmountError { volumes, cause }
    }
}

/// Whether containers of the pod may use volumes.
fn has_volumes(pod: &Pod) -> bool {
    view::spec(pod).is_some_and(|spec| spec.volumes.as_ref().is_some_and(|all| !all.is_empty()))
}

fn needs_trust_bundles(pod: &Pod) -> bool {
    let volumes = view::spec(pod).into_iter().flat_map(|spec| spec.volumes.iter().flatten());
    let projected = volumes.filter_map(|volume| volume.projected.as_ref());
    let mut sources = projected.flat_map(|projected| projected.sources.iter().flatten());
    sources.any(|source| source.cluster_trust_bundle.is_some())
}

/// The result for a pod with volumes that cannot be mounted at all.
fn failed_wait(pod: &Pod, record: &PodRecord) -> Wait {
    let unmounted: Vec<String> = record.unmounted().into_iter().map(|one| one.name).collect();
    let message = waiting::failed_message(&unmounted, &record.unresolved);
    let names = record.unresolved.iter().map(|one| one.name.to_string()).collect();
    let (uid, name) = (view::uid(pod), view::pod_name(pod));
    let event = Some(PodEvent::warning(uid, name, "FailedMount", message));
    Wait { on: WaitOn::Volumes(names), at_latest: Retry::Failure, event }
}

impl Shared {
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
