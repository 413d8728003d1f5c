//! The results of garbage collection, as a page of Markdown.

use std::fmt::Write as _;

use crate::garbage::{GarbageResults, GarbageRun};
use crate::judge::{Floor, Judgement, Measured, every, judge, load_before, worst};
use crate::report::{ends, head, line, short};
use crate::results::Agent;
use crate::spread::{Spread, mebibytes, number};

/// How much more memory than on an empty node a pass may need, in MiB.
pub const GROWTH_LIMIT: f64 = 30.0;

/// A row of the table: its name and the source of its number.
type Row = (&'static str, fn(&GarbageRun) -> Option<f64>);

const ROWS: [Row; 8] = [
    ("until nothing is left, s", |run| run.collected.seconds),
    ("CPU, s", |run| Some(run.collected.cpu_seconds)),
    ("memory on an empty node, MiB", |run| Some(mebibytes(run.empty.rss_bytes))),
    ("most memory, MiB", |run| Some(mebibytes(run.collected.memory.peak_rss_bytes))),
    ("growth, MiB", |run| Some(growth(run))),
    ("containers left", |run| Some(number(run.collected.left as u64))),
    ("CRI calls", |run| Some(number(run.collected.calls.values().sum()))),
    ("received, MiB", |run| Some(mebibytes(run.collected.received_bytes))),
];

/// How much more memory an agent needed than on an empty node, in MiB.
pub fn growth(run: &GarbageRun) -> f64 {
    mebibytes(run.collected.memory.peak_rss_bytes) - mebibytes(run.empty.peak_rss_bytes)
}

/// Our growth in each round, and whether all rounds are within the limit. Its floor is an empty node.
pub fn verdict(results: &GarbageResults) -> (Vec<Measured>, Judgement) {
    let runs = of(results, Agent::Ferrolet);
    let measured = runs.map(|run| Measured {
        round: run.round,
        value: Some(growth(run)),
        load: load_before(&results.about, run.round),
        floor: Floor::Of {
            floor: mebibytes(run.empty.peak_rss_bytes),
            ours: mebibytes(run.collected.memory.peak_rss_bytes),
        },
        flaw: None,
    });
    let measured: Vec<Measured> = measured.collect();
    let all_gone = of(results, Agent::Ferrolet).all(|run| run.collected.left == 0);
    let judgement = if all_gone { judge(GROWTH_LIMIT, &measured) } else { Judgement::Missed };
    (measured, judgement)
}

fn of(results: &GarbageResults, agent: Agent) -> impl Iterator<Item = &GarbageRun> {
    results.runs.iter().filter(move |run| run.agent == agent)
}

/// The page. `name` is the base name of the files that belong to it.
pub fn markdown(results: &GarbageResults, name: &str) -> String {
    let plan = &results.plan;
    let mut page = head(&results.about, plan.rounds, name);
    let containers = plan.containers();
    writeln!(
        page,
        "\n{containers} dead containers of {} deleted pods, on the in-memory runtime; each agent has {} s.\n",
        plan.pods, plan.patience_seconds
    )
    .expect("writing to a string does not fail");
    page.push_str("| | ferrolet | | upstream | |\n|---|---:|---|---:|---|\n");
    for (what, number) in ROWS {
        let cells = |agent| {
            let spread = Spread::of(of(results, agent).filter_map(number));
            spread.map_or(("–".to_owned(), String::new()), |all| (short(all.median), ends(all)))
        };
        let (ours, theirs) = (cells(Agent::Ferrolet), cells(Agent::Upstream));
        line(&mut page, &[what, &ours.0, &ours.1, &theirs.0, &theirs.1]);
    }
    let (measured, judgement) = verdict(results);
    writeln!(
        page,
        "\nTarget: nothing is left, and memory grows by at most {GROWTH_LIMIT} MiB. Worst {}, every round {}: {}.",
        worst(&measured).map_or("–".to_owned(), short),
        every(&measured),
        judgement.written()
    )
    .expect("writing to a string does not fail");
    page
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::garbage::{Collected, GarbagePlan};
    use crate::rendering_tests::quiet_rounds;
    use crate::results::Memory;

    fn memory(mebibytes: u64) -> Memory {
        let bytes = mebibytes << 20;
        Memory { rss_bytes: bytes, pss_bytes: bytes, anonymous_bytes: bytes, peak_rss_bytes: bytes }
    }

    fn run(round: u32, agent: Agent, peak: u64, left: usize) -> GarbageRun {
        GarbageRun {
            round,
            agent,
            empty: memory(10),
            collected: Collected {
                memory: memory(peak),
                seconds: (left == 0).then_some(12.5),
                cpu_seconds: 3.0,
                left,
                calls: BTreeMap::from([("RemoveContainer".to_owned(), 25_000)]),
                received_bytes: 5 << 20,
            },
        }
    }

    /// Two rounds with a growth of 15 MiB, and a third.
    fn results(peak: u64, left: usize) -> GarbageResults {
        let ours = [(1, 25, 0), (2, 25, 0), (3, peak, left)];
        let ours = ours.map(|(round, peak, left)| run(round, Agent::Ferrolet, peak, left));
        let theirs = (1..=3).map(|round| run(round, Agent::Upstream, 90, 25_000));
        let runs = ours.into_iter().chain(theirs).collect();
        GarbageResults { about: quiet_rounds(3), plan: GarbagePlan::full(3), runs }
    }

    #[test]
    fn page_has_the_cost_and_the_leftovers_of_each_agent() {
        let page = markdown(&results(25, 0), "garbage");
        for row in [
            "| until nothing is left, s | 12.5 | 12.5–12.5 | – |  |",
            "| growth, MiB | 15.0 | 15.0–15.0 | 80.0 | 80.0–80.0 |",
            "| containers left | 0.000 | 0.000–0.000 | 25000 | 25000–25000 |",
        ] {
            assert!(page.contains(row), "{page}");
        }
        assert!(page.contains("Worst 15.0, every round 15.0, 15.0, 15.0: met."), "{page}");
    }

    #[test]
    fn target_is_missed_by_memory_growth_and_by_leftovers() {
        let rows = [
            (40, 0, Judgement::Met),
            (41, 0, Judgement::Missed),
            (25, 1, Judgement::Missed),
            (
                10,
                0,
                Judgement::NotJudged("round 3: the floor (10.0) is not below ours (10.0)".into()),
            ),
        ];
        for (peak, left, expected) in rows {
            assert_eq!(verdict(&results(peak, left)).1, expected, "{peak} {left}");
        }
        let none = GarbageResults { runs: Vec::new(), ..results(25, 0) };
        assert_eq!(verdict(&none).1, Judgement::NotJudged("not measured".into()));
    }
}
