//! What will happen in a history: pods, and steps at their times. All of it follows from a seed, and
//! reads as a story.

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

/// A history before it happens.
#[derive(Debug, Clone)]
pub struct Plan {
    /// What it follows from.
    pub seed: u64,
    /// Whether the agent listens to what the runtime tells.
    pub hints: bool,
    /// Whether a URL serves manifests too.
    pub url: bool,
    /// Whether it has nothing of what came to histories later.
    pub plain: bool,
    /// How the node collects what is dead and unused.
    pub collecting: Collecting,
    /// What happens, in the order of time.
    pub steps: Vec<Step>,
    /// When the last of it happens.
    pub length: Duration,
}

/// Something that happens at a time, counted from the beginning.
#[derive(Debug, Clone)]
pub struct Step {
    /// When.
    pub at: Duration,
    /// What.
    pub what: What,
}

/// What happens.
#[derive(Debug, Clone)]
pub enum What {
    /// Somebody writes the manifest of a pod; one that is there is replaced.
    Write(PodPlan),
    /// Somebody spoils the manifest of a pod.
    Spoil(String),
    /// Somebody removes the manifest of a pod.
    Remove(String),
    /// A call, a hint or a file will go wrong.
    Arm(Rule),
    /// The runtime is away for a time; its containers are not.
    RestartRuntime(Duration),
    /// The agent dies at one of its next calls and stays away for a time.
    KillAgent(Doom),
    /// Somebody stops the agent in order and starts it again.
    RestartAgent,
    /// Somebody sets the node's clock, by so many seconds.
    JumpClock(i64),
    /// A process dies of something else than the agent. Which one, of those that run then.
    Harm(Harm, u64),
}

/// What dies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Harm {
    /// A container's process, with this exit code.
    Container(i32),
    /// A container's process, for want of memory.
    OutOfMemory,
    /// The process that holds a sandbox open.
    Sandbox,
    /// Nothing, but the runtime no longer knows how a container is.
    Lost,
}

/// When an agent dies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Doom {
    /// Before the call has any effect, or after it, before the agent hears of it.
    pub before: bool,
    /// At which call from now on, counted from 1.
    pub nth: u64,
    /// How long it takes until there is another agent.
    pub away: Duration,
}

/// What goes wrong, and with which of the things to come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rule {
    /// With what.
    pub on: Target,
    /// How many such things go well before.
    pub skip: u64,
    /// How.
    pub fault: Fault,
}

/// With what something goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// Any call to the runtime.
    AnyCall,
    /// A call that changes something.
    Effect,
    /// A call that only looks.
    Look,
    /// A call of one method.
    Method(Method),
    /// An event that the runtime tells.
    Hint,
    /// Reading files.
    FileRead,
    /// Writing files.
    FileWrite,
    /// A notice that a directory changed.
    FileHint,
    /// Asking the server of manifests.
    Web,
    /// Asking something that listens in a pod.
    PodWeb,
    /// Measuring the room on a disk.
    Disk,
    /// Opening the log of a container.
    Log,
    /// Making, changing, reading or removing a cgroup.
    Cgroup,
}

/// What goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// It fails and has no effect.
    Error(Code),
    /// It takes so much longer.
    Slow(Duration),
    /// It takes effect at once, and the answer comes so much later.
    LateAnswer(Duration),
    /// It has no effect and never answers; the caller's deadline ends it.
    Hang,
    /// It takes effect, and fails as if its time were up.
    LateSuccess,
    /// It fails as if its time were up, and takes effect so much later.
    LateEffect(Duration),
    /// It takes effect and never answers.
    LostAnswer,
    /// It takes effect, and the answer is that there is nothing.
    Vanished,
    /// A hint is not told.
    Lost,
    /// A hint is told twice.
    Doubled,
    /// A hint is told so much later; others overtake it.
    Overtaken(Duration),
    /// A server answers with this status.
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
            Self::Look => f.write_str("a call that looks"),
            Self::Method(method) => write!(f, "{method}"),
            Self::Hint => f.write_str("a hint"),
            Self::FileRead => f.write_str("reading files"),
            Self::FileWrite => f.write_str("writing files"),
            Self::FileHint => f.write_str("a notice of a directory"),
            Self::Web => f.write_str("asking the server of manifests"),
            Self::PodWeb => f.write_str("asking something in a pod"),
            Self::Disk => f.write_str("measuring a disk"),
            Self::Log => f.write_str("opening a log"),
            Self::Cgroup => f.write_str("a cgroup"),
        }
    }
}

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Write(pod) => write!(f, "write manifest {pod}"),
            Self::Spoil(name) => write!(f, "spoil manifest {name}"),
            Self::Remove(name) => write!(f, "remove manifest {name}"),
            Self::Arm(Rule { on, skip: 0, fault }) => write!(f, "next: {fault} on {on}"),
            Self::Arm(Rule { on, skip, fault }) => write!(f, "after {skip}: {fault} on {on}"),
            Self::RestartRuntime(time) => write!(f, "runtime restarts, away {time:?}"),
            Self::KillAgent(Doom { before, nth, away }) => {
                let when = if *before { "before" } else { "after" };
                write!(f, "agent dies {when} call {nth} from now, away {away:?}")
            }
            Self::RestartAgent => f.write_str("agent is stopped and started"),
            Self::JumpClock(seconds) => write!(f, "clock jumps by {seconds} s"),
            Self::Harm(Harm::Container(code), _) => write!(f, "a process dies with code {code}"),
            Self::Harm(Harm::OutOfMemory, _) => f.write_str("a process dies for want of memory"),
            Self::Harm(Harm::Sandbox, _) => f.write_str("a sandbox dies"),
            Self::Harm(Harm::Lost, _) => f.write_str("the runtime loses track of a container"),
        }
    }
}
