//! Who leads: one lease, changed only from the version that was seen.

use std::time::Duration;

use jiff::Timestamp;
use model::cluster::{Lease, LeaseRecord};

/// How an election is held.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ElectionPolicy {
    /// Our identity, which is unique.
    pub identity: String,
    /// For how long a lease is ours after we renewed it.
    pub lease_duration: Duration,
    /// How long we try to renew before we give up.
    pub renew_deadline: Duration,
}

/// What to do about the lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Make it: there is none.
    Create(LeaseRecord),
    /// Replace what it says, if it is still at the version that was seen.
    Update(LeaseRecord),
    /// Somebody else has it.
    HeldBy(String),
}

/// What we know of the election. Times count from any fixed moment and are our own: the clocks of
/// others do not matter, only that what they wrote changes.
#[derive(Debug, Clone)]
pub struct Elector {
    policy: ElectionPolicy,
    /// What the lease said when it last changed, and when we saw that.
    seen: Option<(LeaseRecord, Duration)>,
    /// When we last wrote it, while we lead.
    renewed: Option<Duration>,
}

impl Elector {
    /// One who knows nothing yet.
    pub fn new(policy: ElectionPolicy) -> Self {
        Self { policy, seen: None, renewed: None }
    }

    /// Whether we lead.
    pub fn leads(&self) -> bool {
        self.renewed.is_some()
    }

    /// What to do, given what the server has.
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

    /// The lease was written as [`Elector::step`] said. `asked` is when that was asked for: it may have
    /// been written at any moment since, and counts from the earliest.
    pub fn wrote(&mut self, lease: &Lease, asked: Duration) {
        self.seen = Some((lease.record.clone(), asked));
        self.renewed = Some(asked);
    }

    /// How long we still lead without another renewal; no longer when we could not renew in time, or
    /// somebody else has it.
    pub fn left(&self, now: Duration) -> Duration {
        let until = self.renewed.map(|renewed| renewed + self.policy.renew_deadline);
        until.map_or(Duration::ZERO, |until| until.saturating_sub(now))
    }

    /// Whether others may have taken the lease for longer than a grace: something is wrong with us.
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
