//! Agents as nodes of a cluster: how long pods take to be ready and to be gone, next to bare calls to the
//! runtime; what an agent asks of the API server; and what it costs with and without pods.
//!
//! ```text
//!  block: bare calls ──────────────> containerd     all in one instance of the testbed, in turns
//!         API server <─> ferrolet ─> containerd
//!         API server <─> kubelet ──> containerd
//!              └ a watch and the audit log: what was seen and asked, and when
//! ```
//! What takes time is measured in short turns that follow each other closely, each time in another order, and
//! compared within a block of them: a machine that others use too is faster now and slower then, by more than
//! what is compared. What an agent costs takes minutes, and is measured in turns of its own.
//!
//! Pods are made with the node's name in them, so that no scheduler takes part. Bare calls ask for what the agents
//! ask for: a run in which one of them asks for something else fails.

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

/// What is played.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClusterPlan {
    /// How often it is played with each agent.
    pub rounds: u32,
    /// How many blocks of short turns there are in a round.
    pub blocks: u32,
    /// How many turns of each there are in a block in which pods are made one after the other.
    pub turns: usize,
    /// How many pods are made and deleted one after the other, in each of them.
    pub one_by_one: usize,
    /// How many pods are made, and deleted, at once.
    pub at_once: usize,
    /// How many seconds pass in a short turn before the next thing is timed.
    pub settle_seconds: u64,
    /// How many seconds an agent without pods has to become quiet.
    pub idle_warm_up_seconds: u64,
    /// How many seconds it has with all of them.
    pub warm_up_seconds: u64,
    /// How many quiet seconds are measured.
    pub quiet_seconds: u64,
    /// Whether pods have the token volume of their service account, as default pods do.
    #[serde(default)]
    pub token_volume: bool,
    /// How many blocks earlier runs have measured. The order of turns continues from there.
    #[serde(skip)]
    pub earlier_blocks: usize,
}

impl ClusterPlan {
    /// All of it, for `make bench`.
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

    /// The same in small, to see that everything works.
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

/// All of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ClusterResults {
    /// Where and when.
    pub about: About,
    /// What was played.
    pub plan: ClusterPlan,
    /// How long pods took, in all rounds.
    pub blocks: Vec<Block>,
    /// What agents cost, in each round.
    pub rounds: Vec<Round>,
}

/// Short turns that followed each other closely.
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
    /// How long pods took with an agent.
    pub fn of(&self, agent: Agent) -> &Times {
        match agent {
            Agent::Ferrolet => &self.ferrolet,
            Agent::Upstream => &self.upstream,
        }
    }

    /// The same, to be added to; without an agent, by bare calls.
    fn of_mut(&mut self, who: Option<Agent>) -> &mut Times {
        match who {
            None => &mut self.floor,
            Some(Agent::Ferrolet) => &mut self.ferrolet,
            Some(Agent::Upstream) => &mut self.upstream,
        }
    }
}

/// What agents cost in one round.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Round {
    /// Our agent.
    pub ferrolet: Costs,
    /// The kubelet.
    pub upstream: Costs,
}

impl Round {
    /// What an agent cost in it.
    pub fn of(&self, agent: Agent) -> &Costs {
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

/// How long each of several pods took that were alone, in seconds.
#[derive(Debug, Default)]
struct Singles {
    start: Vec<f64>,
    delete: Vec<f64>,
}

/// What an agent cost as a node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Costs {
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
    /// What a process that sleeps took meanwhile; nothing in older files.
    #[serde(default)]
    pub asleep: Option<Asleep>,
}

/// Plays a plan and tells every step on standard error.
pub fn play(plan: &ClusterPlan, programs: &Programs, session: &Session) -> Result<ClusterResults> {
    let since = Instant::now();
    let mut about = about(programs, &session.commit)?;
    let place = ClusterPlace::start(programs)?;
    // The first pods of a machine take longer, whoever makes them: nobody counts these.
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
            tell_costs(agent, &costs, plan);
            anyhow::Ok(costs)
        };
        rounds.push(Round { ferrolet: costs(Agent::Ferrolet)?, upstream: costs(Agent::Upstream)? });
    }
    place.stop()?;
    about.seconds = since.elapsed().as_secs_f64();
    Ok(ClusterResults { about, plan: plan.clone(), blocks, rounds })
}

/// Who plays, in the order of a turn: who begins differs from turn to turn.
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
        tell(number + 1, name(who), times);
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
    let (mut bare, mut asked) = (None, Vec::new());
    for who in order(turn) {
        let played = match who {
            None => floor::one_by_one(place, plan),
            Some(agent) => node::one_by_one(place, plan, agent),
        };
        let (Singles { start, delete }, what) = played.context(name(who))?;
        let times = block.of_mut(who);
        times.start_one.extend(start);
        times.delete_one.extend(delete);
        match who {
            None => bare = Some(what),
            Some(agent) => asked.push((agent, what)),
        }
    }
    let bare = bare.context("bare calls have no turn")?;
    asked.iter().try_for_each(|(agent, what)| bare.is_what(what).context(agent.name()))
}

fn name(who: Option<Agent>) -> &'static str {
    who.map_or("bare calls", Agent::name)
}

fn tell(block: usize, who: &str, times: &Times) {
    let Times { start_one, delete_one, start_all, delete_all } = times;
    eprintln!(
        "block {block} {who:<10} one {start_one:.2?} gone {delete_one:.2?} all {start_all:.2} s gone {delete_all:.2} s"
    );
}

fn tell_costs(agent: Agent, run: &Costs, plan: &ClusterPlan) {
    eprintln!("{}", agent.name());
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
