//! What was observed in the container runtime.

mod resources;
mod user;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use jiff::Timestamp;

use crate::ids::{ContainerId, ObjectId, PodName, PodUid, SandboxId};
use crate::wanted::Mount;

pub use resources::ReportedResources;
pub use user::{ContainerUser, LinuxUser};

/// State of a container, in the runtime's words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ContainerState {
    /// Made, not started.
    Created,
    /// Its process lives.
    Running,
    /// Its process ended.
    Exited,
    /// The runtime cannot tell.
    Unknown,
}

/// State of a pod sandbox, in the runtime's words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SandboxState {
    /// Containers can run in it.
    Ready,
    /// Dead, or about to be.
    NotReady,
}

/// A sandbox as a list shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sandbox {
    /// The runtime's id.
    pub id: SandboxId,
    /// The pod it belongs to.
    pub pod_uid: PodUid,
    /// The pod's namespace and name.
    pub pod: PodName,
    /// Counts the sandboxes of a pod from 0.
    pub attempt: u32,
    /// Its state.
    pub state: SandboxState,
    /// When it was made.
    pub created_at: Timestamp,
}

/// A container as a list shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Container {
    /// The runtime's id.
    pub id: ContainerId,
    /// The sandbox it lives in.
    pub sandbox_id: SandboxId,
    /// The pod it belongs to by its labels; empty where they do not say, whatever its sandbox says.
    pub pod_uid: PodUid,
    /// The pod's namespace and name; empty where its labels do not say.
    pub pod: PodName,
    /// Its name in the pod's specification.
    pub name: Arc<str>,
    /// Counts its restarts.
    pub attempt: u32,
    /// Its state.
    pub state: ContainerState,
    /// When it was made.
    pub created_at: Timestamp,
    /// The image it was made from, as the runtime refers to it.
    pub image_ref: Arc<str>,
}

/// A sandbox looked at closely.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SandboxStatus {
    /// The runtime's id.
    pub id: SandboxId,
    /// The pod it belongs to.
    pub pod_uid: PodUid,
    /// The pod's namespace and name.
    pub pod: PodName,
    /// Counts the sandboxes of a pod from 0.
    pub attempt: u32,
    /// Its state.
    pub state: SandboxState,
    /// When it was made.
    pub created_at: Timestamp,
    /// Addresses of the pod, the primary one first; empty on the host's network.
    pub ips: Vec<IpAddr>,
    /// Whether it shares the host's network.
    pub host_network: bool,
    /// What its pod was given when it was made, as who made it noted down.
    pub given: Option<Arc<str>>,
}

/// A container looked at closely.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContainerStatus {
    /// The runtime's id.
    pub id: ContainerId,
    /// The sandbox it lives in. The CRI tells this in lists alone, so whoever lists fills it in; empty
    /// when nobody did.
    pub sandbox_id: SandboxId,
    /// Its name in the pod's specification.
    pub name: Arc<str>,
    /// Its state.
    pub state: ContainerState,
    /// When it was made.
    pub created_at: Timestamp,
    /// When its process started.
    pub started_at: Option<Timestamp>,
    /// When its process ended.
    pub finished_at: Option<Timestamp>,
    /// How its process ended; meaningful once exited.
    pub exit_code: i32,
    /// Image as the pod's specification names it.
    pub image: Arc<str>,
    /// Image as the runtime refers to it.
    pub image_ref: Arc<str>,
    /// Why it is in its state: `Completed`, `Error`, `OOMKilled`, …
    pub reason: Arc<str>,
    /// The reason in a sentence.
    pub message: Arc<str>,
    /// Where its log is written.
    pub log_path: Arc<str>,
    /// Annotations it was made with: what the agent must know again after a restart.
    pub annotations: BTreeMap<String, String>,
    /// Files and directories of the host that it sees.
    pub mounts: Vec<Mount>,
    /// How much it may use, where the runtime says.
    pub resources: Option<ReportedResources>,
    /// Whom its first process was started as, where the runtime says.
    pub user: Option<Arc<ContainerUser>>,
    /// The signal that asks it to end, by name, where the runtime says.
    pub stop_signal: Option<Arc<str>>,
}

/// All that a list shows of one pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuntimePod {
    /// The pod's uid.
    pub uid: PodUid,
    /// The pod's namespace and name.
    pub pod: PodName,
    /// Its sandboxes, the newest first.
    pub sandboxes: Vec<Sandbox>,
    /// Its containers, the newest first.
    pub containers: Vec<Container>,
}

impl RuntimePod {
    /// Every object of it with its id.
    pub fn object_ids(&self) -> impl Iterator<Item = ObjectId> + '_ {
        let sandboxes = self.sandboxes.iter().map(|sandbox| ObjectId::Sandbox(sandbox.id.clone()));
        let containers =
            self.containers.iter().map(|container| ObjectId::Container(container.id.clone()));
        sandboxes.chain(containers)
    }

    /// Whether anything of it may live, as far as a list shows.
    pub fn may_be_alive(&self) -> bool {
        let alive = |state| matches!(state, ContainerState::Running | ContainerState::Unknown);
        self.sandboxes.iter().any(|sandbox| sandbox.state == SandboxState::Ready)
            || self.containers.iter().any(|container| alive(container.state))
    }
}

/// Groups the two lists of the runtime by pod, the newest attempt first, so that the first container
/// of a name is its latest instance. Attempts are counted by the agent; times of creation only decide
/// between equal ones, because a clock may be set back.
pub fn pods_by_uid(
    sandboxes: Vec<Sandbox>,
    containers: Vec<Container>,
) -> BTreeMap<PodUid, RuntimePod> {
    let mut pods: BTreeMap<PodUid, RuntimePod> = BTreeMap::new();
    let entry = |uid: &PodUid, pod: &PodName| RuntimePod {
        uid: uid.clone(),
        pod: pod.clone(),
        sandboxes: Vec::new(),
        containers: Vec::new(),
    };
    for sandbox in sandboxes {
        let pod = pods
            .entry(sandbox.pod_uid.clone())
            .or_insert_with(|| entry(&sandbox.pod_uid, &sandbox.pod));
        pod.sandboxes.push(sandbox);
    }
    for container in containers {
        let pod = pods
            .entry(container.pod_uid.clone())
            .or_insert_with(|| entry(&container.pod_uid, &container.pod));
        pod.containers.push(container);
    }
    for pod in pods.values_mut() {
        pod.containers.shrink_to_fit();
        pod.sandboxes.sort_by(|a, b| {
            (b.attempt, b.created_at, &a.id).cmp(&(a.attempt, a.created_at, &b.id))
        });
        pod.containers.sort_by(|a, b| {
            (b.attempt, b.created_at, &a.id).cmp(&(a.attempt, a.created_at, &b.id))
        });
    }
    pods
}

/// A pod looked at closely: the status of all that the runtime has of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodStatus {
    /// The pod's uid.
    pub uid: PodUid,
    /// Addresses of the pod; those of the last live sandbox when none is live.
    pub ips: Vec<IpAddr>,
    /// Its sandboxes, the newest first.
    pub sandboxes: Vec<SandboxStatus>,
    /// Its containers, the newest first.
    pub containers: Vec<ContainerStatus>,
    /// Ended instances that nobody looked at closely, the newest first: there may be very many, and
    /// those of the same name that ended after them say all that is asked. Where one is here, at least
    /// two of its name are among `containers`; but containers that are nobody's are all here.
    pub older: Vec<Container>,
}

/// What is known of every instance of a container, however closely it was looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Instance<'a> {
    /// The runtime's id.
    pub id: &'a ContainerId,
    /// The sandbox it lives in.
    pub sandbox_id: &'a SandboxId,
    /// Its name in the pod's specification.
    pub name: &'a Arc<str>,
    /// Its state.
    pub state: ContainerState,
    /// When it was made.
    pub created_at: Timestamp,
    /// The image it was made from, as the runtime refers to it.
    pub image_ref: &'a Arc<str>,
}

impl<'a> From<&'a ContainerStatus> for Instance<'a> {
    fn from(status: &'a ContainerStatus) -> Self {
        let ContainerStatus { id, sandbox_id, name, state, created_at, image_ref, .. } = status;
        Self { id, sandbox_id, name, state: *state, created_at: *created_at, image_ref }
    }
}

impl<'a> From<&'a Container> for Instance<'a> {
    fn from(listed: &'a Container) -> Self {
        let Container { id, sandbox_id, name, state, created_at, image_ref, .. } = listed;
        Self { id, sandbox_id, name, state: *state, created_at: *created_at, image_ref }
    }
}

impl PodStatus {
    /// The status of a pod of which the runtime has nothing.
    pub fn empty(uid: PodUid) -> Self {
        Self {
            uid,
            ips: Vec::new(),
            sandboxes: Vec::new(),
            containers: Vec::new(),
            older: Vec::new(),
        }
    }

    /// All instances of containers; those of one name that ended come with the newest first.
    pub fn instances(&self) -> impl Iterator<Item = Instance<'_>> {
        let containers = self.containers.iter().map(Instance::from);
        containers.chain(self.older.iter().map(Instance::from))
    }

    /// The newest instance of a container of the pod's specification; the one that runs where newer ones were
    /// made and never started. Nobody makes another while one runs: those came of calls that were given up.
    pub fn latest(&self, name: &str) -> Option<&ContainerStatus> {
        let mut instances = self.containers.iter().filter(|container| &*container.name == name);
        let newest = instances.clone().next()?;
        let is_past_made = |one: &&ContainerStatus| one.state != ContainerState::Created;
        let started = instances.find(is_past_made);
        Some(started.filter(|one| one.state == ContainerState::Running).unwrap_or(newest))
    }

    /// The instance before this one, of the same container.
    pub fn before(&self, this: &ContainerStatus) -> Option<&ContainerStatus> {
        let mut instances = self.containers.iter().filter(|container| container.name == this.name);
        instances.find(|container| container.id == this.id)?;
        instances.next()
    }

    /// The newest instance of a container that has ended.
    pub fn latest_ended(&self, name: &str) -> Option<&ContainerStatus> {
        let mut instances = self.containers.iter().filter(|container| &*container.name == name);
        instances.find(|container| container.state == ContainerState::Exited)
    }

    /// The containers whose process lives.
    pub fn running(&self) -> impl Iterator<Item = &ContainerStatus> {
        self.containers.iter().filter(|container| container.state == ContainerState::Running)
    }

    /// The containers whose process may live: those that run, and those of which nobody knows.
    pub fn maybe_running(&self) -> impl Iterator<Item = &ContainerStatus> {
        self.containers.iter().filter(|container| {
            matches!(container.state, ContainerState::Running | ContainerState::Unknown)
        })
    }

    /// Whether anything of the pod may live.
    pub fn may_be_alive(&self) -> bool {
        self.has_ready_sandbox() || self.maybe_running().next().is_some()
    }

    /// Whether something of the pod is known to live.
    pub fn lives(&self) -> bool {
        self.has_ready_sandbox() || self.running().next().is_some()
    }

    /// Whether a sandbox is live.
    pub fn has_ready_sandbox(&self) -> bool {
        self.sandboxes.iter().any(|sandbox| sandbox.state == SandboxState::Ready)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn container(id: &str, uid: &str, created: i64) -> Container {
        Container {
            id: id.into(),
            sandbox_id: "s".into(),
            pod_uid: uid.into(),
            pod: PodName::new("default", "web"),
            name: "main".into(),
            attempt: 0,
            state: ContainerState::Exited,
            created_at: Timestamp::from_second(created).unwrap(),
            image_ref: "image".into(),
        }
    }

    fn sandbox(id: &str, uid: &str, attempt: u32) -> Sandbox {
        Sandbox {
            id: id.into(),
            pod_uid: uid.into(),
            pod: PodName::new("default", "web"),
            attempt,
            state: SandboxState::NotReady,
            created_at: Timestamp::UNIX_EPOCH,
        }
    }

    #[test]
    fn objects_are_grouped_by_uid_with_the_newest_first() {
        let pods = pods_by_uid(
            vec![sandbox("s0", "a", 0), sandbox("s1", "a", 1)],
            vec![container("c1", "a", 1), container("c3", "a", 3), container("b", "b", 2)],
        );
        let a = &pods[&PodUid::from("a")];
        let ids: Vec<_> = a.object_ids().map(|id| id.to_string()).collect();
        assert_eq!(ids, ["s1", "s0", "c3", "c1"]);
        assert_eq!(pods[&PodUid::from("b")].containers.len(), 1);
    }

    #[test]
    fn the_latest_instance_is_the_one_with_the_highest_number_whatever_the_clock_said() {
        let restarted = Container { attempt: 1, ..container("new", "a", 1) };
        let pods = pods_by_uid(vec![], vec![container("old", "a", 5), restarted]);
        let ids: Vec<_> = pods[&PodUid::from("a")].object_ids().map(|id| id.to_string()).collect();
        assert_eq!(ids, ["new", "old"]);
    }

    #[test]
    fn objects_of_the_same_age_are_ordered_by_id() {
        let pods = pods_by_uid(
            vec![sandbox("z", "a", 0), sandbox("y", "a", 0)],
            vec![container("n", "a", 1), container("m", "a", 1)],
        );
        let ids: Vec<_> = pods[&PodUid::from("a")].object_ids().map(|id| id.to_string()).collect();
        assert_eq!(ids, ["y", "z", "m", "n"]);
    }
}
