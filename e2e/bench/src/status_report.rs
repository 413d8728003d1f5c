//! The delay of statuses, as a page of Markdown.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use crate::cluster::status::{Exit, Flip, StatusResults, StatusRun};
use crate::judge::{Floor, Measured, load_before};
use crate::report::{ends, head, line, short};
use crate::results::Agent;
use crate::spread::{Spread, number};
use crate::verdict::{Verdict, table};

/// Resources whose requests are listed but not counted: those of the node, and events. Both agents send the same event
/// for a failed probe.
const NOT_COUNTED: [&str; 5] = ["leases", "nodes", "nodes/status", "csinodes", "events"];

/// A row of the table: the median of a run.
#[derive(Debug, Clone, Copy)]
struct Row {
    name: &'static str,
    number: fn(&StatusRun) -> Option<f64>,
}

const EXIT: Row =
    Row { name: "exit to API status, ms", number: |run| exits(run, |exit| exit.api_seconds) };
const RUNTIME: Row = Row {
    name: "exit until the runtime reports it, ms",
    number: |run| exits(run, |exit| exit.runtime_seconds),
};
const FLIP: Row =
    Row { name: "all pods change, s", number: |run| flips(run, None, |flip| flip.seconds) };
const REQUESTS: Row = Row {
    name: "requests for a change of all pods",
    number: |run| flips(run, None, |flip| number(counted(flip))),
};

const ROWS: [Row; 6] = [
    EXIT,
    RUNTIME,
    FLIP,
    Row {
        name: "all pods become not ready, s",
        number: |run| flips(run, Some(false), |flip| flip.seconds),
    },
    Row {
        name: "all pods become ready, s",
        number: |run| flips(run, Some(true), |flip| flip.seconds),
    },
    REQUESTS,
];

fn exits(run: &StatusRun, of: fn(&Exit) -> f64) -> Option<f64> {
    Spread::of(run.exits.iter().map(of)).map(|spread| 1000.0 * spread.median)
}

fn flips(run: &StatusRun, to_ready: Option<bool>, of: fn(&Flip) -> f64) -> Option<f64> {
    let chosen =
        run.flips.iter().filter(|flip| to_ready.is_none_or(|ready| ready == flip.to_ready));
    Spread::of(chosen.map(of)).map(|spread| spread.median)
}

fn counted(flip: &Flip) -> u64 {
    let is_counted = |kind: &str| {
        let resource = kind.split(' ').nth(1).unwrap_or_default();
        !NOT_COUNTED.contains(&resource)
    };
    flip.requests.iter().filter(|(kind, _)| is_counted(kind)).map(|(_, count)| count).sum()
}

fn of(results: &StatusResults, agent: Agent) -> impl Iterator<Item = &StatusRun> {
    results.runs.iter().filter(move |run| run.agent == agent)
}

/// The median of bare requests in a round.
fn bare(results: &StatusResults, round: u32) -> Option<f64> {
    let bare = results.bare.iter().find(|bare| bare.round == round)?;
    Spread::of(bare.seconds.iter().copied()).map(|spread| spread.median)
}

/// The judgement of all targets.
pub fn verdicts(results: &StatusResults) -> Vec<Verdict> {
    let verdict = |name, limit, row: Row, floor: &dyn Fn(&StatusRun, f64) -> Floor| {
        let pairs = of(results, Agent::Ferrolet).zip(of(results, Agent::Upstream));
        let measured = pairs.map(|(ours, theirs)| {
            let own = (row.number)(ours);
            let other = (row.number)(theirs).filter(|other| *other > 0.0);
            Measured {
                round: ours.round,
                value: own.zip(other).map(|(own, other)| own / other),
                load: load_before(&results.about, ours.round),
                floor: floor(ours, own.unwrap_or_default()),
                flaw: None,
            }
        });
        Verdict { name, limit, measured: measured.collect() }
    };
    vec![
        verdict("exit to API status, of upstream's", 0.25, EXIT, &|run, own| {
            Floor::of((RUNTIME.number)(run), own)
        }),
        verdict("all pods change, of upstream's", 0.5, FLIP, &|run, own| {
            Floor::of(bare(results, run.round), own)
        }),
        verdict("requests for it, of upstream's", 0.6, REQUESTS, &|_, _| Floor::NotNeeded),
    ]
}

/// The page. `name` is the base name of the files that belong to it.
pub fn markdown(results: &StatusResults, name: &str) -> String {
    let plan = &results.plan;
    let mut page = head(&results.about, plan.rounds, name);
    writeln!(
        page,
        "\n{} pods on containerd have a readiness probe with a period of {} s. The probed server holds their requests until \
         each pod has sent one, and answers all at once with another code: the pods become not ready, then ready, {} times \
         each. The time is from these responses until a watch of the API server receives the last change. Its floor is \
         one status patch for each pod by a client, 32 at a time. Requests are those of the agent's user in the audit \
         log, without those for the node and for events.\n\n\
         Then {} containers are killed, one after the other. The time is from SIGKILL until the watch receives the \
         terminated state. Its floor is the runtime's event for the same exits.\n\n\
         Each number is the median of a round.\n",
        plan.pods, plan.period_seconds, plan.flips, plan.exits
    )
    .expect("a string takes every text");
    page.push_str("| | floor | ferrolet | | upstream | |\n|---|---:|---:|---|---:|---|\n");
    let median = |values: &mut dyn Iterator<Item = f64>| {
        Spread::of(values).map_or_else(String::new, |all| short(all.median))
    };
    for row in ROWS {
        let cells = |agent| {
            let spread = Spread::of(of(results, agent).filter_map(row.number));
            spread.map_or(("–".to_owned(), String::new()), |all| (short(all.median), ends(all)))
        };
        let floor = if row.name == EXIT.name {
            median(&mut of(results, Agent::Ferrolet).filter_map(RUNTIME.number))
        } else if row.name == FLIP.name {
            median(&mut results.bare.iter().filter_map(|one| bare(results, one.round)))
        } else {
            String::new()
        };
        let (ours, theirs) = (cells(Agent::Ferrolet), cells(Agent::Upstream));
        line(&mut page, &[row.name, &floor, &ours.0, &ours.1, &theirs.0, &theirs.1]);
    }
    page.push_str(&table(&verdicts(results)));
    page.push_str(&requests(results));
    page
}

/// Requests by kind.
fn requests(results: &StatusResults) -> String {
    let mut text =
        "\n| requests for a change of all pods, mean | ferrolet | upstream |\n|---|---:|---:|\n"
            .to_owned();
    let flips = |agent| of(results, agent).flat_map(|run| &run.flips);
    let all = Agent::BOTH.into_iter().flat_map(flips);
    let kinds: BTreeSet<&String> = all.flat_map(|flip| flip.requests.keys()).collect();
    for kind in kinds {
        let mean = |agent| {
            let counts = flips(agent).map(|flip| flip.requests.get(kind).copied().unwrap_or(0));
            number(counts.sum()) / number(flips(agent).count().max(1) as u64)
        };
        line(&mut text, &[kind, &short(mean(Agent::Ferrolet)), &short(mean(Agent::Upstream))]);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::Requests;
    use crate::cluster::status::{BareFlips, StatusPlan};
    use crate::judge::Judgement;
    use crate::rendering_tests::quiet_rounds;

    fn run(round: u32, agent: Agent, seconds: f64, patches: u64) -> StatusRun {
        let requests = Requests::from([
            ("patch pods/status".to_owned(), patches),
            ("create events".to_owned(), 100),
            ("update leases".to_owned(), 1),
        ]);
        let flip = |to_ready| Flip { to_ready, seconds, requests: requests.clone() };
        let exit = Exit { runtime_seconds: 0.02, api_seconds: seconds / 2.0 };
        StatusRun { round, agent, flips: vec![flip(false), flip(true)], exits: vec![exit; 3] }
    }

    fn results(ours: f64, patches: u64) -> StatusResults {
        let runs = (1..=3).flat_map(|round| {
            [run(round, Agent::Ferrolet, ours, patches), run(round, Agent::Upstream, 2.0, 200)]
        });
        StatusResults {
            about: quiet_rounds(3),
            plan: StatusPlan::full(3),
            runs: runs.collect(),
            bare: (1..=3).map(|round| BareFlips { round, seconds: vec![0.3] }).collect(),
        }
    }

    #[test]
    fn targets_are_ratios_and_events_are_not_counted() {
        let (met, missed) = (Judgement::Met, Judgement::Missed);
        let rows = [
            (0.5, 120, [met.clone(), met.clone(), met.clone()]),
            (1.0, 121, [missed.clone(), met, missed.clone()]),
            (1.1, 200, [missed.clone(), missed.clone(), missed]),
        ];
        for (ours, patches, expected) in rows {
            let verdicts = verdicts(&results(ours, patches));
            let judged: Vec<Judgement> = verdicts.iter().map(Verdict::judgement).collect();
            assert_eq!(judged, expected, "{ours}");
        }
        let below = &verdicts(&results(0.2, 100))[1];
        let why = "round 1: the floor (0.300) is not below ours (0.200)".to_owned();
        assert_eq!(below.judgement(), Judgement::NotJudged(why));
    }

    #[test]
    fn page_has_times_targets_and_requests() {
        let page = markdown(&results(0.5, 100), "status");
        for row in [
            "| exit to API status, ms | 20.0 | 250 | 250–250 | 1000 | 1000–1000 |",
            "| all pods change, s | 0.300 | 0.500 | 0.500–0.500 | 2.00 | 2.00–2.00 |",
            "| exit to API status, of upstream's | 0.250 | 0.250 | 0.250, 0.250, 0.250 | met |",
            "| create events | 100 | 100 |",
        ] {
            assert!(page.contains(row), "{row}\n\n{page}");
        }
    }
}
