//! The plan of a history: pods, and steps with their times. It follows from a seed alone.

mod collecting;
mod extras;
mod generate;
mod later;
mod pods;

use std::fmt;
use std::time::Duration;

use model::ports::runtime::Code;
use testkit::runtime::Method;

pub use collecting::Collecting;
pub(crate) use extras::HOOKS;
pub use extras::{Action, Extras, Hook, RestartRule};
pub use generate::INIT_CONTAINERS;
pub(crate) use generate::{FETCHED, HAD, KEPT, PINNED};
pub use pods::{ContainerPlan, PodPlan, Policy, Program};
pub(crate) use pods::{NODE, URL};

/// A plan.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Its seed.
    pub seed: u64,
    /// Whether the agent uses the runtime's event stream.
    pub hints: bool,
    /// Whether a URL serves manifests too.
    pub url: bool,
    /// Whether it leaves out the actions that were added later.
    pub plain: bool,
    /// The GC settings of the node.
    pub collecting: Collecting,
    /// The steps, in chronological order.
    pub steps: Vec<Step>,
    /// The time of the last step.
    pub length: Duration,
}

/// A step, with its time since the beginning.
#[derive(Debug, Clone)]
pub struct Step {
    /// The time.
    pub at: Duration,
    /// The action.
    pub what: ActionKind,
}

/// An action.
#[derive(Debug, Clone)]
pub enum ActionKind {
    /// Writes or replaces the manifest of a pod.
    Write(PodPlan),
    /// Makes the manifest of a pod invalid.
    Invalidate(String),
    /// Removes the manifest of a pod.
    Remove(String),
    /// Plans a fault of a call, a hint or a file.
    Arm(Rule),
    /// The runtime is down for a time; its containers keep running.
    RestartRuntime(Duration),
    /// The agent dies during one of its next calls and stays down for a time.
    KillAgent(PlannedDeath),
    /// Stops the agent gracefully and starts it again.
    RestartAgent,
    /// Sets the node's clock forward or back by this many seconds.
    JumpClock(i64),
    /// A process dies on its own. The number selects one of the running ones.
    ProcessFault(ProcessFault, u64),
}

/// What dies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProcessFault {
    /// A container's process, with this exit code.
    Container(i32),
    /// A container's process, OOM-killed.
    OutOfMemory,
    /// The pause process of a sandbox.
    Sandbox,
    /// None, but the state of a container becomes unknown.
    Lost,
}

/// The death of an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlannedDeath {
    /// Before the call takes effect, or after its effect, before the agent gets the response.
    pub before: bool,
    /// At which call from now on, counted from 1.
    pub nth: u64,
    /// The time until the next agent starts.
    pub away: Duration,
}

/// A planned fault, with its target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rule {
    /// The target.
    pub on: Target,
    /// How many calls of the target are skipped before.
    pub skip: u64,
    /// The fault.
    pub fault: Fault,
}

/// The target of a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// Any call to the runtime.
    AnyCall,
    /// A call with an effect.
    Effect,
    /// A read-only call.
    Look,
    /// A call of one method.
    Method(Method),
    /// An event of the runtime.
    Hint,
    /// Reading files.
    FileRead,
    /// Writing files.
    FileWrite,
    /// A change of a directory.
    FileHint,
    /// A request to the manifest server.
    Web,
    /// An HTTP request to a pod.
    PodWeb,
    /// Measuring disk space.
    Disk,
    /// Opening the log of a container.
    Log,
    /// Creating, changing, reading or removing a cgroup.
    Cgroup,
}

/// A fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Fails without an effect.
    Error(Code),
    /// Is delayed.
    Slow(Duration),
    /// Takes effect at once, with a delayed response.
    LateAnswer(Duration),
    /// Has no effect and never returns; the caller's deadline ends it.
    Hang,
    /// Takes effect, and fails with `DeadlineExceeded`.
    LateSuccess,
    /// Fails with `DeadlineExceeded`, and takes effect later.
    LateEffect(Duration),
    /// Takes effect and never returns.
    LostAnswer,
    /// Takes effect, and returns `NotFound`.
    Vanished,
    /// A lost hint.
    Lost,
    /// A duplicated hint.
    Doubled,
    /// A delayed hint; later ones overtake it.
    Overtaken(Duration),
    /// A server responds with this status.
    Refused(u16),
}

impl Fault {
    /// Its name in counts.
    pub fn name(self) -> &'static str {
        match self {
            Self::Error(_) => "error",
            Self::Slow(_) => "latency",
            Self::LateAnswer(_) => "late answer",
            Self::Hang => "hang",
            Self::LateSuccess => "late success",
            Self::LateEffect(_) => "late effect",
            Self::LostAnswer => "lost answer",
            Self::Vanished => "vanished",
            Self::Lost => "lost hint",
            Self::Doubled => "doubled hint",
            Self::Overtaken(_) => "reordered hint",
            Self::Refused(_) => "refused request",
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Error(code) => write!(f, "error {code}"),
            Self::Slow(time) | Self::LateAnswer(time) | Self::LateEffect(time) => {
                write!(f, "{} {time:?}", self.name())
            }
            Self::Overtaken(time) => write!(f, "hint {time:?} late"),
            Self::Refused(status) => write!(f, "answer {status}"),
            _ => f.write_str(self.name()),
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AnyCall => f.write_str("any call"),
            Self::Effect => f.write_str("a call that changes something"),
            Self::Look => f.write_str("a read-only call"),
            Self::Method(method) => write!(f, "{method}"),
            Self::Hint => f.write_str("a hint"),
            Self::FileRead => f.write_str("reading files"),
            Self::FileWrite => f.write_str("writing files"),
            Self::FileHint => f.write_str("a change of a directory"),
            Self::Web => f.write_str("a request to the manifest server"),
            Self::PodWeb => f.write_str("a request to a pod"),
            Self::Disk => f.write_str("measuring a disk"),
            Self::Log => f.write_str("opening a log"),
            Self::Cgroup => f.write_str("a cgroup"),
        }
    }
}

impl fmt::Display for ActionKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Write(pod) => write!(f, "write manifest {pod}"),
            Self::Invalidate(name) => write!(f, "invalidate manifest {name}"),
            Self::Remove(name) => write!(f, "remove manifest {name}"),
            Self::Arm(Rule { on, skip: 0, fault }) => write!(f, "next: {fault} on {on}"),
            Self::Arm(Rule { on, skip, fault }) => write!(f, "after {skip}: {fault} on {on}"),
            Self::RestartRuntime(time) => write!(f, "runtime restarts, down {time:?}"),
            Self::KillAgent(PlannedDeath { before, nth, away }) => {
                let when = if *before { "before" } else { "after" };
                write!(f, "agent dies {when} call {nth} from now, down {away:?}")
            }
            Self::RestartAgent => f.write_str("agent is stopped and started"),
            Self::JumpClock(seconds) => write!(f, "clock jumps by {seconds} s"),
            Self::ProcessFault(ProcessFault::Container(code), _) => {
                write!(f, "a process dies with code {code}")
            }
            Self::ProcessFault(ProcessFault::OutOfMemory, _) => {
                f.write_str("a process is OOM-killed")
            }
            Self::ProcessFault(ProcessFault::Sandbox, _) => f.write_str("a sandbox dies"),
            Self::ProcessFault(ProcessFault::Lost, _) => {
                f.write_str("the runtime loses the state of a container")
            }
        }
    }
}
