//! The sandboxes and containers that the runtime has, and what can be done with them.
//!
//! Every change of either goes through here, so that whoever wants to tell others of changes has one
//! place to do it.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use jiff::Timestamp;
use model::ids::{ContainerId, PodUid, SandboxId};
use model::labels;
use model::observed::{Container, ContainerState, Sandbox, SandboxState, SandboxStatus};
use model::ports::runtime::{Code, ContainerFilter, SandboxFilter};
use model::wanted::{ContainerConfig, NamespaceMode, SandboxConfig};
use tokio::sync::Notify;

use super::container::{ContainerRecord, EXIT_KILLED, Life};
use super::numbers::Numbers;
use super::script::Script;

/// Why the runtime does not do what it was asked.
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
struct SandboxRecord {
    config: SandboxConfig,
    state: SandboxState,
    created_at: Timestamp,
    /// Given back when it is stopped, not when it dies.
    ips: Vec<IpAddr>,
    containers: BTreeSet<ContainerId>,
}

/// A container to make, once it is known what it will run.
#[derive(Debug)]
pub(super) struct NewContainer {
    pub(super) sandbox: SandboxId,
    pub(super) config: ContainerConfig,
    pub(super) log_directory: String,
    pub(super) image_id: String,
    pub(super) script: Script,
}

#[derive(Debug, Default)]
pub(super) struct Store {
    numbers: Numbers,
    sandboxes: BTreeMap<SandboxId, SandboxRecord>,
    containers: BTreeMap<ContainerId, ContainerRecord>,
    /// Who has a name that only one may have, sandboxes and containers apart.
    sandbox_names: BTreeMap<String, SandboxId>,
    container_names: BTreeMap<String, ContainerId>,
}

impl Store {
    pub(super) fn run_sandbox(
        &mut self,
        config: &SandboxConfig,
        now: Timestamp,
    ) -> Result<SandboxId, Refusal> {
        let name = sandbox_name(config);
        if let Some(owner) = self.sandbox_names.get(&name) {
            return Err(reserved("sandbox", &name, owner.as_str()));
        }
        let id = SandboxId::from(self.numbers.id());
        let ips = match config.network {
            NamespaceMode::Node => Vec::new(),
            NamespaceMode::Pod | NamespaceMode::Container => vec![self.numbers.address()],
        };
        let record = SandboxRecord {
            config: config.clone(),
            state: SandboxState::Ready,
            created_at: now,
            ips,
            containers: BTreeSet::new(),
        };
        self.sandbox_names.insert(name, id.clone());
        self.sandboxes.insert(id.clone(), record);
        Ok(id)
    }

    /// Kills all that runs in a sandbox, and the sandbox. Containers that never started stay so.
    pub(super) fn stop_sandbox(&mut self, id: &SandboxId, now: Timestamp) {
        let Some(sandbox) = self.sandboxes.get_mut(id) else {
            return;
        };
        sandbox.state = SandboxState::NotReady;
        sandbox.ips.clear();
        for container in &sandbox.containers {
            if let Some(record) = self.containers.get_mut(container) {
                record.kill(now, EXIT_KILLED);
            }
        }
    }

    /// Lets a sandbox die by itself: its network stays, and so do its containers, unless its process
    /// was the first of theirs.
    /// False when it is not ready.
    pub(super) fn kill_sandbox(&mut self, id: &SandboxId, now: Timestamp) -> bool {
        let sandbox = self.sandboxes.get_mut(id);
        let Some(sandbox) = sandbox.filter(|one| one.state == SandboxState::Ready) else {
            return false;
        };
        sandbox.state = SandboxState::NotReady;
        for container in &sandbox.containers {
            if let Some(record) = self.containers.get_mut(container)
                && record.config.pid == NamespaceMode::Pod
            {
                record.kill(now, EXIT_KILLED);
            }
        }
        true
    }

    pub(super) fn remove_sandbox(&mut self, id: &SandboxId, now: Timestamp) {
        self.stop_sandbox(id, now);
        let Some(sandbox) = self.sandboxes.remove(id) else {
            return;
        };
        self.sandbox_names.remove(&sandbox_name(&sandbox.config));
        for container in &sandbox.containers {
            self.forget_container(container, &sandbox.config);
        }
    }

    pub(super) fn sandboxes(&self, filter: &SandboxFilter) -> Vec<Sandbox> {
        let wanted = |id: &SandboxId, record: &SandboxRecord| {
            filter.id.as_ref().is_none_or(|wanted| wanted == id)
                && filter.state.is_none_or(|state| state == record.state)
                && is_of_pod(&record.config.labels, filter.pod_uid.as_ref())
        };
        self.sandboxes
            .iter()
            .filter(|(id, record)| wanted(id, record))
            .map(|(id, record)| Sandbox {
                id: id.clone(),
                pod_uid: record.config.pod_uid.clone(),
                pod: record.config.pod.clone(),
                attempt: record.config.attempt,
                state: record.state,
                created_at: record.created_at,
            })
            .collect()
    }

    pub(super) fn sandbox_status(&self, id: &SandboxId) -> Result<SandboxStatus, Refusal> {
        let record =
            self.sandboxes.get(id).ok_or_else(|| Refusal::not_found("sandbox", id.as_str()))?;
        Ok(SandboxStatus {
            id: id.clone(),
            pod_uid: record.config.pod_uid.clone(),
            pod: record.config.pod.clone(),
            attempt: record.config.attempt,
            state: record.state,
            created_at: record.created_at,
            ips: record.ips.clone(),
            host_network: record.config.network == NamespaceMode::Node,
        })
    }

    /// Whether a container could be made now: its sandbox lives and its name is free.
    pub(super) fn admit_container(
        &self,
        sandbox: &SandboxId,
        config: &ContainerConfig,
    ) -> Result<(), Refusal> {
        let record = self
            .sandboxes
            .get(sandbox)
            .ok_or_else(|| Refusal::not_found("sandbox", sandbox.as_str()))?;
        if record.state != SandboxState::Ready {
            return Err(not_running(sandbox));
        }
        let name = container_name(config, &record.config);
        match self.container_names.get(&name) {
            Some(owner) => Err(reserved("container", &name, owner.as_str())),
            None => Ok(()),
        }
    }

    pub(super) fn create_container(
        &mut self,
        new: NewContainer,
        now: Timestamp,
    ) -> Result<ContainerId, Refusal> {
        self.admit_container(&new.sandbox, &new.config)?;
        let id = ContainerId::from(self.numbers.id());
        let sandbox = self
            .sandboxes
            .get_mut(&new.sandbox)
            .expect("a container is admitted to a sandbox that exists");
        let name = container_name(&new.config, &sandbox.config);
        let log_path = match (&*new.log_directory, &*new.config.log_path) {
            ("", _) | (_, "") => String::new(),
            (directory, path) => format!("{}/{path}", directory.trim_end_matches('/')),
        };
        let record = ContainerRecord {
            id: id.clone(),
            sandbox_id: new.sandbox,
            config: new.config,
            created_at: now,
            image_id: new.image_id,
            log_path: log_path.into(),
            script: new.script,
            life: Life::Created,
            ended: Arc::new(Notify::new()),
        };
        sandbox.containers.insert(id.clone());
        self.container_names.insert(name, id.clone());
        self.containers.insert(id.clone(), record);
        Ok(id)
    }

    /// Starts a container. One whose start fails has exited; one that was started before is left
    /// as it is.
    pub(super) fn start_container(
        &mut self,
        id: &ContainerId,
        now: Timestamp,
    ) -> Result<(), Refusal> {
        let record = self
            .containers
            .get_mut(id)
            .ok_or_else(|| Refusal::not_found("container", id.as_str()))?;
        record.settle(now);
        if record.state() != ContainerState::Created {
            let message = format!("container is {:?}, not Created", record.state());
            return Err(Refusal::new(Code::Unknown, message));
        }
        let sandbox = self.sandboxes.get(&record.sandbox_id);
        let refusal = if sandbox.is_none_or(|sandbox| sandbox.state != SandboxState::Ready) {
            not_running(&record.sandbox_id)
        } else if record.script == Script::Missing {
            Refusal::new(Code::Unknown, "no such program in the image")
        } else {
            record.start(now);
            return Ok(());
        };
        record.fail_start(now, &refusal.message);
        Err(refusal)
    }

    /// A container with its life brought up to now.
    pub(super) fn container(
        &mut self,
        id: &ContainerId,
        now: Timestamp,
    ) -> Option<&mut ContainerRecord> {
        let record = self.containers.get_mut(id)?;
        record.settle(now);
        Some(record)
    }

    /// Removes a container, by force if it runs.
    pub(super) fn remove_container(&mut self, id: &ContainerId, now: Timestamp) {
        let Some(record) = self.containers.get_mut(id) else {
            return;
        };
        record.kill(now, EXIT_KILLED);
        let sandbox_id = record.sandbox_id.clone();
        if let Some(sandbox) = self.sandboxes.get_mut(&sandbox_id) {
            sandbox.containers.remove(id);
            let config = sandbox.config.clone();
            self.forget_container(id, &config);
        }
    }

    pub(super) fn containers(
        &mut self,
        filter: &ContainerFilter,
        now: Timestamp,
    ) -> Vec<Container> {
        let wanted = |record: &ContainerRecord| {
            filter.id.as_ref().is_none_or(|id| *id == record.id)
                && filter.state.is_none_or(|state| state == record.state())
                && filter.sandbox_id.as_ref().is_none_or(|id| *id == record.sandbox_id)
                && is_of_pod(&record.config.labels, filter.pod_uid.as_ref())
        };
        let mut containers = Vec::new();
        for record in self.containers.values_mut() {
            record.settle(now);
            if wanted(record) {
                containers.extend(record.listed());
            }
        }
        containers
    }

    fn forget_container(&mut self, id: &ContainerId, sandbox: &SandboxConfig) {
        if let Some(record) = self.containers.remove(id) {
            self.container_names.remove(&container_name(&record.config, sandbox));
        }
    }
}

/// Whether labels say that something belongs to a pod; that is all the runtime filters by.
fn is_of_pod(labels: &BTreeMap<String, String>, wanted: Option<&PodUid>) -> bool {
    wanted.is_none_or(|uid| labels.get(labels::POD_UID).is_some_and(|label| label == uid.as_str()))
}

fn not_running(sandbox: &SandboxId) -> Refusal {
    Refusal::new(Code::Unknown, format!("sandbox {sandbox:?} is not running"))
}

fn reserved(what: &str, name: &str, owner: &str) -> Refusal {
    let message = format!("{what} name {name:?} is reserved for {owner:?}");
    Refusal::new(Code::FailedPrecondition, message)
}

/// The name that one sandbox at a time may have.
fn sandbox_name(config: &SandboxConfig) -> String {
    let SandboxConfig { pod, pod_uid, attempt, .. } = config;
    format!("{}_{}_{pod_uid}_{attempt}", pod.name, pod.namespace)
}

/// The name that one container at a time may have. It is the pod's, not the sandbox's: a new sandbox
/// does not free it.
fn container_name(config: &ContainerConfig, sandbox: &SandboxConfig) -> String {
    let SandboxConfig { pod, pod_uid, .. } = sandbox;
    format!("{}_{}_{}_{pod_uid}_{}", config.name, pod.name, pod.namespace, config.attempt)
}
