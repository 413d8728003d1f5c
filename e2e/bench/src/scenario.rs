//! One agent in one scenario, from its start to its end.

use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use jiff::Timestamp;
use testbed::wait;
use testkit::proxy::Count;

use crate::agent::{self, Running};
use crate::deaths;
use crate::place::{Place, START, Stage};
use crate::plan::Scenario;
use crate::results::{Agent, Converged, Run, Steady};
use crate::turn::Player;
use crate::usage::{self, Sleeper};

/// The timeout per pod, and the shortest one, until all pods run.
const EACH: Duration = Duration::from_secs(1);
const AT_LEAST: Duration = Duration::from_mins(2);

/// The calls so far, by method.
type Counts = BTreeMap<&'static str, Count>;

/// Runs a scenario with an agent, and removes everything afterwards.
pub fn play(
    place: &Place,
    scenario: &Scenario,
    agent: Agent,
    round: u32,
    player: Player<'_>,
) -> Result<Run> {
    let stage = place.stage()?;
    agent::prepare(&stage.directories, &stage.socket, scenario.on, scenario.pods)?;
    let outcome = Actor { stage: &stage, scenario, agent, player: &player }.play(round);
    if outcome.is_ok() {
        player.done();
    }
    // The first error matters more than one of the cleanup.
    let cleared = stage.clear().context("clear the stage");
    let run = outcome?;
    cleared?;
    Ok(run)
}

/// An agent in a scenario.
struct Actor<'a> {
    stage: &'a Stage<'a>,
    scenario: &'a Scenario,
    agent: Agent,
    player: &'a Player<'a>,
}

impl Actor<'_> {
    fn play(&self, round: u32) -> Result<Run> {
        let running = self.start()?;
        let acted = running.explained(self.act(&running, round));
        let stopped = running.stop().context("stop the agent");
        let mut run = acted?;
        stopped?;
        if self.scenario.died_meanwhile > 0 {
            run.restart = Some(self.restart()?);
        }
        Ok(run)
    }

    fn start(&self) -> Result<Running> {
        let place = self.stage.place;
        Running::start(place.instance(), place.programs(), self.agent, &self.stage.directories)
    }

    fn act(&self, running: &Running, round: u32) -> Result<Run> {
        let start = self.converged(running, &Counts::new(), self.scenario.pods)?;
        self.check()?;
        self.player.together()?;
        let sleeper = Sleeper::start(self.scenario.warm_up + self.scenario.window)?;
        thread::sleep(self.scenario.warm_up);
        let steady = self.steady(running, &sleeper)?;
        self.check()?;
        self.player.together()?;
        let deaths = deaths::play(self.stage, self.scenario.deaths)?;
        self.player.together()?;
        Ok(Run {
            round,
            scenario: self.scenario.name.clone(),
            agent: self.agent,
            start,
            steady,
            deaths,
            restart: None,
        })
    }

    /// Waits until `containers` more were started since `before`; with zero, until the agent has listed the runtime.
    fn converged(
        &self,
        running: &Running,
        before: &Counts,
        containers: usize,
    ) -> Result<Converged> {
        let script = self.stage.proxy.script();
        let done = |counts: &Counts, method: &str| counts.get(method).map_or(0, |one| one.done);
        let wanted = containers as u64;
        let patience = AT_LEAST + EACH * u32::try_from(containers)?;
        let what = format!("{} has {containers} containers started", self.agent.name());
        let counts = wait::until(&what, patience, || {
            let counts = script.counts();
            let started = done(&counts, START) - done(before, START);
            let looked = done(&counts, "ListPodSandbox") > done(before, "ListPodSandbox");
            Ok(if started >= wanted && looked {
                Ok(counts)
            } else {
                Err(format!("{started} of {containers}"))
            })
        })?;
        let cpu_seconds = usage::cpu(running.pid)?.as_secs_f64();
        let last = script.done(START).last().copied().filter(|_| containers > 0);
        let last = last.unwrap_or_else(Timestamp::now);
        Ok(Converged {
            containers,
            seconds: last.duration_since(running.since).as_secs_f64(),
            cpu_seconds,
            calls: calls(before, &counts).values().sum(),
        })
    }

    /// Checks that all pods run with one container each, as the runtime reports it.
    fn check(&self) -> Result<()> {
        let running = self.stage.runtime.running()?;
        let (found, wanted) = (running.len(), self.scenario.pods);
        ensure!(found == wanted, "{found} pods run, not {wanted}");
        Ok(())
    }

    fn steady(&self, running: &Running, sleeper: &Sleeper) -> Result<Steady> {
        let (script, asleep) = (self.stage.proxy.script(), sleeper.cpu()?);
        let (cpu, counts, since) = (usage::cpu(running.pid)?, script.counts(), Instant::now());
        thread::sleep(self.scenario.window);
        let (cpu_then, counts_then) = (usage::cpu(running.pid)?, script.counts());
        let seconds = since.elapsed().as_secs_f64();
        let bytes = |counts: &Counts| {
            counts.values().fold((0, 0), |(sent, received), one| {
                (sent + one.request_bytes, received + one.answer_bytes)
            })
        };
        let (before, after) = (bytes(&counts), bytes(&counts_then));
        Ok(Steady {
            seconds,
            cpu_seconds: cpu_then.saturating_sub(cpu).as_secs_f64(),
            memory: usage::memory(running.pid)?,
            calls: calls(&counts, &counts_then),
            sent_bytes: after.0 - before.0,
            received_bytes: after.1 - before.1,
            asleep: Some(sleeper.since(asleep)?),
        })
    }

    /// Kills some containers while no agent runs, and starts the agent.
    fn restart(&self) -> Result<Converged> {
        let running = self.stage.runtime.running()?;
        let died = self.scenario.died_meanwhile;
        ensure!(running.len() >= died, "only {} containers can die", running.len());
        // Spread over all pods, so that the agent's order does not matter.
        for id in running.values().step_by(running.len() / died).take(died) {
            self.stage.kill_hollow(id)?;
        }
        let before = self.stage.proxy.script().counts();
        let agent = self.start()?;
        let converged = agent.explained(self.converged(&agent, &before, died));
        let checked = converged.and_then(|converged| self.check().map(|()| converged));
        let stopped = agent.stop().context("stop the agent");
        let converged = checked?;
        stopped.map(|()| converged)
    }
}

/// The calls between two counts.
fn calls(before: &Counts, after: &Counts) -> BTreeMap<String, u64> {
    let earlier = |method: &str| before.get(method).map_or(0, |one| one.calls);
    let each =
        after.iter().map(|(method, one)| ((*method).to_owned(), one.calls - earlier(method)));
    each.filter(|(_, calls)| *calls > 0).collect()
}
