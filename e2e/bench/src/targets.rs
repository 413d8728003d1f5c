//! What is to be reached, and whether it is.

use crate::metrics::{CPU, RESIDENT, TO_CREATE, TO_RUNNING, TO_TOLD, metric, rows, values};
use crate::plan::{HOLLOW_100, HOLLOW_1000, PODS_30};
use crate::results::{Agent, Results};
use crate::spread::Spread;

/// What is held against the limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Measure {
    /// Our own number.
    Own,
    /// Our number divided by upstream's.
    Ratio,
    /// Our number divided by our own in another scenario.
    GrowthFrom(&'static str),
}

/// A limit for the median over the rounds.
#[derive(Debug, Clone, Copy)]
pub struct Target {
    /// The scenario.
    pub scenario: &'static str,
    /// The metric.
    pub metric: &'static str,
    /// What of it.
    pub measure: Measure,
    /// At most this.
    pub limit: f64,
}

const fn target(
    scenario: &'static str,
    metric: &'static str,
    measure: Measure,
    limit: f64,
) -> Target {
    Target { scenario, metric, measure, limit }
}

/// All targets.
pub const TARGETS: [Target; 7] = [
    target(PODS_30, RESIDENT, Measure::Own, 20.0),
    target(PODS_30, CPU, Measure::Ratio, 0.15),
    target(PODS_30, TO_CREATE, Measure::Ratio, 0.1),
    target(PODS_30, TO_RUNNING, Measure::Ratio, 0.25),
    target(HOLLOW_1000, CPU, Measure::Ratio, 0.1),
    target(HOLLOW_1000, RESIDENT, Measure::Ratio, 0.3),
    target(HOLLOW_1000, CPU, Measure::GrowthFrom(HOLLOW_100), 2.0),
];

/// A target, and what was measured.
#[derive(Debug, Clone, Copy)]
pub struct Verdict {
    /// The target.
    pub target: Target,
    /// Over the rounds; nothing if it was not measured.
    pub measured: Option<Spread>,
    /// What of it no agent can save: the share of the runtime, which tells of a death when it has cleaned up.
    pub least: Option<Spread>,
}

impl Verdict {
    /// Whether the median keeps the limit.
    pub fn met(&self) -> bool {
        self.measured.is_some_and(|measured| measured.median <= self.target.limit)
    }
}

/// Holds the results against all targets.
pub fn judge(results: &Results) -> Vec<Verdict> {
    let judged = |target: Target| Verdict {
        target,
        measured: measured(results, target),
        least: least(results, target),
    };
    TARGETS.into_iter().map(judged).collect()
}

/// What the runtime takes to tell of a death, divided by all that upstream takes in the same round.
fn least(results: &Results, target: Target) -> Option<Spread> {
    if target.metric != TO_CREATE {
        return None;
    }
    let (told, all) = (metric(TO_TOLD)?, metric(TO_CREATE)?);
    Spread::of(values(results, target.scenario, told, Agent::Ferrolet).filter_map(
        |(round, told)| {
            let mut upstream = values(results, target.scenario, all, Agent::Upstream);
            upstream.find(|(of, all)| *of == round && *all > 0.0).map(|(_, all)| told / all)
        },
    ))
}

fn measured(results: &Results, target: Target) -> Option<Spread> {
    let Target { scenario, metric: name, measure, .. } = target;
    let rows = rows(results);
    let row = rows.iter().find(|row| row.scenario == scenario && row.metric == name);
    match measure {
        Measure::Own => row.map(|row| row.ferrolet),
        Measure::Ratio => row.and_then(|row| row.ratio),
        Measure::GrowthFrom(from) => growth(results, name, from, scenario, Agent::Ferrolet),
    }
}

/// An agent's number in one scenario divided by that of the same round in another.
pub fn growth(results: &Results, name: &str, from: &str, to: &str, agent: Agent) -> Option<Spread> {
    let metric = metric(name)?;
    Spread::of(values(results, to, metric, agent).filter_map(|(round, large)| {
        let mut small = values(results, from, metric, agent);
        small.find(|(of, small)| *of == round && *small > 0.0).map(|(_, small)| large / small)
    }))
}
