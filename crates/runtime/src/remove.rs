//! Removing what containers leave behind.

use std::path::Path;

use k8s_openapi::api::core::v1::Pod;
use model::ids::ContainerId;
use model::observed::PodStatus;
use model::ports::files::FileError;
use model::ports::runtime::RuntimeError;
use model::verdict::{Subject, Verdict};
use podspec::view;
use tracing::info;

use crate::act::PodRuntime;
use crate::decide::{ContainerRemoval, ContainerReset};
use crate::error::{RemoveError, SyncError};

impl PodRuntime {
    fn verdict(&self, subject: Subject, rule: &'static str, inputs: String) -> Verdict {
        let verdict = Verdict { subject, rule, inputs, at: self.parts.clock.now() };
        info!(%verdict, "removing");
        verdict
    }

    /// Ends an instance without grace and removes it. Its log stays until the pod is gone.
    pub(crate) async fn reset(
        &self,
        pod: &Pod,
        status: &PodStatus,
        reset: &ContainerReset,
    ) -> Result<(), SyncError> {
        if reset.kill {
            self.kill_for_reset(pod, status, reset).await?;
        }
        let inputs = format!("container {} of pod {}", reset.name, status.uid);
        let subject = Subject::Container(reset.id.clone());
        let verdict = self.verdict(subject, "restart-all-containers", inputs);
        self.remove_container(&verdict)
            .await
            .map_err(|source| SyncError::RemoveContainer { name: reset.name.clone(), source })
    }

    /// Removes an instance with its log and the link to that. The log goes first: once the container
    /// is gone, nobody knows of it.
    pub(crate) async fn remove_remains(
        &self,
        pod: &Pod,
        status: &PodStatus,
        removal: &ContainerRemoval,
    ) -> Result<(), RemoveError> {
        let ContainerRemoval { id, name, rule } = removal;
        let logs = &self.parts.logs;
        let inputs = || format!("container {name} of pod {}", status.uid);
        let instance = status.containers.iter().find(|instance| instance.id == *id);
        let log = instance.map(|instance| Path::new(&*instance.log_path));
        if let Some(log) = log.filter(|log| log.starts_with(&logs.pod_logs)) {
            let subject = Subject::ContainerLog(log.to_owned());
            self.remove_file(&logs.pod_logs, &self.verdict(subject, rule, inputs())).await?;
        }
        let link = logs.container_link(&view::pod_name(pod), name, id);
        let verdict = self.verdict(Subject::LogLink(link), rule, inputs());
        self.remove_file(&logs.container_links, &verdict).await?;
        let verdict = self.verdict(Subject::Container(id.clone()), rule, inputs());
        self.remove_container(&verdict).await.map_err(RemoveError::Container)
    }

    async fn remove_file(&self, root: &Path, verdict: &Verdict) -> Result<(), RemoveError> {
        let removed: Result<(), FileError> = self.parts.files.remove(root, verdict).await;
        removed.map_err(RemoveError::File)
    }

    /// Removes a container that never ran: it has no log.
    pub(crate) async fn remove_unused(
        &self,
        id: &ContainerId,
        name: &str,
        rule: &'static str,
    ) -> Result<(), RuntimeError> {
        let subject = Subject::Container(id.clone());
        self.remove_container(&self.verdict(subject, rule, format!("container {name}"))).await
    }

    async fn remove_container(&self, verdict: &Verdict) -> Result<(), RuntimeError> {
        match self.parts.runtime.remove_container(verdict).await {
            Err(error) if !error.is_not_found() => Err(error),
            _ => Ok(()),
        }
    }
}
