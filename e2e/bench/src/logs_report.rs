//! The cost of container logs, as a page of Markdown.

use std::fmt::Write as _;

use crate::judge::{Floor, Measured, load_before};
use crate::logs::{LogsResults, LogsRun, Setting};
use crate::report::{ends, head, line, short};
use crate::results::Agent;
use crate::spread::{Spread, mebibytes, number};
use crate::verdict::{Verdict, table};

/// The runs of an agent in one round.
#[derive(Debug, Clone, Copy)]
struct Runs<'a> {
    round: u32,
    rotated: &'a LogsRun,
    unrotated: &'a LogsRun,
    quiet: &'a LogsRun,
    trace_seconds: f64,
}

/// A row of the table.
#[derive(Debug, Clone, Copy)]
struct Row {
    name: &'static str,
    number: fn(&Runs<'_>) -> Option<f64>,
}

const LOGS_CPU: Row = Row {
    name: "logs: CPU, ms per minute",
    number: |runs| Some(cpu(runs.rotated) - cpu(runs.unrotated)),
};
const QUIET_CALLS: Row = Row {
    name: "quiet: system calls on logs per minute",
    number: |runs| file_calls(runs, runs.quiet),
};

const ROWS: [Row; 8] = [
    LOGS_CPU,
    Row { name: "CPU with rotation, ms per minute", number: |runs| Some(cpu(runs.rotated)) },
    Row { name: "CPU without rotation, ms per minute", number: |runs| Some(cpu(runs.unrotated)) },
    Row {
        name: "logs: CRI calls per minute",
        number: |runs| Some(calls(runs.rotated) - calls(runs.unrotated)),
    },
    Row { name: "system calls on logs per minute", number: |runs| file_calls(runs, runs.rotated) },
    QUIET_CALLS,
    Row { name: "quiet: CPU with rotation, ms per minute", number: |runs| Some(cpu(runs.quiet)) },
    Row {
        name: "resident memory with rotation, MiB",
        number: |runs| Some(mebibytes(runs.rotated.rss_bytes)),
    },
];

fn cpu(run: &LogsRun) -> f64 {
    run.cpu_seconds / run.seconds * 60_000.0
}

fn calls(run: &LogsRun) -> f64 {
    number(run.calls.values().sum()) / run.seconds * 60.0
}

fn file_calls(runs: &Runs<'_>, run: &LogsRun) -> Option<f64> {
    Some(number(run.file_calls?) / runs.trace_seconds * 60.0)
}

/// The rounds of an agent.
fn of(results: &LogsResults, agent: Agent) -> Vec<Runs<'_>> {
    let round = |round| {
        let run = |setting| {
            let mut runs = results.runs.iter();
            runs.find(|run| (run.round, run.agent, run.setting) == (round, agent, setting))
        };
        Some(Runs {
            round,
            rotated: run(Setting::Rotated)?,
            unrotated: run(Setting::Unrotated)?,
            quiet: run(Setting::Quiet)?,
            trace_seconds: number(results.plan.trace_seconds),
        })
    };
    (1..=results.plan.rounds).filter_map(round).collect()
}

/// All targets, judged.
pub fn verdicts(results: &LogsResults) -> Vec<Verdict> {
    let verdict = |name, limit, of_round: &dyn Fn(&Runs<'_>, &Runs<'_>) -> Measured| {
        let (ours, theirs) = (of(results, Agent::Ferrolet), of(results, Agent::Upstream));
        let measured = ours.iter().zip(&theirs).map(|(ours, theirs)| of_round(ours, theirs));
        Verdict { name, limit, measured: measured.collect() }
    };
    let measured = |runs: &Runs<'_>, value, floor, flaw| {
        let load = load_before(&results.about, runs.round);
        Measured { round: runs.round, value, load, floor, flaw }
    };
    vec![
        verdict("CPU of logs, of upstream's", 0.25, &|ours, theirs| {
            let other = (LOGS_CPU.number)(theirs).filter(|other| *other > 0.0);
            let both = (LOGS_CPU.number)(ours).zip(other);
            // The same agent without rotation.
            let floor = Floor::Of { floor: cpu(ours.unrotated), ours: cpu(ours.rotated) };
            measured(ours, both.map(|(own, other)| own / other), floor, None)
        }),
        verdict(QUIET_CALLS.name, 0.0, &|ours, _| {
            // Otherwise the trace may have missed everything.
            let is_blind = ours.rotated.file_calls == Some(0);
            let flaw = is_blind.then(|| "no call on written logs was traced".to_owned());
            measured(ours, (QUIET_CALLS.number)(ours), Floor::NotNeeded, flaw)
        }),
    ]
}

/// The page. `name` is the base name of the files that belong to it.
pub fn markdown(results: &LogsResults, name: &str) -> String {
    let plan = &results.plan;
    let mut page = head(&results.about, plan.rounds, name);
    writeln!(
        page,
        "\nEach agent runs {} static pods of {} containers on containerd, in three instances at the same time: {} \
         containers in each.\n\n\
         - In two instances each container writes a line per second. One agent rotates logs with default settings, the \
         other has `containerLogMaxSize: -1`, which turns rotation off. CPU is measured for {} s, {} s after the start of \
         all containers. The CPU of logs is the difference.\n\
         - In the third instance the containers write nothing, with default settings. There, and where logs are written \
         and rotated, `strace` counts for {} s the system calls with a file name below `/var/log/pods`. ferrolet \
         checks each log every 5 minutes, in case an inotify event was lost. The count ends before the first check.\n",
        plan.pods,
        plan.containers,
        plan.pods * plan.containers,
        plan.window_seconds,
        plan.warm_up_seconds,
        plan.trace_seconds
    )
    .expect("a string takes every text");
    page.push_str("| | ferrolet | | upstream | |\n|---|---:|---|---:|---|\n");
    for row in ROWS {
        let cells = |agent| {
            let spread = Spread::of(of(results, agent).iter().filter_map(row.number));
            spread.map_or(("–".to_owned(), String::new()), |all| (short(all.median), ends(all)))
        };
        let (ours, theirs) = (cells(Agent::Ferrolet), cells(Agent::Upstream));
        line(&mut page, &[row.name, &ours.0, &ours.1, &theirs.0, &theirs.1]);
    }
    page.push_str(&table(&verdicts(results)));
    page
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::judge::Judgement;
    use crate::logs::LogsPlan;
    use crate::rendering_tests::quiet_rounds;

    fn run(round: u32, agent: Agent, setting: Setting, cpu_seconds: f64) -> LogsRun {
        let file_calls = match setting {
            Setting::Rotated => Some(400),
            Setting::Unrotated => None,
            Setting::Quiet => Some(if agent == Agent::Ferrolet { 0 } else { 400 }),
        };
        LogsRun {
            round,
            agent,
            setting,
            seconds: 120.0,
            cpu_seconds,
            rss_bytes: 20 << 20,
            calls: BTreeMap::from([("ListContainers".to_owned(), 240)]),
            file_calls,
        }
    }

    /// Three rounds: the logs of upstream take 2 CPU seconds.
    fn results(ours: f64) -> LogsResults {
        let mut runs = Vec::new();
        for round in 1..=3 {
            for (agent, logs) in [(Agent::Ferrolet, ours), (Agent::Upstream, 2.0)] {
                runs.push(run(round, agent, Setting::Rotated, 1.0 + logs));
                runs.push(run(round, agent, Setting::Unrotated, 1.0));
                runs.push(run(round, agent, Setting::Quiet, 1.0));
            }
        }
        LogsResults { about: quiet_rounds(3), plan: LogsPlan::full(3), runs }
    }

    fn judgements(results: &LogsResults) -> Vec<Judgement> {
        verdicts(results).iter().map(Verdict::judgement).collect()
    }

    #[test]
    fn cost_of_logs_excludes_the_cost_without_rotation() {
        for (ours, expected) in [(0.5, Judgement::Met), (0.51, Judgement::Missed)] {
            assert_eq!(judgements(&results(ours)), [expected, Judgement::Met], "{ours}");
        }
        let why = "round 1: the floor (500) is not below ours (450)".to_owned();
        assert_eq!(judgements(&results(-0.1))[0], Judgement::NotJudged(why));
        let page = markdown(&results(0.5), "logs");
        for row in [
            "| logs: CPU, ms per minute | 250 | 250–250 | 1000 | 1000–1000 |",
            "| quiet: system calls on logs per minute | 0.000 | 0.000–0.000 | 1200 | 1200–1200 |",
            "| CPU of logs, of upstream's | 0.250 | 0.250 | 0.250, 0.250, 0.250 | met |",
        ] {
            assert!(page.contains(row), "{row}\n\n{page}");
        }
    }

    #[test]
    fn call_on_a_quiet_log_misses_the_target() {
        let mut some = results(0.5);
        some.runs[2].file_calls = Some(1);
        assert_eq!(judgements(&some)[1], Judgement::Missed);
        let mut blind = results(0.5);
        blind.runs[0].file_calls = Some(0);
        let why = "round 1: no call on written logs was traced".to_owned();
        assert_eq!(judgements(&blind)[1], Judgement::NotJudged(why));
    }
}
