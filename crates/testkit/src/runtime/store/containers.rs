//! Operations on containers.

use std::sync::Arc;

use jiff::Timestamp;
use model::ids::{ContainerId, ObjectId, SandboxId};
use model::observed::{ContainerState, SandboxState};
use model::ports::runtime::{Code, ContainerEventKind};
use model::wanted::{ContainerConfig, SandboxConfig};
use tokio::sync::Notify;

use super::{Name, Refusal, Store};
use crate::runtime::container::{ContainerRecord, EXIT_KILLED, Life};
use crate::runtime::script::Script;

/// The parameters of a container to create.
#[derive(Debug)]
pub(in crate::runtime) struct NewContainer {
    pub(in crate::runtime) sandbox: SandboxId,
    pub(in crate::runtime) config: ContainerConfig,
    pub(in crate::runtime) log_directory: String,
    pub(in crate::runtime) image_id: String,
    pub(in crate::runtime) script: Script,
}

impl Store {
    /// The name of a container that can be created now: its sandbox is ready.
    pub(in crate::runtime) fn admit_container(
        &self,
        sandbox: &SandboxId,
        config: &ContainerConfig,
    ) -> Result<Name, Refusal> {
        let record = self
            .sandboxes
            .get(sandbox)
            .ok_or_else(|| Refusal::not_found("sandbox", sandbox.as_str()))?;
        if record.state != SandboxState::Ready {
            return Err(not_running(sandbox));
        }
        Ok(Name::Container(container_name(config, &record.config)))
    }

    /// Creates a container with the name that the call reserved.
    pub(in crate::runtime) fn create_container(
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
        let listed = sandbox.listed();
        self.container_names.insert(name, id.clone());
        self.containers_by_pod.add(&record.config.labels, &id);
        self.containers.insert(id.clone(), record);
        let object = ObjectId::Container(id.clone());
        self.feed.send(ContainerEventKind::Created, object, listed, now);
        Ok(id)
    }

    /// Starts a container. One whose start fails has exited; one that was started before is left unchanged.
    pub(in crate::runtime) fn start_container(
        &mut self,
        id: &ContainerId,
        now: Timestamp,
    ) -> Result<(), Refusal> {
        self.advance(now);
        let record =
            self.containers.get(id).ok_or_else(|| Refusal::not_found("container", id.as_str()))?;
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
            self.alter(id, now, |record| record.start(now));
            return Ok(());
        };
        self.alter(id, now, |record| record.fail_start(now, &refusal.message));
        Err(refusal)
    }

    /// The current state of a container.
    pub(in crate::runtime) fn container(
        &mut self,
        id: &ContainerId,
        now: Timestamp,
    ) -> Option<&ContainerRecord> {
        self.advance(now);
        self.containers.get(id)
    }

    /// Changes a container, if it exists.
    pub(in crate::runtime) fn change<T>(
        &mut self,
        id: &ContainerId,
        now: Timestamp,
        change: impl FnOnce(&mut ContainerRecord) -> T,
    ) -> Option<T> {
        self.advance(now);
        self.alter(id, now, change)
    }

    /// Removes a container, by force if it runs.
    pub(in crate::runtime) fn remove_container(&mut self, id: &ContainerId, now: Timestamp) {
        if self.change(id, now, |record| record.kill(now, EXIT_KILLED)).is_some() {
            self.forget_container(id, now);
        }
    }
}

fn not_running(sandbox: &SandboxId) -> Refusal {
    Refusal::new(Code::Unknown, format!("sandbox {sandbox:?} is not running"))
}

/// The unique name of a container. It belongs to the pod, not the sandbox: a new sandbox does not release it.
pub(super) fn container_name(config: &ContainerConfig, sandbox: &SandboxConfig) -> String {
    let SandboxConfig { pod, pod_uid, .. } = sandbox;
    format!("{}_{}_{}_{pod_uid}_{}", config.name, pod.name, pod.namespace, config.attempt)
}
