//! The API server in memory: pods, nodes, leases and events, with watches that can be late, break, and restart
//! from a stale list.

mod call_faults;
mod feed;
pub mod node_api;
mod objects;
mod port;
mod storage;
mod strategic_merge;
mod watched;
mod whole_pods;

use std::collections::BTreeMap;

use jiff::Timestamp;
use model::cluster::{
    ClusterEvent, Deletion, Disruption, Lease, LeaseName, NodeRecord, PodPhase, PodRecord,
    PodTarget, Uid, Version,
};
use model::ports::clock::WallClock as _;
use model::ports::cluster::Change;
use model::verdict::Verdict;

pub use self::call_faults::CallFault;
use self::call_faults::CallFaults;
use self::objects::Objects;
pub use self::objects::object;
use self::storage::Storage;
use self::watched::Watched;
pub use self::whole_pods::{Backup, MemoryPods};
use crate::clock::VirtualClock;

/// The calls of the API server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ApiCall {
    /// Reading a node.
    Node,
    /// Marking a pod as failed.
    FailPod,
    /// Deleting a pod.
    RemovePod,
    /// Reading or writing a lease.
    Lease,
    /// Creating an event.
    Event,
    /// Updating the count of an event.
    CountEvent,
    /// Watching an object.
    Watch,
    /// Reading an object.
    Object,
    /// Requesting a token.
    Token,
    /// Reading a claim.
    Claim,
    /// Reading a persistent volume.
    PersistentVolume,
}

/// A deleted pod.
#[derive(Debug, Clone)]
pub struct RemovedPod {
    /// The pod before its deletion.
    pub record: PodRecord,
    /// Its condition `DisruptionTarget`.
    pub disruption: Option<Disruption>,
    /// The reason.
    pub verdict: Verdict,
    /// The time of the deletion.
    pub at: Timestamp,
    /// Its node at that time.
    pub node: Option<NodeRecord>,
    /// The UID and version of the request.
    pub target: PodTarget,
    /// The client.
    pub by: String,
    /// The holders of leases at that time.
    pub holders: Vec<String>,
}

/// A watch of the API server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Feed {
    /// Pods.
    Pods,
    /// Nodes.
    Nodes,
}

#[derive(Debug, Clone)]
struct StoredPod {
    record: PodRecord,
    has_finalizer: bool,
    disruption: Option<Disruption>,
}

type PodChange = Change<PodRecord, Uid>;
type NodeChange = Change<NodeRecord, String>;

/// All changes of one kind since the start.
#[derive(Debug)]
struct History<T> {
    changes: Vec<T>,
    /// Whether the watches send nothing.
    is_frozen: bool,
    /// The number of expirations: each makes the watches restart with a list.
    expired: u64,
    /// How many of the last changes are missing from the next list.
    behind: usize,
    /// The number of objects after which a list pauses.
    held: Option<usize>,
}

impl<T> Default for History<T> {
    fn default() -> Self {
        Self { changes: Vec::new(), is_frozen: false, expired: 0, behind: 0, held: None }
    }
}

#[derive(Debug, Default)]
struct State {
    version: u64,
    uids: u64,
    pods: BTreeMap<(String, String), StoredPod>,
    nodes: BTreeMap<String, NodeRecord>,
    leases: BTreeMap<LeaseName, Lease>,
    pod_history: History<PodChange>,
    node_history: History<NodeChange>,
    faults: CallFaults<ApiCall>,
    calls: Vec<(ApiCall, String)>,
    removed: Vec<RemovedPod>,
    events: Vec<ClusterEvent>,
    objects: Objects,
    storage: Storage,
}

/// The API server. Clones share it.
#[derive(Debug, Clone)]
pub struct MemoryCluster {
    shared: Watched<State>,
    clock: VirtualClock,
    /// The name of the client.
    who: String,
}

impl Default for MemoryCluster {
    fn default() -> Self {
        Self::new(VirtualClock::new())
    }
}

/// A pod record.
pub fn pod(name: &str) -> PodRecord {
    let (namespace, name) = name.split_once('/').unwrap_or(("default", name));
    PodRecord {
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        phase: PodPhase::Running,
        generation: 1,
        observed_generation: 1,
        ..PodRecord::default()
    }
}

/// A ready node.
pub fn node(name: &str) -> NodeRecord {
    NodeRecord { name: name.to_owned(), is_ready: true, is_out_of_service: false }
}

impl MemoryCluster {
    /// An empty cluster with this clock.
    pub fn new(clock: VirtualClock) -> Self {
        Self { shared: Watched::default(), clock, who: String::new() }
    }

    /// The same server for another client.
    #[must_use]
    pub fn as_client(&self, who: &str) -> Self {
        Self { who: who.to_owned(), ..self.clone() }
    }

    /// The clock.
    pub fn clock(&self) -> VirtualClock {
        self.clock.clone()
    }

    /// Creates or replaces a pod, with a new UID and version, and with a creation time if it has none.
    pub fn create_pod(&self, pod: PodRecord) -> Uid {
        let now = self.clock.now().as_second();
        self.shared.change(|state| {
            let key = (pod.namespace.clone(), pod.name.clone());
            if state.pods.contains_key(&key) {
                state.drop_pod(&key);
            }
            state.uids += 1;
            let uid = Uid::from(format!("00000000-0000-4000-8000-{:012x}", state.uids).as_str());
            let created = if pod.created == 0 { now } else { pod.created };
            let record = PodRecord { uid: uid.clone(), created, ..pod };
            state.put_pod(key, StoredPod { record, has_finalizer: false, disruption: None });
            uid
        })
    }

    /// Changes a pod.
    pub fn update_pod(&self, name: &str, change: impl FnOnce(&mut PodRecord)) {
        self.shared.change(|state| {
            let key = key(name);
            let Some(mut stored) = state.pods.get(&key).cloned() else { return };
            change(&mut stored.record);
            state.put_pod(key, stored);
        });
    }

    /// Adds or removes a finalizer of a pod; a terminating pod without finalizers is removed.
    pub fn hold_pod(&self, name: &str, hold: bool) {
        self.shared.change(|state| {
            let key = key(name);
            let Some(stored) = state.pods.get_mut(&key) else { return };
            stored.has_finalizer = hold;
            if !hold && stored.record.deletion == Deletion::Forced {
                state.drop_pod(&key);
            }
        });
    }

    /// Deletes a pod with a grace period.
    pub fn terminate_pod(&self, name: &str) {
        self.update_pod(name, |pod| pod.deletion = Deletion::Graceful);
    }

    /// Removes a pod, as its node agent would.
    pub fn drop_pod(&self, name: &str) {
        self.shared.change(|state| state.drop_pod(&key(name)));
    }

    /// Creates or replaces a node.
    pub fn put_node(&self, node: NodeRecord) {
        self.shared.change(|state| {
            state.version += 1;
            state.node_history.changes.push(Change::Applied(node.clone()));
            state.nodes.insert(node.name.clone(), node);
        });
    }

    /// Removes a node.
    pub fn drop_node(&self, name: &str) {
        self.shared.change(|state| {
            if state.nodes.remove(name).is_some() {
                state.version += 1;
                state.node_history.changes.push(Change::Gone(name.to_owned()));
            }
        });
    }

    /// Freezes or unfreezes a watch: a frozen one sends nothing, as a lost connection that was not detected.
    pub fn freeze(&self, feed: Feed, is_frozen: bool) {
        self.shared.change(|state| match feed {
            Feed::Pods => state.pod_history.is_frozen = is_frozen,
            Feed::Nodes => state.node_history.is_frozen = is_frozen,
        });
    }

    /// Makes the watches restart from a list without this number of the last changes.
    pub fn expire(&self, feed: Feed, behind: usize) {
        self.shared.change(|state| match feed {
            Feed::Pods => {
                (state.pod_history.expired, state.pod_history.behind) =
                    (state.pod_history.expired + 1, behind);
            }
            Feed::Nodes => {
                (state.node_history.expired, state.node_history.behind) =
                    (state.node_history.expired + 1, behind);
            }
        });
    }

    /// Pauses lists after this number of objects, at the latest before their end, until the call with `None` or
    /// the next expiration.
    pub fn hold_lists(&self, feed: Feed, after: Option<usize>) {
        self.shared.change(|state| match feed {
            Feed::Pods => state.pod_history.held = after,
            Feed::Nodes => state.node_history.held = after,
        });
    }

    /// Makes the next calls of a kind fail, this many times.
    pub fn inject_fault(&self, kind: ApiCall, fault: CallFault, times: u32) {
        self.shared.state().faults.add(None, kind, fault, times);
    }

    /// Like `inject_fault`, for the calls of one client.
    pub fn inject_fault_for(&self, who: &str, kind: ApiCall, fault: CallFault, times: u32) {
        self.shared.state().faults.add(Some(who.to_owned()), kind, fault, times);
    }

    /// Clears all call faults.
    pub fn clear_faults(&self) {
        self.shared.state().faults.clear();
    }

    /// Names of all pods, as `NAMESPACE/NAME`.
    pub fn pods(&self) -> Vec<String> {
        self.shared
            .state()
            .pods
            .keys()
            .map(|(namespace, name)| format!("{namespace}/{name}"))
            .collect()
    }

    /// A pod, if it exists.
    pub fn pod(&self, name: &str) -> Option<PodRecord> {
        self.shared.state().pods.get(&key(name)).map(|stored| stored.record.clone())
    }

    /// The condition `DisruptionTarget` of a pod.
    pub fn disruption(&self, name: &str) -> Option<Disruption> {
        self.shared.state().pods.get(&key(name)).and_then(|stored| stored.disruption.clone())
    }

    /// A lease.
    pub fn lease_of(&self, name: &LeaseName) -> Option<Lease> {
        self.shared.state().leases.get(name).cloned()
    }

    /// The deleted pods, in order.
    pub fn removed(&self) -> Vec<RemovedPod> {
        self.shared.state().removed.clone()
    }

    /// All events.
    pub fn events(&self) -> Vec<ClusterEvent> {
        self.shared.state().events.clone()
    }

    /// Removes all events, as the server does after their TTL.
    pub fn forget_events(&self) {
        self.shared.change(|state| state.events.clear());
    }

    /// All calls so far, with their objects.
    pub fn calls(&self) -> Vec<(ApiCall, String)> {
        self.shared.state().calls.clone()
    }

    /// The objects of the calls of a kind.
    pub fn calls_of(&self, kind: ApiCall) -> Vec<String> {
        self.calls()
            .into_iter()
            .filter(|(called, _)| *called == kind)
            .map(|(_, what)| what)
            .collect()
    }

    /// Clears the recorded calls.
    pub fn forget_calls(&self) {
        self.shared.state().calls.clear();
    }
}

fn key(name: &str) -> (String, String) {
    let (namespace, name) = name.split_once('/').unwrap_or(("default", name));
    (namespace.to_owned(), name.to_owned())
}

impl State {
    fn put_pod(&mut self, key: (String, String), mut stored: StoredPod) -> Version {
        self.version += 1;
        stored.record.version = Version::from(self.version);
        self.pod_history.changes.push(Change::Applied(stored.record.clone()));
        let version = stored.record.version;
        self.pods.insert(key, stored);
        version
    }

    fn drop_pod(&mut self, key: &(String, String)) {
        if let Some(stored) = self.pods.remove(key) {
            self.version += 1;
            self.pod_history.changes.push(Change::Gone(stored.record.uid));
        }
    }
}
