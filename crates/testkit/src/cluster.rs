//! The API server in memory: pods, nodes, leases and events, with feeds that can be late, be cut off
//! and begin anew from an old list.

mod feed;
pub mod node_api;
mod objects;
mod port;
mod storage;
mod strategic_merge;
mod troubles;
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

use self::objects::Objects;
pub use self::objects::object;
use self::storage::Storage;
pub use self::troubles::Trouble;
use self::troubles::Troubles;
use self::watched::Watched;
pub use self::whole_pods::{Backup, MemoryPods};
use crate::clock::VirtualClock;

/// What can be asked of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Ask {
    /// A node.
    Node,
    /// To mark a pod as failed.
    FailPod,
    /// To delete a pod.
    RemovePod,
    /// A lease, or to write one.
    Lease,
    /// To write an event.
    Event,
    /// To count one that was written.
    CountEvent,
    /// To follow an object.
    Watch,
    /// For an object.
    Object,
    /// For a token.
    Token,
    /// For a claim.
    Claim,
    /// For a persistent volume.
    PersistentVolume,
}

/// A pod that was removed.
#[derive(Debug, Clone)]
pub struct RemovedPod {
    /// As it was.
    pub record: PodRecord,
    /// The condition it had.
    pub disruption: Option<Disruption>,
    /// Why.
    pub verdict: Verdict,
    /// When.
    pub at: Timestamp,
    /// Whether its node existed then, and was ready.
    pub node: Option<NodeRecord>,
    /// What was asked for: with which uid and version.
    pub asked: PodTarget,
    /// Who asked for it.
    pub by: String,
    /// Who held leases then.
    pub holders: Vec<String>,
}

/// Which feed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Feed {
    /// Of pods.
    Pods,
    /// Of nodes.
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

/// What is heard of one kind, from the beginning of time.
#[derive(Debug)]
struct History<T> {
    changes: Vec<T>,
    /// Nothing is told while it is.
    is_frozen: bool,
    /// Counts how often those who listen must begin anew.
    expired: u64,
    /// How many of the last changes the next list does not know.
    behind: usize,
    /// After how many objects a list is held.
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
    troubles: Troubles<Ask>,
    calls: Vec<(Ask, String)>,
    removed: Vec<RemovedPod>,
    events: Vec<ClusterEvent>,
    objects: Objects,
    storage: Storage,
}

/// The API server. Clones are the same one.
#[derive(Debug, Clone)]
pub struct MemoryCluster {
    shared: Watched<State>,
    clock: VirtualClock,
    /// As whom this one is asked.
    who: String,
}

impl Default for MemoryCluster {
    fn default() -> Self {
        Self::new(VirtualClock::new())
    }
}

/// A pod to be created.
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

/// A node that is ready.
pub fn node(name: &str) -> NodeRecord {
    NodeRecord { name: name.to_owned(), is_ready: true, is_out_of_service: false }
}

impl MemoryCluster {
    /// An empty cluster with that time.
    pub fn new(clock: VirtualClock) -> Self {
        Self { shared: Watched::default(), clock, who: String::new() }
    }

    /// The same server, as somebody asks it.
    #[must_use]
    pub fn asked_by(&self, who: &str) -> Self {
        Self { who: who.to_owned(), ..self.clone() }
    }

    /// Its time.
    pub fn clock(&self) -> VirtualClock {
        self.clock.clone()
    }

    /// Creates a pod, with a uid and a version of its own, and a time if it has none. In place of one
    /// of that name.
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

    /// Gives a pod a finalizer, or takes it away; one that waited for that is gone then.
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

    /// Asks for the deletion of a pod, with time to end.
    pub fn terminate_pod(&self, name: &str) {
        self.update_pod(name, |pod| pod.deletion = Deletion::Graceful);
    }

    /// Removes a pod, as its node agent would.
    pub fn drop_pod(&self, name: &str) {
        self.shared.change(|state| state.drop_pod(&key(name)));
    }

    /// Puts a node there.
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

    /// Nothing is heard of a feed while it is frozen: a watch that was lost and nobody noticed.
    pub fn freeze(&self, feed: Feed, is_frozen: bool) {
        self.shared.change(|state| match feed {
            Feed::Pods => state.pod_history.is_frozen = is_frozen,
            Feed::Nodes => state.node_history.is_frozen = is_frozen,
        });
    }

    /// Those who follow must begin anew, from a list that does not know so many of the last changes.
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

    /// Lists are held after that many objects, at the latest before they are complete, until this is
    /// called with nothing or the followers must begin anew.
    pub fn hold_lists(&self, feed: Feed, after: Option<usize>) {
        self.shared.change(|state| match feed {
            Feed::Pods => state.pod_history.held = after,
            Feed::Nodes => state.node_history.held = after,
        });
    }

    /// From now on calls go wrong, so many times.
    pub fn trouble(&self, ask: Ask, trouble: Trouble, times: u32) {
        self.shared.state().troubles.add(None, ask, trouble, times);
    }

    /// The same for the calls of one of those who ask.
    pub fn trouble_of(&self, who: &str, ask: Ask, trouble: Trouble, times: u32) {
        self.shared.state().troubles.add(Some(who.to_owned()), ask, trouble, times);
    }

    /// Nothing goes wrong any more.
    pub fn end_troubles(&self) {
        self.shared.state().troubles.clear();
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

    /// A pod, if it is there.
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

    /// What was removed by deletions, in order.
    pub fn removed(&self) -> Vec<RemovedPod> {
        self.shared.state().removed.clone()
    }

    /// All events.
    pub fn events(&self) -> Vec<ClusterEvent> {
        self.shared.state().events.clone()
    }

    /// Forgets all events, as the server does after a while.
    pub fn forget_events(&self) {
        self.shared.change(|state| state.events.clear());
    }

    /// All calls so far, with what they were about.
    pub fn calls(&self) -> Vec<(Ask, String)> {
        self.shared.state().calls.clone()
    }

    /// What calls of a kind were about.
    pub fn asked(&self, ask: Ask) -> Vec<String> {
        self.calls().into_iter().filter(|(asked, _)| *asked == ask).map(|(_, what)| what).collect()
    }

    /// Forgets which calls there were.
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
