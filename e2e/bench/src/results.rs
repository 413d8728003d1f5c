//! The results: every raw number, as the JSON file has it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::plan::Scenario;

/// The measured agents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Agent {
    /// Ours.
    Ferrolet,
    /// The kubelet.
    Upstream,
}

impl Agent {
    /// In the order of their turns.
    pub const BOTH: [Self; 2] = [Self::Ferrolet, Self::Upstream];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ferrolet => "ferrolet",
            Self::Upstream => "upstream",
        }
    }
}

/// The results of a run of the benchmark.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Results {
    /// Where and when.
    pub about: About,
    /// The scenarios, in their order.
    pub scenarios: Vec<Scenario>,
    /// The runs, in the order in which they were measured.
    pub runs: Vec<Run>,
}

/// Where and when it was measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct About {
    /// The commit of the agent that was measured.
    pub commit: String,
    /// The start, in UTC.
    pub date: String,
    /// The duration.
    pub seconds: f64,
    /// ferrolet's version.
    pub ferrolet: String,
    /// The kubelet's version.
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
    /// The usable cores.
    pub cores: usize,
    /// The processor's name.
    pub processor: String,
    /// The kernel's release.
    pub kernel: String,
    /// The size of the memory.
    pub memory_bytes: u64,
    /// The load average of one minute: on a quiet machine, nearly zero.
    pub load_before: f64,
}

/// One agent in one scenario of one round.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// From 1.
    pub round: u32,
    /// The name of the scenario.
    pub scenario: String,
    /// The agent.
    pub agent: Agent,
    /// From its start until all pods ran.
    pub start: Converged,
    /// The steady state after that.
    pub steady: Steady,
    /// Containers that were killed.
    pub deaths: Vec<Death>,
    /// From its second start until the containers that died meanwhile ran again.
    pub restart: Option<Converged>,
}

/// Convergence to the desired state.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Converged {
    /// The number of containers that were started.
    pub containers: usize,
    /// From the start of the agent's process to the last container's start.
    pub seconds: f64,
    /// CPU time of the agent.
    pub cpu_seconds: f64,
    /// Calls to the runtime.
    pub calls: u64,
}

/// The cost of an agent while nothing happens.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Steady {
    /// The length of the measurement.
    pub seconds: f64,
    /// CPU time of the agent in that time, and of its ended children.
    pub cpu_seconds: f64,
    /// Memory at the end.
    pub memory: Memory,
    /// Calls to the runtime, by method; those without a call are left out.
    pub calls: BTreeMap<String, u64>,
    /// Bytes of messages to the runtime.
    pub sent_bytes: u64,
    /// Bytes of messages from the runtime.
    pub received_bytes: u64,
    /// The usage of a sleeping process in that time; nothing in older files.
    #[serde(default)]
    pub asleep: Option<Asleep>,
}

/// A process that only sleeps, measured like an agent and at the same time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Asleep {
    /// CPU time in the window of the agent.
    pub cpu_seconds: f64,
    /// Its resident memory at the end.
    pub rss_bytes: u64,
}

/// Memory of a process, from `smaps_rollup` and `status`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Memory {
    /// Resident: all pages in memory, with shared ones.
    pub rss_bytes: u64,
    /// Proportional: each shared page counts in part.
    pub pss_bytes: u64,
    /// Pages without a file: heaps and stacks.
    pub anonymous_bytes: u64,
    /// The largest resident size so far.
    pub peak_rss_bytes: u64,
}

/// Times from the signal that killed a container.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Death {
    /// Until the runtime's event reached a client that only listens for events.
    pub event_seconds: f64,
    /// Until `CreateContainer` arrived at the runtime.
    pub create_seconds: f64,
    /// Until the runtime returned from the start of the new container.
    pub running_seconds: f64,
}

impl Steady {
    /// All calls.
    pub fn calls_in_all(&self) -> u64 {
        self.calls.values().sum()
    }
}
