//! Plain data for the cache, the decisions and their execution.

use std::time::Duration;

use model::cluster::{Deletion, PodPhase};

/// The id of a pod in the cache. The stamp distinguishes it from later pods in the same slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct PodId {
    /// Its slot.
    pub slot: u32,
    /// The generation of the slot.
    pub stamp: u32,
}

/// A pod as the rules see it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PodView<'a> {
    /// Its id in the cache.
    pub id: PodId,
    /// Its namespace.
    pub namespace: &'a str,
    /// Its name.
    pub name: &'a str,
    /// Its node; empty for none.
    pub node: &'a str,
    /// Its phase.
    pub phase: PodPhase,
    /// Whether it was evicted.
    pub is_evicted: bool,
    /// When it was created, in seconds since 1970.
    pub created: i64,
    /// When it ended; if unknown, when it was created.
    pub finished: i64,
    /// The time that orders it: one of the two.
    pub order: i64,
    /// Whether and how its deletion was requested.
    pub deletion: Deletion,
    /// Whether this controller deleted it and has received no event about it since.
    pub is_deletion_requested: bool,
}

impl PodView<'_> {
    /// Whether nothing is left to do: it only waits for its finalizers, or for an event about it.
    pub fn is_spent(&self) -> bool {
        self.is_deletion_requested || (self.deletion == Deletion::Forced && self.phase.is_final())
    }

    /// Whether its deletion was requested.
    pub fn is_terminating(&self) -> bool {
        self.deletion != Deletion::None
    }
}

/// The four passes of a cycle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Pass {
    /// Terminated pods beyond a cap or a TTL.
    Terminated,
    /// Terminating pods on nodes that are out of service.
    OutOfService,
    /// Pods of nodes that do not exist.
    Orphaned,
    /// Terminating pods that never got a node.
    Unscheduled,
}

impl Pass {
    /// All of them, in the order of a cycle.
    pub const ALL: [Self; 4] =
        [Self::Terminated, Self::OutOfService, Self::Orphaned, Self::Unscheduled];

    /// Upstream's name, the label `reason` of its metrics.
    pub fn label(self) -> &'static str {
        match self {
            Self::Terminated => "terminated",
            Self::OutOfService => "out-of-service",
            Self::Orphaned => "orphaned",
            Self::Unscheduled => "unscheduled",
        }
    }
}

/// Why a pod is deleted, with details.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    /// There are more terminated pods than the threshold.
    OverThreshold(Excess),
    /// There are more terminated pods in its namespace than the cap.
    OverNamespaceCap(Excess),
    /// There are more terminated pods on its node than the cap.
    OverNodeCap(Excess),
    /// It ended longer ago than the TTL.
    OverTtl {
        /// The time since its end.
        age: Duration,
        /// The TTL.
        ttl: Duration,
    },
    /// Its node is not ready and has the out-of-service taint.
    NodeOutOfService,
    /// Its node does not exist.
    NodeGone {
        /// How long it was missing before it was read from the API server.
        missing_for: Duration,
    },
    /// It never got a node.
    NeverScheduled,
}

/// An exceeded cap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Excess {
    /// The number of terminated pods.
    pub terminated: u32,
    /// The cap.
    pub allowed: u32,
    /// The position of the pod, counted from the first to be deleted.
    pub position: u32,
}

impl Rule {
    /// The name of [`Rule::OverThreshold`].
    pub const OVER_THRESHOLD: &'static str = "terminated-pod-threshold";
    /// The name of [`Rule::OverNamespaceCap`].
    pub const OVER_NAMESPACE_CAP: &'static str = "terminated-pods-per-namespace";
    /// The name of [`Rule::OverNodeCap`].
    pub const OVER_NODE_CAP: &'static str = "terminated-pods-per-node";
    /// The name of [`Rule::OverTtl`].
    pub const OVER_TTL: &'static str = "terminated-pod-ttl";
    /// The name of [`Rule::NodeOutOfService`].
    pub const NODE_OUT_OF_SERVICE: &'static str = "node-out-of-service";
    /// The name of [`Rule::NodeGone`].
    pub const NODE_GONE: &'static str = "node-gone";
    /// The name of [`Rule::NeverScheduled`].
    pub const NEVER_SCHEDULED: &'static str = "never-scheduled";

    /// Its name, in kebab case.
    pub fn name(&self) -> &'static str {
        match self {
            Self::OverThreshold(_) => Self::OVER_THRESHOLD,
            Self::OverNamespaceCap(_) => Self::OVER_NAMESPACE_CAP,
            Self::OverNodeCap(_) => Self::OVER_NODE_CAP,
            Self::OverTtl { .. } => Self::OVER_TTL,
            Self::NodeOutOfService => Self::NODE_OUT_OF_SERVICE,
            Self::NodeGone { .. } => Self::NODE_GONE,
            Self::NeverScheduled => Self::NEVER_SCHEDULED,
        }
    }

    /// Its pass.
    pub fn pass(&self) -> Pass {
        match self {
            Self::OverThreshold(_)
            | Self::OverNamespaceCap(_)
            | Self::OverNodeCap(_)
            | Self::OverTtl { .. } => Pass::Terminated,
            Self::NodeOutOfService => Pass::OutOfService,
            Self::NodeGone { .. } => Pass::Orphaned,
            Self::NeverScheduled => Pass::Unscheduled,
        }
    }
}

/// A pod to be deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Removal {
    /// The pod.
    pub pod: PodId,
    /// The reason.
    pub rule: Rule,
}

/// The order of terminated pods, after the evicted ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Order {
    /// By creation, like upstream.
    #[default]
    Creation,
    /// By finish time.
    Finish,
}

/// Which terminated pods are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TerminatedPolicy {
    /// The cap of the cluster; zero or less for no cap.
    pub threshold: i64,
    /// How long pods are kept after their end.
    pub ttl: Option<Duration>,
    /// The cap of each namespace.
    pub per_namespace: Option<u32>,
    /// The cap of each node.
    pub per_node: Option<u32>,
}

/// The removable terminated pods, indexed.
pub trait TerminatedPods {
    /// Their number.
    fn count(&self) -> usize;
    /// All of them, evicted first, then by [`PodView::order`]; in any order for the same time.
    fn in_order(&self) -> Box<dyn Iterator<Item = PodView<'_>> + '_>;
    /// All of them, by finish time.
    fn by_finish(&self) -> Box<dyn Iterator<Item = PodView<'_>> + '_>;
    /// Namespaces with more than `cap` of them, each with their number.
    fn namespaces_over(&self, cap: u32) -> Vec<(&str, u32)>;
    /// Nodes with more than `cap` of them, each with their number.
    fn nodes_over(&self, cap: u32) -> Vec<(&str, u32)>;
}
