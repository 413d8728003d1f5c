//! The cost of probes, as a page of Markdown.

use std::fmt::Write as _;

use crate::judge::{Floor, Judgement, Measured, every, judge, load_before, worst};
use crate::probes::{ProbeCost, ProbesResults, ProbesRun, Workload};
use crate::report::{ends, head, line, short};
use crate::results::Agent;
use crate::spread::{Spread, mebibytes, number};

/// The share of the planned attempts that may be missing, or more than planned.
const DEVIATION: f64 = 0.05;

/// A row of the table.
#[derive(Debug, Clone, Copy)]
struct Row {
    name: &'static str,
    number: fn(&ProbesRun) -> f64,
    /// Like `number`, of bare requests.
    floor: Option<fn(ProbeCost) -> f64>,
}

const fn row(name: &'static str, number: fn(&ProbesRun) -> f64) -> Row {
    Row { name, number, floor: None }
}

const HTTP_CPU: Row =
    Row { name: "HTTP: CPU, ms per minute", number: |run| cpu(run.http), floor: Some(cpu) };
const TIME_WAIT: Row = row("sockets in TIME_WAIT", |run| number(run.time_wait.client));
const EXEC_CPU: Row = row("exec: CPU, ms per minute", |run| cpu(run.exec));

const ROWS: [Row; 11] = [
    HTTP_CPU,
    Row {
        name: "HTTP: attempts per second",
        number: |run| attempts(run.http),
        floor: Some(attempts),
    },
    row("HTTP: resident memory, MiB", |run| mebibytes(run.http.rss_bytes)),
    row("TCP and HTTP: CPU, ms per minute", |run| cpu(run.mixed)),
    row("TCP and HTTP: attempts per second", |run| attempts(run.mixed)),
    row("TCP and HTTP: resident memory, MiB", |run| mebibytes(run.mixed.rss_bytes)),
    TIME_WAIT,
    row("sockets in TIME_WAIT at the server", |run| number(run.time_wait.server)),
    EXEC_CPU,
    row("exec: attempts per second", |run| attempts(run.exec)),
    row("exec: resident memory, MiB", |run| mebibytes(run.exec.rss_bytes)),
];

/// A limit for our number divided by upstream's.
#[derive(Debug, Clone, Copy)]
pub struct ProbesTarget {
    /// Its name.
    pub name: &'static str,
    /// The limit.
    pub limit: f64,
    row: Row,
    workload: Workload,
}

/// All targets.
const TARGETS: [ProbesTarget; 3] = [
    ProbesTarget {
        name: "HTTP: CPU beyond bare requests",
        limit: 0.25,
        row: HTTP_CPU,
        workload: Workload::Http,
    },
    ProbesTarget {
        name: "TCP and HTTP: sockets in TIME_WAIT",
        limit: 1.0,
        row: TIME_WAIT,
        workload: Workload::Mixed,
    },
    ProbesTarget { name: "exec: CPU", limit: 0.5, row: EXEC_CPU, workload: Workload::Exec },
];

/// A target with the ratio of each round.
#[derive(Debug, Clone)]
pub struct ProbesVerdict {
    /// The target.
    pub target: ProbesTarget,
    /// The ratio of each round.
    pub measured: Vec<Measured>,
}

impl ProbesVerdict {
    /// Whether the target is met.
    pub fn judgement(&self) -> Judgement {
        judge(self.target.limit, &self.measured)
    }
}

fn cpu(cost: ProbeCost) -> f64 {
    cost.cpu_seconds / cost.seconds * 60_000.0
}

fn attempts(cost: ProbeCost) -> f64 {
    number(cost.attempts) / cost.seconds
}

fn of(results: &ProbesResults, agent: Agent) -> impl Iterator<Item = &ProbesRun> {
    results.runs.iter().filter(move |run| run.agent == agent)
}

/// All targets, judged.
pub fn verdicts(results: &ProbesResults) -> Vec<ProbesVerdict> {
    let verdict = |target: ProbesTarget| {
        let pairs = of(results, Agent::Ferrolet).zip(of(results, Agent::Upstream));
        let measured = pairs.map(|(ours, theirs)| of_round(results, target, ours, theirs));
        ProbesVerdict { target, measured: measured.collect() }
    };
    TARGETS.into_iter().map(verdict).collect()
}

fn of_round(
    results: &ProbesResults,
    target: ProbesTarget,
    ours: &ProbesRun,
    theirs: &ProbesRun,
) -> Measured {
    let bare = results.bare.iter().find(|bare| bare.round == ours.round);
    let least = target.row.floor.map(|floor| bare.map(|bare| floor(bare.http)));
    let (own, other) = ((target.row.number)(ours), (target.row.number)(theirs));
    let subtracted = least.flatten().unwrap_or_default();
    let divisor = Some(other - subtracted).filter(|divisor| *divisor > 0.0);
    let flaw = |run| rate_flaw(results, target.workload, run);
    Measured {
        round: ours.round,
        value: divisor.map(|divisor| (own - subtracted) / divisor),
        load: load_before(&results.about, ours.round),
        floor: least.map_or(Floor::NotNeeded, |least| Floor::of(least, own)),
        flaw: flaw(ours).or_else(|| flaw(theirs)),
    }
}

/// Why a run has not done the planned work.
fn rate_flaw(results: &ProbesResults, workload: Workload, run: &ProbesRun) -> Option<String> {
    let cost = match workload {
        Workload::Http => run.http,
        Workload::Mixed => run.mixed,
        Workload::Exec => run.exec,
    };
    let (rate, planned) = (attempts(cost), results.plan.rate(workload));
    let is_planned = (rate / planned - 1.0).abs() <= DEVIATION;
    let agent = run.agent.name();
    (!is_planned)
        .then(|| format!("{} attempts per second of {agent}, not {}", short(rate), short(planned)))
}

/// The page. `name` is the base name of the files that belong to it.
pub fn markdown(results: &ProbesResults, name: &str) -> String {
    let plan = &results.plan;
    let mut page = head(&results.about, plan.rounds, name);
    writeln!(
        page,
        "\nOn the in-memory runtime, {} pods have an HTTP probe with a period of 1 s, then TCP probes in one half and HTTP \
         probes in the other for {} s, then {} pods have an exec probe with a period of {} s. CPU is measured for {} s. The \
         floor is a process that only sends the same HTTP requests.\n",
        plan.pods, plan.mixed_seconds, plan.exec_pods, plan.exec_period_seconds, plan.window_seconds
    )
    .expect("writing to a string does not fail");
    page.push_str("| | floor | ferrolet | | upstream | |\n|---|---:|---:|---|---:|---|\n");
    for row in ROWS {
        let cells = |agent| {
            let spread = Spread::of(of(results, agent).map(row.number));
            spread.map_or(("–".to_owned(), String::new()), |all| (short(all.median), ends(all)))
        };
        let floors = row.floor.map(|floor| results.bare.iter().map(move |bare| floor(bare.http)));
        let floor = floors.and_then(|floors| Spread::of(floors).map(|all| short(all.median)));
        let (ours, theirs) = (cells(Agent::Ferrolet), cells(Agent::Upstream));
        let floor = floor.unwrap_or_default();
        line(&mut page, &[row.name, &floor, &ours.0, &ours.1, &theirs.0, &theirs.1]);
    }
    page.push_str("\n| target, ours by upstream's | limit | worst | every round | |\n|---|---:|---:|---|---|\n");
    for verdict in verdicts(results) {
        let worst = worst(&verdict.measured).map_or("–".to_owned(), short);
        let (limit, all) = (short(verdict.target.limit), every(&verdict.measured));
        let judgement = verdict.judgement().written();
        line(&mut page, &[verdict.target.name, &limit, &worst, &all, &judgement]);
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probes::{BareRequests, ProbesPlan, TimeWait};
    use crate::rendering_tests::quiet_rounds;

    fn cost(cpu_seconds: f64, rate: u64) -> ProbeCost {
        ProbeCost { seconds: 60.0, cpu_seconds, rss_bytes: 20 << 20, attempts: 60 * rate }
    }

    fn run(round: u32, agent: Agent, cpu_seconds: f64) -> ProbesRun {
        ProbesRun {
            round,
            agent,
            http: cost(cpu_seconds, 1000),
            mixed: cost(cpu_seconds, 1000),
            time_wait: TimeWait { client: 30_000, server: 30_000 },
            exec: cost(cpu_seconds / 10.0, 20),
        }
    }

    /// Three rounds: bare requests take 2 CPU seconds, upstream takes 22.
    fn results(ours: f64) -> ProbesResults {
        let runs = (1..=3).flat_map(|round| {
            [run(round, Agent::Ferrolet, ours), run(round, Agent::Upstream, 22.0)]
        });
        ProbesResults {
            about: quiet_rounds(3),
            plan: ProbesPlan::full(3),
            runs: runs.collect(),
            bare: (1..=3).map(|round| BareRequests { round, http: cost(2.0, 1000) }).collect(),
        }
    }

    fn judgements(results: &ProbesResults) -> Vec<Judgement> {
        verdicts(results).iter().map(ProbesVerdict::judgement).collect()
    }

    #[test]
    fn targets_are_ratios_beyond_bare_requests() {
        let rows = [
            (7.0, [Judgement::Met, Judgement::Met, Judgement::Met]),
            (7.1, [Judgement::Missed, Judgement::Met, Judgement::Met]),
            (11.1, [Judgement::Missed, Judgement::Met, Judgement::Missed]),
        ];
        for (cpu, expected) in rows {
            assert_eq!(judgements(&results(cpu)), expected, "{cpu}");
        }
        let page = markdown(&results(7.0), "probes");
        for row in [
            "| HTTP: CPU, ms per minute | 2000 | 7000 | 7000–7000 | 22000 | 22000–22000 |",
            "| HTTP: CPU beyond bare requests | 0.250 | 0.250 | 0.250, 0.250, 0.250 | met |",
            "| exec: attempts per second |  | 20.0 | 20.0–20.0 | 20.0 | 20.0–20.0 |",
        ] {
            assert!(page.contains(row), "{page}");
        }
    }

    #[test]
    fn round_with_missing_attempts_or_without_bare_requests_is_not_judged() {
        let mut late = results(7.0);
        late.runs[1].http.attempts /= 2;
        let why = "round 1: 500 attempts per second of upstream, not 1000";
        assert_eq!(judgements(&late)[0], Judgement::NotJudged(why.to_owned()));
        let mut unmeasured = results(7.0);
        unmeasured.bare.clear();
        let why = "round 1: no floor was measured";
        assert_eq!(judgements(&unmeasured)[0], Judgement::NotJudged(why.to_owned()));
    }
}
