//! The observed state of the container runtime.

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

/// State of a container, as in the CRI.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ContainerState {
    /// Created, not started.
    Created,
    /// Its process runs.
    Running,
    /// Its process ended.
    Exited,
    /// Unknown to the runtime.
    Unknown,
}

/// State of a pod sandbox, as in the CRI.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SandboxState {
    /// Containers can run in it.
    Ready,
    /// Stopped, or stopping.
    NotReady,
}

/// A sandbox as in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sandbox {
    /// The runtime's id.
    pub id: SandboxId,
    /// The pod it belongs to.
    pub pod_uid: PodUid,
    /// The pod's namespace and name.
    pub pod: PodName,
    /// The number of the sandbox of its pod, from 0.
    pub attempt: u32,
    /// Its state.
    pub state: SandboxState,
    /// When it was created.
    pub created_at: Timestamp,
}

/// A container as in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Container {
    /// The runtime's id.
    pub id: ContainerId,
    /// Its sandbox.
    pub sandbox_id: SandboxId,
    /// The UID of its pod by its own labels, not by its sandbox; empty without a label.
    pub pod_uid: PodUid,
    /// The pod's namespace and name; empty without labels.
    pub pod: PodName,
    /// Its name in the pod spec.
    pub name: Arc<str>,
    /// Its restart count.
    pub attempt: u32,
    /// Its state.
    pub state: ContainerState,
    /// When it was created.
    pub created_at: Timestamp,
    /// The reference of its image in the runtime.
    pub image_ref: Arc<str>,
}

/// The status of a sandbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SandboxStatus {
    /// The runtime's id.
    pub id: SandboxId,
    /// The pod it belongs to.
    pub pod_uid: PodUid,
    /// The pod's namespace and name.
    pub pod: PodName,
    /// The number of the sandbox of its pod, from 0.
    pub attempt: u32,
    /// Its state.
    pub state: SandboxState,
    /// When it was created.
    pub created_at: Timestamp,
    /// The pod's IPs, the primary one first; empty with the host network.
    pub ips: Vec<IpAddr>,
    /// Whether it uses the host network.
    pub host_network: bool,
    /// The resources that its pod was allocated when it was created, from its annotation.
    pub given: Option<Arc<str>>,
}

/// The status of a container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContainerStatus {
    /// The runtime's id.
    pub id: ContainerId,
    /// Its sandbox. Only lists of the CRI have it, so the caller that listed the container fills it in; else
    /// empty.
    pub sandbox_id: SandboxId,
    /// Its name in the pod spec.
    pub name: Arc<str>,
    /// Its state.
    pub state: ContainerState,
    /// When it was created.
    pub created_at: Timestamp,
    /// When its process started.
    pub started_at: Option<Timestamp>,
    /// When its process ended.
    pub finished_at: Option<Timestamp>,
    /// The exit code; meaningful once exited.
    pub exit_code: i32,
    /// The image as in the pod spec.
    pub image: Arc<str>,
    /// The reference of the image in the runtime.
    pub image_ref: Arc<str>,
    /// The reason of its state: `Completed`, `Error`, `OOMKilled`, …
    pub reason: Arc<str>,
    /// The message to the reason.
    pub message: Arc<str>,
    /// The path of its log.
    pub log_path: Arc<str>,
    /// Its annotations: the data that the agent needs again after a restart.
    pub annotations: BTreeMap<String, String>,
    /// Its mounts from the host.
    pub mounts: Vec<Mount>,
    /// Its resource limits, if the runtime reports them.
    pub resources: Option<ReportedResources>,
    /// The user of its first process, if the runtime reports it.
    pub user: Option<Arc<ContainerUser>>,
    /// The name of its stop signal, if the runtime reports it.
    pub stop_signal: Option<Arc<str>>,
}

/// The listed sandboxes and containers of one pod.
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
    /// All its objects.
    pub fn object_ids(&self) -> impl Iterator<Item = ObjectId> + '_ {
        let sandboxes = self.sandboxes.iter().map(|sandbox| ObjectId::Sandbox(sandbox.id.clone()));
        let containers =
            self.containers.iter().map(|container| ObjectId::Container(container.id.clone()));
        sandboxes.chain(containers)
    }

    /// Whether any of its processes may run, according to the list.
    pub fn may_be_alive(&self) -> bool {
        let alive = |state| matches!(state, ContainerState::Running | ContainerState::Unknown);
        self.sandboxes.iter().any(|sandbox| sandbox.state == SandboxState::Ready)
            || self.containers.iter().any(|container| alive(container.state))
    }
}

/// Groups the two lists of the runtime by pod, the newest attempt first. So the first container
/// of a name is its latest instance. The agent counts attempts; creation times only decide
/// between equal attempts, because the clock may be set back.
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

/// The status of a pod: of all its sandboxes and containers in the runtime.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuntimePodStatus {
    /// The pod's uid.
    pub uid: PodUid,
    /// The pod's IPs; those of the last ready sandbox if none is ready.
    pub ips: Vec<IpAddr>,
    /// Its sandboxes, the newest first.
    pub sandboxes: Vec<SandboxStatus>,
    /// Its containers, the newest first.
    pub containers: Vec<ContainerStatus>,
    /// Exited instances whose status was not read, the newest first: there may be very many, and newer
    /// instances of the same name have all that is needed. For each name in here, at least
    /// two instances are in `containers`; but containers without a pod UID are all in here.
    pub older: Vec<Container>,
}

/// The fields of a container instance that lists and statuses both have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Instance<'a> {
    /// The runtime's id.
    pub id: &'a ContainerId,
    /// Its sandbox.
    pub sandbox_id: &'a SandboxId,
    /// Its name in the pod spec.
    pub name: &'a Arc<str>,
    /// Its state.
    pub state: ContainerState,
    /// When it was created.
    pub created_at: Timestamp,
    /// The reference of its image in the runtime.
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

impl RuntimePodStatus {
    /// The status of a pod without sandboxes and containers.
    pub fn empty(uid: PodUid) -> Self {
        Self {
            uid,
            ips: Vec::new(),
            sandboxes: Vec::new(),
            containers: Vec::new(),
            older: Vec::new(),
        }
    }

    /// All instances of containers; exited instances of one name with the newest first.
    pub fn instances(&self) -> impl Iterator<Item = Instance<'_>> {
        let containers = self.containers.iter().map(Instance::from);
        containers.chain(self.older.iter().map(Instance::from))
    }

    /// The newest instance of a container of the pod spec. A running instance counts before newer ones that were
    /// never started: cancelled calls left those, because the agent never creates one while another runs.
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

    /// The newest exited instance of a container.
    pub fn latest_ended(&self, name: &str) -> Option<&ContainerStatus> {
        let mut instances = self.containers.iter().filter(|container| &*container.name == name);
        instances.find(|container| container.state == ContainerState::Exited)
    }

    /// The containers that run.
    pub fn running(&self) -> impl Iterator<Item = &ContainerStatus> {
        self.containers.iter().filter(|container| container.state == ContainerState::Running)
    }

    /// The containers that may run: those that run, and those in an unknown state.
    pub fn maybe_running(&self) -> impl Iterator<Item = &ContainerStatus> {
        self.containers.iter().filter(|container| {
            matches!(container.state, ContainerState::Running | ContainerState::Unknown)
        })
    }

    /// Whether any container or sandbox of the pod may run.
    pub fn may_be_alive(&self) -> bool {
        self.has_ready_sandbox() || self.maybe_running().next().is_some()
    }

    /// Whether any container or sandbox of the pod certainly runs.
    pub fn is_running(&self) -> bool {
        self.has_ready_sandbox() || self.running().next().is_some()
    }

    /// Whether a sandbox is ready.
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
    fn objects_are_grouped_by_uid_newest_first() {
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
    fn latest_instance_has_the_highest_attempt_regardless_of_creation_time() {
        let restarted = Container { attempt: 1, ..container("new", "a", 1) };
        let pods = pods_by_uid(vec![], vec![container("old", "a", 5), restarted]);
        let ids: Vec<_> = pods[&PodUid::from("a")].object_ids().map(|id| id.to_string()).collect();
        assert_eq!(ids, ["new", "old"]);
    }

    #[test]
    fn objects_of_equal_age_are_ordered_by_id() {
        let pods = pods_by_uid(
            vec![sandbox("z", "a", 0), sandbox("y", "a", 0)],
            vec![container("n", "a", 1), container("m", "a", 1)],
        );
        let ids: Vec<_> = pods[&PodUid::from("a")].object_ids().map(|id| id.to_string()).collect();
        assert_eq!(ids, ["y", "z", "m", "n"]);
    }
}
