//! The thresholds of the configuration.

use std::collections::BTreeMap;
use std::time::Duration;

use config::{Amount, KubeletConfiguration, NodeAllocatableEnforcement};
use model::quantity::Quantity;

use super::observation::{Observed, bytes};
use super::signal::Signal;

/// An amount of a resource, or a share of its capacity.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Level {
    /// An amount.
    Amount(Quantity),
    /// A part of the capacity, from 0 to 1, with upstream's precision.
    Share(f32),
}

impl Level {
    /// The amount, given the capacity.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_precision_loss,
        reason = "a share of a capacity, rounded as upstream does"
    )]
    pub fn amount(&self, capacity: i64) -> Quantity {
        match self {
            Self::Amount(amount) => *amount,
            Self::Share(share) => bytes((capacity as f64 * f64::from(*share)) as i64),
        }
    }
}

impl From<&Amount> for Level {
    #[expect(clippy::cast_possible_truncation, reason = "upstream parses percentages as f32")]
    fn from(amount: &Amount) -> Self {
        match amount {
            Amount::Quantity(quantity) => Self::Amount(**quantity),
            Amount::Percentage(share) => Self::Share(share.percent() as f32 / 100.0),
        }
    }
}

/// A level below which pods are evicted.
#[derive(Debug, Clone, PartialEq)]
pub struct Threshold {
    /// What is observed.
    pub signal: Signal,
    /// It is met while less than this is available.
    pub level: Level,
    /// For how long it must be met before a pod is evicted; zero for a hard threshold.
    pub grace: Duration,
    /// Once met, it stays met until this much more than its level is available.
    pub minimum_reclaim: Option<Level>,
}

impl Threshold {
    /// Whether a pod is evicted as soon as it is met.
    pub fn is_hard(&self) -> bool {
        self.grace.is_zero()
    }

    /// The amount below which it is met.
    pub fn amount(&self, observed: &Observed) -> Quantity {
        self.level.amount(observed.capacity)
    }

    /// Whether less than its level is available.
    pub fn is_met(&self, observed: &Observed) -> bool {
        self.amount(observed) > bytes(observed.available)
    }

    /// Whether less than its level and its minimum reclaim is available.
    pub fn is_unresolved(&self, observed: &Observed) -> bool {
        let reclaim = self.minimum_reclaim.as_ref();
        let reclaim = reclaim.map_or(Quantity::ZERO, |level| level.amount(observed.capacity));
        self.amount(observed) + reclaim > bytes(observed.available)
    }
}

/// The thresholds of a configuration, the hard ones first. A share of 0 % or 100 % is no threshold. A soft
/// threshold without a grace period is a hard one.
pub fn thresholds(config: &KubeletConfiguration) -> Vec<Threshold> {
    let reclaims: BTreeMap<Signal, Level> = config
        .eviction_minimum_reclaim
        .iter()
        .map(|(signal, amount)| (*signal, Level::from(amount)))
        .collect();
    let threshold = |signal: Signal, amount: &Amount, grace: Duration| Threshold {
        signal,
        level: Level::from(amount),
        grace,
        minimum_reclaim: reclaims.get(&signal).copied(),
    };
    let hard = config.eviction_hard.iter().filter(|(_, amount)| !amount.is_off());
    let mut all: Vec<Threshold> =
        hard.map(|(signal, amount)| threshold(*signal, amount, Duration::ZERO)).collect();
    let soft = config.eviction_soft.iter().filter(|(_, amount)| !amount.is_off());
    all.extend(soft.map(|(signal, amount)| {
        let grace = config.eviction_soft_grace_period.get(signal);
        threshold(*signal, amount, grace.map(|grace| grace.to_std()).unwrap_or_default())
    }));
    if config.enforce_node_allocatable.contains(&NodeAllocatableEnforcement::Pods) {
        let memory =
            all.iter().filter(|one| one.signal == Signal::MemoryAvailable && one.is_hard());
        let of_pods: Vec<Threshold> = memory
            .map(|one| Threshold { signal: Signal::AllocatableMemoryAvailable, ..one.clone() })
            .collect();
        all.extend(of_pods);
    }
    all.sort_by_key(|threshold| !threshold.is_hard());
    all
}

#[cfg(test)]
#[path = "threshold_tests.rs"]
mod tests;
