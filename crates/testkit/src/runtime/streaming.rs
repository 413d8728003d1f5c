//! Streams into containers: the runtime in memory returns the URL that the test has set.

use async_trait::async_trait;
use model::ids::ContainerId;
use model::observed::{ContainerState, SandboxState};
use model::ports::runtime::{Code, RuntimeError};
use model::ports::streaming::{
    AttachRequest, CheckpointRequest, ExecRequest, PortForwardRequest, Streaming,
};

use super::MemoryRuntime;
use super::calls::Method;
use super::store::Refusal;

/// The default URL. No server listens on this port.
pub(super) const NO_SERVER: &str = "http://127.0.0.1:9/stream";

impl MemoryRuntime {
    /// The URL of a stream into a running container.
    async fn container_url(
        &self,
        method: Method,
        container: &ContainerId,
    ) -> Result<String, RuntimeError> {
        let effect = self.at_once(|inner, now| {
            let Some(record) = inner.store.container(container, now) else {
                return Err(Refusal::not_found("container", container.as_str()));
            };
            if record.state() != ContainerState::Running {
                return Err(Refusal::new(Code::Unknown, "container is not running"));
            }
            Ok(inner.streaming_url.clone())
        });
        self.call(method, container.to_string(), effect).await
    }
}

#[async_trait]
impl Streaming for MemoryRuntime {
    async fn exec(&self, request: &ExecRequest) -> Result<String, RuntimeError> {
        self.container_url(Method::Exec, &request.container).await
    }

    async fn attach(&self, request: &AttachRequest) -> Result<String, RuntimeError> {
        self.container_url(Method::Attach, &request.container).await
    }

    async fn port_forward(&self, request: &PortForwardRequest) -> Result<String, RuntimeError> {
        let sandbox = &request.sandbox;
        let effect = self.at_once(|inner, _| {
            let Some(record) = inner.store.sandbox(sandbox) else {
                return Err(Refusal::not_found("sandbox", sandbox.as_str()));
            };
            if record.state != SandboxState::Ready {
                return Err(Refusal::new(Code::Unknown, "sandbox container is not running"));
            }
            Ok(inner.streaming_url.clone())
        });
        self.call(Method::PortForward, sandbox.to_string(), effect).await
    }

    async fn checkpoint_container(&self, request: &CheckpointRequest) -> Result<(), RuntimeError> {
        let effect = self.at_once(|_, _| {
            Err(Refusal::new(Code::Unimplemented, "method CheckpointContainer not implemented"))
        });
        self.call(Method::CheckpointContainer, request.container.to_string(), effect).await
    }
}
