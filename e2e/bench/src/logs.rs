//! The cost of container logs for an agent.
//!
//! An agent runs the same containers in three instances of the testbed at the same time. In two of them every container
//! writes a line per second. One of these agents rotates logs with default settings, the other does not rotate them.
//! The difference of their CPU is the cost of logs. In the third instance the containers write nothing and rotation has
//! default settings: there the system calls with the name of a log are counted.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use serde::{Deserialize, Serialize};
use testbed::wait;

use crate::agent::{self, Programs, Running};
use crate::machine::round_start;
use crate::place::{Place, START, Stage};
use crate::plan::On;
use crate::results::{About, Agent};
use crate::rounds::{Session, about};
use crate::trace::file_calls;
use crate::turn::{FOLLOWED, Player, Turn};
use crate::usage;

/// The time limit for the start of all containers.
const PATIENCE: Duration = Duration::from_mins(5);

/// The directory in which the runtime writes logs.
const LOGS: &str = "/var/log/pods/";

/// The containers and times of a round.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogsPlan {
    /// The number of rounds.
    pub rounds: u32,
    /// The number of pods in each instance.
    pub pods: usize,
    /// The number of containers of each pod.
    pub containers: usize,
    /// The time between the start of all containers and the measurement of CPU.
    pub warm_up_seconds: u64,
    /// The time in which CPU is measured.
    pub window_seconds: u64,
    /// The time in which system calls are counted afterwards. Zero disables the count.
    pub trace_seconds: u64,
}

impl LogsPlan {
    /// The plan of `make bench`.
    pub fn full(rounds: u32) -> Self {
        Self {
            rounds,
            pods: 20,
            containers: 10,
            warm_up_seconds: 40,
            window_seconds: 120,
            trace_seconds: 20,
        }
    }

    /// A small plan that shows that everything works.
    pub fn tiny() -> Self {
        Self {
            rounds: 1,
            pods: 1,
            containers: 2,
            warm_up_seconds: 0,
            window_seconds: 1,
            trace_seconds: 0,
        }
    }
}

/// The output of the containers, and whether the agent rotates their logs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Setting {
    /// A line per second, with rotation.
    Rotated,
    /// A line per second, without rotation.
    Unrotated,
    /// Nothing, with rotation.
    Quiet,
}

impl Setting {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Rotated, Self::Unrotated, Self::Quiet];

    /// The name in progress messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Rotated => "rotated",
            Self::Unrotated => "unrotated",
            Self::Quiet => "quiet",
        }
    }

    fn args(self) -> &'static str {
        match self {
            Self::Rotated | Self::Unrotated => "[logs, --rate, \"1\"]",
            Self::Quiet => "[sleep, forever]",
        }
    }

    fn is_traced(self) -> bool {
        self != Self::Unrotated
    }
}

/// The results of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LogsResults {
    /// Machine, versions and time.
    pub about: About,
    /// The plan.
    pub plan: LogsPlan,
    /// The runs, in the order in which they were measured.
    pub runs: Vec<LogsRun>,
}

/// One agent with one setting in one round.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LogsRun {
    /// From 1.
    pub round: u32,
    /// The agent.
    pub agent: Agent,
    /// The setting.
    pub setting: Setting,
    /// The length of the window.
    pub seconds: f64,
    /// CPU time of the agent in the window.
    pub cpu_seconds: f64,
    /// Resident memory at the end of the window.
    pub rss_bytes: u64,
    /// Calls to the runtime in the window, by method.
    pub calls: BTreeMap<String, u64>,
    /// System calls afterwards with a file name below the directory of logs. `None` if they were not counted.
    pub file_calls: Option<u64>,
}

/// Measures a plan and prints every step on standard error.
pub fn play(plan: &LogsPlan, programs: &Programs, session: &Session) -> Result<LogsResults> {
    let since = Instant::now();
    let mut about = about(programs, &session.commit)?;
    let places =
        Setting::ALL.map(|setting| (setting, Place::start(programs.clone(), On::Containerd)));
    let places = places.into_iter().map(|(setting, place)| Ok((setting, place?)));
    let places: Vec<(Setting, Place)> = places.collect::<Result<_>>()?;
    let mut runs = Vec::new();
    for round in 1..=plan.rounds {
        about.rounds.push(round_start(session.patience)?);
        for agent in Agent::BOTH {
            let measured = turn(plan, &places, agent, round);
            runs.extend(measured.with_context(|| format!("round {round}, {}", agent.name()))?);
        }
    }
    for (_, place) in places {
        place.stop().context("stop an instance")?;
    }
    about.seconds = since.elapsed().as_secs_f64();
    Ok(LogsResults { about, plan: plan.clone(), runs })
}

/// An agent with all settings at the same time.
fn turn(
    plan: &LogsPlan,
    places: &[(Setting, Place)],
    agent: Agent,
    round: u32,
) -> Result<Vec<LogsRun>> {
    let turn = Turn::of(places.len());
    let results: Vec<Result<LogsRun>> = thread::scope(|scope| {
        let measure = |(setting, place)| {
            let actor = Actor { plan, place, agent, round, setting, player: turn.join() };
            scope.spawn(move || actor.play())
        };
        let all = places.iter().map(|(setting, place)| (*setting, place));
        let measuring: Vec<_> = all.map(measure).collect();
        let ended = measuring.into_iter().map(|one| one.join().map_err(|_| anyhow!("panicked")));
        ended.map(Result::flatten).collect()
    });
    let (runs, errors): (Vec<_>, Vec<_>) = results.into_iter().partition(Result::is_ok);
    // A failure stops the others, whose errors only report that.
    let is_first = |error: &Result<LogsRun>| !format!("{error:?}").contains(FOLLOWED);
    let (first, followed): (Vec<_>, Vec<_>) = errors.into_iter().partition(is_first);
    if let Some(error) = first.into_iter().chain(followed).next() {
        error?;
    }
    runs.into_iter().collect()
}

/// An agent with one setting.
struct Actor<'a> {
    plan: &'a LogsPlan,
    place: &'a Place,
    agent: Agent,
    round: u32,
    setting: Setting,
    player: Player<'a>,
}

impl Actor<'_> {
    fn play(self) -> Result<LogsRun> {
        let stage = self.place.stage()?;
        self.prepare(&stage)?;
        let programs = self.place.programs();
        let started =
            Running::start(self.place.instance(), programs, self.agent, &stage.directories);
        let measured = started.and_then(|running| {
            let measured = running.explained(self.measure(&stage, &running));
            running.stop().context("stop the agent")?;
            measured
        });
        let setting = self.setting.name();
        // The others continue after success, and stop after a failure.
        match &measured {
            Ok(_) => self.player.done(),
            Err(_) => drop(self.player),
        }
        let cleared = stage.clear().context("clean up the stage");
        let run = measured.context(setting)?;
        cleared?;
        report(&run);
        Ok(run)
    }

    fn prepare(&self, stage: &Stage<'_>) -> Result<()> {
        let directories = &stage.directories;
        agent::prepare(directories, &stage.socket, On::Containerd, 0)?;
        if self.setting == Setting::Unrotated {
            let config = agent::configuration(directories, &stage.socket, On::Containerd);
            fs::write(&directories.config, format!("{config}containerLogMaxSize: \"-1\"\n"))
                .context("write the agent's configuration")?;
        }
        write_manifests(self.plan, self.setting, &directories.manifests)
    }

    fn measure(&self, stage: &Stage<'_>, running: &Running) -> Result<LogsRun> {
        let (plan, script) = (self.plan, stage.proxy.script());
        let containers = (plan.pods * plan.containers) as u64;
        wait::until("all containers are started", PATIENCE, || {
            let started = script.counts().get(START).map_or(0, |count| count.done);
            let is_done = started >= containers;
            Ok(if is_done { Ok(()) } else { Err(format!("{started} of {containers}")) })
        })?;
        self.player.together()?;
        thread::sleep(Duration::from_secs(plan.warm_up_seconds));
        let (cpu, counts, since) = (usage::cpu(running.pid)?, script.counts(), Instant::now());
        thread::sleep(Duration::from_secs(plan.window_seconds));
        let (cpu_then, counts_then) = (usage::cpu(running.pid)?, script.counts());
        let (seconds, rss_bytes) =
            (since.elapsed().as_secs_f64(), usage::memory(running.pid)?.rss_bytes);
        self.player.together()?;
        let file_calls = self.file_calls(running)?;
        self.player.together()?;
        let before = |method: &str| counts.get(method).map_or(0, |count| count.calls);
        let calls =
            counts_then.iter().map(|(method, count)| (*method, count.calls - before(method)));
        Ok(LogsRun {
            round: self.round,
            agent: self.agent,
            setting: self.setting,
            seconds,
            cpu_seconds: cpu_then.saturating_sub(cpu).as_secs_f64(),
            rss_bytes,
            calls: calls
                .filter(|(_, calls)| *calls > 0)
                .map(|(method, calls)| (method.to_owned(), calls))
                .collect(),
            file_calls,
        })
    }

    fn file_calls(&self, running: &Running) -> Result<Option<u64>> {
        let time = Duration::from_secs(self.plan.trace_seconds);
        let is_counted = self.setting.is_traced() && !time.is_zero();
        is_counted.then(|| file_calls(self.place, running.pid, LOGS, time)).transpose()
    }
}

fn write_manifests(plan: &LogsPlan, setting: Setting, directory: &Path) -> Result<()> {
    for pod in 0..plan.pods {
        let mut manifest = format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: pod-{pod}, namespace: default}}\n\
             spec:\n  terminationGracePeriodSeconds: 1\n  containers:\n"
        );
        for container in 0..plan.containers {
            let args = setting.args();
            writeln!(
                manifest,
                "  - {{name: c{container}, image: 'ferrolet.test/workload:1', args: {args}}}"
            )?;
        }
        fs::write(directory.join(format!("pod-{pod}.yaml")), manifest)
            .context("write a manifest")?;
    }
    Ok(())
}

fn report(run: &LogsRun) {
    let LogsRun { round, agent, setting, seconds, cpu_seconds, rss_bytes, file_calls, .. } = run;
    eprintln!(
        "round {round} logs {:<9} {:<9} {cpu_seconds:.3} CPU s in {seconds:.0} s, {} MiB, file calls: {file_calls:?}",
        agent.name(),
        setting.name(),
        rss_bytes >> 20,
    );
}
