//! The targets, and their verdicts.

use crate::judge::{self, Floor, Judgement, Measured, load_before};
use crate::metrics::{
    CPU, Metric, RESIDENT, TO_CREATE, TO_EVENT, TO_RUNNING, floor, metric, ours, values,
};
use crate::plan::{HOLLOW_100, HOLLOW_1000, PODS_30, RELISTS, WINDOW};
use crate::results::{Agent, Results, Run};
use crate::spread::Spread;

/// The number that is compared with the limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Measure {
    /// Our own number.
    Own,
    /// Our number divided by upstream's.
    Ratio,
    /// Our number divided by our own in another scenario.
    GrowthFrom(&'static str),
}

/// A limit for the worst round.
#[derive(Debug, Clone, Copy)]
pub struct Target {
    /// The scenario.
    pub scenario: &'static str,
    /// The metric.
    pub metric: &'static str,
    /// Its number.
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
#[derive(Debug, Clone)]
pub struct Verdict {
    /// The target.
    pub target: Target,
    /// The measurement of each round.
    pub measured: Vec<Measured>,
    /// The share that no agent can save: the time of the runtime, which reports a death after its cleanup.
    pub least: Option<Spread>,
}

impl Verdict {
    /// Whether all rounds are within the limit.
    pub fn judgement(&self) -> Judgement {
        judge::judge(self.target.limit, &self.measured)
    }
}

/// Compares the results with all targets.
pub fn judge(results: &Results) -> Vec<Verdict> {
    let judged = |target: Target| Verdict {
        target,
        measured: measured(results, target),
        least: least(results, target),
    };
    TARGETS.into_iter().map(judged).collect()
}

/// How long the runtime takes to report a death, divided by upstream's total in the same round.
fn least(results: &Results, target: Target) -> Option<Spread> {
    if target.metric != TO_CREATE {
        return None;
    }
    let (event, all) = (metric(TO_EVENT)?, metric(TO_CREATE)?);
    Spread::of(values(results, target.scenario, event, Agent::Ferrolet).filter_map(
        |(round, event)| {
            let mut upstream = values(results, target.scenario, all, Agent::Upstream);
            upstream.find(|(of, all)| *of == round && *all > 0.0).map(|(_, all)| event / all)
        },
    ))
}

fn measured(results: &Results, target: Target) -> Vec<Measured> {
    let Some(metric) = metric(target.metric) else { return Vec::new() };
    let runs = ours(results, target.scenario);
    runs.filter_map(|run| of_round(results, target, metric, run)).collect()
}

/// The number for a target in one of our runs.
fn of_round(results: &Results, target: Target, metric: Metric, run: &Run) -> Option<Measured> {
    let (own, round) = ((metric.of)(run)?, run.round);
    let other = |scenario: &str, agent| {
        let mut all = values(results, scenario, metric, agent);
        all.find(|(of, _)| *of == round).map(|(_, value)| value)
    };
    let part_of = |whole: Option<f64>| whole.filter(|whole| *whole > 0.0).map(|whole| own / whole);
    let (value, lowest) = match target.measure {
        Measure::Own => (Some(own), Some(run)),
        Measure::Ratio => (part_of(other(target.scenario, Agent::Upstream)), Some(run)),
        // The divisor is the smaller number, which is closer to the floor.
        Measure::GrowthFrom(from) => {
            let small = ours(results, from).find(|small| small.round == round);
            (part_of(other(from, Agent::Ferrolet)), small)
        }
    };
    let lowest = lowest.unwrap_or(run);
    let low = (metric.of)(lowest).unwrap_or(own);
    Some(Measured {
        round,
        value,
        load: load_before(&results.about, round),
        floor: Floor::of(floor(metric.name, lowest), low),
        flaw: short_window(metric.name, lowest).or_else(|| short_window(metric.name, run)),
    })
}

/// Why the window of a run is too short to measure a quiet agent.
fn short_window(metric: &str, run: &Run) -> Option<String> {
    let steady = &run.steady;
    let relists = steady.calls.get("ListPodSandbox").copied().unwrap_or_default();
    if ![CPU, RESIDENT].contains(&metric) {
        None
    } else if steady.seconds < WINDOW.as_secs_f64() {
        Some(format!("a window of {:.0} s, not {}", steady.seconds, WINDOW.as_secs()))
    } else if relists < RELISTS {
        Some(format!("its window held {relists} relists, not {RELISTS}"))
    } else {
        None
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rendering_tests::results;

    fn cpu_of_30(results: &Results) -> Judgement {
        let is_it = |one: &&Verdict| {
            let Target { scenario, metric, measure, .. } = one.target;
            (scenario, metric, measure) == (PODS_30, CPU, Measure::Ratio)
        };
        judge(results).iter().find(is_it).unwrap().judgement()
    }

    #[test]
    fn window_without_two_relists_is_not_judged() {
        let why = |change: fn(&mut Run)| {
            let mut results = results();
            results.runs.iter_mut().filter(|run| run.round == 2).for_each(change);
            match cpu_of_30(&results) {
                Judgement::NotJudged(why) => why,
                other => format!("{other:?}"),
            }
        };
        assert_eq!(why(|_| ()), "Met");
        let one_relist = why(|run| {
            run.steady.calls.insert("ListPodSandbox".to_owned(), 1);
        });
        assert_eq!(one_relist, "round 2: its window held 1 relists, not 2");
        assert_eq!(why(|run| run.steady.seconds = 120.0), "round 2: a window of 120 s, not 150");
    }

    #[test]
    fn floor_of_a_sleeping_process_must_be_below_ours() {
        let mut results = results();
        for run in &mut results.runs {
            run.steady.asleep.as_mut().unwrap().cpu_seconds = run.steady.cpu_seconds;
        }
        let Judgement::NotJudged(why) = cpu_of_30(&results) else { panic!("judged") };
        assert_eq!(why, "round 1: the floor (20.0) is not below ours (20.0)");
        results.runs.iter_mut().for_each(|run| run.steady.asleep = None);
        assert_eq!(
            cpu_of_30(&results),
            Judgement::NotJudged("round 1: no floor was measured".to_owned())
        );
    }
}
