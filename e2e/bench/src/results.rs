//! What was measured: every raw number, as the file of JSON holds it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::plan::Scenario;

/// Who is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Agent {
    /// Ours.
    Ferrolet,
    /// The kubelet.
    Upstream,
}

impl Agent {
    /// In the order in which they take turns.
    pub const BOTH: [Self; 2] = [Self::Ferrolet, Self::Upstream];

    /// What it is called.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ferrolet => "ferrolet",
            Self::Upstream => "upstream",
        }
    }
}

/// All of a run of the benchmark.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Results {
    /// Where and when.
    pub about: About,
    /// What was played, in this order.
    pub scenarios: Vec<Scenario>,
    /// What came out, in the order in which it was measured.
    pub runs: Vec<Run>,
}

/// Where and when it was measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct About {
    /// The commit of the agent that was measured.
    pub commit: String,
    /// When it began, in UTC.
    pub date: String,
    /// How long it took.
    pub seconds: f64,
    /// What ferrolet says of its version.
    pub ferrolet: String,
    /// What the kubelet says of its version.
    pub upstream: String,
    /// The machine.
    pub machine: Machine,
    /// The digest of the measured ferrolet program; empty if it was not passed.
    #[serde(default)]
    pub binary: String,
    /// The start of each round, in order; empty in older files.
    #[serde(default)]
    pub rounds: Vec<RoundStart>,
}

/// When and where a round began.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RoundStart {
    /// The time, in UTC.
    pub date: String,
    /// The machine, with its load before the round.
    pub machine: Machine,
}

/// The machine, without its name.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// Cores that may be used.
    pub cores: usize,
    /// What the processor calls itself.
    pub processor: String,
    /// The kernel's release.
    pub kernel: String,
    /// All memory.
    pub memory_bytes: u64,
    /// How many programs wanted to run in the minute before: on a quiet machine, nearly none.
    pub load_before: f64,
}

/// One agent in one scenario of one round.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// From 1.
    pub round: u32,
    /// The name of the scenario.
    pub scenario: String,
    /// Who.
    pub agent: Agent,
    /// From its start until all pods ran.
    pub start: Converged,
    /// Then, while nothing happened.
    pub steady: Steady,
    /// Containers that were killed.
    pub deaths: Vec<Death>,
    /// From its second start until what had died meanwhile ran again.
    pub restart: Option<Converged>,
}

/// The way to the state that was asked for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Converged {
    /// How many containers were started on the way.
    pub containers: usize,
    /// From the start of the agent's process to the last container's start.
    pub seconds: f64,
    /// CPU time of the agent.
    pub cpu_seconds: f64,
    /// Calls to the runtime.
    pub calls: u64,
}

/// What an agent costs while nothing happens.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Steady {
    /// How long it was measured.
    pub seconds: f64,
    /// CPU time of the agent in that time, and of its children that ended.
    pub cpu_seconds: f64,
    /// Memory in the end.
    pub memory: Memory,
    /// Calls to the runtime, by method; those without a call are left out.
    pub calls: BTreeMap<String, u64>,
    /// Bytes of messages to the runtime.
    pub sent_bytes: u64,
    /// Bytes of messages from the runtime.
    pub received_bytes: u64,
    /// What a process that sleeps took meanwhile; nothing in older files.
    #[serde(default)]
    pub asleep: Option<Asleep>,
}

/// A process that only sleeps, measured beside an agent in the same way.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Asleep {
    /// CPU time in the window of the agent.
    pub cpu_seconds: f64,
    /// Its resident memory in the end.
    pub rss_bytes: u64,
}

/// Memory of a process, from `smaps_rollup` and `status`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Memory {
    /// Resident: all pages that are in memory, shared ones too.
    pub rss_bytes: u64,
    /// Proportional: pages that are shared count in part.
    pub pss_bytes: u64,
    /// Pages of no file: heaps and stacks.
    pub anonymous_bytes: u64,
    /// The most that ever was resident.
    pub peak_rss_bytes: u64,
}

/// A container that was killed, from the signal on.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Death {
    /// Until the runtime's event reached a client that only listens for events.
    pub event_seconds: f64,
    /// Until `CreateContainer` arrived at the runtime.
    pub create_seconds: f64,
    /// Until the runtime said that the new container was started.
    pub running_seconds: f64,
}

impl Steady {
    /// All calls.
    pub fn calls_in_all(&self) -> u64 {
        self.calls.values().sum()
    }
}
