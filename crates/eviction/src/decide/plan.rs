//! What the eviction manager would do now, for users.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use model::ids::PodName;
use model::pressure::Pressure;
use podspec::view;

use super::layout::{CountedParts, DiskLayout};
use super::local_storage::{Violation, has_limit, violation};
use super::observation::{Observations, Observed};
use super::rank::{PodUsage, Ranked, rank};
use super::signal::{Resource, Signal};
use super::threshold::Threshold;
use super::tracker::ThresholdState;

/// The current signals, and the order in which pods would be evicted.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct EvictionPlan {
    /// The disks; none before the first round.
    pub layout: Option<DiskLayout>,
    /// The conditions of the node.
    pub pressure: Pressure,
    /// The thresholds.
    pub signals: Vec<SignalPlan>,
    /// The order of pods, once for all signals that have the same.
    pub rankings: Vec<Ranking>,
    /// Pods beyond a limit of local storage: they are evicted first.
    pub violations: Vec<(PodName, Violation)>,
    /// What could not be found out.
    pub problems: Vec<String>,
}

/// A threshold now.
#[derive(Debug, Clone, PartialEq)]
pub struct SignalPlan {
    /// The threshold.
    pub threshold: Threshold,
    /// Its observation.
    pub observed: Option<Observed>,
    /// For how long it is met.
    pub met_for: Option<Duration>,
}

impl SignalPlan {
    /// Whether the threshold is met now.
    pub fn is_met(&self) -> bool {
        self.observed.is_some_and(|observed| self.threshold.is_met(&observed))
    }
}

/// The order of pods for some signals.
#[derive(Debug, Clone, PartialEq)]
pub struct Ranking {
    /// The resource.
    pub resource: Resource,
    /// The signals.
    pub signals: Vec<Signal>,
    /// The pods, the one to evict first in front.
    pub pods: Vec<Ranked>,
}

/// The thresholds with their observations. `now` counts as the tracker counts.
pub fn signals(
    states: impl Iterator<Item = ThresholdState>,
    observations: &Observations,
    now: Duration,
) -> Vec<SignalPlan> {
    let plan = |state: ThresholdState| SignalPlan {
        observed: observations.get(&state.threshold.signal).copied(),
        met_for: state.since.map(|since| now.saturating_sub(since)),
        threshold: state.threshold,
    };
    states.map(plan).collect()
}

/// The rankings of the signals that have a threshold.
pub fn rankings(
    signals: &[SignalPlan],
    layout: DiskLayout,
    pods: &[Arc<Pod>],
    usage: PodUsage<'_>,
) -> Vec<Ranking> {
    let mut all: Vec<(CountedParts, Ranking)> = Vec::new();
    for plan in signals {
        let signal = plan.threshold.signal;
        let (resource, counted) = (Resource::of(signal), layout.counted(signal));
        let same = all
            .iter_mut()
            .find(|(parts, ranking)| *parts == counted && ranking.resource == resource);
        if let Some((_, ranking)) = same {
            if !ranking.signals.contains(&signal) {
                ranking.signals.push(signal);
            }
            continue;
        }
        let pods = rank(signal, layout, pods, usage);
        all.push((counted, Ranking { resource, signals: vec![signal], pods }));
    }
    all.into_iter().map(|(_, ranking)| ranking).collect()
}

/// The pods beyond a limit of local storage. Critical pods are not evicted.
pub fn violations(
    layout: DiskLayout,
    pods: &[Arc<Pod>],
    usage: PodUsage<'_>,
) -> Vec<(Arc<Pod>, Violation)> {
    let stats = usage.by_uid();
    let evictable = pods.iter().filter(|pod| has_limit(pod) && !view::is_critical(pod));
    let found = evictable.filter_map(|pod| {
        let stats = stats.get(&view::uid(pod))?;
        Some((Arc::clone(pod), violation(pod, stats, layout)?))
    });
    found.collect()
}

#[cfg(test)]
mod tests {
    use testkit::pods::pod;

    use super::*;
    use crate::decide::test_pods::{container, memory, no_stats, summary};
    use crate::decide::threshold::Level;
    use model::stats::PodStats;

    // behaviour: EVI-60
    #[test]
    fn signals_with_the_same_order_share_a_ranking() {
        let threshold = |signal| ThresholdState {
            threshold: Threshold {
                signal,
                level: Level::Share(0.1),
                grace: Duration::ZERO,
                minimum_reclaim: None,
            },
            since: (signal == Signal::MemoryAvailable).then_some(Duration::from_secs(5)),
        };
        let states = [
            Signal::MemoryAvailable,
            Signal::NodeFsAvailable,
            Signal::ImageFsAvailable,
            Signal::NodeFsAvailable,
            Signal::AllocatableMemoryAvailable,
        ];
        let observed = Observed { available: 1, capacity: 100, at: jiff::Timestamp::UNIX_EPOCH };
        let observations = [(Signal::MemoryAvailable, observed)].into();
        let states = states.into_iter().map(threshold);
        let plans = signals(states, &observations, Duration::from_secs(12));
        assert!(plans[0].is_met() && plans[0].met_for == Some(Duration::from_secs(7)));
        assert!(!plans[1].is_met() && plans[1].observed.is_none());
        let pods: Vec<Arc<Pod>> = ["a", "b"]
            .map(|name| Arc::new(pod(name).container("main", "image", []).build()))
            .into();
        let usage = |pod: &Arc<Pod>, used| PodStats {
            memory: memory(used),
            containers: vec![container("main", 100 - used, 0)],
            ..no_stats(pod)
        };
        let summary = summary(vec![usage(&pods[0], 1), usage(&pods[1], 2)]);
        let rows = [
            (
                DiskLayout::Single,
                vec![
                    (vec![Signal::MemoryAvailable, Signal::AllocatableMemoryAvailable], "b"),
                    (vec![Signal::NodeFsAvailable, Signal::ImageFsAvailable], "a"),
                ],
            ),
            (
                DiskLayout::DedicatedImageFs,
                vec![
                    (vec![Signal::MemoryAvailable, Signal::AllocatableMemoryAvailable], "b"),
                    (vec![Signal::NodeFsAvailable], "a"),
                    (vec![Signal::ImageFsAvailable], "a"),
                ],
            ),
        ];
        for (layout, expected) in rows {
            let found = rankings(&plans, layout, &pods, PodUsage::new(&summary));
            let found: Vec<_> =
                found.iter().map(|one| (one.signals.clone(), &*one.pods[0].name.name)).collect();
            assert_eq!(found, expected, "{layout:?}");
        }
    }
}
