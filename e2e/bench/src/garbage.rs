//! An agent on a node full of dead containers: the time until they are removed, and the cost.
//!
//! The pods are unknown to the agent, so all of them should be removed. The time of an agent is limited; the report
//! lists what is left.

use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use crate::agent::{self, Programs, Running};
use crate::machine::round_start;
use crate::place::{Place, Stage};
use crate::plan::On;
use crate::results::{About, Agent, Memory};
use crate::rounds::{Session, about};
use crate::usage;

const PAUSE: Duration = Duration::from_millis(50);

/// The number of dead containers, and the time that an agent has.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GarbagePlan {
    /// How often each agent is measured.
    pub rounds: u32,
    /// Terminated pods with one sandbox each.
    pub pods: usize,
    /// Dead instances of the container of each pod.
    pub instances: usize,
    /// The seconds that an agent has, from its start.
    pub patience_seconds: u64,
    /// The seconds that it runs on an empty node before, to measure its memory there.
    pub empty_seconds: u64,
}

impl GarbagePlan {
    /// The plan of `make bench`.
    pub fn full(rounds: u32) -> Self {
        Self { rounds, pods: 1250, instances: 20, patience_seconds: 240, empty_seconds: 10 }
    }

    /// A small plan that shows that everything works.
    pub fn tiny() -> Self {
        Self { rounds: 1, pods: 3, instances: 4, patience_seconds: 15, empty_seconds: 1 }
    }

    /// The number of dead containers.
    pub fn containers(&self) -> usize {
        self.pods * self.instances
    }
}

/// The results of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GarbageResults {
    /// Where and when.
    pub about: About,
    /// The plan.
    pub plan: GarbagePlan,
    /// The runs, in the order in which they were measured.
    pub runs: Vec<GarbageRun>,
}

/// One agent in one round.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GarbageRun {
    /// From 1.
    pub round: u32,
    /// The agent.
    pub agent: Agent,
    /// Memory of the agent on an empty node.
    pub empty: Memory,
    /// Its work on the full node.
    #[serde(flatten)]
    pub collected: Collected,
}

/// The work of an agent on dead containers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Collected {
    /// Memory at the end; the peak is that of its whole life.
    pub memory: Memory,
    /// From the start of the agent until nothing was left; `None` if its time was over before.
    pub seconds: Option<f64>,
    /// CPU time of the agent in that time.
    pub cpu_seconds: f64,
    /// Containers that were left.
    pub left: usize,
    /// Calls to the runtime, by method.
    pub calls: BTreeMap<String, u64>,
    /// Bytes of messages from the runtime.
    pub received_bytes: u64,
}

/// Measures a plan and prints every step on standard error.
pub fn play(plan: &GarbagePlan, programs: &Programs, session: &Session) -> Result<GarbageResults> {
    let since = Instant::now();
    let mut about = about(programs, &session.commit)?;
    let place = Place::start(programs.clone(), On::Hollow)?;
    let mut runs = Vec::new();
    for round in 1..=plan.rounds {
        about.rounds.push(round_start(session.patience)?);
        for agent in Agent::BOTH {
            let run = turn(&place, plan, agent, round);
            runs.push(run.with_context(|| format!("round {round}, garbage, {}", agent.name()))?);
        }
    }
    place.stop().context("stop an instance")?;
    about.seconds = since.elapsed().as_secs_f64();
    Ok(GarbageResults { about, plan: plan.clone(), runs })
}

fn turn(place: &Place, plan: &GarbagePlan, agent: Agent, round: u32) -> Result<GarbageRun> {
    let time = Duration::from_secs(plan.empty_seconds);
    let empty = on_stage(place, &[], agent, |_, running| {
        thread::sleep(time);
        usage::memory(running.pid)
    })?;
    let (pods, instances) = (plan.pods.to_string(), plan.instances.to_string());
    let options = ["--dead", &pods, "--containers", &instances];
    let run = on_stage(place, &options, agent, |stage, running| {
        let collected = collected(plan, stage, running)?;
        Ok(GarbageRun { round, agent, empty, collected })
    })?;
    let collected = &run.collected;
    let seconds =
        collected.seconds.map_or("not done".to_owned(), |seconds| format!("{seconds:.1} s"));
    eprintln!(
        "round {round} garbage {:<9} {seconds}, {:.2} CPU s, peak {} MiB ({} when empty), {} left",
        agent.name(),
        collected.cpu_seconds,
        collected.memory.peak_rss_bytes >> 20,
        run.empty.rss_bytes >> 20,
        collected.left,
    );
    Ok(run)
}

/// Runs an agent on a new stage, and clears the stage.
fn on_stage<T>(
    place: &Place,
    options: &[&str],
    agent: Agent,
    act: impl FnOnce(&Stage<'_>, &Running) -> Result<T>,
) -> Result<T> {
    let stage = place.stage_with(options)?;
    agent::prepare(&stage.directories, &stage.socket, On::Hollow, 0)?;
    let started = Running::start(place.instance(), place.programs(), agent, &stage.directories);
    let acted = started.and_then(|running| {
        let acted = running.explained(act(&stage, &running));
        running.stop().context("stop the agent")?;
        acted
    });
    let cleared = stage.clear().context("clear the stage");
    let acted = acted?;
    cleared.map(|()| acted)
}

/// Waits until nothing is left or the time is over.
fn collected(plan: &GarbagePlan, stage: &Stage<'_>, running: &Running) -> Result<Collected> {
    let script = stage.proxy.script();
    let (since, patience) = (Instant::now(), Duration::from_secs(plan.patience_seconds));
    let (containers, pods) = (plan.containers() as u64, plan.pods as u64);
    let done = |method| script.counts().get(method).map_or(0, |count| count.done);
    let mut seconds = None;
    while seconds.is_none() && since.elapsed() < patience {
        if done("RemoveContainer") >= containers && done("RemovePodSandbox") >= pods {
            seconds = Some(since.elapsed().as_secs_f64());
        } else {
            thread::sleep(PAUSE);
        }
    }
    let counts = script.counts();
    Ok(Collected {
        memory: usage::memory(running.pid)?,
        seconds,
        cpu_seconds: usage::cpu(running.pid)?.as_secs_f64(),
        left: stage.runtime.containers()?,
        calls: counts.iter().map(|(method, one)| ((*method).to_owned(), one.calls)).collect(),
        received_bytes: counts.values().map(|one| one.answer_bytes).sum(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn full_plan_has_25000_dead_containers_and_tiny_plan_few() {
        assert_eq!(GarbagePlan::full(3).containers(), 25_000);
        assert!(GarbagePlan::tiny().containers() <= 20);
    }
}
