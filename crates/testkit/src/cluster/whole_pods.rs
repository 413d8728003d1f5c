//! The full pods of nodes: created, bound and deleted by a test, watched and patched by an agent.

mod backup;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use k8s_openapi::api::core::v1::{Pod, PodStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use model::cluster::{FailedStatus, PodRemoved, PodTarget, Version};
use model::ids::{PodName, PodUid};
use model::ports::clock::WallClock as _;
use model::ports::cluster::{ApiError, Change, PodWrites, Sink};
use model::ports::pod_api::PodApi;
use model::verdict::Verdict;
use serde_json::Value;

use super::strategic_merge::patched;
use super::watched::Watched;
use crate::clock::VirtualClock;

pub use self::backup::Backup;

#[derive(Debug, Default)]
struct State {
    version: u64,
    uids: u64,
    pods: BTreeMap<PodName, Arc<Pod>>,
    nodes: BTreeMap<String, String>,
    /// Pods that a watch cannot decode.
    undecodable: BTreeSet<PodName>,
    is_away: bool,
    /// The number of expirations: each makes the watches restart with a list.
    expired: u64,
    /// The number of watches so far.
    watches: u64,
    /// The number of the last watch that receives nothing any more.
    broken_watches: u64,
    calls: Vec<String>,
    /// The number of calls while the server was unreachable.
    missed: usize,
    /// Calls that panic, written as in `calls`.
    panics: BTreeSet<String>,
}

/// An API server with pods only. Clones share it.
#[derive(Debug, Clone)]
pub struct MemoryPods {
    shared: Watched<State>,
    clock: VirtualClock,
}

impl Default for MemoryPods {
    fn default() -> Self {
        Self::new(VirtualClock::new())
    }
}

impl MemoryPods {
    /// A server without pods.
    pub fn new(clock: VirtualClock) -> Self {
        Self { shared: Watched::default(), clock }
    }

    /// Registers a node with a UID.
    pub fn register_node(&self, name: &str) {
        self.shared.change(|state| {
            state.uids += 1;
            let uid = format!("node-{}", state.uids);
            state.nodes.insert(name.to_owned(), uid);
        });
    }

    /// Creates a pod with a UID, as an administrator would.
    pub fn make(&self, pod: Pod) -> PodUid {
        let now = Time(self.clock.now());
        self.shared.change(|state| state.make(pod, now)).expect("no other pod has this name")
    }

    /// Changes a pod, including its spec.
    pub fn update(&self, name: &PodName, change: impl FnOnce(&mut Pod)) {
        self.shared.change(|state| {
            let mut pod = Pod::clone(&state.pods[name]);
            change(&mut pod);
            *pod.metadata.generation.get_or_insert_default() += 1;
            state.put(name.clone(), pod);
        });
    }

    /// Deletes a pod with a grace period; without one it is removed at once.
    pub fn delete(&self, name: &PodName, grace: Duration) {
        if grace.is_zero() {
            self.shared.change(|state| state.drop_pod(name));
            return;
        }
        let at = Time(self.clock.now() + grace);
        let seconds = i64::try_from(grace.as_secs()).expect("a grace of seconds");
        self.update(name, |pod| {
            pod.metadata.deletion_timestamp = Some(at);
            pod.metadata.deletion_grace_period_seconds = Some(seconds);
        });
    }

    /// Makes watches fail to decode a pod, or decode it again.
    pub fn make_undecodable(&self, name: &PodName, is_garbled: bool) {
        self.shared.change(|state| {
            if is_garbled {
                state.undecodable.insert(name.clone());
            } else {
                state.undecodable.remove(name);
            }
        });
    }

    /// Makes the server unreachable or reachable.
    pub fn away(&self, is_away: bool) {
        self.shared.change(|state| {
            state.is_away = is_away;
            state.expired += u64::from(is_away);
        });
    }

    /// Breaks the current watches: they receive nothing any more; new ones work.
    pub fn break_watches(&self) {
        self.shared.change(|state| state.broken_watches = state.watches);
    }

    /// A pod, if it exists.
    pub fn pod(&self, name: &PodName) -> Option<Arc<Pod>> {
        self.shared.state().pods.get(name).cloned()
    }

    /// All pods.
    pub fn pods(&self) -> Vec<Arc<Pod>> {
        self.shared.state().pods.values().cloned().collect()
    }

    /// The calls so far, in short: `PATCH default/web`.
    pub fn calls(&self) -> Vec<String> {
        self.shared.state().calls.clone()
    }

    /// The number of calls so far that failed because the server was unreachable.
    pub fn missed(&self) -> usize {
        self.shared.state().missed
    }

    /// Makes these calls panic without an effect; written as in [`MemoryPods::calls`].
    pub fn panic_on<const N: usize>(&self, calls: [&str; N]) {
        self.shared.state().panics = calls.into_iter().map(ToOwned::to_owned).collect();
    }

    /// Clears the recorded calls.
    pub fn forget_calls(&self) {
        self.shared.state().calls.clear();
    }

    /// Runs a call, unless the server is unreachable.
    fn call<T>(
        &self,
        what: String,
        call: impl FnOnce(&mut State) -> Result<T, ApiError>,
    ) -> Result<T, ApiError> {
        let panics = self.shared.state().panics.contains(&what);
        self.shared.change(|state| {
            if state.is_away {
                state.missed += 1;
                return Err(ApiError::Unreachable("away on purpose".into()));
            }
            state.calls.push(what);
            assert!(!panics, "injected by a test");
            call(state)
        })
    }
}

impl State {
    fn make(&mut self, mut pod: Pod, now: Time) -> Result<PodUid, ApiError> {
        let name = name_of(&pod);
        if self.pods.contains_key(&name) {
            return Err(ApiError::Conflict(format!("pod {name} exists")));
        }
        self.uids += 1;
        let uid = format!("00000000-0000-4000-8000-{:012x}", self.uids);
        pod.metadata.uid = Some(uid.clone());
        pod.metadata.creation_timestamp = Some(now);
        pod.metadata.generation = Some(1);
        pod.status = Some(PodStatus { phase: Some("Pending".to_owned()), ..PodStatus::default() });
        self.put(name, pod);
        Ok(uid.into())
    }

    fn put(&mut self, name: PodName, mut pod: Pod) -> Arc<Pod> {
        self.version += 1;
        pod.metadata.resource_version = Some(self.version.to_string());
        let pod = Arc::new(pod);
        self.pods.insert(name, Arc::clone(&pod));
        pod
    }

    fn drop_pod(&mut self, name: &PodName) {
        self.version += 1;
        self.pods.remove(name);
    }

    /// A pod with this UID, and with this version if one is given.
    fn meant(&self, target: &PodTarget, version: Version) -> Result<(PodName, Pod), ApiError> {
        let name = PodName::new(&*target.namespace, &*target.name);
        let pod = self.pods.get(&name).ok_or(ApiError::NotFound)?;
        if pod.metadata.uid != Some(target.uid.to_string()) {
            return Err(ApiError::Conflict("uid mismatch".to_owned()));
        }
        let there = Version::from(pod.metadata.resource_version.as_deref().unwrap_or_default());
        if version.0.is_some() && version != there {
            return Err(ApiError::Conflict("resource version mismatch".to_owned()));
        }
        Ok((name, Pod::clone(pod)))
    }
}

fn name_of(pod: &Pod) -> PodName {
    let text = |field: &Option<String>| field.clone().unwrap_or_default();
    PodName::new(text(&pod.metadata.namespace), text(&pod.metadata.name))
}

fn uid_of(pod: &Pod) -> PodUid {
    pod.metadata.uid.as_deref().unwrap_or_default().into()
}

#[async_trait]
impl PodApi for MemoryPods {
    async fn follow_pods_of(&self, node: &str, sink: &dyn Sink<Arc<Pod>, PodUid>) {
        let mut changed = self.shared.subscribe();
        let number = {
            let mut state = self.shared.state();
            state.watches += 1;
            state.watches
        };
        let mut sent: Option<(u64, WatchedPods)> = None;
        loop {
            changed.mark_unchanged();
            let (receives, expired, there) = {
                let state = self.shared.state();
                let of_node = |pod: &Arc<Pod>| {
                    pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()) == Some(node)
                };
                let there = state.pods.iter().filter(|(_, pod)| of_node(pod));
                let there: WatchedPods = there
                    .map(|(name, pod)| {
                        let understood = !state.undecodable.contains(name);
                        (uid_of(pod), understood.then(|| Arc::clone(pod)))
                    })
                    .collect();
                (!state.is_away && number > state.broken_watches, state.expired, there)
            };
            if receives {
                send_changes(
                    sent.as_ref().filter(|(seen, _)| *seen == expired).map(|(_, pods)| pods),
                    &there,
                    sink,
                );
                sent = Some((expired, there));
            }
            if changed.changed().await.is_err() {
                // The server was dropped; no changes follow.
                std::future::pending::<()>().await;
            }
        }
    }

    async fn patch_status(&self, pod: &PodName, patch: String) -> Result<Arc<Pod>, ApiError> {
        self.call(format!("PATCH {pod}"), |state| {
            let unreadable = |error| ApiError::Unreadable(Box::new(error));
            let patch: Value = serde_json::from_str(&patch).map_err(unreadable)?;
            let there = state.pods.get(pod).ok_or(ApiError::NotFound)?;
            let changed = patched(&**there, &patch)?;
            // Only the status is patched.
            let changed = Pod { status: changed.status, ..Pod::clone(there) };
            Ok(state.put(pod.clone(), changed))
        })
    }

    async fn create_pod(&self, pod: &Pod) -> Result<Arc<Pod>, ApiError> {
        let (name, now) = (name_of(pod), Time(self.clock.now()));
        self.call(format!("POST {name}"), |state| {
            state.make(pod.clone(), now)?;
            Ok(Arc::clone(&state.pods[&name]))
        })
    }

    async fn node_uid(&self, node: &str) -> Result<Option<String>, ApiError> {
        self.call(format!("GET node {node}"), |state| Ok(state.nodes.get(node).cloned()))
    }
}

/// The pods of a watch; `None` for one that cannot be decoded.
type WatchedPods = BTreeMap<PodUid, Option<Arc<Pod>>>;

/// Sends the differences between the last sent pods and the current ones.
fn send_changes(
    sent: Option<&WatchedPods>,
    there: &WatchedPods,
    sink: &dyn Sink<Arc<Pod>, PodUid>,
) {
    let apply = |(uid, pod): (&PodUid, &Option<Arc<Pod>>)| {
        let unread = || Change::Unread(uid.clone());
        sink.receive(pod.as_ref().map_or_else(unread, |pod| Change::Applied(Arc::clone(pod))));
    };
    let Some(sent) = sent else {
        sink.receive(Change::Restarted);
        there.iter().for_each(apply);
        sink.receive(Change::Complete);
        return;
    };
    for uid in sent.keys().filter(|uid| !there.contains_key(*uid)) {
        sink.receive(Change::Gone(uid.clone()));
    }
    let is_sent = |uid: &PodUid, pod: &Option<Arc<Pod>>| {
        sent.get(uid)
            .is_some_and(|last| last.as_ref().map(Arc::as_ptr) == pod.as_ref().map(Arc::as_ptr))
    };
    there.iter().filter(|(uid, pod)| !is_sent(uid, pod)).for_each(apply);
}

#[async_trait]
impl PodWrites for MemoryPods {
    async fn fail_pod(&self, pod: &PodTarget, _: &FailedStatus) -> Result<Version, ApiError> {
        self.call(format!("FAIL {}/{}", pod.namespace, pod.name), |state| {
            let (name, mut there) = state.meant(pod, pod.version)?;
            there.status.get_or_insert_default().phase = Some("Failed".to_owned());
            state.put(name, there);
            Ok(Version::from(state.version))
        })
    }

    async fn remove_pod(&self, pod: &PodTarget, _: &Verdict) -> Result<PodRemoved, ApiError> {
        let now = Time(self.clock.now());
        self.call(format!("DELETE {}/{}", pod.namespace, pod.name), |state| {
            let (name, mut there) = state.meant(pod, pod.version)?;
            if there.metadata.finalizers.as_ref().is_none_or(Vec::is_empty) {
                state.drop_pod(&name);
                return Ok(PodRemoved::Gone);
            }
            let metadata = &mut there.metadata;
            if metadata.deletion_grace_period_seconds != Some(0) {
                metadata.deletion_timestamp.get_or_insert(now);
                metadata.deletion_grace_period_seconds = Some(0);
                state.put(name, there);
            }
            Ok(PodRemoved::Held)
        })
    }
}
