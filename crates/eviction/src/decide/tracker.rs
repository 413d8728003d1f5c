//! Follows the thresholds from round to round: since when each is met, and which conditions follow.

use std::collections::BTreeMap;
use std::time::Duration;

use model::pressure::Pressure;
use model::quantity::Quantity;

use super::observation::{Observations, Observed, available};
use super::signal::{Condition, Resource, Signal};
use super::threshold::Threshold;

/// A threshold and its observation.
#[derive(Debug, Clone, PartialEq)]
pub struct Crossed {
    /// The threshold.
    pub threshold: Threshold,
    /// Its observation.
    pub observed: Observed,
}

impl Crossed {
    /// The resource that is low.
    pub fn resource(&self) -> Resource {
        Resource::of(self.threshold.signal)
    }

    /// The amount below which the threshold is met.
    pub fn quantity(&self) -> Quantity {
        self.threshold.amount(&self.observed)
    }

    /// What is available.
    pub fn available(&self) -> Quantity {
        available(self.threshold.signal, &self.observed)
    }
}

/// The result of a round.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Round {
    /// The conditions of the node.
    pub pressure: Pressure,
    /// The thresholds that require action, the one to act on first.
    pub active: Vec<Crossed>,
    /// The signals of thresholds without an observation.
    pub unobserved: Vec<Signal>,
}

/// A threshold with its history.
#[derive(Debug, Clone)]
struct Tracked {
    threshold: Threshold,
    /// Since when it is met.
    since: Option<Duration>,
    /// Whether its grace period was over in the last round.
    is_due: bool,
}

/// Follows thresholds. Times count from the start of the agent.
#[derive(Debug, Clone)]
pub struct Tracker {
    thresholds: Vec<Tracked>,
    /// When each condition was last observed.
    seen: BTreeMap<Condition, Duration>,
    /// The observations of the last round.
    last: Observations,
    /// `evictionPressureTransitionPeriod`.
    transition: Duration,
}

/// The state of a threshold, for users.
#[derive(Debug, Clone, PartialEq)]
pub struct ThresholdState {
    /// The threshold.
    pub threshold: Threshold,
    /// Since when it is met.
    pub since: Option<Duration>,
}

impl Tracker {
    /// Begins without observations. A condition stays for `transition` after it was last observed.
    pub fn new(thresholds: Vec<Threshold>, transition: Duration) -> Self {
        let tracked = |threshold| Tracked { threshold, since: None, is_due: false };
        Self {
            thresholds: thresholds.into_iter().map(tracked).collect(),
            seen: BTreeMap::new(),
            last: Observations::new(),
            transition,
        }
    }

    /// The thresholds, with their states after the last round.
    pub fn states(&self) -> impl Iterator<Item = ThresholdState> + '_ {
        let state = |tracked: &Tracked| ThresholdState {
            threshold: tracked.threshold.clone(),
            since: tracked.since,
        };
        self.thresholds.iter().map(state)
    }

    /// Evaluates the thresholds. One that was due and has not reclaimed its minimum is still met. Only statistics newer
    /// than those of the last round require action, so that no pod is evicted twice for one measurement.
    pub fn round(&mut self, observations: Observations, now: Duration) -> Round {
        let mut round = Round::default();
        for tracked in &mut self.thresholds {
            let threshold = &tracked.threshold;
            let Some(observed) = observations.get(&threshold.signal) else {
                round.unobserved.push(threshold.signal);
                (tracked.since, tracked.is_due) = (None, false);
                continue;
            };
            let was_due = std::mem::take(&mut tracked.is_due);
            let is_met =
                threshold.is_met(observed) || (was_due && threshold.is_unresolved(observed));
            if !is_met {
                tracked.since = None;
                continue;
            }
            self.seen.insert(Condition::of(threshold.signal), now);
            let since = *tracked.since.get_or_insert(now);
            tracked.is_due = now.saturating_sub(since) >= threshold.grace;
            let last = self.last.get(&threshold.signal);
            let is_new = last.is_none_or(|last| observed.at > last.at);
            if tracked.is_due && is_new {
                let (threshold, observed) = (threshold.clone(), *observed);
                round.active.push(Crossed { threshold, observed });
            }
        }
        // Stable: hard thresholds stay before soft ones.
        round.active.sort_by_key(|crossed| crossed.resource() != Resource::Memory);
        round.pressure = self.pressure(now);
        self.last = observations;
        round
    }

    /// The conditions at this time.
    fn pressure(&self, now: Duration) -> Pressure {
        let holds = |condition: Condition| {
            let seen = self.seen.get(&condition);
            seen.is_some_and(|seen| now.saturating_sub(*seen) < self.transition)
        };
        Pressure {
            memory: holds(Condition::Memory),
            disk: holds(Condition::Disk),
            pid: holds(Condition::Pid),
        }
    }

    /// Whether all observed thresholds are resolved, with their minimum reclaim and for any grace period.
    pub fn is_resolved(&self, observations: &Observations) -> bool {
        let mut thresholds = self.thresholds.iter().map(|tracked| &tracked.threshold);
        !thresholds.any(|threshold| {
            let observed = observations.get(&threshold.signal);
            observed.is_some_and(|observed| threshold.is_unresolved(observed))
        })
    }
}

#[cfg(test)]
#[path = "tracker_tests.rs"]
mod tests;
