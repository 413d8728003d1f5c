//! The compared numbers, and how they follow from the measurements.

use crate::results::{Agent, Asleep, Converged, Death, Results, Run};
use crate::spread::{Spread, mebibytes, number};

/// A number of a run; less is better.
#[derive(Debug, Clone, Copy)]
pub struct Metric {
    /// Its name, with its unit.
    pub name: &'static str,
    /// Takes it from a run that has it.
    pub of: fn(&Run) -> Option<f64>,
}

/// Resident memory at the end of the window.
pub const RESIDENT: &str = "resident memory, MiB";
/// CPU time while nothing happens.
pub const CPU: &str = "CPU, ms per minute";
/// Calls to the runtime while nothing happens.
pub const CALLS: &str = "CRI calls per minute";
/// From a death until the runtime sends its event: no agent can notice the death earlier.
pub const TO_EVENT: &str = "death to the runtime's event, ms";
/// From a death to the call.
pub const TO_CREATE: &str = "death to CreateContainer, ms";
/// From a death to the end of the call that starts it.
pub const TO_RUNNING: &str = "death to running again, ms";

/// All of them, in the order of the report.
pub const METRICS: [Metric; 12] = [
    Metric { name: RESIDENT, of: |run| Some(mebibytes(run.steady.memory.rss_bytes)) },
    Metric {
        name: "proportional memory, MiB",
        of: |run| Some(mebibytes(run.steady.memory.pss_bytes)),
    },
    Metric { name: CPU, of: |run| Some(per_minute(run, run.steady.cpu_seconds * 1000.0)) },
    Metric { name: CALLS, of: |run| Some(per_minute(run, number(run.steady.calls_in_all()))) },
    Metric {
        name: "CRI bytes, KiB per minute",
        of: |run| {
            let bytes = run.steady.sent_bytes + run.steady.received_bytes;
            Some(per_minute(run, number(bytes) / 1024.0))
        },
    },
    Metric { name: TO_EVENT, of: |run| deaths(run, |death| death.event_seconds) },
    Metric { name: TO_CREATE, of: |run| deaths(run, |death| death.create_seconds) },
    Metric { name: TO_RUNNING, of: |run| deaths(run, |death| death.running_seconds) },
    Metric { name: "start to all pods running, s", of: |run| start(run, |start| start.seconds) },
    Metric { name: "CPU until all pods run, s", of: |run| start(run, |start| start.cpu_seconds) },
    Metric {
        name: "restart to converged, s",
        of: |run| run.restart.as_ref().map(|restart| restart.seconds),
    },
    Metric {
        name: "CPU from restart to converged, s",
        of: |run| run.restart.as_ref().map(|restart| restart.cpu_seconds),
    },
];

fn per_minute(run: &Run, value: f64) -> f64 {
    value / run.steady.seconds * 60.0
}

/// The median of a run's deaths, in milliseconds.
fn deaths(run: &Run, of: fn(&Death) -> f64) -> Option<f64> {
    Spread::of(run.deaths.iter().map(of)).map(|deaths| deaths.median * 1000.0)
}

/// A node without pods starts none.
fn start(run: &Run, of: fn(&Converged) -> f64) -> Option<f64> {
    (run.start.containers > 0).then(|| of(&run.start))
}

/// The floor of a metric, in its unit: of memory and CPU, a sleeping process; of deaths, the time of the runtime.
/// Counts have none.
pub fn floor(name: &str, run: &Run) -> Option<f64> {
    let asleep = |of: fn(&Asleep) -> f64| run.steady.asleep.as_ref().map(of);
    match name {
        RESIDENT => asleep(|asleep| mebibytes(asleep.rss_bytes)),
        CPU => asleep(|asleep| asleep.cpu_seconds * 1000.0).map(|cpu| per_minute(run, cpu)),
        TO_CREATE | TO_RUNNING => deaths(run, |death| death.event_seconds),
        _ => None,
    }
}

/// A metric of a scenario, of both agents.
#[derive(Debug, Clone, Copy)]
pub struct Row<'a> {
    /// The name of the scenario.
    pub scenario: &'a str,
    /// The name of the metric.
    pub metric: &'static str,
    /// The floor of ours, over the rounds.
    pub floor: Option<Spread>,
    /// Ours, over the rounds.
    pub ferrolet: Spread,
    /// The kubelet's, over the rounds.
    pub upstream: Spread,
    /// Ours divided by the kubelet's of the same round, over the rounds.
    pub ratio: Option<Spread>,
}

/// The rows of all scenarios and metrics, in their order.
pub fn rows(results: &Results) -> Vec<Row<'_>> {
    let scenarios = results.scenarios.iter();
    let pairs = scenarios.flat_map(|one| METRICS.iter().map(move |metric| (&one.name, metric)));
    pairs
        .filter_map(|(scenario, metric)| {
            let of = |agent| Spread::of(values(results, scenario, *metric, agent).map(|(_, v)| v));
            Some(Row {
                scenario,
                metric: metric.name,
                floor: Spread::of(
                    ours(results, scenario).filter_map(|run| floor(metric.name, run)),
                ),
                ferrolet: of(Agent::Ferrolet)?,
                upstream: of(Agent::Upstream)?,
                ratio: Spread::of(ratios(results, scenario, *metric)),
            })
        })
        .collect()
}

/// Our runs of a scenario.
pub fn ours<'a>(results: &'a Results, scenario: &'a str) -> impl Iterator<Item = &'a Run> {
    let runs = results.runs.iter();
    runs.filter(move |run| run.scenario == scenario && run.agent == Agent::Ferrolet)
}

/// The metric of a name.
pub fn metric(name: &str) -> Option<Metric> {
    METRICS.into_iter().find(|metric| metric.name == name)
}

/// A metric of an agent, with the round of each value.
pub fn values<'a>(
    results: &'a Results,
    scenario: &'a str,
    metric: Metric,
    agent: Agent,
) -> impl Iterator<Item = (u32, f64)> + 'a {
    let runs = results.runs.iter();
    let runs = runs.filter(move |run| run.scenario == scenario && run.agent == agent);
    runs.filter_map(move |run| Some((run.round, (metric.of)(run)?)))
}

fn ratios<'a>(
    results: &'a Results,
    scenario: &'a str,
    metric: Metric,
) -> impl Iterator<Item = f64> + 'a {
    values(results, scenario, metric, Agent::Ferrolet).filter_map(move |(round, ours)| {
        let mut theirs = values(results, scenario, metric, Agent::Upstream);
        theirs.find(|(of, theirs)| *of == round && *theirs > 0.0).map(|(_, theirs)| ours / theirs)
    })
}
