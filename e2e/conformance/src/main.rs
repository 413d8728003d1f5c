//! The program `conformance`. See the library.
#![allow(clippy::disallowed_methods, reason = "a test tool works on real files and time")]

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result, bail};
use conformance::cluster::{Agent, Cluster};
use conformance::judge::{Judgement, MissedSpec, judge};
use conformance::page::Run;
use conformance::report::{Outcome, Report};
use conformance::selection::Selection;
use conformance::store::{self, Store};
use conformance::suite::Suite;
use lexopt::prelude::*;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

const USAGE: &str = "\
usage: conformance --docs DIR --results DIR [--agent ferrolet|upstream] [--quick] [--focus REGEX] [--skip REGEX]
                   [--procs N] [--minutes N] [--commit ID] [--date DATE]
  Starts a cluster of one node and runs upstream's end-to-end suite in it. Needs root, and what `make conformance`
  builds. Prints the result, brings the lists in DIR (docs/conformance) up to date, and keeps logs and the output of
  failed specs in the results directory. Ends with code 1 when a spec failed that passed before, or the time limit was
  too short for all specs, and with code 2 when the suite could not run.

  --agent AGENT    which program is the node agent (ferrolet)
  --quick          only a dozen specs
  --focus, --skip  which specs run, as ginkgo's flags (NodeConformance specs of sig-node, sig-storage and sig-network)
  --procs N        how many specs run at a time (8)
  --minutes N      the time limit of the specs (60; 15 of a quick run)
  --commit, --date for the table of results";

/// The arguments of the command line.
#[derive(Debug)]
struct Settings {
    docs: PathBuf,
    results: PathBuf,
    agent: Agent,
    selection: Selection,
    processes: u32,
    minutes: u64,
    commit: String,
    date: String,
}

fn main() -> ExitCode {
    match settings(std::env::args_os().skip(1)).and_then(|settings| run(&settings)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("conformance: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn settings(args: impl Iterator<Item = OsString>) -> Result<Settings> {
    let (mut docs, mut results, mut focus, mut skip, mut minutes) = (None, None, None, None, None);
    let (mut agent, mut quick, mut processes) = (Agent::Ferrolet, false, 8);
    let (mut commit, mut date) = (String::new(), String::new());
    let mut parser = lexopt::Parser::from_args(args);
    while let Some(arg) = parser.next()? {
        match arg {
            Long("docs") => docs = Some(parser.value()?.into()),
            Long("results") => results = Some(parser.value()?.into()),
            Long("agent") => agent = agent_called(&parser.value()?.string()?)?,
            Long("quick") => quick = true,
            Long("focus") => focus = Some(parser.value()?.string()?),
            Long("skip") => skip = Some(parser.value()?.string()?),
            Long("procs") => processes = parser.value()?.parse()?,
            Long("minutes") => minutes = Some(parser.value()?.parse()?),
            Long("commit") => commit = parser.value()?.string()?,
            Long("date") => date = parser.value()?.string()?,
            other => return Err(other.unexpected()).context(USAGE),
        }
    }
    Ok(Settings {
        docs: docs.context(USAGE)?,
        results: results.context(USAGE)?,
        agent,
        selection: Selection::new(quick, focus, skip),
        processes,
        minutes: minutes.unwrap_or(if quick { 15 } else { 60 }),
        commit,
        date,
    })
}

fn agent_called(name: &str) -> Result<Agent> {
    match name {
        "ferrolet" | "" => Ok(Agent::Ferrolet),
        "upstream" => Ok(Agent::Upstream),
        other => bail!("there is no agent {other:?}: it is ferrolet or upstream"),
    }
}

/// Runs the suite; returns whether no spec failed that passed before.
fn run(settings: &Settings) -> Result<bool> {
    let store = Store::at(settings.docs.clone());
    // An unreadable list is an error before the run.
    let stored = store.read()?;
    let results = settings.results.join(settings.agent.name());
    store::make_empty(&results)?;
    println!("logs and output of failed specs: {}", results.display());
    let report = play(settings, &results)?;
    store::write_failures(&report, &results.join("failures"))?;
    for failure in &report.suite_failures {
        println!("the suite itself failed: {failure}");
    }
    let whole = settings.selection == Selection::Whole;
    let judgement = judge(&report.outcomes(), &stored, whole);
    print(settings, &judgement, &results);
    if report.specs.is_empty() {
        bail!("no spec ran");
    }
    store.update_lists(settings.agent, stored, &report)?;
    if report.not_run() > 0 {
        println!(
            "FAILED: {} of {} specs did not run in {} min; MINUTES sets the limit",
            report.not_run(),
            report.selected,
            settings.minutes
        );
        return Ok(false);
    }
    if settings.selection != Selection::Quick {
        let run = Run {
            agent: settings.agent.name(),
            selection: &settings.selection.name(),
            commit: &settings.commit,
            date: &settings.date,
        };
        store.update_page(&run, &judgement)?;
    }
    Ok(settings.agent == Agent::Upstream || judgement.regressions() == 0)
}

/// Starts the cluster, runs the suite in it and stops it. Signals end it early.
fn play(settings: &Settings, results: &Path) -> Result<Report> {
    let interrupted = Arc::new(AtomicBool::new(false));
    for signal in [SIGHUP, SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&interrupted)).context("catch signals")?;
    }
    let on_step = |step: &str| {
        if interrupted.load(Ordering::Relaxed) {
            bail!("interrupted");
        }
        if !step.is_empty() {
            println!("{step}");
        }
        Ok(())
    };
    let cluster = Cluster::start(settings.agent, &on_step)?;
    let (processes, minutes) = (settings.processes, settings.minutes);
    let suite = Suite { selection: &settings.selection, processes, minutes, results };
    let report = cluster.wait_schedulable(&on_step).and_then(|()| {
        println!("running specs: {}", settings.selection.name());
        suite.run(&cluster, &on_step)
    });
    cluster.copy_logs(results)?;
    println!("stopping the cluster");
    cluster.stop().context("stop the cluster")?;
    report
}

fn print(settings: &Settings, judgement: &Judgement, results: &Path) {
    println!();
    for miss in &judgement.misses {
        println!("{}", line(miss));
        if miss.outcome == Some(Outcome::Failed) {
            println!(
                "    {}",
                results.join("failures").join(store::file_name(&miss.name)).display()
            );
        }
    }
    if settings.agent == Agent::Ferrolet {
        for name in &judgement.new {
            println!("new     passes for the first time  {name}");
        }
    }
    let Judgement { passed, failed, skipped, upstream_passed, .. } = judgement;
    println!(
        "{}: {passed} passed, {failed} failed, {skipped} skipped; upstream passes {upstream_passed} of them",
        settings.agent.name()
    );
    match judgement.regressions() {
        0 => {}
        _ if settings.agent == Agent::Upstream => {}
        number => println!("FAILED: {number} specs that passed before"),
    }
}

fn line(miss: &MissedSpec) -> String {
    let outcome = miss.outcome.map_or("not run", Outcome::name);
    let upstream = miss.upstream.map_or("unknown", Outcome::name);
    let before = if miss.regression { "; PASSED BEFORE" } else { "" };
    format!("{outcome} (upstream: {upstream}{before})  {}", miss.name)
}
