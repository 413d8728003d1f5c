//! The times of default pods, as a page of Markdown.

use std::fmt::Write as _;

use crate::cluster::volumes::{Start, VolumesResults, VolumesRound};
use crate::judge::{Floor, Measured, load_before};
use crate::report::{ends, head, line, short};
use crate::spread::Spread;
use crate::verdict::{Verdict, table};

/// A row of the table, in milliseconds: the median of a round.
#[derive(Debug, Clone, Copy)]
struct Row {
    name: &'static str,
    floor: fn(&VolumesRound) -> Option<f64>,
    ferrolet: fn(&VolumesRound) -> Option<f64>,
    upstream: fn(&VolumesRound) -> Option<f64>,
}

const fn none(_: &VolumesRound) -> Option<f64> {
    None
}

const READY: Row = Row {
    name: "create to Ready, ms",
    floor: |round| median(round.pods.floor.start_one.iter().copied()),
    ferrolet: |round| median(round.pods.ferrolet.start_one.iter().copied()),
    upstream: |round| median(round.pods.upstream.start_one.iter().copied()),
};

const SANDBOX: Row = ours("notice to RunPodSandbox without API requests, ms", |round| {
    starts(round, |start| start.seconds - start.api_seconds)
});

const ROWS: [Row; 5] = [
    READY,
    Row {
        name: "delete to gone, ms",
        floor: |round| median(round.pods.floor.delete_one.iter().copied()),
        ferrolet: |round| median(round.pods.ferrolet.delete_one.iter().copied()),
        upstream: |round| median(round.pods.upstream.delete_one.iter().copied()),
    },
    ours("notice to RunPodSandbox, ms", |round| starts(round, |start| start.seconds)),
    ours("API requests in that time, ms", |round| starts(round, |start| start.api_seconds)),
    SANDBOX,
];

const fn ours(name: &'static str, ferrolet: fn(&VolumesRound) -> Option<f64>) -> Row {
    Row { name, floor: none, ferrolet, upstream: none }
}

/// The median in milliseconds.
fn median(seconds: impl Iterator<Item = f64>) -> Option<f64> {
    Spread::of(seconds).map(|spread| 1000.0 * spread.median)
}

fn starts(round: &VolumesRound, of: fn(&Start) -> f64) -> Option<f64> {
    median(round.starts.iter().map(of))
}

/// All targets, judged.
pub fn verdicts(results: &VolumesResults) -> Vec<Verdict> {
    let verdict = |name, limit, of: &dyn Fn(&VolumesRound) -> (Option<f64>, Floor)| {
        let rounds = (1..).zip(&results.rounds);
        let measured = rounds.map(|(number, round)| {
            let (value, floor) = of(round);
            let load = load_before(&results.about, number);
            Measured { round: number, value, load, floor, flaw: None }
        });
        Verdict { name, limit, measured: measured.collect() }
    };
    let floor = |round: &VolumesRound| {
        Floor::of((READY.floor)(round), (READY.ferrolet)(round).unwrap_or_default())
    };
    vec![
        verdict("create to Ready beyond bare calls, ms", 40.0, &|round| {
            let both = (READY.ferrolet)(round).zip((READY.floor)(round));
            (both.map(|(ours, bare)| ours - bare), floor(round))
        }),
        verdict("create to Ready, of upstream's", 0.5, &|round| {
            let theirs = (READY.upstream)(round).filter(|theirs| *theirs > 0.0);
            let both = (READY.ferrolet)(round).zip(theirs);
            (both.map(|(ours, theirs)| ours / theirs), floor(round))
        }),
        verdict(SANDBOX.name, 10.0, &|round| ((SANDBOX.ferrolet)(round), Floor::NotNeeded)),
    ]
}

/// The page. `name` is the base name of the files that belong to it.
pub fn markdown(results: &VolumesResults, name: &str) -> String {
    let plan = &results.plan;
    let mut page = head(&results.about, plan.rounds, name);
    writeln!(
        page,
        "\nDefault pods, with the token volume of their service account, are created and deleted one after the other: {} \
         in each of {} turns of bare calls, ferrolet and the kubelet. The floor is bare calls to the runtime.\n\n\
         Then ferrolet starts {} pods, one after the other, with a proxy in front of the runtime.\n\n\
         - The notice of a pod is its event at a second watch, or the response to its creation if that is \
         earlier. So it is not later than the agent's admission of the pod.\n\
         - The end is the arrival of RunPodSandbox at the proxy.\n\
         - API requests are those for tokens, config maps and secrets in the audit log: from the receipt of the request \
         until the response; for a watch, until the response begins. Overlapping requests count once. Status updates are not \
         subtracted, because the start does not wait for them.\n\n\
         Each number is the median of a round.\n",
        plan.one_by_one, plan.turns, plan.starts
    )
    .expect("a string takes every text");
    page.push_str("| | floor | ferrolet | | upstream | |\n|---|---:|---:|---|---:|---|\n");
    for row in ROWS {
        let cells = |of: fn(&VolumesRound) -> Option<f64>| {
            let spread = Spread::of(results.rounds.iter().filter_map(of));
            spread.map_or_else(Default::default, |all| (short(all.median), ends(all)))
        };
        let [floor, ours, theirs]: [(String, String); 3] =
            [row.floor, row.ferrolet, row.upstream].map(cells);
        line(&mut page, &[row.name, &floor.0, &ours.0, &ours.1, &theirs.0, &theirs.1]);
    }
    page.push_str(&table(&verdicts(results)));
    page
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::volumes::VolumesPlan;
    use crate::cluster::{Block, Times};
    use crate::judge::Judgement;
    use crate::rendering_tests::quiet_rounds;

    fn results(ours: f64, start: f64) -> VolumesResults {
        let times = |seconds| Times { start_one: vec![seconds; 5], ..Times::default() };
        let round = VolumesRound {
            pods: Block { floor: times(0.16), ferrolet: times(ours), upstream: times(0.4) },
            starts: vec![Start { seconds: start + 0.02, api_seconds: 0.02 }; 3],
        };
        VolumesResults {
            about: quiet_rounds(3),
            plan: VolumesPlan::full(3),
            rounds: vec![round; 3],
        }
    }

    #[test]
    fn targets_are_beyond_bare_calls_of_upstream_and_without_api_requests() {
        let (met, missed) = (Judgement::Met, Judgement::Missed);
        let rows = [
            (0.19, 0.009, [met.clone(), met.clone(), met.clone()]),
            (0.201, 0.011, [missed.clone(), missed.clone(), missed]),
        ];
        for (ours, start, expected) in rows {
            let verdicts = verdicts(&results(ours, start));
            let judged: Vec<Judgement> = verdicts.iter().map(Verdict::judgement).collect();
            assert_eq!(judged, expected, "{ours}");
        }
        let below = &verdicts(&results(0.15, 0.009))[0];
        let why = "round 1: the floor (160) is not below ours (150)".to_owned();
        assert_eq!(below.judgement(), Judgement::NotJudged(why));
    }

    #[test]
    fn page_has_times_and_targets() {
        let page = markdown(&results(0.19, 0.009), "volumes");
        for row in [
            "| create to Ready, ms | 160 | 190 | 190–190 | 400 | 400–400 |",
            "| API requests in that time, ms |  | 20.0 | 20.0–20.0 |  |  |",
            "| create to Ready beyond bare calls, ms | 40.0 | 30.0 | 30.0, 30.0, 30.0 | met |",
            "| create to Ready, of upstream's | 0.500 | 0.475 |",
        ] {
            assert!(page.contains(row), "{row}\n\n{page}");
        }
    }
}
