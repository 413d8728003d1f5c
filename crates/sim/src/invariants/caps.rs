//! Caps of dead containers.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use gc::policy::{AgeBy, ContainerPolicy};
use model::ids::ContainerId;
use model::observed::ContainerState;

use super::Invariant;
use crate::history::{Event, Instance, Record, Removed};

/// The rules of the caps.
pub(crate) const CAPS: [&str; 3] = ["per-container-cap", NODE_SHARE, NODE_OLDEST];
const NODE_SHARE: &str = "node-cap-share";
const NODE_OLDEST: &str = "node-cap-oldest";

/// How long a removed object may still count in the removal of older ones.
const REMEMBERED: Duration = Duration::from_mins(10);

/// A container removed by a cap is older than the instances that the cap keeps, of its container or of the
/// node, and has the minimum age. The removal at a container's death needs neither a minimum age nor the node
/// cap.
#[derive(Debug)]
pub(super) struct OldestBeyondCaps {
    policy: ContainerPolicy,
    /// All containers so far, and when they were removed.
    containers: BTreeMap<ContainerId, (Arc<Instance>, Option<Duration>)>,
    /// Containers whose state the runtime lost: their removal ends them.
    lost: BTreeSet<ContainerId>,
    /// Whether the clock was set: then any order is possible.
    jumped: bool,
}

impl OldestBeyondCaps {
    pub(super) fn new(policy: ContainerPolicy) -> Self {
        Self { policy, containers: BTreeMap::new(), lost: BTreeSet::new(), jumped: false }
    }

    /// The latest time from which the age of a container counts.
    fn since(&self, one: &Instance) -> Duration {
        let ended = one.finished.filter(|_| self.policy.age_by == AgeBy::Finished);
        ended.unwrap_or(one.created)
    }

    /// The earliest one: a lost container may have been listed before its end.
    fn since_or_before(&self, one: &Instance) -> Duration {
        if self.lost.contains(&one.id) { one.created } else { self.since(one) }
    }

    fn removal_requested(&self, id: &ContainerId, rule: &str, now: Duration) -> Result<(), String> {
        let Some((one, _)) = self.containers.get(id) else { return Ok(()) };
        let others = self.containers.values().filter(|(other, gone)| {
            other.id != one.id
                && other.state != Some(ContainerState::Running)
                && gone.is_none_or(|gone| now <= gone + REMEMBERED)
        });
        let dead: Vec<&Instance> = others.map(|(other, _)| &**other).collect();
        let is_newer = |other: &&&Instance| {
            (&other.uid, &other.name) == (&one.uid, &one.name) && other.attempt >= one.attempt
        };
        let newer = dead.iter().filter(is_newer).count();
        let since = self.since_or_before(one);
        let newer_of_all = dead.iter().filter(|other| self.since(other) >= since).count();
        // Without a cap, the removal at a death still keeps one instance.
        let (counted, cap) = match (rule, self.policy.in_all) {
            ("per-container-cap", _) => (newer, self.policy.per_container.unwrap_or(1)),
            (_, None) => return Err(format!("{id} is removed by {rule} without such a cap")),
            (NODE_SHARE, Some(cap)) if dead.len() >= cap => (newer, 1),
            (NODE_SHARE, Some(cap)) => (dead.len(), cap),
            (_, Some(cap)) if self.jumped => (dead.len(), cap),
            (_, Some(cap)) => (newer_of_all, cap),
        };
        if counted < cap {
            return Err(format!(
                "{id} is removed by {rule} with {counted} newer ones and a cap of {cap}"
            ));
        }
        let age = now.saturating_sub(since);
        let least = self.policy.min_age;
        if self.policy.in_all.is_some() && rule != CAPS[0] && !self.jumped && age < least {
            return Err(format!("{id} is removed by {rule} after {age:?}, not after {least:?}"));
        }
        Ok(())
    }
}

impl Invariant for OldestBeyondCaps {
    fn sentence(&self) -> &'static str {
        "a cap removes the oldest containers, and only those beyond it"
    }

    fn read(&mut self, record: &Record) -> Result<(), String> {
        match &record.event {
            Event::ClockJumped => self.jumped = true,
            Event::Container(one, _) => {
                if one.state == Some(ContainerState::Unknown) {
                    self.lost.insert(one.id.clone());
                }
                let gone = one.state.is_none().then_some(record.at);
                self.containers.insert(one.id.clone(), (Arc::clone(one), gone));
            }
            Event::RemovalRequested(Removed::Container(id), rule) if CAPS.contains(rule) => {
                return self.removal_requested(id, rule, record.at);
            }
            _ => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use model::observed::ContainerState::{Created, Exited, Running, Unknown};

    use super::*;
    use crate::invariants::tests::{container, seconds, with};

    fn policy(per_container: Option<usize>, in_all: Option<usize>) -> ContainerPolicy {
        ContainerPolicy { per_container, in_all, ..ContainerPolicy::default() }
    }

    fn dead(name: &str, number: u32) -> Event {
        container(name, number, Exited, Running)
    }

    fn gone(name: &str, number: u32) -> Event {
        with(dead(name, number), |one| one.state = None)
    }

    /// Whether the removal of the first one is correct, at a time.
    fn is_right(policy: ContainerPolicy, events: &[Event], rule: &'static str, at: u64) -> bool {
        let mut invariant = OldestBeyondCaps::new(policy);
        let first = seconds(30);
        for event in events {
            invariant.read(&Record { at: first, event: event.clone() }).unwrap();
        }
        let event = Event::RemovalRequested(Removed::Container("a3".into()), rule);
        invariant.read(&Record { at: seconds(at), event }).is_ok()
    }

    #[test]
    fn finds_removal_within_the_per_container_cap() {
        let right =
            |cap, events: &[Event]| is_right(policy(cap, None), events, "per-container-cap", 60);
        assert!(right(Some(0), &[dead("a", 3)]));
        let newer = [dead("a", 3), dead("a", 4), dead("a", 2), dead("b", 5)];
        assert!(!right(Some(1), &[dead("a", 3)]) && right(Some(1), &newer));
        assert!(!right(Some(2), &newer) && right(None, &newer));
        let running = [dead("a", 3), container("a", 4, Running, Created)];
        assert!(!right(Some(1), &running), "running containers are not counted");
        // It was removed meanwhile.
        let removed = [dead("a", 3), dead("a", 4), gone("a", 4)];
        assert!(right(Some(1), &removed));
        assert!(!is_right(policy(Some(1), None), &removed, "per-container-cap", 900));
    }

    #[test]
    fn finds_removal_within_the_node_cap() {
        let right = |cap, events: &[Event], rule| is_right(policy(None, cap), events, rule, 60);
        let all = [dead("a", 3), dead("b", 5), dead("c", 1)];
        assert!(right(Some(1), &all, NODE_OLDEST));
        assert!(!right(Some(2), &all, NODE_OLDEST), "only one is newer");
        assert!(!right(None, &all, NODE_OLDEST) && !right(None, &all, NODE_SHARE));
        let jumped = [&all[..], &[Event::ClockJumped]].concat();
        assert!(right(Some(2), &jumped, NODE_OLDEST), "the order is unknown");
        assert!(!right(Some(3), &jumped, NODE_OLDEST));
        assert!(!right(Some(2), &all, NODE_SHARE), "it is the last of its container");
        let newer = [&all[..], &[dead("a", 4)]].concat();
        assert!(right(Some(2), &newer, NODE_SHARE) && !right(Some(4), &newer, NODE_SHARE));
    }

    #[test]
    fn finds_removal_by_the_node_cap_before_min_age() {
        let events = [dead("a", 3), dead("b", 5)];
        let least =
            |age_by| ContainerPolicy { min_age: seconds(60), age_by, ..policy(None, Some(1)) };
        // It was created at 13 and ended at 20.
        let right = |age_by, at| is_right(least(age_by), &events, NODE_OLDEST, at);
        assert!(!right(AgeBy::Created, 72) && right(AgeBy::Created, 73));
        assert!(!right(AgeBy::Finished, 79) && right(AgeBy::Finished, 80));
        // A lost container ends with its removal.
        let lost = [container("a", 3, Unknown, Running), dead("a", 3), dead("b", 5)];
        assert!(is_right(least(AgeBy::Finished), &lost, NODE_OLDEST, 79));
    }
}
