//! What happened, as the invariants need to know it: what the agent asked for, what became of
//! containers and sandboxes, and what people and fate did. Times count from the beginning and are those
//! of a steady clock.

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

/// Something that happened.
#[derive(Debug, Clone)]
pub struct Record {
    /// When it was seen.
    pub at: Duration,
    /// What.
    pub event: Event,
}

/// What happened.
#[derive(Debug, Clone)]
pub enum Event {
    /// An agent started; they are counted.
    AgentStarted(u32),
    /// The agent was killed.
    AgentDied,
    /// The clock was set.
    ClockJumped,
    /// From now on the pod is wanted, in this version.
    Wanted(PodUid, Arc<PodPlan>),
    /// From now on the pod is not wanted.
    Unwanted(PodUid),
    /// The agent has read a manifest, or the page of a URL.
    OriginRead(Origin),
    /// The agent asked for a container to end.
    StopRequested(ContainerId, Duration),
    /// The agent asked for a sandbox to end.
    SandboxStopRequested(SandboxId),
    /// The agent was told that a sandbox has ended.
    SandboxStopped(SandboxId),
    /// The agent was told that a container or sandbox, by its id, could not be ended, or not be looked at.
    StopFailed(String),
    /// The agent asks for a container or, without a name, a sandbox.
    CreationRequested(ReservedName),
    /// The container that is asked for next has a directory of logs, and this is the highest number in it.
    LogsLeft(PathBuf, Option<u32>),
    /// The agent was told what a directory has.
    Listed(PathBuf, Vec<OsString>),
    /// The agent could not read a directory.
    DirectoryUnreadable(PathBuf),
    /// The agent asked for a container to start.
    StartRequested(ContainerId),
    /// The agent was told that a container has started.
    Started(ContainerId),
    /// The agent asked for a command to run in a container.
    ExecRequested(ContainerId, Vec<String>),
    /// It was told with which code the command ended, or that something went wrong.
    ExecEnded(ContainerId, Vec<String>, Option<i32>),
    /// The agent asked what listens in pods for something.
    PodHttpRequested,
    /// The agent does something for somebody, and waits for the answer.
    ActionBegan(ActionTarget),
    /// It has its answer, or does not wait for it any more.
    ActionEnded(ActionTarget),
    /// The agent was told how a container is, and it may have run when the runtime looked.
    ContainerObserved(ContainerId, bool),
    /// The agent looks at the runtime, and that goes wrong somehow.
    ReadFaultBegan,
    /// It has its answer, or does not wait for it any more.
    ReadFaultEnded,
    /// The agent could not read something of the runtime.
    ReadFailed,
    /// The agent asked for something to be removed, by this rule.
    RemovalRequested(Removed, &'static str),
    /// A removal of something begins, by this rule.
    RemovalBegan(ObjectRef, &'static str),
    /// The agent has heard what became of a removal, or does not want to know any more.
    RemovalEnded(ObjectRef),
    /// The journal has an entry of a removal, by this rule, which failed or did not.
    EntryWritten(ObjectRef, String, bool),
    /// The agent has noted down that it is about to remove something, by this rule.
    IntentWritten(ObjectRef, String),
    /// The agent has noted down that this is over.
    IntentSettled(ObjectRef, String),
    /// Something is not there any more.
    Gone(ObjectRef),
    /// The agent asked for an image to go.
    ImageRemovalRequested(ImageRemoval),
    /// The agent asked for a container or, without a name, a sandbox; and was told its id, or why there is none.
    CreationAnswered(ReservedName, Result<String, Code>),
    /// The agent asked for a container to have other resources.
    ResizeRequested(ContainerId),
    /// The agent asked for a sandbox to have other resources.
    SandboxResizeRequested(SandboxId),
    /// The agent asked for an image to be fetched, which may be there.
    PullRequested(ImagePull),
    /// The agent made, changed or removed a cgroup.
    CgroupWritten(CgroupWrite),
    /// A container is in another state than before.
    Container(Arc<Instance>, Option<ContainerState>),
    /// There is a sandbox that was not there before, with this number.
    Numbered(SandboxId, u32),
    /// A sandbox is in another state than before.
    Sandbox(SandboxId, PodUid, SandboxState),
}

/// For whom the agent does something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ActionTarget {
    /// A pod.
    Pod(PodUid),
    /// The pod of a container.
    Container(ContainerId),
    /// Any pod: of an image nobody says for whom it is.
    Any,
}

/// Something that may be removed, as the journal knows it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ObjectRef {
    /// What sort of thing.
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

/// What is to be removed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Removed {
    /// A container.
    Container(ContainerId),
    /// A sandbox.
    Sandbox(SandboxId),
}

/// An image that is to go, with all that should keep it at that moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ImageRemoval {
    /// Its id.
    pub id: String,
    /// Its names.
    pub names: Vec<String>,
    /// The containers that use it.
    pub users: Vec<ContainerId>,
    /// Whether the runtime or the operator asks to keep it.
    pub pinned: bool,
    /// Its names and id, as far as calls under way ask for them: to fetch it, or to make a container.
    pub wanted: Vec<String>,
}

/// An image that is fetched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImagePull {
    /// Its name.
    pub image: String,
    /// Whether it is there already.
    pub is_there: bool,
}

/// What was written to a cgroup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CgroupWrite {
    /// Which, and what was done to it.
    pub call: String,
    /// Whose it is; that of no pod is the node's own.
    pub pod: Option<PodUid>,
    /// Whether it is another one than before.
    pub changes: bool,
}

/// What the runtime reserves a name for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ReservedName {
    /// The pod.
    pub uid: PodUid,
    /// The container; none for a sandbox.
    pub name: Option<Arc<str>>,
    /// Its number.
    pub attempt: u32,
}

/// A container as it was seen at a moment.
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
    /// Its number.
    pub attempt: u32,
    /// The hash of its definition.
    pub definition: String,
    /// Its state; `None` once it is removed.
    pub state: Option<ContainerState>,
    /// How it ended.
    pub exit_code: i32,
    /// When it was made.
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

    /// Whether it is there in the place of another one of its container.
    pub fn succeeds(&self, other: &Self) -> bool {
        (&self.uid, &self.name) == (&other.uid, &other.name)
            && self.attempt > other.attempt
            && self.state.is_some()
    }
}
