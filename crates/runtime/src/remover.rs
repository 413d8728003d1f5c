//! Removes containers and their logs.

use std::path::Path;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use model::ids::ContainerId;
use model::log_layout::LogLayout;
use model::observed::{ContainerState, RuntimePodStatus};
use model::ports::clock::WallClock;
use model::ports::files::HostFiles;
use model::ports::runtime::{ContainerService, RuntimeError};
use model::verdict::{Detail, Owner, Subject, Verdict};
use podspec::view;

use crate::decide::{ContainerRemoval, ContainerReset};
use crate::error::{RemoveError, RemoveUnused, SyncError};
use crate::start_context::StartContext;

/// Removes containers, some of them with their logs.
#[derive(Debug)]
pub(crate) struct ContainerRemover {
    pub(crate) containers: Arc<dyn ContainerService>,
    pub(crate) files: Arc<dyn HostFiles>,
    pub(crate) logs: LogLayout,
    pub(crate) clock: Arc<dyn WallClock>,
}

impl ContainerRemover {
    fn verdict(
        &self,
        subject: Subject,
        rule: &'static str,
        name: &str,
        owner: Option<Owner>,
    ) -> Verdict {
        let (name, at) = (name.into(), self.clock.now());
        Verdict { subject, name, owner, rule, detail: Detail::default(), at }
    }

    /// Removes an exited instance, because all containers restart. Its log stays until the
    /// pod is removed.
    pub(crate) async fn reset(
        &self,
        pod: &Pod,
        status: &RuntimePodStatus,
        reset: &ContainerReset,
    ) -> Result<(), SyncError> {
        let subject = Subject::Container(reset.id.clone());
        let owner = Some(owner(pod, status));
        let verdict = self.verdict(subject, "restart-all-containers", &reset.name, owner);
        self.remove_container(&verdict)
            .await
            .map_err(|source| SyncError::RemoveContainer { name: reset.name.clone(), source })
    }

    /// Removes an instance with its log and the link to that. The log is removed first: without the container
    /// it could not be found.
    pub(crate) async fn leftovers(
        &self,
        pod: &Pod,
        status: &RuntimePodStatus,
        removal: &ContainerRemoval,
    ) -> Result<(), RemoveError> {
        let ContainerRemoval { id, name, rule } = removal;
        let instance = status.containers.iter().find(|instance| instance.id == *id);
        let unused = instance.is_some_and(|instance| instance.state == ContainerState::Created);
        if unused && !self.is_never_started(id).await? {
            return Ok(());
        }
        let log_path = match instance {
            Some(instance) => Some(Arc::clone(&instance.log_path)),
            // An instance whose status was not read.
            None => self.log_path(id).await?,
        };
        let log = log_path.as_deref().map(Path::new);
        let logs = &self.logs;
        for subject in logs.removal_order(&view::pod_name(pod), name, id, log) {
            let verdict = self.verdict(subject, rule, name, Some(owner(pod, status)));
            match verdict.subject {
                Subject::Container(_) => {
                    self.remove_container(&verdict).await.map_err(RemoveError::Container)?;
                }
                Subject::LogLink(_) => self.remove_file(&logs.container_links, &verdict).await?,
                _ => self.remove_file(&logs.pod_logs, &verdict).await?,
            }
        }
        Ok(())
    }

    /// The path of the log of an instance; `None` if the instance is gone.
    async fn log_path(&self, id: &ContainerId) -> Result<Option<Arc<str>>, RemoveError> {
        match self.containers.container_status(id).await {
            Ok(status) => Ok(Some(status.log_path)),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(RemoveError::Container(error)),
        }
    }

    async fn remove_file(&self, root: &Path, verdict: &Verdict) -> Result<(), RemoveError> {
        self.files.remove(root, verdict).await.map(drop).map_err(RemoveError::File)
    }

    /// Removes a container that was observed as never started, unless a cancelled call has started
    /// it since: the next sync stops a running process gracefully.
    pub(crate) async fn never_started(
        &self,
        starting: &StartContext<'_>,
        id: &ContainerId,
        rule: &'static str,
    ) -> Result<(), RemoveUnused> {
        if self.is_never_started(id).await? {
            self.unused(starting, id, rule).await?;
        }
        Ok(())
    }

    /// Whether a container exists and still has not been started.
    async fn is_never_started(&self, id: &ContainerId) -> Result<bool, RemoveUnused> {
        match self.containers.container_status(id).await {
            Ok(status) if status.state == ContainerState::Created => Ok(true),
            Ok(_) => Err(RemoveUnused::Started),
            Err(error) if error.is_not_found() => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Removes a container that was just observed as not running and has no log.
    pub(crate) async fn unused(
        &self,
        starting: &StartContext<'_>,
        id: &ContainerId,
        rule: &'static str,
    ) -> Result<(), RuntimeError> {
        let (subject, name) = (Subject::Container(id.clone()), &starting.container.name);
        let owner = Some(owner(starting.pod, starting.status));
        self.remove_container(&self.verdict(subject, rule, name, owner)).await
    }

    async fn remove_container(&self, verdict: &Verdict) -> Result<(), RuntimeError> {
        match self.containers.remove_container(verdict).await {
            Err(error) if !error.is_not_found() => Err(error),
            _ => Ok(()),
        }
    }
}

fn owner(pod: &Pod, status: &RuntimePodStatus) -> Owner {
    Owner { uid: status.uid.clone(), pod: Some(view::pod_name(pod)) }
}
