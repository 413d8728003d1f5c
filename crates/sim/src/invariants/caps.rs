//! Caps.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use gc::policy::{AgeBy, ContainerPolicy};
use model::ids::ContainerId;
use model::observed::ContainerState;

use super::Invariant;
use crate::history::{Event, Instance, Record, Removed};

/// The rules about how many dead containers are kept.
pub(crate) const CAPS: [&str; 3] = ["per-container-cap", NODE_SHARE, NODE_OLDEST];
const NODE_SHARE: &str = "node-cap-share";
const NODE_OLDEST: &str = "node-cap-oldest";

/// How long something that is gone may have been counted by who removes what was older.
const REMEMBERED: Duration = Duration::from_mins(10);

/// What goes beyond a cap is older than as many as the cap says: of its own container, or of all; and as old as
/// it must be. One that died asks for neither its age nor the node's cap.
#[derive(Debug)]
pub(super) struct OldestBeyondCaps {
    policy: ContainerPolicy,
    /// All that ever was, and since when it is gone.
    containers: BTreeMap<ContainerId, (Arc<Instance>, Option<Duration>)>,
    /// Those that the runtime lost track of: they end by whoever removes them.
    lost: BTreeSet<ContainerId>,
    /// Whether the clock was set: then "older" may mean anything.
    jumped: bool,
}

impl OldestBeyondCaps {
    pub(super) fn new(policy: ContainerPolicy) -> Self {
        Self { policy, containers: BTreeMap::new(), lost: BTreeSet::new(), jumped: false }
    }

    /// From when the age of a container counts, at the latest.
    fn since(&self, one: &Instance) -> Duration {
        let ended = one.finished.filter(|_| self.policy.age_by == AgeBy::Finished);
        ended.unwrap_or(one.created)
    }

    /// The same at the earliest: one that was lost may have been looked at before its end.
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
        // Without a cap the deletor still keeps one.
        let (counted, cap) = match (rule, self.policy.in_all) {
            ("per-container-cap", _) => (newer, self.policy.per_container.unwrap_or(1)),
            (_, None) => return Err(format!("{id} goes by {rule}, and there is no such cap")),
            (NODE_SHARE, Some(cap)) if dead.len() >= cap => (newer, 1),
            (NODE_SHARE, Some(cap)) => (dead.len(), cap),
            (_, Some(cap)) if self.jumped => (dead.len(), cap),
            (_, Some(cap)) => (newer_of_all, cap),
        };
        if counted < cap {
            return Err(format!("{id} goes by {rule} beside {counted} newer ones, of {cap}"));
        }
        let age = now.saturating_sub(since);
        let least = self.policy.min_age;
        if self.policy.in_all.is_some() && rule != CAPS[0] && !self.jumped && age < least {
            return Err(format!("{id} goes by {rule} after {age:?}, not after {least:?}"));
        }
        Ok(())
    }
}

impl Invariant for OldestBeyondCaps {
    fn sentence(&self) -> &'static str {
        "what goes beyond a cap is the oldest, and beyond it"
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

    /// Whether the removal of the first one is right, at a time.
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
        assert!(!right(Some(1), &running), "what runs is not counted");
        // Somebody removed it meanwhile.
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
        assert!(right(Some(2), &jumped, NODE_OLDEST), "nobody knows which");
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
        // It was made at 13 and ended at 20.
        let right = |age_by, at| is_right(least(age_by), &events, NODE_OLDEST, at);
        assert!(!right(AgeBy::Created, 72) && right(AgeBy::Created, 73));
        assert!(!right(AgeBy::Finished, 79) && right(AgeBy::Finished, 80));
        // Of one that was lost, whoever removes it makes the end.
        let lost = [container("a", 3, Unknown, Running), dead("a", 3), dead("b", 5)];
        assert!(is_right(least(AgeBy::Finished), &lost, NODE_OLDEST, 79));
    }
}
