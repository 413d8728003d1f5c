//! A runtime whose removals are put on record.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use model::fingerprint::Fingerprint;
use model::ids::{ContainerId, SandboxId};
use model::image_claims::ImageClaims;
use model::observed::{Container, ContainerStatus, Sandbox, SandboxStatus};
use model::ports::journal::Outcome;
use model::ports::runtime::{
    Code, ContainerEvents, ContainerFilter, ContainerService, ExecOutput, Image, ImageFilesystem,
    ImageService, ImageUse, Lists, Runtime, RuntimeError, RuntimeInfo, RuntimeStatus,
    RuntimeVersion, SandboxFilter, SandboxService,
};
use model::verdict::{Subject, Verdict};
use model::wanted::{ContainerConfig, LinuxResources, SandboxConfig};

use super::UnderWay;
use crate::ledger::Ledger;

/// A runtime, with a record of what is removed.
#[derive(Debug)]
pub struct RecordedRuntime {
    /// The runtime itself.
    pub inner: Runtime,
    /// The record of removals.
    pub ledger: Arc<Ledger>,
    /// Images that must not go: a pod may need one while its removal waits for its note.
    pub claims: ImageClaims,
}

impl RecordedRuntime {
    async fn recorded(
        &self,
        verdict: &Verdict,
        removal: impl Future<Output = Result<(), RuntimeError>>,
    ) -> Result<(), RuntimeError> {
        let under_way = UnderWay::begin(&self.ledger, verdict).await;
        if let Subject::Image(id) = &verdict.subject
            && self.claims.names().contains(id)
        {
            under_way.was_nothing();
            return Err(RuntimeError {
                method: "RemoveImage",
                object: id.clone(),
                code: Code::FailedPrecondition,
                message: "a pod uses the image by now".to_owned(),
            });
        }
        let removed = removal.await;
        match &removed {
            Ok(()) => under_way.ended(Outcome::Removed),
            Err(error) if error.is_not_found() => under_way.ended(Outcome::AlreadyGone),
            Err(error) => under_way.ended(Outcome::Failed(&error.to_string())),
        }
        removed
    }
}

#[async_trait]
impl SandboxService for RecordedRuntime {
    async fn remove_pod_sandbox(&self, verdict: &Verdict) -> Result<(), RuntimeError> {
        self.recorded(verdict, self.inner.sandboxes.remove_pod_sandbox(verdict)).await
    }

    async fn run_pod_sandbox(&self, config: &SandboxConfig) -> Result<SandboxId, RuntimeError> {
        self.inner.sandboxes.run_pod_sandbox(config).await
    }

    async fn stop_pod_sandbox(&self, id: &SandboxId) -> Result<(), RuntimeError> {
        self.inner.sandboxes.stop_pod_sandbox(id).await
    }

    async fn list_pod_sandboxes(
        &self,
        filter: &SandboxFilter,
    ) -> Result<Vec<Sandbox>, RuntimeError> {
        self.inner.sandboxes.list_pod_sandboxes(filter).await
    }

    async fn pod_sandbox_status(&self, id: &SandboxId) -> Result<SandboxStatus, RuntimeError> {
        self.inner.sandboxes.pod_sandbox_status(id).await
    }

    async fn update_pod_sandbox_resources(
        &self,
        id: &SandboxId,
        overhead: &LinuxResources,
        resources: &LinuxResources,
    ) -> Result<(), RuntimeError> {
        self.inner.sandboxes.update_pod_sandbox_resources(id, overhead, resources).await
    }

    async fn sandbox_image(&self, id: &SandboxId) -> Result<Option<String>, RuntimeError> {
        self.inner.sandboxes.sandbox_image(id).await
    }
}

#[async_trait]
impl ContainerService for RecordedRuntime {
    async fn remove_container(&self, verdict: &Verdict) -> Result<(), RuntimeError> {
        self.recorded(verdict, self.inner.containers.remove_container(verdict)).await
    }

    async fn create_container(
        &self,
        sandbox: &SandboxId,
        config: &ContainerConfig,
        sandbox_config: &SandboxConfig,
    ) -> Result<ContainerId, RuntimeError> {
        self.inner.containers.create_container(sandbox, config, sandbox_config).await
    }

    async fn start_container(&self, id: &ContainerId) -> Result<(), RuntimeError> {
        self.inner.containers.start_container(id).await
    }

    async fn stop_container(&self, id: &ContainerId, grace: Duration) -> Result<(), RuntimeError> {
        self.inner.containers.stop_container(id, grace).await
    }

    async fn update_container_resources(
        &self,
        id: &ContainerId,
        resources: &LinuxResources,
    ) -> Result<(), RuntimeError> {
        self.inner.containers.update_container_resources(id, resources).await
    }

    async fn list_containers(
        &self,
        filter: &ContainerFilter,
    ) -> Result<Vec<Container>, RuntimeError> {
        self.inner.containers.list_containers(filter).await
    }

    async fn container_status(&self, id: &ContainerId) -> Result<ContainerStatus, RuntimeError> {
        self.inner.containers.container_status(id).await
    }

    async fn exec_sync(
        &self,
        id: &ContainerId,
        command: &[String],
        timeout: Option<Duration>,
    ) -> Result<ExecOutput, RuntimeError> {
        self.inner.containers.exec_sync(id, command, timeout).await
    }
}

#[async_trait]
impl ImageService for RecordedRuntime {
    async fn remove_image(&self, verdict: &Verdict) -> Result<(), RuntimeError> {
        self.recorded(verdict, self.inner.images.remove_image(verdict)).await
    }

    async fn image_status(&self, image: &str) -> Result<Option<Image>, RuntimeError> {
        self.inner.images.image_status(image).await
    }

    async fn pull_image(
        &self,
        image: &str,
        sandbox: Option<&SandboxConfig>,
    ) -> Result<String, RuntimeError> {
        self.inner.images.pull_image(image, sandbox).await
    }

    async fn list_images(&self) -> Result<Vec<Image>, RuntimeError> {
        self.inner.images.list_images().await
    }

    async fn list_image_uses(
        &self,
        filter: &ContainerFilter,
    ) -> Result<Vec<ImageUse>, RuntimeError> {
        self.inner.images.list_image_uses(filter).await
    }

    async fn image_labels(&self, image: &str) -> Result<BTreeMap<String, String>, RuntimeError> {
        self.inner.images.image_labels(image).await
    }

    async fn image_fs_info(&self) -> Result<Vec<ImageFilesystem>, RuntimeError> {
        self.inner.images.image_fs_info().await
    }
}

#[async_trait]
impl RuntimeInfo for RecordedRuntime {
    async fn version(&self) -> Result<RuntimeVersion, RuntimeError> {
        self.inner.info.version().await
    }

    async fn status(&self) -> Result<RuntimeStatus, RuntimeError> {
        self.inner.info.status().await
    }

    async fn update_runtime_config(&self, pod_cidrs: &str) -> Result<(), RuntimeError> {
        self.inner.info.update_runtime_config(pod_cidrs).await
    }

    async fn list_if_changed(&self, known: &Fingerprint) -> Result<Option<Lists>, RuntimeError> {
        self.inner.info.list_if_changed(known).await
    }

    async fn container_events(&self) -> Result<ContainerEvents, RuntimeError> {
        self.inner.info.container_events().await
    }
}
