//! Messages of all sizes.

use model::labels;
use model::ports::runtime::{
    Code, ContainerFilter, ContainerService, ImageService, RuntimeInfo, SandboxFilter,
    SandboxService,
};
use proto::runtime_v1 as cri;

use crate::server::Server;
use crate::wanted::sandbox_config;

const MIB: usize = 1 << 20;

fn images(count: usize, size: usize) -> cri::ListImagesResponse {
    let image = cri::Image { id: "i".repeat(size), ..Default::default() };
    cri::ListImagesResponse { images: vec![image; count] }
}

#[tokio::test]
async fn response_of_20_mib_is_accepted() {
    let server = Server::running();
    server.answer("ListImages", &images(20_000, 1 << 10));
    let list = server.client().list_images().await.unwrap();
    assert_eq!(list.len(), 20_000);
    assert!(list.iter().all(|image| image.id.len() == 1 << 10));
}

#[tokio::test]
async fn response_above_the_limit_is_an_error_and_the_next_call_works() {
    let server = Server::running();
    let client = server.client();
    server.answer("ListImages", &images(1, 65 * MIB));
    let error = client.list_images().await.unwrap_err();
    assert_eq!(error.code, Code::OutOfRange, "{error}");
    server.answer("ListImages", &images(1, 1));
    assert_eq!(client.list_images().await.unwrap().len(), 1);
}

#[tokio::test]
async fn oversized_request_error_has_the_message_of_the_runtime() {
    let server = Server::running();
    let client = server.client();
    for size in [5 * MIB, 65 * MIB] {
        let mut config = sandbox_config();
        config.annotations.insert("big".into(), "x".repeat(size));
        let error = client.run_pod_sandbox(&config).await.unwrap_err();
        assert_eq!(error.code, Code::OutOfRange, "{error}");
    }
    server.answer("Version", &cri::VersionResponse::default());
    client.version().await.unwrap();
}

fn container(number: usize) -> cri::Container {
    let labels = [
        (labels::POD_UID, "uid".to_owned()),
        (labels::POD_NAMESPACE, "default".to_owned()),
        (labels::POD_NAME, "web".to_owned()),
    ];
    cri::Container {
        id: format!("c{number}"),
        metadata: Some(cri::ContainerMetadata { name: "main".to_owned(), attempt: 0 }),
        labels: labels.map(|(name, value)| (name.to_owned(), value)).into(),
        ..Default::default()
    }
}

fn sandbox(number: usize) -> cri::PodSandbox {
    let metadata = cri::PodSandboxMetadata { uid: "uid".to_owned(), ..Default::default() };
    let id = format!("s{number}");
    cri::PodSandbox { id, metadata: Some(metadata), ..Default::default() }
}

#[tokio::test]
async fn oversized_list_is_streamed_in_parts() {
    let server = Server::running();
    let client = server.client();
    for method in ["ListContainers", "ListPodSandbox"] {
        server.fail(
            method,
            tonic::Code::ResourceExhausted,
            "trying to send message larger than max",
        );
    }
    let (containers, sandboxes) =
        (server.stream("StreamContainers"), server.stream("StreamPodSandboxes"));
    for number in 0..3 {
        let part = vec![container(2 * number), container(2 * number + 1)];
        containers.message(&cri::StreamContainersResponse { containers: part });
        let part = vec![sandbox(number)];
        sandboxes.message(&cri::StreamPodSandboxesResponse { pod_sandboxes: part });
    }
    containers.end();
    sandboxes.end();
    let listed = client.list_containers(&ContainerFilter::default()).await.unwrap();
    let ids: Vec<_> = listed.iter().map(|container| container.id.as_str()).collect();
    assert_eq!(ids, ["c0", "c1", "c2", "c3", "c4", "c5"]);
    assert_eq!(client.list_pod_sandboxes(&SandboxFilter::default()).await.unwrap().len(), 3);
}

#[tokio::test]
async fn broken_or_unsupported_list_stream_returns_its_error() {
    let server = Server::running();
    let client = server.client();
    server.fail("ListContainers", tonic::Code::ResourceExhausted, "too large");
    server.fail("StreamContainers", tonic::Code::Unimplemented, "unknown method");
    let error = client.list_containers(&ContainerFilter::default()).await.unwrap_err();
    assert_eq!((error.method, error.code), ("ListContainers", Code::ResourceExhausted));
    let tape = server.stream("StreamContainers");
    tape.message(&cri::StreamContainersResponse { containers: vec![container(0)] });
    tape.fail(tonic::Code::Unavailable, "gone");
    let error = client.list_containers(&ContainerFilter::default()).await.unwrap_err();
    assert_eq!(error.code, Code::ResourceExhausted, "a truncated list is an error");
}

// behaviour: ACT-310
#[tokio::test]
async fn output_of_a_command_is_cut_at_64_kib() {
    let server = Server::running();
    let (stdout, stderr) = (vec![b'o'; 20 * MIB], vec![b'e'; MIB]);
    server.answer("ExecSync", &cri::ExecSyncResponse { stdout, stderr, exit_code: 3 });
    let output = server.client().exec_sync(&"c1".into(), &["yes".into()], None).await.unwrap();
    assert_eq!(output.stdout, vec![b'o'; 64 << 10]);
    assert_eq!(output.stderr, vec![b'e'; 64 << 10]);
    assert_eq!(output.exit_code, 3);
}
