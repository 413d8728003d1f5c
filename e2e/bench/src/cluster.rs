//! Agents as nodes of a cluster: how long pods take to be ready and to be gone, next to bare calls to the
//! runtime; what an agent asks of the API server; and what it costs with and without pods.
//!
//! ```text
//!  round: bare calls ──────────────> containerd     all in one instance of the testbed, in turns
//!         API server <─> ferrolet ─> containerd
//!         API server <─> kubelet ──> containerd
//!              └ a watch and the audit log: what was seen and asked, and when
//! ```
//! Pods are made with the node's name in them, so that no scheduler takes part. Bare calls ask for what the agents
//! ask for: a run in which one of them asks for something else fails.

mod floor;
mod node;
mod place;
mod requests;
mod watch;

use std::time::Instant;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use self::place::ClusterPlace;
pub use self::requests::{Requests, of_pods};
use crate::agent::Programs;
use crate::results::{About, Agent, Memory};
use crate::rounds::about;

/// What is played.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClusterPlan {
    /// How often it is played with each agent.
    pub rounds: u32,
    /// How many pods are made and deleted one after the other.
    pub one_by_one: usize,
    /// How many pods are made, and deleted, at once.
    pub at_once: usize,
    /// How many seconds an agent without pods has to become quiet.
    pub idle_warm_up_seconds: u64,
    /// How many seconds it has with all of them.
    pub warm_up_seconds: u64,
    /// How many quiet seconds are measured.
    pub quiet_seconds: u64,
}

impl ClusterPlan {
    /// All of it, for `make bench`.
    pub fn full(rounds: u32) -> Self {
        Self {
            rounds,
            one_by_one: 10,
            at_once: 100,
            idle_warm_up_seconds: 30,
            // Both agents look at every pod again after 60 to 90 s; then it is quiet.
            warm_up_seconds: 90,
            quiet_seconds: 120,
        }
    }

    /// The same in small, to see that everything works.
    pub fn tiny() -> Self {
        Self {
            rounds: 1,
            one_by_one: 1,
            at_once: 2,
            idle_warm_up_seconds: 0,
            warm_up_seconds: 0,
            quiet_seconds: 1,
        }
    }
}

/// All of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ClusterResults {
    /// Where and when.
    pub about: About,
    /// What was played.
    pub plan: ClusterPlan,
    /// What came out.
    pub rounds: Vec<Round>,
}

/// One round.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Round {
    /// Bare calls to the runtime.
    pub floor: Times,
    /// Our agent.
    pub ferrolet: NodeRun,
    /// The kubelet.
    pub upstream: NodeRun,
}

impl Round {
    /// What an agent did in it.
    pub fn of(&self, agent: Agent) -> &NodeRun {
        match agent {
            Agent::Ferrolet => &self.ferrolet,
            Agent::Upstream => &self.upstream,
        }
    }
}

/// How long pods took, in seconds.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Times {
    /// Each pod that was alone, from its creation until it was ready.
    pub start_one: Vec<f64>,
    /// Each of them, from its deletion until it was gone.
    pub delete_one: Vec<f64>,
    /// Many at once, from the first creation until the last was ready.
    pub start_all: f64,
    /// The same, from the first deletion until the last was gone.
    pub delete_all: f64,
}

/// What an agent did as a node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NodeRun {
    /// How long pods took.
    pub times: Times,
    /// CPU time of the agent until all pods that were made at once were ready.
    pub start_all_cpu_seconds: f64,
    /// CPU time of the agent until all of them were gone.
    pub delete_all_cpu_seconds: f64,
    /// While there was no pod.
    pub idle: Quiet,
    /// While there were many.
    pub full: Quiet,
    /// What it asked of the API server in the time of the pods that were made at once, from their creation until
    /// nothing more was asked after they were gone.
    pub requests: Requests,
}

/// What an agent costs while nothing happens.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Quiet {
    /// How long it was measured.
    pub seconds: f64,
    /// CPU time in that time.
    pub cpu_seconds: f64,
    /// Memory in the end; the peak is that of its whole life.
    pub memory: Memory,
    /// What it asked of the API server in that time.
    pub requests: Requests,
}

/// Plays a plan and tells every step on standard error.
pub fn play(plan: &ClusterPlan, programs: &Programs, commit: &str) -> Result<ClusterResults> {
    let since = Instant::now();
    let mut about = about(programs, commit)?;
    let place = ClusterPlace::start(programs)?;
    let mut rounds = Vec::new();
    for number in 1..=plan.rounds {
        let floor = floor::play(&place, plan).with_context(|| format!("round {number}, floor"));
        let (floor, bare) = floor?;
        tell(number, "floor", &floor);
        let turn = |agent: Agent| {
            let run = node::play(&place, plan, agent);
            let (run, asked) = run.with_context(|| format!("round {number}, {}", agent.name()))?;
            bare.is_what(&asked).with_context(|| agent.name().to_owned())?;
            tell(number, agent.name(), &run.times);
            tell_costs(&run, plan);
            anyhow::Ok(run)
        };
        let (ferrolet, upstream) = (turn(Agent::Ferrolet)?, turn(Agent::Upstream)?);
        rounds.push(Round { floor, ferrolet, upstream });
    }
    place.stop()?;
    about.seconds = since.elapsed().as_secs_f64();
    Ok(ClusterResults { about, plan: plan.clone(), rounds })
}

fn tell(round: u32, who: &str, times: &Times) {
    let Times { start_one, delete_one, start_all, delete_all } = times;
    eprintln!(
        "round {round} {who:<9} one {start_one:.2?} gone {delete_one:.2?} all {start_all:.2} s gone {delete_all:.2} s"
    );
}

fn tell_costs(run: &NodeRun, plan: &ClusterPlan) {
    for (pods, quiet) in [(0, &run.idle), (plan.at_once, &run.full)] {
        eprintln!(
            "  {pods} pods: {} MiB, {:.3} CPU s in {:.0} s",
            quiet.memory.rss_bytes >> 20,
            quiet.cpu_seconds,
            quiet.seconds
        );
    }
    eprintln!("  asked for {} pods: {:?}", plan.at_once, run.requests);
}
