//! The sandboxes and containers of the runtime, and the operations on them.
//!
//! Every change goes through this module, which sends the events as containerd does: sandboxes and containers
//! are created, started, stopped and deleted; a failed start and a lost container send no event.

mod containers;
mod lists;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use jiff::Timestamp;
use model::ids::{ContainerId, ObjectId, SandboxId};
use model::observed::{ContainerState, Sandbox, SandboxState};
use model::ports::runtime::{Code, ContainerEventKind};
use model::wanted::{NamespaceMode, SandboxConfig};

use super::by_pod::ByPod;
use super::container::{ContainerRecord, EXIT_KILLED};
use super::feed::Feed;
use super::numbers::Numbers;
use containers::container_name;

pub(super) use containers::NewContainer;

/// Why the runtime refuses a call.
#[derive(Debug)]
pub(super) struct Refusal {
    pub(super) code: Code,
    pub(super) message: String,
}

impl Refusal {
    pub(super) fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }

    pub(super) fn not_found(what: &str, id: &str) -> Self {
        Self::new(Code::NotFound, format!("{what} {id:?}: not found"))
    }
}

#[derive(Debug)]
pub(crate) struct SandboxRecord {
    pub(crate) id: SandboxId,
    pub(crate) config: SandboxConfig,
    pub(crate) state: SandboxState,
    pub(crate) created_at: Timestamp,
    /// Released when it is stopped, not when it dies.
    pub(crate) ips: Vec<IpAddr>,
    pub(super) containers: BTreeSet<ContainerId>,
}

impl SandboxRecord {
    /// Its list entry.
    pub(super) fn listed(&self) -> Sandbox {
        Sandbox {
            id: self.id.clone(),
            pod_uid: self.config.pod_uid.clone(),
            pod: self.config.pod.clone(),
            attempt: self.config.attempt,
            state: self.state,
            created_at: self.created_at,
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct Store {
    numbers: Numbers,
    sandboxes: BTreeMap<SandboxId, SandboxRecord>,
    containers: BTreeMap<ContainerId, ContainerRecord>,
    /// The owners of unique names, sandboxes and containers apart.
    sandbox_names: BTreeMap<String, SandboxId>,
    container_names: BTreeMap<String, ContainerId>,
    /// Names that calls in progress reserve.
    names_under_way: BTreeSet<Name>,
    sandboxes_by_pod: ByPod<SandboxId>,
    containers_by_pod: ByPod<ContainerId>,
    /// When processes end by themselves. An entry of a container that ended in another way stays until its
    /// time, and then does nothing.
    ends: BTreeSet<(Timestamp, ContainerId)>,
    pub(super) feed: Feed,
}

/// A unique name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Name {
    Sandbox(String),
    Container(String),
}

impl Store {
    /// Reserves a name for a call, which releases it when it is done. The created object has the name by then.
    pub(super) fn reserve(&mut self, name: &Name) -> Result<(), Refusal> {
        let (what, name_itself, owner) = match name {
            Name::Sandbox(itself) => {
                ("sandbox", itself, self.sandbox_names.get(itself).map(SandboxId::as_str))
            }
            Name::Container(itself) => {
                ("container", itself, self.container_names.get(itself).map(ContainerId::as_str))
            }
        };
        let refusal = |owner| Err(reserved(what, name_itself, owner));
        if let Some(owner) = owner {
            return refusal(owner);
        }
        if self.names_under_way.insert(name.clone()) { Ok(()) } else { refusal("a call under way") }
    }

    pub(super) fn release(&mut self, name: &Name) {
        self.names_under_way.remove(name);
    }

    /// Creates a sandbox with the name that the call reserved.
    pub(super) fn run_sandbox(&mut self, config: &SandboxConfig, now: Timestamp) -> SandboxId {
        let name = sandbox_name(config);
        let id = SandboxId::from(self.numbers.id());
        let ips = match config.network {
            NamespaceMode::Node => Vec::new(),
            NamespaceMode::Pod | NamespaceMode::Container => vec![self.numbers.address()],
        };
        let record = SandboxRecord {
            id: id.clone(),
            config: config.clone(),
            state: SandboxState::Ready,
            created_at: now,
            ips,
            containers: BTreeSet::new(),
        };
        self.sandbox_names.insert(name, id.clone());
        self.sandboxes_by_pod.add(&config.labels, &id);
        self.sandboxes.insert(id.clone(), record);
        self.send_sandbox_event(ContainerEventKind::Created, &id, now);
        self.send_sandbox_event(ContainerEventKind::Started, &id, now);
        id
    }

    /// Kills all containers of a sandbox, and the sandbox. Containers that never started keep their state.
    pub(super) fn stop_sandbox(&mut self, id: &SandboxId, now: Timestamp) {
        self.advance(now);
        let Some(sandbox) = self.sandboxes.get_mut(id) else {
            return;
        };
        sandbox.ips.clear();
        let was = std::mem::replace(&mut sandbox.state, SandboxState::NotReady);
        for container in sandbox.containers.clone() {
            self.alter(&container, now, |record| record.kill(now, EXIT_KILLED));
        }
        if was == SandboxState::Ready {
            self.send_sandbox_event(ContainerEventKind::Stopped, id, now);
        }
    }

    /// The pause process of a sandbox dies: its network stays, and so do its containers, unless they share its
    /// PID namespace. Returns false if it is not ready.
    pub(super) fn kill_sandbox(&mut self, id: &SandboxId, now: Timestamp) -> bool {
        self.advance(now);
        let sandbox = self.sandboxes.get_mut(id);
        let Some(sandbox) = sandbox.filter(|one| one.state == SandboxState::Ready) else {
            return false;
        };
        sandbox.state = SandboxState::NotReady;
        let containers = sandbox.containers.clone();
        self.send_sandbox_event(ContainerEventKind::Stopped, id, now);
        for container in containers {
            self.alter(&container, now, |record| {
                if record.config.pid == NamespaceMode::Pod {
                    record.kill(now, EXIT_KILLED);
                }
            });
        }
        true
    }

    pub(super) fn remove_sandbox(&mut self, id: &SandboxId, now: Timestamp) {
        self.stop_sandbox(id, now);
        let Some(sandbox) = self.sandboxes.get(id) else {
            return;
        };
        for container in sandbox.containers.clone() {
            self.forget_container(&container, now);
        }
        self.send_sandbox_event(ContainerEventKind::Deleted, id, now);
        if let Some(sandbox) = self.sandboxes.remove(id) {
            self.sandbox_names.remove(&sandbox_name(&sandbox.config));
            self.sandboxes_by_pod.remove(&sandbox.config.labels, id);
        }
    }

    /// Ends every process whose time has come, the earliest first.
    pub(super) fn advance(&mut self, now: Timestamp) {
        while self.ends.first().is_some_and(|(at, _)| *at <= now)
            && let Some((at, id)) = self.ends.pop_first()
        {
            self.alter(&id, at, |record| record.settle(at));
        }
    }

    /// When the next process ends by itself.
    pub(super) fn next_end(&mut self) -> Option<Timestamp> {
        loop {
            let (at, id) = self.ends.first()?;
            let end = self.containers.get(id).and_then(ContainerRecord::ends_at);
            if end == Some(*at) {
                return end;
            }
            self.ends.pop_first();
        }
    }

    /// Changes a container and sends the event of the change.
    fn alter<T>(
        &mut self,
        id: &ContainerId,
        at: Timestamp,
        change: impl FnOnce(&mut ContainerRecord) -> T,
    ) -> Option<T> {
        let record = self.containers.get_mut(id)?;
        let before = (record.state(), record.ends_at());
        let answer = change(record);
        if let Some(end) = record.ends_at()
            && before.1 != Some(end)
        {
            self.ends.insert((end, id.clone()));
            // Waiting streams must wait for another time.
            self.feed.wake();
        }
        let kind = match (before.0, record.state()) {
            (ContainerState::Created, ContainerState::Running) => ContainerEventKind::Started,
            (ContainerState::Running | ContainerState::Unknown, ContainerState::Exited) => {
                ContainerEventKind::Stopped
            }
            _ => return Some(answer),
        };
        if let Some(sandbox) = self.sandboxes.get(&record.sandbox_id) {
            self.feed.send(kind, ObjectId::Container(id.clone()), sandbox.listed(), at);
        }
        Some(answer)
    }

    fn send_sandbox_event(&mut self, kind: ContainerEventKind, id: &SandboxId, at: Timestamp) {
        if let Some(sandbox) = self.sandboxes.get(id) {
            self.feed.send(kind, ObjectId::Sandbox(id.clone()), sandbox.listed(), at);
        }
    }

    /// Containers are removed before their sandbox.
    fn forget_container(&mut self, id: &ContainerId, at: Timestamp) {
        let Some(record) = self.containers.remove(id) else {
            return;
        };
        self.containers_by_pod.remove(&record.config.labels, id);
        let sandbox =
            self.sandboxes.get_mut(&record.sandbox_id).expect("a sandbox outlives its containers");
        sandbox.containers.remove(id);
        self.container_names.remove(&container_name(&record.config, &sandbox.config));
        let object = ObjectId::Container(id.clone());
        self.feed.send(ContainerEventKind::Deleted, object, sandbox.listed(), at);
    }
}

fn reserved(what: &str, name: &str, owner: &str) -> Refusal {
    let message = format!("{what} name {name:?} is reserved for {owner:?}");
    Refusal::new(Code::FailedPrecondition, message)
}

/// The unique name of a sandbox.
pub(super) fn sandbox_name(config: &SandboxConfig) -> String {
    let SandboxConfig { pod, pod_uid, attempt, .. } = config;
    format!("{}_{}_{pod_uid}_{attempt}", pod.name, pod.namespace)
}
