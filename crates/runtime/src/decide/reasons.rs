//! The reasons of actions, for logs and events.

use std::fmt;

use model::observed::{ContainerState, ContainerStatus};

/// Why a whole pod is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KillPod {
    /// The sandbox is no longer usable.
    SandboxChanged,
    /// Nothing runs and nothing will.
    NothingLeft,
    /// An init container failed permanently.
    InitFailed,
    /// It runs outside of its cgroup.
    OutsideCgroup,
}

impl fmt::Display for KillPod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::SandboxChanged => "its sandbox cannot be used any more",
            Self::NothingLeft => "nothing of it runs and nothing will",
            Self::InitFailed => "an init container failed and will not run again",
            Self::OutsideCgroup => "it runs outside of its cgroup",
        })
    }
}

/// Why a pod is terminated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PodEnd {
    /// It was deleted.
    Deleted,
    /// No source lists it any more.
    Removed,
    /// Only the container runtime has it.
    Orphaned,
    /// It has finished; only its sidecars run.
    Finished,
    /// A critical pod needs its resources.
    Preempted,
    /// It exceeded its active deadline.
    DeadlineExceeded,
    /// It was evicted.
    Evicted,
    /// It failed for another reason, such as a rejection.
    Failed,
}

/// Why a container is started or restarted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StartReason {
    /// It never ran in this pod, or has no instance left.
    New,
    /// It exited and restarts.
    Ended {
        /// The exit code.
        exit_code: i32,
    },
    /// It was created and not started.
    NeverStarted,
    /// Its sandbox is new.
    NewSandbox,
    /// It was killed to restart.
    Killed(KillReason),
}

impl StartReason {
    /// Why a container that does not run restarts.
    pub(super) fn of_not_running(latest: Option<&ContainerStatus>) -> Self {
        let Some(latest) = latest else { return Self::New };
        match latest.state {
            ContainerState::Created => Self::NeverStarted,
            ContainerState::Exited => Self::Ended { exit_code: latest.exit_code },
            ContainerState::Unknown | ContainerState::Running => {
                Self::Killed(KillReason::UnknownState)
            }
        }
    }
}

impl fmt::Display for StartReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::New => f.write_str("it has not run yet"),
            Self::Ended { exit_code } => write!(f, "it ended with exit code {exit_code}"),
            Self::NeverStarted => f.write_str("it was created and not started"),
            Self::NewSandbox => f.write_str("its sandbox is new"),
            Self::Killed(why) => f.write_str(match why {
                KillReason::UnknownState => "the runtime does not know its state",
                KillReason::Changed => "its definition changed",
                KillReason::LivenessProbe => "its liveness probe failed",
                KillReason::StartupProbe => "its startup probe failed",
                KillReason::Resized => "its resources changed",
                KillReason::Superseded => "a newer instance has taken its place",
            }),
        }
    }
}

/// Why a single container is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KillReason {
    /// Its state is unknown to the runtime.
    UnknownState,
    /// Its definition changed.
    Changed,
    /// Its liveness probe failed.
    LivenessProbe,
    /// Its startup probe failed.
    StartupProbe,
    /// Its resources changed, and its resize policy is `RestartContainer`.
    Resized,
    /// A newer instance has replaced it.
    Superseded,
}

impl KillReason {
    /// The message of the event: upstream's text.
    pub fn message(self, init: bool, name: &str, restarts: bool) -> String {
        let what = if init { "Init container" } else { "Container" };
        let then = if restarts && !init { ", will be restarted" } else { "" };
        match self {
            Self::UnknownState => {
                format!("{what} is in \"unknown\" state, try killing it before restart")
            }
            Self::Changed => format!("{what} {name} definition changed{then}"),
            Self::LivenessProbe => format!("{what} {name} failed liveness probe{then}"),
            Self::StartupProbe => format!("{what} {name} failed startup probe{then}"),
            Self::Resized => format!("Container {name} resize requires restart"),
            Self::Superseded => format!("{what} {name} was replaced by a newer instance"),
        }
    }
}
