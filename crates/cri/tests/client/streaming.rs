//! Streams into containers: requests, and the returned URL.

use std::time::Duration;

use model::ports::runtime::Code;
use model::ports::streaming::{
    AttachRequest, CheckpointRequest, ExecRequest, PortForwardRequest, StdStreams, Streaming,
};
use proto::runtime_v1 as cri;

use crate::server::Server;

const URL: &str = "http://127.0.0.1:41234/exec/n2dXR8vH";

pub(crate) fn exec_request() -> ExecRequest {
    ExecRequest {
        container: "c1".into(),
        command: vec!["sh".into(), "-c".into(), "true".into()],
        streams: StdStreams { stdin: true, stdout: true, stderr: true, tty: false },
    }
}

pub(crate) fn attach_request() -> AttachRequest {
    let streams = StdStreams { stdin: true, stdout: true, stderr: false, tty: true };
    AttachRequest { container: "c1".into(), streams }
}

pub(crate) fn port_forward_request() -> PortForwardRequest {
    PortForwardRequest { sandbox: "s1".into(), ports: vec![80, 65535] }
}

pub(crate) fn checkpoint_request() -> CheckpointRequest {
    let location = "/var/lib/kubelet/checkpoints/checkpoint-web_shop-app.tar".into();
    CheckpointRequest { container: "c1".into(), location, timeout: None }
}

#[tokio::test]
async fn exec_sends_the_command_and_its_streams() {
    let server = Server::running();
    server.answer("Exec", &cri::ExecResponse { url: URL.into() });
    assert_eq!(server.client().exec(&exec_request()).await.unwrap(), URL);
    let sent = cri::ExecRequest {
        container_id: "c1".into(),
        cmd: vec!["sh".into(), "-c".into(), "true".into()],
        tty: false,
        stdin: true,
        stdout: true,
        stderr: true,
    };
    assert_eq!(server.only_request::<cri::ExecRequest>("Exec"), sent);
}

#[tokio::test]
async fn attach_sends_its_streams() {
    let server = Server::running();
    server.answer("Attach", &cri::AttachResponse { url: URL.into() });
    assert_eq!(server.client().attach(&attach_request()).await.unwrap(), URL);
    let sent = cri::AttachRequest {
        container_id: "c1".into(),
        stdin: true,
        tty: true,
        stdout: true,
        stderr: false,
    };
    assert_eq!(server.only_request::<cri::AttachRequest>("Attach"), sent);
}

#[tokio::test]
async fn port_forward_sends_the_sandbox_and_ports() {
    let server = Server::running();
    server.answer("PortForward", &cri::PortForwardResponse { url: URL.into() });
    assert_eq!(server.client().port_forward(&port_forward_request()).await.unwrap(), URL);
    let sent = cri::PortForwardRequest { pod_sandbox_id: "s1".into(), port: vec![80, 65535] };
    assert_eq!(server.only_request::<cri::PortForwardRequest>("PortForward"), sent);
}

#[tokio::test]
async fn checkpoint_sends_the_location_and_timeout() {
    let server = Server::running();
    server.answer("CheckpointContainer", &cri::CheckpointContainerResponse {});
    let request =
        CheckpointRequest { timeout: Some(Duration::from_secs(90)), ..checkpoint_request() };
    server.client().checkpoint_container(&request).await.unwrap();
    let sent: cri::CheckpointContainerRequest = server.only_request("CheckpointContainer");
    assert_eq!((sent.container_id.as_str(), sent.timeout), ("c1", 90));
    assert_eq!(sent.location, checkpoint_request().location.to_str().unwrap());
}

#[tokio::test]
async fn response_without_url_is_an_error() {
    let server = Server::running();
    server.answer("Exec", &cri::ExecResponse::default());
    let error = server.client().exec(&exec_request()).await.unwrap_err();
    assert_eq!((error.code, error.method), (Code::DataLoss, "Exec"));
}
