//! The results as a page of Markdown.

use std::fmt::Write as _;

use crate::judge::{Judgement, QUIET_LOAD, every, worst};
use crate::metrics::{CPU, Row, rows};
use crate::plan::{HOLLOW_100, HOLLOW_1000, Scenario};
use crate::results::{About, Agent, Machine, Results, Run};
use crate::spread::Spread;
use crate::targets::{Measure, Target, Verdict, growth, judge};

/// The page. `name` is the base name of the files that belong to it.
pub fn markdown(results: &Results, name: &str) -> String {
    let mut page = String::new();
    let mut add = |text: &str| {
        page.push_str(text);
        page.push('\n');
    };
    let rounds = results.runs.iter().map(|run| run.round).max().unwrap_or_default();
    add(&head(&results.about, rounds, name));
    add(&targets(&judge(results)));
    add(&format!("![ferrolet's share of upstream's cost]({name}.svg)\n"));
    let rows = rows(results);
    for scenario in &results.scenarios {
        add(&table(scenario, &rows));
    }
    add(&growths(results));
    if let Some(scenario) = results.scenarios.iter().max_by_key(|one| one.pods) {
        add(&methods(results, &scenario.name));
    }
    page.truncate(page.trim_end().len());
    page.push('\n');
    page
}

/// The head of a page: the measurements, machine and time.
pub fn head(about: &About, rounds: u32, name: &str) -> String {
    format!(
        "# ferrolet and upstream, side by side\n\n\
         Written by `make bench`; [README.md](README.md) says how to read it, \
         [{name}.json]({name}.json) has every raw number.\n\n\
         | | |\n|---|---|\n\
         | commit | {commit} |\n\
         | date | {date} |\n\
         | ferrolet | {ferrolet} |\n\
         | upstream | {upstream} |\n\
         | machine | {machines} |\n\
         | load before | {loads} |\n\
         | rounds | {rounds}, in {minutes:.0} minutes |\n",
        commit = about.commit,
        date = dates(about),
        ferrolet = about.ferrolet,
        upstream = about.upstream,
        machines = machines(about),
        loads = loads(about),
        minutes = about.seconds / 60.0,
    )
}

/// The start of the first round, and of the last one if it was later.
fn dates(about: &About) -> String {
    match about.rounds.last() {
        Some(last) if last.date != about.date => format!("{} to {}", about.date, last.date),
        _ => about.date.clone(),
    }
}

/// The machines of the rounds, in order; each once.
fn machines(about: &About) -> String {
    let mut machines: Vec<String> = Vec::new();
    for machine in each_machine(about) {
        let Machine { cores, processor, kernel, memory_bytes, .. } = machine;
        let gibibytes = memory_bytes >> 30;
        let text = format!("{cores} cores ({processor}), {gibibytes} GiB, Linux {kernel}");
        if !machines.contains(&text) {
            machines.push(text);
        }
    }
    machines.join("; ")
}

/// The load before each round.
fn loads(about: &About) -> String {
    let loads = each_machine(about).map(|machine| {
        let load = machine.load_before;
        format!("{load:.2}{}", if load < QUIET_LOAD { "" } else { " (busy)" })
    });
    loads.collect::<Vec<_>>().join(", ")
}

/// The machine of each round; of older files without rounds, that of the whole run.
fn each_machine(about: &About) -> impl Iterator<Item = &Machine> {
    let whole = about.rounds.is_empty().then_some(&about.machine);
    whole.into_iter().chain(about.rounds.iter().map(|round| &round.machine))
}

fn targets(verdicts: &[Verdict]) -> String {
    let mut text = format!("## Targets\n\n{TARGETS_HEAD}");
    for verdict in verdicts {
        let judgement = verdict.judgement();
        let mut met = judgement.written();
        if let (Judgement::Missed, Some(least)) = (judgement, verdict.least) {
            let least = short(least.median);
            write!(met, "; {least} of it pass before the runtime reports the death")
                .expect("writing to a string does not fail");
        }
        let what = described(&verdict.target);
        let worst = worst(&verdict.measured).map_or("–".to_owned(), short);
        let cells = [&what, &short(verdict.target.limit), &worst, &every(&verdict.measured), &met];
        line(&mut text, &cells.map(String::as_str));
    }
    text
}

/// The head of a table of targets.
pub const TARGETS_HEAD: &str =
    "| target | at most | worst | every round | |\n|---|---:|---:|---|---|\n";

/// A line for a target and its measurement.
pub fn verdict(verdict: &Verdict) -> String {
    let limit = short(verdict.target.limit);
    format!("{}: {}, at most {limit}", described(&verdict.target), every(&verdict.measured))
}

fn described(target: &Target) -> String {
    let (scenario, metric) = (target.scenario, target.metric);
    match target.measure {
        Measure::Own => format!("{scenario}: {metric}"),
        Measure::Ratio => format!("{scenario}: {metric}, of upstream's"),
        Measure::GrowthFrom(from) => format!("{scenario}: {metric}, of that with {from}"),
    }
}

fn table(scenario: &Scenario, rows: &[Row<'_>]) -> String {
    let mut text = format!(
        "## {}\n\nMedian and spread over the rounds; the ratio is taken in each round. The floor is measured without \
         an agent: of a process that sleeps, and of deaths until the runtime sends their events.\n\n\
         | | floor | ferrolet | | upstream | | ratio | |\n|---|---:|---:|---|---:|---|---:|---|\n",
        scenario.name
    );
    for row in rows.iter().filter(|row| row.scenario == scenario.name) {
        let (ratio, spread) = row
            .ratio
            .map_or((String::new(), String::new()), |ratio| (short(ratio.median), ends(ratio)));
        line(
            &mut text,
            &[
                row.metric,
                &row.floor.map_or_else(String::new, |floor| short(floor.median)),
                &short(row.ferrolet.median),
                &ends(row.ferrolet),
                &short(row.upstream.median),
                &ends(row.upstream),
                &ratio,
                &spread,
            ],
        );
    }
    text
}

fn growths(results: &Results) -> String {
    let mut text = format!(
        "## Growth\n\n{CPU}, with {HOLLOW_1000} divided by that with {HOLLOW_100}.\n\n\
         | agent | median | spread |\n|---|---:|---|\n"
    );
    for agent in Agent::BOTH {
        if let Some(growth) = growth(results, CPU, HOLLOW_100, HOLLOW_1000, agent) {
            line(&mut text, &[agent.name(), &short(growth.median), &ends(growth)]);
        }
    }
    text
}

/// The calls of an agent to the runtime in a quiet scenario.
fn methods(results: &Results, scenario: &str) -> String {
    let of = |agent| {
        let runs = results.runs.iter();
        runs.filter(move |run| run.scenario == scenario && run.agent == agent)
    };
    let both = Agent::BOTH.into_iter().flat_map(of);
    let mut names: Vec<&str> =
        both.flat_map(|run| run.steady.calls.keys().map(String::as_str)).collect();
    names.sort_unstable();
    names.dedup();
    let mut text = format!(
        "## Calls per quiet minute, {scenario}\n\n\
         | method | ferrolet | upstream |\n|---|---:|---:|\n"
    );
    for name in names {
        let median = |agent| {
            let calls = of(agent).map(|run| calls_per_minute(run, name));
            Spread::of(calls).map_or_else(String::new, |calls| short(calls.median))
        };
        line(&mut text, &[name, &median(Agent::Ferrolet), &median(Agent::Upstream)]);
    }
    text
}

#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
fn calls_per_minute(run: &Run, method: &str) -> f64 {
    let calls = run.steady.calls.get(method).copied().unwrap_or_default();
    calls as f64 / run.steady.seconds * 60.0
}

/// Adds a row of a table.
pub fn line(text: &mut String, cells: &[&str]) {
    writeln!(text, "| {} |", cells.join(" | ")).expect("writing to a string does not fail");
}

/// Minimum and maximum.
pub fn ends(spread: Spread) -> String {
    format!("{}–{}", short(spread.min), short(spread.max))
}

/// Three significant digits.
pub fn short(value: f64) -> String {
    let size = value.abs();
    if size >= 100.0 {
        format!("{value:.0}")
    } else if size >= 10.0 {
        format!("{value:.1}")
    } else if size >= 1.0 {
        format!("{value:.2}")
    } else if size >= 0.01 || size == 0.0 {
        format!("{value:.3}")
    } else {
        format!("{value:.4}")
    }
}
