//! The program `sim`: runs histories.

use std::path::Path;
use std::process::{Command, ExitCode};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use lexopt::prelude::*;
use sim::mutations::pod_gc::TESTS;
use sim::mutations::{Mutation, Share, copy_tree, select, source_tree};
use sim::plan::Plan;
use sim::run::{Report, run};
use sim::shrink::shrink;
use tokio::time::Instant;

const USAGE: &str = "\
usage: sim [--seed N [--shrink] | --from N [--count N]] [OPTION...]
  Runs the whole agent through histories with many faults, in memory.

  --seed N         one history, with its plan
  --from N         histories from this seed on (1)
  --count N        the number of histories (200)
  --seconds N      starts no history after this time; fails if fewer than --count ran
  --jobs N         histories in parallel (1)
  --shrink         shortens a failed history to its relevant steps
  --plain          leaves out actions that were added later, as for old stored seeds
  --trace          prints the trace, of a successful history too
  --verbose        prints a line per history
  --keep-going     continues after a failure, and prints a line per history
  --mutants DIR    applies each of a list of mutations to a copy of the source at DIR, and checks whether
                   --count histories find it; for the Pod GC controller, its tests
  --only TEXT      only mutations whose file path or name contains this
  --set NAME       only mutations of the set pods, gc or pod-gc
  --share K/N      only the Kth of N shares of about equal size

  Exits with 1 if an invariant broke, with the trace and the command for that history, or if there was no
  time for all histories.";

/// The output for histories.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Show {
    /// Failures.
    Failures,
    /// One line per history.
    Lines,
    /// The plan, and the line.
    Plan,
    /// Like `Plan`, for a shorter history with the same failure.
    Shrunk,
}

#[derive(Debug)]
struct Options {
    from: u64,
    count: u64,
    show: Show,
    seconds: Option<u64>,
    jobs: u64,
    plain: bool,
    trace: bool,
    keep_going: bool,
    mutants: Option<std::path::PathBuf>,
    only: String,
    set: String,
    share: Share,
}

impl Options {
    fn parse() -> Result<Option<Self>> {
        let mut options = Self {
            from: 1,
            count: 200,
            show: Show::Failures,
            seconds: None,
            jobs: 1,
            plain: false,
            trace: false,
            keep_going: false,
            mutants: None,
            only: String::new(),
            set: String::new(),
            share: Share::ALL,
        };
        let mut arguments = lexopt::Parser::from_env();
        while let Some(argument) = arguments.next()? {
            match argument {
                Long("seed") => {
                    options.from = arguments.value()?.parse()?;
                    options.count = 1;
                    if options.show == Show::Failures {
                        options.show = Show::Plan;
                    }
                }
                Long("from") => options.from = arguments.value()?.parse()?,
                Long("count") => options.count = arguments.value()?.parse()?,
                Long("seconds") => options.seconds = Some(arguments.value()?.parse()?),
                Long("jobs") => options.jobs = arguments.value()?.parse()?,
                Long("shrink") => options.show = Show::Shrunk,
                Long("plain") => options.plain = true,
                Long("trace") => options.trace = true,
                Long("verbose") => options.show = Show::Lines,
                Long("keep-going") => options.keep_going = true,
                Long("mutants") => options.mutants = Some(arguments.value()?.into()),
                Long("only") => options.only = arguments.value()?.parse()?,
                Long("set") => options.set = arguments.value()?.parse()?,
                Long("share") => options.share = arguments.value()?.parse()?,
                Long("help") | Short('h') => return Ok(None),
                _ => return Err(argument.unexpected().into()),
            }
        }
        Ok(Some(options))
    }
}

fn main() -> ExitCode {
    let done = match Options::parse() {
        Ok(None) => {
            println!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        Err(error) => {
            eprintln!("sim: {error}\n\n{USAGE}");
            return ExitCode::from(2);
        }
        Ok(Some(options)) => match &options.mutants {
            Some(tree) => mutants(&options, tree),
            None => Ok(histories(&options)),
        },
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("sim: {error:#}");
            ExitCode::from(2)
        }
    }
}

/// Runs histories; returns whether all succeeded. Stops at the first failure.
fn histories(options: &Options) -> bool {
    let began = Instant::now();
    let next = AtomicU64::new(0);
    let total = Mutex::new(Total::default());
    let is_over = || {
        let late = options.seconds.is_some_and(|most| began.elapsed() > Duration::from_secs(most));
        late || !options.keep_going && total.lock().is_ok_and(|total| total.failed)
    };
    std::thread::scope(|scope| {
        for _ in 0..options.jobs.max(1) {
            scope.spawn(|| {
                while !is_over() {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= options.count {
                        return;
                    }
                    let well = history(options, options.from + number);
                    if let Ok(mut total) = total.lock() {
                        total.add(well);
                    }
                }
            });
        }
    });
    let total = total.into_inner().unwrap_or_default();
    println!("{total} in {:.1?}", began.elapsed());
    if !total.failed && total.histories < options.count {
        println!("only {} of {} histories ran: time limit reached", total.histories, options.count);
        return false;
    }
    !total.failed
}

fn show_plan(plan: &Plan) {
    for step in &plan.steps {
        println!("plan {:>7.1}s  {}", step.at.as_secs_f64(), step.what);
    }
}

/// Runs one history and prints it; `None` if it failed.
fn history(options: &Options, seed: u64) -> Option<Report> {
    let plan = if options.plain { Plan::plain(seed) } else { Plan::new(seed) };
    if options.show == Show::Shrunk
        && let Some((shorter, failure)) = shrink(&plan)
    {
        show_plan(&shorter);
        println!("{failure}");
        return None;
    }
    if options.show == Show::Plan {
        show_plan(&plan);
    }
    match run(&plan) {
        Ok((report, trace)) => {
            if options.trace {
                print!("{trace}");
            }
            if options.show != Show::Failures {
                println!("{report}");
            }
            Some(report)
        }
        Err(failure) if options.keep_going => {
            println!("seed {seed}: BROKEN: {}", failure.broken);
            None
        }
        Err(failure) => {
            println!("{failure}");
            None
        }
    }
}

/// The totals of many histories.
#[derive(Debug)]
struct Total {
    histories: u64,
    failed: bool,
    pods: usize,
    least_pods: usize,
    faults: usize,
    least_faults: usize,
    kills: usize,
    least_kills: usize,
    slowest: Duration,
}

impl Default for Total {
    fn default() -> Self {
        Self {
            histories: 0,
            failed: false,
            pods: 0,
            least_pods: usize::MAX,
            faults: 0,
            least_faults: usize::MAX,
            kills: 0,
            least_kills: usize::MAX,
            slowest: Duration::ZERO,
        }
    }
}

impl Total {
    fn add(&mut self, report: Option<Report>) {
        let Some(report) = report else {
            self.failed = true;
            return;
        };
        let (faults, kills) = (report.faults_in_all(), report.kills());
        self.histories += 1;
        self.pods += report.pods;
        self.faults += faults;
        self.kills += kills;
        self.least_pods = self.least_pods.min(report.pods);
        self.least_faults = self.least_faults.min(faults);
        self.least_kills = self.least_kills.min(kills);
        self.slowest = self.slowest.max(report.settled_after);
        if !report.has_enough_events() {
            println!("too few events: {report}");
            self.failed = true;
        }
    }
}

impl std::fmt::Display for Total {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { histories, pods, least_pods, faults, least_faults, kills, least_kills, .. } =
            self;
        if *histories == 0 {
            return f.write_str("no history succeeded");
        }
        write!(
            f,
            "{histories} histories passed, with {pods} pods (at least {least_pods} in each), {faults} \
             faults that fired (at least {least_faults}) and {kills} killed agents (at least \
             {least_kills}); settled at most {}s after the last fault;",
            self.slowest.as_secs()
        )
    }
}

/// Whether every mutation is found.
fn mutants(options: &Options, tree: &Path) -> Result<bool> {
    let chosen = select(&options.set, &options.only, options.share);
    ensure!(!chosen.is_empty(), "no fault matches --set, --only and --share");
    let inner = copy_tree(&source_tree(), tree)?;
    let mut all = true;
    for (set, mutation) in chosen {
        all &= is_found(&inner, mutation, || match set {
            "pod-gc" => tests_find(tree, mutation),
            _ => finds(options, tree, mutation),
        })?;
    }
    Ok(all)
}

/// Whether a mutation is found, and by which check.
fn is_found(
    inner: &Path,
    mutation: &Mutation,
    look: impl FnOnce() -> Result<Option<String>>,
) -> Result<bool> {
    let undo = mutation.apply(inner)?;
    let found = look();
    undo.undo()?;
    let found = found?;
    println!("mutant {}: {}", found.as_deref().unwrap_or("NOT FOUND"), mutation.name);
    Ok(found.is_some())
}

/// The test of the Pod GC controller that fails with a mutation; `None` if all pass.
fn tests_find(tree: &Path, mutation: &Mutation) -> Result<Option<String>> {
    for (package, test) in TESTS {
        let cargo = |more: &[&str]| {
            Command::new("cargo")
                .args(["test", "--quiet", "--locked", "--profile", "sim"])
                .args(["-p", package, "--test", "it"])
                .args(more)
                .current_dir(tree)
                .output()
                .context("run cargo")
        };
        let built = cargo(&["--no-run"])?;
        let stderr = String::from_utf8_lossy(&built.stderr);
        ensure!(built.status.success(), "{} does not build: {stderr}", mutation.name);
        if !cargo(&["--", &format!("{test}::")])?.status.success() {
            return Ok(Some(format!("found by the {test} of {package}")));
        }
    }
    Ok(None)
}

/// The output of a simulator that was built with a mutation; `None` if all its histories succeed.
fn finds(options: &Options, tree: &Path, mutation: &Mutation) -> Result<Option<String>> {
    let build = Command::new("cargo")
        .args(["build", "--quiet", "--locked", "--profile", "sim", "-p", "sim"])
        .current_dir(tree)
        .status()
        .context("run cargo")?;
    ensure!(build.success(), "the source does not build with this mutation: {}", mutation.name);
    let (from, count) = (options.from.to_string(), options.count.to_string());
    let jobs = options.jobs.to_string();
    let output = Command::new("cargo")
        .args(["run", "--quiet", "--locked", "--profile", "sim", "-p", "sim", "--"])
        .args(["--from", &from, "--count", &count, "--jobs", &jobs])
        .current_dir(tree)
        .output()
        .context("run cargo")?;
    let text = String::from_utf8_lossy(&output.stdout);
    let broken = text.lines().find(|line| line.contains(": BROKEN: "));
    match (output.status.code(), broken) {
        (Some(0), None) => Ok(None),
        (Some(1), Some(broken)) => Ok(Some(format!("found by {broken}"))),
        (code, _) => bail!("the simulator ended with {code:?}: {text}"),
    }
}
