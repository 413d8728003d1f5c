//! The outside, as far as the node needs it.

use std::fmt::Debug;
use std::sync::Arc;

use model::ports::addresses::Addresses;
use model::ports::clock::WallClock;
use model::ports::events::NodeEvents;
use model::ports::node_api::{NodeApi, NodeLeases};
use model::ports::runtime::Runtime;

use crate::decide::health::Unwell;

/// A part of the agent that knows whether it is well. Asked often: the answer is at hand.
pub trait SelfCheck: Debug + Send + Sync {
    /// What is wrong, if anything.
    fn unwell(&self) -> Option<Unwell>;
}

/// The outside, as far as the node needs it.
#[derive(Debug, Clone)]
pub struct NodePorts {
    /// Where the node object is.
    pub api: Arc<dyn NodeApi>,
    /// Where its lease is.
    pub leases: Arc<dyn NodeLeases>,
    /// The runtime whose state the node tells.
    pub runtime: Arc<dyn Runtime>,
    /// The addresses of the machine.
    pub addresses: Arc<dyn Addresses>,
    /// Where it is said what happened to the node.
    pub events: Arc<dyn NodeEvents>,
    /// The time of day.
    pub clock: Arc<dyn WallClock>,
    /// Parts of the agent without which the node is not ready.
    pub checks: Vec<Arc<dyn SelfCheck>>,
}

/// What is wrong with any of them.
pub(crate) fn unwell(checks: &[Arc<dyn SelfCheck>]) -> Vec<Unwell> {
    checks.iter().filter_map(|check| check.unwell()).collect()
}

/// A number from zero to one, so that the nodes of a cluster do not all call at the same moment.
pub(crate) fn fraction() -> f64 {
    use std::hash::{BuildHasher as _, RandomState};
    let random = RandomState::new().hash_one(0u8);
    f64::from(u16::try_from(random % 1000).unwrap_or(0)) / 1000.0
}
