//! Dead containers: upstream's `evictContainers`.
//!
//! The instances of one container of one pod are a *unit*. All of a unit is removed when its pod is gone;
//! otherwise
//! the oldest beyond the cap of each unit, then beyond an equal share of the node's cap, then the oldest of
//! all.

use std::cmp::{Ordering, Reverse};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use model::ids::{ContainerId, PodUid};
use model::observed::{Container, ContainerState};
use model::pod_state::{PodState, WorkerState};
use model::verdict::{Detail, Input, Owner, Subject};

use super::Facts;
use super::policy::AgeBy;
use crate::plan::{Fate, Item};

/// Exit times, if the policy uses them. A missing one could not be read.
pub type ExitTimes = BTreeMap<ContainerId, Timestamp>;

/// A container that may be removed, and the decision so far.
struct Candidate<'a> {
    container: &'a Container,
    /// The start of its age.
    since: Timestamp,
    /// Whether its exit time is needed and unknown.
    end_is_unknown: bool,
    state: PodState,
    decided: Option<(&'static str, Detail)>,
}

impl Candidate<'_> {
    /// Newest of a unit first. The higher attempt is newer even if the clock was set back, and is the one that
    /// the pod worker uses; then time and id decide.
    fn in_unit(&self) -> impl Ord + use<> {
        let Container { attempt, id, .. } = self.container;
        Reverse((*attempt, self.since, id.clone()))
    }

    /// The newest of all units first.
    fn in_all(&self) -> impl Ord + use<> {
        let Container { attempt, id, .. } = self.container;
        Reverse((self.since, *attempt, id.clone()))
    }

    fn remove(&mut self, rule: &'static str, detail: Detail) {
        self.decided = Some((rule, detail));
    }
}

/// The units: their members, newest first.
type Units<'a> = BTreeMap<(&'a PodUid, &'a Arc<str>), Vec<Candidate<'a>>>;

/// The fate of each container: first removed ones, by pod and oldest first; then kept ones.
pub fn containers(listed: &[Container], ended: &ExitTimes, facts: &Facts<'_>) -> Vec<Item> {
    let mut kept = Vec::new();
    let mut units = Units::new();
    let newest = newest_of_each(listed);
    for container in listed {
        let is_newest = newest.get(&(&container.pod_uid, &container.name)) == Some(&&container.id);
        let (exit, exited) =
            (ended.get(&container.id).copied(), container.state == ContainerState::Exited);
        let candidate = Candidate {
            container,
            since: exit.unwrap_or(container.created_at),
            end_is_unknown: facts.policy.age_by == AgeBy::Finished && exited && exit.is_none(),
            state: facts.pods.state(&container.pod_uid),
            decided: None,
        };
        if let Some((rule, detail)) = why_kept(&candidate, is_newest, facts) {
            kept.push(decided(&candidate, Fate::Keep, rule, detail, facts.now));
        } else {
            let key = (&container.pod_uid, &container.name);
            units.entry(key).or_default().push(candidate);
        }
    }
    for unit in units.values_mut() {
        unit.sort_by_key(Candidate::in_unit);
    }
    if facts.pods.sources_ready() {
        remove_all_of_removable(&mut units, facts);
    }
    if let Some(cap) = facts.policy.per_container {
        let detail = Detail::default().with("cap", count(cap));
        trim_each(&mut units, cap, "per-container-cap", &detail);
    }
    if let Some(cap) = facts.policy.in_all {
        trim_all(&mut units, cap);
    }
    let mut removed = Vec::new();
    for unit in units.into_values() {
        for candidate in unit.into_iter().rev() {
            let item = item(candidate, facts);
            if item.fate == Fate::Remove { removed.push(item) } else { kept.push(item) }
        }
    }
    kept.sort_by(|one, other| one.subject.cmp(&other.subject));
    removed.append(&mut kept);
    removed
}

/// The rule that keeps containers whose decision panicked.
pub(crate) const NOT_DECIDED: &str = "internal-error";

/// Keeps all containers: the decision about them panicked.
pub(crate) fn all_kept(listed: &[Container]) -> Vec<Item> {
    let kept = listed.iter().map(|container| Item {
        subject: Subject::Container(container.id.clone()),
        name: Arc::clone(&container.name),
        owner: Owner::of(&container.pod_uid, &container.pod),
        fate: Fate::Keep,
        rule: NOT_DECIDED,
        detail: Detail::default(),
    });
    kept.collect()
}

/// The order of kept containers in plans: by pod and name, newest first.
pub(crate) fn reading_order(one: &Container, other: &Container) -> Ordering {
    let by_name =
        (&one.pod, &one.pod_uid, &one.name).cmp(&(&other.pod, &other.pod_uid, &other.name));
    let newest_first = (other.attempt, other.created_at).cmp(&(one.attempt, one.created_at));
    by_name.then(newest_first).then_with(|| one.id.cmp(&other.id))
}

/// The latest instance of each container of each pod, in any state.
fn newest_of_each(listed: &[Container]) -> BTreeMap<(&PodUid, &Arc<str>), &ContainerId> {
    let mut newest: BTreeMap<_, &Container> = BTreeMap::new();
    let rank = |one: &Container| (one.attempt, one.created_at, one.id.clone());
    for container in listed {
        let held = newest.entry((&container.pod_uid, &container.name)).or_insert(container);
        if rank(container) > rank(held) {
            *held = container;
        }
    }
    newest.into_iter().map(|(key, container)| (key, &container.id)).collect()
}

/// The rule that keeps a container from being a candidate, if any.
fn why_kept(
    candidate: &Candidate<'_>,
    is_newest: bool,
    facts: &Facts<'_>,
) -> Option<(&'static str, Detail)> {
    let least = facts.policy.min_age;
    match (candidate.container.state, candidate.state) {
        (ContainerState::Running, _) => Some(("running", Detail::default())),
        // Upstream applies its caps to these too. But containers of unknown pods do not increase in number, and
        // a source that reports late must find all containers of its pods.
        (_, PodState::SourcesNotReady) => Some(("source-not-ready", Detail::default())),
        // The pod worker stops it with the rest of its grace period; a second stop could only extend that.
        (ContainerState::Unknown, PodState::Known(WorkerState { terminated: false, .. })) => {
            Some(("may-be-running", Detail::default()))
        }
        _ if candidate.end_is_unknown && age_counts(candidate.state, facts) => {
            Some(("exit-time-unknown", Detail::default()))
        }
        _ if !is_old_enough(candidate.since, least, facts.now) => {
            Some(("too-young", Detail::default().with("minimumAge", Input::Span(least))))
        }
        // The worker may be starting it, or may appear soon; removing it would kill it. A container that never
        // ran does not replace one that did, which the worker needs.
        (
            ContainerState::Created,
            PodState::Desired | PodState::Known(WorkerState { terminated: false, .. }),
        ) if is_newest => Some(("may-be-starting", Detail::default())),
        _ => None,
    }
}

/// Whether the age of a container counts: not if all its pod is removed.
fn age_counts(state: PodState, facts: &Facts<'_>) -> bool {
    let all_goes = facts.removable(state).is_some() && facts.pods.sources_ready();
    !(all_goes && facts.policy.min_age.is_zero())
}

/// A container of exactly the minimum age is old enough. Without a minimum age every container is, even one
/// created before the clock was set back.
fn is_old_enough(since: Timestamp, least: Duration, now: Timestamp) -> bool {
    least.is_zero() || now.checked_sub(least).is_ok_and(|cut_off| since <= cut_off)
}

fn remove_all_of_removable(units: &mut Units<'_>, facts: &Facts<'_>) {
    for unit in units.values_mut() {
        let members = unit.len();
        for candidate in unit {
            if let Some(rule) = facts.removable(candidate.state) {
                let detail = Detail::default()
                    .with("pod", Input::Text(candidate.state.as_str().to_owned()))
                    .with("instances", count(members));
                candidate.remove(rule, detail);
            }
        }
    }
}

fn left<'u, 'a>(unit: &'u mut [Candidate<'a>]) -> impl Iterator<Item = &'u mut Candidate<'a>> {
    unit.iter_mut().filter(|candidate| candidate.decided.is_none())
}

fn left_of(unit: &[Candidate<'_>]) -> usize {
    unit.iter().filter(|candidate| candidate.decided.is_none()).count()
}

/// Removes the oldest of each unit beyond `keep`. Earlier decisions count as removed even if the removal fails
/// later; otherwise more would be removed in their place.
fn trim_each(units: &mut Units<'_>, keep: usize, rule: &'static str, detail: &Detail) {
    for unit in units.values_mut() {
        let instances = left_of(unit);
        for (position, candidate) in left(unit).enumerate().skip(keep) {
            let detail = detail
                .clone()
                .with("position", count(position + 1))
                .with("instances", count(instances));
            candidate.remove(rule, detail);
        }
    }
}

/// Enforces the node's cap: first an equal share of at least one for each unit, then the oldest of all are
/// removed. The remainder of the division is not distributed.
fn trim_all(units: &mut Units<'_>, cap: usize) {
    // A unit removed with its pod no longer counts.
    let lefts: Vec<usize> = units.values().map(|unit| left_of(unit)).filter(|n| *n > 0).collect();
    let (total, number) = (lefts.iter().sum::<usize>(), lefts.len());
    if total <= cap {
        return;
    }
    let share = (cap / number.max(1)).max(1);
    let detail = Detail::default()
        .with("cap", count(cap))
        .with("dead", count(total))
        .with("units", count(number))
        .with("share", count(share));
    trim_each(units, share, "node-cap-share", &detail);
    let mut pool: Vec<&mut Candidate<'_>> =
        units.values_mut().flat_map(|unit| left(unit)).collect();
    let dead = pool.len();
    pool.sort_by_key(|candidate| candidate.in_all());
    for (position, candidate) in pool.into_iter().enumerate().skip(cap) {
        let detail = Detail::default()
            .with("cap", count(cap))
            .with("position", count(position + 1))
            .with("dead", count(dead));
        candidate.remove("node-cap-oldest", detail);
    }
}

fn item(mut candidate: Candidate<'_>, facts: &Facts<'_>) -> Item {
    if let Some((rule, detail)) = candidate.decided.take() {
        return decided(&candidate, Fate::Remove, rule, detail, facts.now);
    }
    let removable = facts.removable(candidate.state).is_some();
    let rule = match candidate.state {
        PodState::Unknown => "pod-state-unknown",
        _ if removable => "source-not-ready",
        _ => "within-caps",
    };
    let mut detail = Detail::default();
    for (name, cap) in
        [("perContainer", facts.policy.per_container), ("inAll", facts.policy.in_all)]
    {
        if let Some(cap) = cap {
            detail = detail.with(name, count(cap));
        }
    }
    decided(&candidate, Fate::Keep, rule, detail, facts.now)
}

fn decided(
    candidate: &Candidate<'_>,
    fate: Fate,
    rule: &'static str,
    detail: Detail,
    now: Timestamp,
) -> Item {
    let container = candidate.container;
    let mut detail = detail.with("created", Input::Time(container.created_at));
    if candidate.since != container.created_at {
        detail = detail.with("finished", Input::Time(candidate.since));
    }
    let age = Duration::try_from(now.duration_since(candidate.since)).unwrap_or_default();
    Item {
        subject: Subject::Container(container.id.clone()),
        name: Arc::clone(&container.name),
        owner: Owner::of(&container.pod_uid, &container.pod),
        fate,
        rule,
        detail: detail.with("age", Input::Span(age)),
    }
}

/// A count as a detail of a decision.
pub(super) fn count(number: usize) -> Input {
    Input::Number(i64::try_from(number).unwrap_or(i64::MAX))
}

#[cfg(test)]
#[path = "containers_tests.rs"]
mod tests;
