//! The Pod GC controller and the controller manager with no other controller, on the same API server full of pods:
//! memory, the cost of a quiet minute, and the rate of deletions of terminated pods.

mod contender;
mod population;

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use testbed::{ControlPlaneOptions, Instance, Options, Runtime};

use self::contender::Controller;
pub use self::contender::Programs;
use self::population::Population;
use crate::machine::{date, machine, round_start};
use crate::results::{About, Agent, Asleep, Memory};
use crate::rounds::Session;
use crate::usage::{self, Sleeper};

/// The numbers of pods, with the permitted percentage of the controller manager's memory.
pub const TARGETS: [(usize, f64); 3] = [(10_000, 0.15), (50_000, 0.1), (150_000, 0.1)];

/// The namespace of the terminated pods.
const DONE: &str = "done";
/// The timeout of the deletion of all of them.
const PATIENCE: Duration = Duration::from_mins(10);
const PAUSE: Duration = Duration::from_millis(200);

/// With these flags, only the API server limits how fast a controller deletes.
const AS_FAST_AS_IT_CAN: [&str; 3] =
    ["--terminated-pod-gc-threshold=1", "--kube-api-qps=10000", "--kube-api-burst=10000"];

/// The plan of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PodGcPlan {
    /// The numbers of pods, one after the other.
    pub populations: Vec<usize>,
    /// The seconds that a controller has to become quiet.
    pub warm_up_seconds: u64,
    /// The seconds that are measured while nothing happens.
    pub quiet_seconds: u64,
    /// The number of terminated pods that are deleted in a round.
    pub deletions: usize,
    /// The number of such rounds. Each has a turn of both controllers and of bare calls.
    pub deletion_rounds: usize,
}

impl PodGcPlan {
    /// The plan of `make bench`.
    pub fn full() -> Self {
        let populations = TARGETS.iter().map(|(pods, _)| *pods).collect();
        Self {
            populations,
            warm_up_seconds: 90,
            quiet_seconds: 120,
            deletions: 1000,
            deletion_rounds: 4,
        }
    }

    /// A small plan that shows that everything works.
    pub fn tiny() -> Self {
        let populations = vec![30];
        Self {
            populations,
            warm_up_seconds: 3,
            quiet_seconds: 2,
            deletions: 10,
            deletion_rounds: 2,
        }
    }
}

/// The results of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PodGcResults {
    /// Where and when.
    pub about: About,
    /// The plan.
    pub plan: PodGcPlan,
    /// The costs of quiet controllers.
    pub quiet: Vec<Quiet>,
    /// The rates of deletions, turn by turn.
    pub deletions: Vec<Deletions>,
}

/// An idle controller.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Quiet {
    /// From 1.
    #[serde(default = "first")]
    pub round: u32,
    /// The controller's agent.
    pub agent: Agent,
    /// The number of pods.
    pub pods: usize,
    /// Its memory at the end; the peak covers the whole process lifetime.
    pub memory: Memory,
    /// CPU time until it was quiet.
    pub warm_up_cpu_seconds: f64,
    /// CPU time of a quiet minute.
    pub cpu_seconds_a_minute: f64,
    /// The usage of a sleeping process in the quiet minutes; nothing in older files.
    #[serde(default)]
    pub asleep: Option<Asleep>,
}

fn first() -> u32 {
    1
}

/// The rate of deletions of terminated pods.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Deletions {
    /// The agent that deleted them; `None` for bare calls, as fast as the server takes them.
    pub agent: Option<Agent>,
    /// The number of pods.
    pub pods: usize,
    /// From the first deleted pod to the last.
    pub seconds: f64,
}

/// Measures a plan and prints every step on standard error.
pub fn play(plan: &PodGcPlan, programs: &Programs, session: &Session) -> Result<PodGcResults> {
    let since = Instant::now();
    let mut about = about(programs, session)?;
    let bare = Options { runtime: Runtime::None, ..Options::default() };
    let instance = Instance::start(&bare).context("start an instance of the testbed")?;
    let control_plane = instance
        .start_control_plane(&ControlPlaneOptions::default())
        .context("start a control plane")?;
    let kubeconfig = control_plane.admin_kubeconfig().clone();
    let mut population = Population::new(&kubeconfig)?;
    let mut quiet = Vec::new();
    for pods in &plan.populations {
        eprintln!("{pods} pods");
        population.grow(*pods).with_context(|| format!("make {pods} pods"))?;
        for agent in Agent::BOTH {
            let controller = Controller::start(&instance, programs, agent, &kubeconfig, &[])?;
            quiet.push(measured(plan, &controller, agent, *pods)?);
            controller.stop()?;
        }
    }
    let deletions = deletions(plan, &mut population, |agent| {
        Controller::start(&instance, programs, agent, &kubeconfig, &AS_FAST_AS_IT_CAN)
    })?;
    drop(control_plane);
    instance.stop().context("stop an instance")?;
    about.seconds = since.elapsed().as_secs_f64();
    Ok(PodGcResults { about, plan: plan.clone(), quiet, deletions })
}

/// The order of turns in a round. Each contender is as often before another as behind it.
fn turns(round: usize) -> [Option<Agent>; 3] {
    let turns = [Some(Agent::Ferrolet), None, Some(Agent::Upstream)];
    if round.is_multiple_of(2) { turns } else { [turns[2], turns[1], turns[0]] }
}

/// Measures the deletion of terminated pods, turn by turn.
fn deletions(
    plan: &PodGcPlan,
    population: &mut Population,
    start: impl Fn(Agent) -> Result<Controller>,
) -> Result<Vec<Deletions>> {
    // The first deletions of a server are slower: they are not measured.
    population.terminated(DONE, plan.deletions).context("make terminated pods")?;
    population.delete_all(DONE)?;
    let mut deletions = Vec::new();
    for agent in (0..plan.deletion_rounds).flat_map(turns) {
        population.terminated(DONE, plan.deletions).context("make terminated pods")?;
        let seconds = match agent {
            Some(agent) => {
                let controller = start(agent)?;
                let seconds = until_gone(population, plan.deletions)?;
                controller.stop()?;
                seconds
            }
            None => population.delete_all(DONE)?,
        };
        let name = agent.map_or("bare calls", Agent::name);
        eprintln!("  {name}: {} pods gone in {seconds:.1} s", plan.deletions);
        deletions.push(Deletions { agent, pods: plan.deletions, seconds });
        population.delete_all(DONE)?;
    }
    Ok(deletions)
}

fn about(programs: &Programs, session: &Session) -> Result<About> {
    Ok(About {
        commit: session.commit.clone(),
        date: date(),
        seconds: 0.0,
        ferrolet: programs.version(Agent::Ferrolet)?,
        upstream: programs.version(Agent::Upstream)?,
        machine: machine()?,
        binary: String::new(),
        rounds: vec![round_start(session.patience)?],
    })
}

fn measured(plan: &PodGcPlan, controller: &Controller, agent: Agent, pods: usize) -> Result<Quiet> {
    let sleeper = Sleeper::start(Duration::from_secs(plan.warm_up_seconds + plan.quiet_seconds))?;
    thread::sleep(Duration::from_secs(plan.warm_up_seconds));
    let (before, asleep) = (usage::cpu(controller.pid)?, sleeper.cpu()?);
    thread::sleep(Duration::from_secs(plan.quiet_seconds));
    let spent = usage::cpu(controller.pid)?.saturating_sub(before);
    let memory = usage::memory(controller.pid)?;
    let mebibytes = memory.rss_bytes >> 20;
    eprintln!(
        "  {}: {mebibytes} MiB, {:.3} s of CPU while quiet",
        agent.name(),
        spent.as_secs_f64()
    );
    #[expect(clippy::cast_precision_loss, reason = "a few minutes")]
    let minutes = plan.quiet_seconds as f64 / 60.0;
    Ok(Quiet {
        round: first(),
        agent,
        pods,
        memory,
        warm_up_cpu_seconds: before.as_secs_f64(),
        cpu_seconds_a_minute: spent.as_secs_f64() / minutes,
        asleep: Some(sleeper.since(asleep)?),
    })
}

/// The time from the first deleted pod until one is left, which the threshold keeps.
fn until_gone(population: &Population, all: usize) -> Result<f64> {
    let end = Instant::now() + PATIENCE;
    let mut begun = None;
    loop {
        let left = population.count(DONE)?;
        if left < all && begun.is_none() {
            begun = Some(Instant::now());
        }
        if left <= 1 {
            let begun = begun.unwrap_or_else(Instant::now);
            return Ok(begun.elapsed().as_secs_f64());
        }
        anyhow::ensure!(Instant::now() < end, "{left} pods are left after {PATIENCE:?}");
        thread::sleep(PAUSE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_of_turns_is_reversed_each_round() {
        let (even, odd) = (turns(0), turns(1));
        assert_eq!((even[0], even[2]), (odd[2], odd[0]));
        assert_eq!(turns(2), even);
        assert!(PodGcPlan::full().deletion_rounds.is_multiple_of(2));
    }
}
