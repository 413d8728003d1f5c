//! A container that is about to start.

use std::path::{Path, PathBuf};

use k8s_openapi::api::core::v1::{Container, Pod};
use model::log_layout::LogLayout;
use model::observed::{ContainerStatus, RuntimePodStatus};
use model::wanted::SandboxConfig;
use tokio_util::sync::CancellationToken;

use crate::decide::Role;
use crate::sandboxes::SandboxContext;

/// The container, its pod, and the sandbox in which it starts.
pub(crate) struct StartContext<'a> {
    pub(crate) pod: &'a Pod,
    pub(crate) container: &'a Container,
    pub(crate) role: Role,
    pub(crate) status: &'a RuntimePodStatus,
    pub(crate) sandbox: &'a SandboxContext,
    /// Cancelled when the pod terminates.
    pub(crate) cancel: &'a CancellationToken,
}

impl StartContext<'_> {
    /// The newest instance of the container.
    pub(crate) fn latest(&self) -> Option<&ContainerStatus> {
        self.status.latest(&self.container.name)
    }

    /// The directory of the container's logs, below that of all logs.
    pub(crate) fn logs(&self) -> PathBuf {
        let SandboxConfig { pod, pod_uid, .. } = &self.sandbox.config;
        Path::new(&LogLayout::pod_directory_name(pod, pod_uid)).join(&self.container.name)
    }
}
