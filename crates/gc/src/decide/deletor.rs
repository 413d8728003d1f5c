//! Selects the instances to remove as soon as a container exits, without waiting for the next pass:
//! upstream's `podContainerDeletor`.

use std::cmp::Reverse;
use std::sync::Arc;

use jiff::Timestamp;
use model::ids::PodName;
use model::observed::{ContainerState, Instance, RuntimePodStatus};
use model::verdict::{Detail, Input, Owner, Subject};

use super::containers::count;
use crate::plan::{Fate, Item};

/// The containers of a pod that are considered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeletorScope<'a> {
    /// The instances with the name of this exited container. An id that the pod does not have, such as
    /// that of a sandbox, selects none.
    SameAs(&'a str),
    /// All instances; `keep` applies to all names together.
    All,
}

/// A pod and its last status.
#[derive(Debug, Clone, Copy)]
pub struct ObservedPod<'a> {
    /// Its runtime status.
    pub status: &'a RuntimePodStatus,
    /// Its name.
    pub name: &'a PodName,
}

/// An instance beyond the kept ones.
#[derive(Debug, Clone)]
pub struct Surplus<'a> {
    /// The instance.
    pub instance: Instance<'a>,
    /// Its position among the considered containers, counted from the newest.
    pub position: usize,
    /// The number of considered containers.
    pub instances: usize,
}

/// The instances to remove beyond the newest `keep`, newest first: of one name in the order of the status, of
/// all in order of creation. Only exited ones count; neither age nor the node's cap matters.
pub fn beyond<'a>(
    status: &'a RuntimePodStatus,
    which: DeletorScope<'_>,
    keep: usize,
) -> Vec<Surplus<'a>> {
    let name = match which {
        DeletorScope::All => None,
        DeletorScope::SameAs(id) => match status.instances().find(|one| one.id.as_str() == id) {
            Some(died) => Some(died.name),
            None => return Vec::new(),
        },
    };
    let ended = status.instances().filter(|one| {
        one.state == ContainerState::Exited && name.is_none_or(|name| one.name == name)
    });
    let mut ended: Vec<Instance<'a>> = ended.collect();
    // The instances of one name are ordered already.
    if name.is_none() {
        ended.sort_by_key(|one| Reverse(one.created_at));
    }
    let instances = ended.len();
    let positions = ended.into_iter().zip(1..).skip(keep);
    positions.map(|(instance, position)| Surplus { instance, position, instances }).collect()
}

/// The item of an instance: beyond a cap, or with its pod.
pub fn item(
    surplus: &Surplus<'_>,
    pod: ObservedPod<'_>,
    rule: &'static str,
    cap: Option<usize>,
    now: Timestamp,
) -> Item {
    let Surplus { instance, position, instances } = surplus;
    let age = now.duration_since(instance.created_at).unsigned_abs();
    let mut detail = Detail::default();
    if let Some(cap) = cap {
        detail = detail
            .with("cap", count(cap))
            .with("position", count(*position))
            .with("instances", count(*instances));
    }
    Item {
        subject: Subject::Container(instance.id.clone()),
        name: Arc::clone(instance.name),
        owner: Owner::of(&pod.status.uid, pod.name),
        fate: Fate::Remove,
        rule,
        detail: detail
            .with("created", Input::Time(instance.created_at))
            .with("age", Input::Span(age)),
    }
}

/// How many dead instances of a container are kept when one exits: at least one for any cap.
pub fn keep(per_container: Option<usize>) -> usize {
    per_container.unwrap_or(1).max(1)
}

#[cfg(test)]
#[path = "deletor_tests.rs"]
mod tests;
