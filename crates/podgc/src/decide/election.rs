//! Leader election: one lease, written only with the version that was read.

use std::time::Duration;

use jiff::Timestamp;
use model::cluster::{Lease, LeaseRecord};

/// The settings of an election.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ElectionPolicy {
    /// Our identity, which is unique.
    pub identity: String,
    /// The validity of a lease after a renewal.
    pub lease_duration: Duration,
    /// How long renewals are tried.
    pub renew_deadline: Duration,
}

/// The next step of the election.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Create the missing lease.
    Create(LeaseRecord),
    /// Update the lease if it still has the version that was read.
    Update(LeaseRecord),
    /// Another process holds it.
    HeldBy(String),
}

/// The state of the election. Times count from any fixed moment of the local clock: clocks of other processes
/// do not matter, only changes of their records.
#[derive(Debug, Clone)]
pub struct Elector {
    policy: ElectionPolicy,
    /// The last change of the lease, and when it was observed.
    seen: Option<(LeaseRecord, Duration)>,
    /// The last renewal while this process leads.
    renewed: Option<Duration>,
}

impl Elector {
    /// The initial state.
    pub fn new(policy: ElectionPolicy) -> Self {
        Self { policy, seen: None, renewed: None }
    }

    /// Whether this process leads.
    pub fn leads(&self) -> bool {
        self.renewed.is_some()
    }

    /// The next step for the lease on the server.
    pub fn step(&mut self, lease: Option<&LeaseRecord>, now: Duration, wall: Timestamp) -> Step {
        let Some(held) = lease else {
            return Step::Create(self.record(None, wall));
        };
        if self.seen.as_ref().is_none_or(|(seen, _)| seen != held) {
            self.seen = Some((held.clone(), now));
        }
        let since = self.seen.as_ref().map_or(now, |(_, since)| *since);
        let is_ours = held.holder == self.policy.identity;
        if !is_ours && !held.holder.is_empty() && since + held.duration > now {
            // If another process took it while we believed to lead, we have lost it.
            self.renewed = None;
            return Step::HeldBy(held.holder.clone());
        }
        Step::Update(self.record(Some(held), wall))
    }

    /// Records a successful write of [`Elector::step`]. `requested` is the time of the request: the lease may have
    /// been written at any moment since, so it counts from the earliest.
    pub fn wrote(&mut self, lease: &Lease, requested: Duration) {
        self.seen = Some((lease.record.clone(), requested));
        self.renewed = Some(requested);
    }

    /// How long this process still leads without another renewal; zero after the deadline, or if another
    /// process holds the lease.
    pub fn left(&self, now: Duration) -> Duration {
        let until = self.renewed.map(|renewed| renewed + self.policy.renew_deadline);
        until.map_or(Duration::ZERO, |until| until.saturating_sub(now))
    }

    /// Whether this process has missed the end of its lease by more than `grace`, so that it counts as
    /// unhealthy.
    pub fn is_overdue(&self, now: Duration, grace: Duration) -> bool {
        let last = self.policy.lease_duration + grace;
        self.renewed.is_some_and(|renewed| now.saturating_sub(renewed) > last)
    }

    fn record(&self, held: Option<&LeaseRecord>, wall: Timestamp) -> LeaseRecord {
        let ours = held.filter(|held| held.holder == self.policy.identity);
        let transitions = held.map_or(0, |held| held.transitions + i32::from(ours.is_none()));
        LeaseRecord {
            holder: self.policy.identity.clone(),
            duration: self.policy.lease_duration,
            acquired: ours.and_then(|held| held.acquired).or(Some(wall)),
            renewed: Some(wall),
            transitions,
        }
    }
}

#[cfg(test)]
#[path = "election_tests.rs"]
mod tests;
