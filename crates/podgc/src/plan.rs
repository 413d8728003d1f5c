//! Plain data between the cache, the decisions and those who carry them out.

use std::time::Duration;

use model::cluster::{Deletion, PodPhase};

/// A pod in the cache. The stamp tells it from a later one in the same place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct PodId {
    /// Its place.
    pub slot: u32,
    /// Which pod of that place.
    pub stamp: u32,
}

/// What the rules see of a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PodView<'a> {
    /// Where it is in the cache.
    pub id: PodId,
    /// Its namespace.
    pub namespace: &'a str,
    /// Its name.
    pub name: &'a str,
    /// Its node; empty for none.
    pub node: &'a str,
    /// Its phase.
    pub phase: PodPhase,
    /// Whether it failed by eviction.
    pub is_evicted: bool,
    /// When it was created, in seconds since 1970.
    pub created: i64,
    /// When it ended, as far as anybody knows: else when it was created.
    pub finished: i64,
    /// What it is ordered by: one of the two.
    pub order: i64,
    /// Whether its deletion was asked for.
    pub deletion: Deletion,
    /// Whether this controller deleted it and has received no event about it since.
    pub is_asked: bool,
}

impl PodView<'_> {
    /// Whether all was done that can be: only its finalizers, or news of it, are waited for.
    pub fn is_spent(&self) -> bool {
        self.is_asked || (self.deletion == Deletion::Forced && self.phase.is_final())
    }

    /// Whether its deletion was asked for.
    pub fn is_terminating(&self) -> bool {
        self.deletion != Deletion::None
    }
}

/// The four passes of a cycle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Pass {
    /// Terminated pods that are too many or too old.
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

    /// Upstream's word, the label `reason` of its metrics.
    pub fn label(self) -> &'static str {
        match self {
            Self::Terminated => "terminated",
            Self::OutOfService => "out-of-service",
            Self::Orphaned => "orphaned",
            Self::Unscheduled => "unscheduled",
        }
    }
}

/// Why a pod goes, with the numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    /// More terminated pods exist than may.
    OverThreshold(Excess),
    /// More terminated pods exist in its namespace than may.
    OverNamespaceCap(Excess),
    /// More terminated pods exist on its node than may.
    OverNodeCap(Excess),
    /// It ended too long ago.
    OverTtl {
        /// How long ago.
        age: Duration,
        /// How long it may stay.
        ttl: Duration,
    },
    /// Its node is not ready and marked as out of service.
    NodeOutOfService,
    /// Its node does not exist.
    NodeGone {
        /// How long it was missing before the API server was asked.
        missing_for: Duration,
    },
    /// It never got a node.
    NeverScheduled,
}

/// How many are too many.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Excess {
    /// How many there are.
    pub terminated: u32,
    /// How many may be.
    pub allowed: u32,
    /// Which of them it is, counted from the first to go.
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

    /// The pass it belongs to.
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

/// A pod that goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Removal {
    /// Which.
    pub pod: PodId,
    /// Why.
    pub rule: Rule,
}

/// What terminated pods are ordered by, after the evicted ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Order {
    /// The oldest first, as upstream.
    #[default]
    Creation,
    /// Those that ended first.
    Finish,
}

/// Which terminated pods may stay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TerminatedPolicy {
    /// How many in the cluster; with zero or less any number.
    pub threshold: i64,
    /// For how long after their end.
    pub ttl: Option<Duration>,
    /// How many in a namespace.
    pub per_namespace: Option<u32>,
    /// How many on a node.
    pub per_node: Option<u32>,
}

/// The terminated pods that may be removed, kept in order.
pub trait TerminatedPods {
    /// How many there are.
    fn count(&self) -> usize;
    /// All, the evicted first, then by [`PodView::order`]; those of the same time in any order.
    fn in_order(&self) -> Box<dyn Iterator<Item = PodView<'_>> + '_>;
    /// All, those first that ended first.
    fn by_finish(&self) -> Box<dyn Iterator<Item = PodView<'_>> + '_>;
    /// Namespaces with more of them than that, each with how many.
    fn namespaces_over(&self, cap: u32) -> Vec<(&str, u32)>;
    /// Nodes with more of them than that, each with how many.
    fn nodes_over(&self, cap: u32) -> Vec<(&str, u32)>;
}
