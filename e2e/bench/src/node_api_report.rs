//! The costs of the node's API, as a page of Markdown.

use std::fmt::Write as _;

use crate::judge::{Floor, Judgement, Measured, every, judge, load_before, worst};
use crate::node_api::{NodeApiResults, NodeApiRun};
use crate::report::{ends, head, line, short};
use crate::results::Agent;
use crate::spread::{Spread, mebibytes};

/// A row of the table.
#[derive(Debug, Clone, Copy)]
struct Row {
    name: &'static str,
    /// The source of its number.
    number: fn(&NodeApiRun) -> Option<f64>,
    /// The limit of ours divided by upstream's.
    limit: Option<f64>,
}

const ROWS: [Row; 5] = [
    Row {
        name: "log read, agent's CPU, s",
        number: |run| Some(run.read_cpu_seconds),
        limit: Some(0.3),
    },
    Row { name: "log read, s", number: |run| Some(run.read_seconds), limit: None },
    Row { name: "exec, median, ms", number: median_exec, limit: Some(1.0) },
    Row {
        name: "memory without followers, MiB",
        number: |run| Some(mebibytes(run.quiet_rss_bytes)),
        limit: None,
    },
    Row { name: "growth with followers, MiB", number: |run| Some(growth(run)), limit: Some(0.3) },
];

fn median_exec(run: &NodeApiRun) -> Option<f64> {
    Spread::of(run.exec_seconds.iter().copied()).map(|spread| 1000.0 * spread.median)
}

fn growth(run: &NodeApiRun) -> f64 {
    mebibytes(run.followed_rss_bytes.saturating_sub(run.quiet_rss_bytes))
}

/// A target, with our number divided by upstream's in each round.
#[derive(Debug, Clone)]
pub struct NodeApiVerdict {
    /// Its name.
    pub name: &'static str,
    /// The limit of ours divided by upstream's.
    pub limit: f64,
    /// The ratio of each round.
    pub measured: Vec<Measured>,
}

impl NodeApiVerdict {
    /// Whether it is met.
    pub fn judgement(&self) -> Judgement {
        judge(self.limit, &self.measured)
    }
}

fn of(results: &NodeApiResults, agent: Agent) -> impl Iterator<Item = &NodeApiRun> {
    results.runs.iter().filter(move |run| run.agent == agent)
}

/// All targets.
pub fn verdicts(results: &NodeApiResults) -> Vec<NodeApiVerdict> {
    let verdict = |row: &Row| {
        let limit = row.limit?;
        let pairs = of(results, Agent::Ferrolet).zip(of(results, Agent::Upstream));
        let measured = pairs.map(|(ours, theirs)| {
            let (ours_number, theirs_number) = ((row.number)(ours), (row.number)(theirs));
            let ratio = ours_number.zip(theirs_number.filter(|number| *number > 0.0));
            Measured {
                round: ours.round,
                value: ratio.map(|(ours, theirs)| ours / theirs),
                load: load_before(&results.about, ours.round),
                floor: Floor::NotNeeded,
                flaw: None,
            }
        });
        Some(NodeApiVerdict { name: row.name, limit, measured: measured.collect() })
    };
    ROWS.iter().filter_map(verdict).collect()
}

/// The page. `name` is the base name of the files that belong to it.
pub fn markdown(results: &NodeApiResults, name: &str) -> String {
    let plan = &results.plan;
    let mut page = head(&results.about, plan.rounds, name);
    writeln!(
        page,
        "\nA finished log of {} MiB is read from port 10250, {} commands are executed one after the other, and {} \
         clients follow one log for {} s. There is no cluster: clients are anonymous and may do everything.\n",
        plan.log_bytes >> 20,
        plan.execs,
        plan.followers,
        plan.follow_seconds
    )
    .expect("writing to a string does not fail");
    page.push_str("| | ferrolet | | upstream | |\n|---|---:|---|---:|---|\n");
    for row in ROWS {
        let cells = |agent| {
            let spread = Spread::of(of(results, agent).filter_map(row.number));
            spread.map_or(("–".to_owned(), String::new()), |all| (short(all.median), ends(all)))
        };
        let (ours, theirs) = (cells(Agent::Ferrolet), cells(Agent::Upstream));
        line(&mut page, &[row.name, &ours.0, &ours.1, &theirs.0, &theirs.1]);
    }
    page.push_str("\n| target, ours by upstream's | limit | worst | every round | |\n|---|---:|---:|---|---|\n");
    for verdict in verdicts(results) {
        let worst = worst(&verdict.measured).map_or("–".to_owned(), short);
        let (limit, all) = (short(verdict.limit), every(&verdict.measured));
        line(&mut page, &[verdict.name, &limit, &worst, &all, &verdict.judgement().written()]);
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node_api::NodeApiPlan;
    use crate::rendering_tests::quiet_rounds;

    fn results(cpu: f64) -> NodeApiResults {
        let run = |round, agent, factor: f64| NodeApiRun {
            round,
            agent,
            read_cpu_seconds: cpu * factor,
            read_seconds: 2.0,
            exec_seconds: vec![0.1, 0.2, 0.3],
            quiet_rss_bytes: 10 << 20,
            followed_rss_bytes: if agent == Agent::Ferrolet { 11 << 20 } else { 20 << 20 },
        };
        let rounds = (1..=3).flat_map(|round| {
            [run(round, Agent::Ferrolet, 1.0), run(round, Agent::Upstream, 10.0 / cpu)]
        });
        NodeApiResults {
            about: quiet_rounds(3),
            plan: NodeApiPlan::full(3),
            runs: rounds.collect(),
        }
    }

    #[test]
    fn targets_are_ratios_of_each_round() {
        for (cpu, expected) in [(3.0, Judgement::Met), (3.1, Judgement::Missed)] {
            let verdicts = verdicts(&results(cpu));
            let judged: Vec<Judgement> = verdicts.iter().map(NodeApiVerdict::judgement).collect();
            assert_eq!(judged, [expected, Judgement::Met, Judgement::Met], "{cpu}");
        }
        let page = markdown(&results(3.0), "node-api");
        for row in [
            "| exec, median, ms | 200 | 200–200 | 200 | 200–200 |",
            "| growth with followers, MiB | 0.300 | 0.100 | 0.100, 0.100, 0.100 | met |",
        ] {
            assert!(page.contains(row), "{page}");
        }
    }
}
