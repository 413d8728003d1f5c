//! Streams into containers: the runtime returns the URL of its streaming server.

use async_trait::async_trait;
use model::ports::runtime::RuntimeError;
use model::ports::streaming::{
    AttachRequest, CheckpointRequest, ExecRequest, PortForwardRequest, Streaming,
};
use proto::runtime_v1 as cri;
use proto::runtime_v1::runtime_service_client::RuntimeServiceClient;

use crate::client::{CriRuntime, named};
use crate::deadline::Class;
use crate::error::on;

/// The error for a response without a URL.
const NO_URL: &str = "no URL";

#[async_trait]
impl Streaming for CriRuntime {
    async fn exec(&self, request: &ExecRequest) -> Result<String, RuntimeError> {
        let call = on("Exec", request.container.as_str());
        let streams = request.streams;
        let message = cri::ExecRequest {
            container_id: request.container.to_string(),
            cmd: request.command.clone(),
            tty: streams.tty,
            stdin: streams.stdin,
            stdout: streams.stdout,
            stderr: streams.stderr,
        };
        let answer = self.runtime.call(call, message, RuntimeServiceClient::exec).await?;
        named(call, answer.url, NO_URL)
    }

    async fn attach(&self, request: &AttachRequest) -> Result<String, RuntimeError> {
        let call = on("Attach", request.container.as_str());
        let streams = request.streams;
        let message = cri::AttachRequest {
            container_id: request.container.to_string(),
            tty: streams.tty,
            stdin: streams.stdin,
            stdout: streams.stdout,
            stderr: streams.stderr,
        };
        let answer = self.runtime.call(call, message, RuntimeServiceClient::attach).await?;
        named(call, answer.url, NO_URL)
    }

    async fn port_forward(&self, request: &PortForwardRequest) -> Result<String, RuntimeError> {
        let call = on("PortForward", request.sandbox.as_str());
        let message = cri::PortForwardRequest {
            pod_sandbox_id: request.sandbox.to_string(),
            port: request.ports.iter().map(|port| i32::from(*port)).collect(),
        };
        let answer = self.runtime.call(call, message, RuntimeServiceClient::port_forward).await?;
        named(call, answer.url, NO_URL)
    }

    async fn checkpoint_container(&self, request: &CheckpointRequest) -> Result<(), RuntimeError> {
        let object = request.container.as_str();
        let call = on("CheckpointContainer", object).within(Class::Checkpoint(request.timeout));
        let Some(location) = request.location.to_str() else {
            return Err(call.invalid("the path of the checkpoint is not UTF-8"));
        };
        let seconds = request.timeout.map_or(0, |timeout| timeout.as_secs());
        let message = cri::CheckpointContainerRequest {
            container_id: object.to_owned(),
            location: location.to_owned(),
            timeout: i64::try_from(seconds).unwrap_or(i64::MAX),
        };
        let method = RuntimeServiceClient::checkpoint_container;
        self.runtime.call(call, message, method).await?;
        Ok(())
    }
}
