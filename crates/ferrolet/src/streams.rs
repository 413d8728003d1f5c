//! Streams into the containers of this node: the parts of the agent behind exec, attach, port-forward and run.

use std::sync::Arc;

use async_trait::async_trait;
use fetch::SystemTls;
use model::ids::{ContainerId, PodUid};
use model::observed::{Container, ContainerState, Sandbox, SandboxState};
use model::ports::runtime::{ContainerFilter, ExecOutput, Runtime, RuntimeError, SandboxFilter};
use model::ports::streaming::Streaming;
use pods::source::api::ApiCopies;
use podspec::view;
use server::streaming::{ClientConfig, StreamProxy, StreamTargets, StreamTls, Streams};
use server::{BrokenOff, PodView};

use crate::records::Records;

/// What the streams depend on.
#[derive(Debug)]
pub(crate) struct StreamInputs<'a> {
    pub(crate) runtime: Runtime,
    pub(crate) streaming: Arc<dyn Streaming>,
    pub(crate) pods: Arc<dyn PodView>,
    /// The mirror pods, where there is an API server.
    pub(crate) mirrors: Option<ApiCopies>,
    pub(crate) records: &'a Records,
}

/// Streams into the containers of these pods, each recorded in the log.
pub(crate) fn streams(inputs: StreamInputs<'_>) -> Arc<Streams> {
    let StreamInputs { runtime, streaming, pods, mirrors, records } = inputs;
    Arc::new(Streams {
        pods,
        targets: Arc::new(RuntimeTargets { runtime, mirrors }),
        runtime: streaming,
        sessions: Arc::clone(&records.sessions) as _,
        tls: Arc::new(RuntimeTls(SystemTls::default())),
        proxy: StreamProxy::default(),
    })
}

/// Containers and sandboxes as the runtime lists them.
#[derive(Debug)]
struct RuntimeTargets {
    runtime: Runtime,
    /// The mirror pods, where there is an API server.
    mirrors: Option<ApiCopies>,
}

#[async_trait]
impl StreamTargets for RuntimeTargets {
    async fn running_containers(&self, pod: &PodUid) -> Result<Vec<Container>, RuntimeError> {
        let filter = ContainerFilter {
            state: Some(ContainerState::Running),
            pod_uid: Some(pod.clone()),
            ..ContainerFilter::default()
        };
        self.runtime.containers.list_containers(&filter).await
    }

    async fn ready_sandboxes(&self, pod: &PodUid) -> Result<Vec<Sandbox>, RuntimeError> {
        let filter = SandboxFilter {
            state: Some(SandboxState::Ready),
            pod_uid: Some(pod.clone()),
            ..SandboxFilter::default()
        };
        self.runtime.sandboxes.list_pod_sandboxes(&filter).await
    }

    async fn exec_sync(
        &self,
        container: &ContainerId,
        command: &[String],
    ) -> Result<ExecOutput, RuntimeError> {
        self.runtime.containers.exec_sync(container, command, None).await
    }

    fn mirrored(&self, mirror: &PodUid) -> Option<PodUid> {
        let mirrors = self.mirrors.as_ref()?.mirrors()?;
        let mirror = mirrors.iter().find(|found| view::uid(found) == *mirror)?;
        view::mirrored(mirror).map(Into::into)
    }
}

/// The runtime's streaming server, where it is an HTTPS server, has a certificate that the system trusts.
#[derive(Debug)]
struct RuntimeTls(SystemTls);

#[async_trait]
impl StreamTls for RuntimeTls {
    async fn client_config(&self) -> Result<Arc<ClientConfig>, BrokenOff> {
        self.0.client_config().await
    }
}
