//! Agents as nodes of a cluster: the time until pods are ready and until they are gone, compared with bare calls to the
//! runtime; the API requests of an agent; and the costs of an agent with and without pods.
//!
//! ```text
//!  block: bare calls ──────────────> containerd     all in one instance of the testbed, in turns
//!         API server <─> ferrolet ─> containerd
//!         API server <─> kubelet ──> containerd
//!              └ a watch and the audit log: what happened and was requested, and when
//! ```
//! Times are measured in short turns in close succession, each time in another order, and compared within a block of
//! them: the speed of a shared machine varies by more than the compared differences. Costs take minutes, and are
//! measured in separate turns.
//!
//! Pods are created with a node name, so no scheduler takes part. Bare calls must send the same requests as the agents;
//! otherwise the run fails.

mod api_time;
mod floor;
mod node;
mod place;
mod requests;
pub mod status;
pub mod volumes;
mod watch;

use std::time::Instant;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use self::place::ClusterPlace;
pub use self::requests::{Requests, of_pods};
use crate::agent::Programs;
use crate::machine::round_start;
use crate::plan::WINDOW;
use crate::results::{About, Agent, Asleep, Memory};
use crate::rounds::{Session, about};

/// The plan of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClusterPlan {
    /// How often each agent is measured.
    pub rounds: u32,
    /// How many blocks of short turns there are in a round.
    pub blocks: u32,
    /// The number of turns of each agent in a block in which pods are created one after the other.
    pub turns: usize,
    /// The number of pods that are created and deleted one after the other in each turn.
    pub one_by_one: usize,
    /// The number of pods that are created, and deleted, at once.
    pub at_once: usize,
    /// The seconds before each measurement in a short turn.
    pub settle_seconds: u64,
    /// The seconds that an agent without pods has to become quiet.
    pub idle_warm_up_seconds: u64,
    /// The seconds that it has with all pods.
    pub warm_up_seconds: u64,
    /// The seconds that are measured while nothing happens.
    pub quiet_seconds: u64,
    /// Whether pods have the token volume of their service account, as default pods do.
    #[serde(default)]
    pub token_volume: bool,
    /// The number of blocks of earlier runs. The order of turns continues from there.
    #[serde(skip)]
    pub earlier_blocks: usize,
}

impl ClusterPlan {
    /// The plan of `make bench`.
    pub fn full(rounds: u32) -> Self {
        Self {
            rounds,
            blocks: 2,
            turns: 4,
            one_by_one: 5,
            at_once: 100,
            settle_seconds: 3,
            idle_warm_up_seconds: 90,
            warm_up_seconds: 90,
            quiet_seconds: WINDOW.as_secs(),
            token_volume: false,
            earlier_blocks: 0,
        }
    }

    /// A small plan that shows that everything works.
    pub fn tiny() -> Self {
        Self {
            rounds: 1,
            blocks: 1,
            turns: 1,
            one_by_one: 1,
            at_once: 2,
            settle_seconds: 0,
            idle_warm_up_seconds: 0,
            warm_up_seconds: 0,
            quiet_seconds: 1,
            token_volume: false,
            earlier_blocks: 0,
        }
    }
}

/// The results of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ClusterResults {
    /// Where and when.
    pub about: About,
    /// The plan.
    pub plan: ClusterPlan,
    /// The times of pods, in all rounds.
    pub blocks: Vec<Block>,
    /// The costs of agents, in each round.
    pub rounds: Vec<Round>,
}

/// Short turns in close succession.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Block {
    /// Of bare calls to the runtime.
    pub floor: Times,
    /// Of our agent.
    pub ferrolet: Times,
    /// Of the kubelet.
    pub upstream: Times,
}

impl Block {
    /// The times with an agent.
    pub fn of(&self, agent: Agent) -> &Times {
        match agent {
            Agent::Ferrolet => &self.ferrolet,
            Agent::Upstream => &self.upstream,
        }
    }

    /// Like `of`, mutable; without an agent, the times of bare calls.
    fn of_mut(&mut self, who: Option<Agent>) -> &mut Times {
        match who {
            None => &mut self.floor,
            Some(Agent::Ferrolet) => &mut self.ferrolet,
            Some(Agent::Upstream) => &mut self.upstream,
        }
    }
}

/// The costs of agents in one round.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Round {
    /// Our agent.
    pub ferrolet: Costs,
    /// The kubelet.
    pub upstream: Costs,
}

impl Round {
    /// The costs of an agent.
    pub fn of(&self, agent: Agent) -> &Costs {
        match agent {
            Agent::Ferrolet => &self.ferrolet,
            Agent::Upstream => &self.upstream,
        }
    }
}

/// The times of pods, in seconds.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Times {
    /// For each single pod, from its creation until it was ready.
    pub start_one: Vec<f64>,
    /// For each of them, from its deletion until it was gone.
    pub delete_one: Vec<f64>,
    /// For many at once, from the first creation until the last was ready.
    pub start_all: f64,
    /// For many at once, from the first deletion until the last was gone.
    pub delete_all: f64,
}

/// The times of several single pods, in seconds.
#[derive(Debug, Default)]
struct SinglePodTimes {
    start: Vec<f64>,
    delete: Vec<f64>,
}

/// The costs of an agent as a node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Costs {
    /// CPU time of the agent until all pods that were created at once were ready.
    pub start_all_cpu_seconds: f64,
    /// CPU time of the agent until all of them were gone.
    pub delete_all_cpu_seconds: f64,
    /// Without pods.
    pub idle: Quiet,
    /// With many pods.
    pub full: Quiet,
    /// The API requests for the pods that were created at once, from their creation until the last request after they
    /// were gone.
    pub requests: Requests,
}

/// The costs of an agent while nothing happens.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Quiet {
    /// The length of the measurement.
    pub seconds: f64,
    /// CPU time in that time.
    pub cpu_seconds: f64,
    /// Memory at the end; the peak is that of its whole life.
    pub memory: Memory,
    /// The API requests in that time.
    pub requests: Requests,
    /// The usage of a sleeping process in that time; nothing in older files.
    #[serde(default)]
    pub asleep: Option<Asleep>,
}

/// Measures a plan and prints every step on standard error.
pub fn play(plan: &ClusterPlan, programs: &Programs, session: &Session) -> Result<ClusterResults> {
    let since = Instant::now();
    let mut about = about(programs, &session.commit)?;
    let place = ClusterPlace::start(programs)?;
    // The first pods of a machine take longer with either agent, so these are not measured.
    one_by_one(&place, plan, 0, &mut Block::default()).context("before it counts")?;
    let (mut blocks, mut rounds) = (Vec::new(), Vec::new());
    for number in 1..=plan.rounds {
        about.rounds.push(round_start(session.patience)?);
        for _ in 0..plan.blocks {
            let turn = plan.earlier_blocks + blocks.len();
            blocks.push(block(&place, plan, turn).with_context(|| format!("round {number}"))?);
        }
        let costs = |agent: Agent| {
            let costs = node::costs(&place, plan, agent);
            let costs = costs.with_context(|| format!("round {number}, {}", agent.name()))?;
            print_costs(agent, &costs, plan);
            anyhow::Ok(costs)
        };
        rounds.push(Round { ferrolet: costs(Agent::Ferrolet)?, upstream: costs(Agent::Upstream)? });
    }
    place.stop()?;
    about.seconds = since.elapsed().as_secs_f64();
    Ok(ClusterResults { about, plan: plan.clone(), blocks, rounds })
}

/// The order of agents in a turn. The first agent alternates.
fn order(turn: usize) -> [Option<Agent>; 3] {
    let mut order = [None, Some(Agent::Ferrolet), Some(Agent::Upstream)];
    order.rotate_left(turn % 3);
    order
}

/// Turns with pods one after the other, then one with all at once.
fn block(place: &ClusterPlace, plan: &ClusterPlan, number: usize) -> Result<Block> {
    let mut block = Block::default();
    for turn in 0..plan.turns {
        one_by_one(place, plan, number + turn, &mut block)?;
    }
    for who in order(number) {
        let played = match who {
            None => floor::at_once(place, plan),
            Some(agent) => node::at_once(place, plan, agent),
        };
        let times = block.of_mut(who);
        (times.start_all, times.delete_all) = played.context(name(who))?;
        print_times(number + 1, name(who), times);
    }
    Ok(block)
}

/// A turn of each with pods one after the other.
fn one_by_one(
    place: &ClusterPlace,
    plan: &ClusterPlan,
    turn: usize,
    block: &mut Block,
) -> Result<()> {
    let (mut bare, mut of_agents) = (None, Vec::new());
    for who in order(turn) {
        let played = match who {
            None => floor::one_by_one(place, plan),
            Some(agent) => node::one_by_one(place, plan, agent),
        };
        let (SinglePodTimes { start, delete }, what) = played.context(name(who))?;
        let times = block.of_mut(who);
        times.start_one.extend(start);
        times.delete_one.extend(delete);
        match who {
            None => bare = Some(what),
            Some(agent) => of_agents.push((agent, what)),
        }
    }
    let bare = bare.context("bare calls have no turn")?;
    of_agents.iter().try_for_each(|(agent, what)| bare.ensure_equals(what).context(agent.name()))
}

fn name(who: Option<Agent>) -> &'static str {
    who.map_or("bare calls", Agent::name)
}

fn print_times(block: usize, who: &str, times: &Times) {
    let Times { start_one, delete_one, start_all, delete_all } = times;
    eprintln!(
        "block {block} {who:<10} one {start_one:.2?} gone {delete_one:.2?} all {start_all:.2} s gone {delete_all:.2} s"
    );
}

fn print_costs(agent: Agent, run: &Costs, plan: &ClusterPlan) {
    eprintln!("{}", agent.name());
    for (pods, quiet) in [(0, &run.idle), (plan.at_once, &run.full)] {
        eprintln!(
            "  {pods} pods: {} MiB, {:.3} CPU s in {:.0} s",
            quiet.memory.rss_bytes >> 20,
            quiet.cpu_seconds,
            quiet.seconds
        );
    }
    eprintln!("  requests for {} pods: {:?}", plan.at_once, run.requests);
}
