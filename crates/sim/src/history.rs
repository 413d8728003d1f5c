//! The recorded history for the invariants: requests of the agent, changes of containers and sandboxes, and
//! actions of people and faults. Times count from the beginning of the history, by a steady clock.

use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use model::ids::{ContainerId, PodUid, SandboxId};
use model::observed::{ContainerState, SandboxState};
use model::ports::runtime::Code;
use model::verdict::Subject;
use podspec::Origin;

use crate::plan::PodPlan;

/// A recorded event.
#[derive(Debug, Clone)]
pub struct Record {
    /// When it was observed.
    pub at: Duration,
    /// The event.
    pub event: Event,
}

/// An event.
#[derive(Debug, Clone)]
pub enum Event {
    /// An agent started; they are numbered.
    AgentStarted(u32),
    /// The agent was killed.
    AgentDied,
    /// The clock was set.
    ClockJumped,
    /// The pod is wanted from now on, in this version.
    Wanted(PodUid, Arc<PodPlan>),
    /// The pod is not wanted any more.
    Unwanted(PodUid),
    /// The agent read a manifest, or the page of a URL.
    OriginRead(Origin),
    /// The agent requested to stop a container.
    StopRequested(ContainerId, Duration),
    /// The agent requested to stop a sandbox.
    SandboxStopRequested(SandboxId),
    /// The agent got the response that a sandbox has stopped.
    SandboxStopped(SandboxId),
    /// The agent got an error for stopping or reading a container or sandbox with this id.
    StopFailed(String),
    /// The agent requests a container or, without a name, a sandbox.
    CreationRequested(ReservedName),
    /// The next requested container has a log directory, with this highest number.
    LogsLeft(PathBuf, Option<u32>),
    /// The agent got the content of a directory.
    Listed(PathBuf, Vec<OsString>),
    /// The agent could not read a directory.
    DirectoryUnreadable(PathBuf),
    /// The agent requested to start a container.
    StartRequested(ContainerId),
    /// The agent got the response that a container has started.
    Started(ContainerId),
    /// The agent requested to execute a command in a container.
    ExecRequested(ContainerId, Vec<String>),
    /// The agent got the exit code of the command, or an error.
    ExecEnded(ContainerId, Vec<String>, Option<i32>),
    /// The agent sent an HTTP request to a pod.
    PodHttpRequested,
    /// The agent begins a call for a pod, and waits for the response.
    ActionBegan(ActionTarget),
    /// The agent has the response, or has stopped waiting.
    ActionEnded(ActionTarget),
    /// The agent got the status of a container, and whether it may have run at that time.
    ContainerObserved(ContainerId, bool),
    /// The agent begins a read of the runtime that has a fault.
    ReadFaultBegan,
    /// The agent has the response, or has stopped waiting.
    ReadFaultEnded,
    /// The agent failed to read an object of the runtime.
    ReadFailed,
    /// The agent requested to remove an object, by this rule.
    RemovalRequested(Removed, &'static str),
    /// A removal of an object begins, by this rule.
    RemovalBegan(ObjectRef, &'static str),
    /// The agent has the result of a removal, or does not wait any more.
    RemovalEnded(ObjectRef),
    /// The journal has an entry of a removal, by this rule, and whether it failed.
    EntryWritten(ObjectRef, String, bool),
    /// The agent recorded that it is about to remove an object, by this rule.
    IntentWritten(ObjectRef, String),
    /// The agent recorded that this removal is over.
    IntentSettled(ObjectRef, String),
    /// An object does not exist any more.
    Gone(ObjectRef),
    /// The agent requested to remove an image.
    ImageRemovalRequested(ImageRemoval),
    /// The agent requested a container or, without a name, a sandbox, and got its id or an error.
    CreationAnswered(ReservedName, Result<String, Code>),
    /// The agent requested to change the resources of a container.
    ResizeRequested(ContainerId),
    /// The agent requested to change the resources of a sandbox.
    SandboxResizeRequested(SandboxId),
    /// The agent requested to pull an image, which may be present.
    PullRequested(ImagePull),
    /// The agent created, changed or removed a cgroup.
    CgroupWritten(CgroupWrite),
    /// A container changed its state.
    Container(Arc<Instance>, Option<ContainerState>),
    /// A new sandbox exists, with this number.
    Numbered(SandboxId, u32),
    /// A sandbox changed its state.
    Sandbox(SandboxId, PodUid, SandboxState),
}

/// The pod that a call of the agent is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ActionTarget {
    /// A pod.
    Pod(PodUid),
    /// The pod of a container.
    Container(ContainerId),
    /// Any pod: calls for images do not name one.
    Any,
}

/// An object that may be removed, as the journal names it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ObjectRef {
    /// Its kind.
    pub kind: String,
    /// Its id or path.
    pub id: String,
}

impl From<&Subject> for ObjectRef {
    fn from(subject: &Subject) -> Self {
        Self { kind: subject.kind().to_owned(), id: subject.id().into_owned() }
    }
}

impl fmt::Display for ObjectRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind, self.id)
    }
}

/// An object to remove.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Removed {
    /// A container.
    Container(ContainerId),
    /// A sandbox.
    Sandbox(SandboxId),
}

/// An image to remove, with everything that should keep it at that time.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ImageRemoval {
    /// Its id.
    pub id: String,
    /// Its names.
    pub names: Vec<String>,
    /// The containers that use it.
    pub users: Vec<ContainerId>,
    /// Whether the runtime or the configuration pins it.
    pub pinned: bool,
    /// Its names and id that calls in progress use: to pull it, or to create a container.
    pub wanted: Vec<String>,
}

/// An image to pull.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImagePull {
    /// Its name.
    pub image: String,
    /// Whether it is present already.
    pub is_there: bool,
}

/// A change of a cgroup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CgroupWrite {
    /// The cgroup, and the operation.
    pub call: String,
    /// Its pod; `None` for the node's own cgroups.
    pub pod: Option<PodUid>,
    /// Whether the values changed.
    pub changes: bool,
}

/// The name that the runtime reserves for an object.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ReservedName {
    /// The pod.
    pub uid: PodUid,
    /// The container; `None` for a sandbox.
    pub name: Option<Arc<str>>,
    /// Its attempt number.
    pub attempt: u32,
}

/// The observed state of a container.
#[derive(Debug, Clone)]
pub struct Instance {
    /// Its id.
    pub id: ContainerId,
    /// Its sandbox.
    pub sandbox: SandboxId,
    /// Its pod.
    pub uid: PodUid,
    /// Its name in the pod.
    pub name: Arc<str>,
    /// Its attempt number.
    pub attempt: u32,
    /// The hash of its definition.
    pub definition: String,
    /// Its state; `None` once it is removed.
    pub state: Option<ContainerState>,
    /// Its exit code.
    pub exit_code: i32,
    /// When it was created.
    pub created: Duration,
    /// When its process started.
    pub started: Option<Duration>,
    /// When its process ended.
    pub finished: Option<Duration>,
}

impl Instance {
    /// Whether its process may live.
    pub fn may_live(&self) -> bool {
        matches!(self.state, Some(ContainerState::Running | ContainerState::Unknown))
    }

    /// Whether it is a later instance of the same container.
    pub fn succeeds(&self, other: &Self) -> bool {
        (&self.uid, &self.name) == (&other.uid, &other.name)
            && self.attempt > other.attempt
            && self.state.is_some()
    }
}
