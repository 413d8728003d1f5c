//! A tap in front of the runtime in memory: what passes, and what is told of it.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::path::Path;

use hyper_util::rt::TokioIo;
use proto::runtime_v1 as cri;
use proto::runtime_v1::runtime_service_client::RuntimeServiceClient;
use tempfile::TempDir;
use testkit::hollow::{Hollow, Population, Settings, serve};
use testkit::socket::bind;
use testkit::tap::Tap;
use tokio::task::JoinSet;
use tonic::Code;
use tonic::transport::{Channel, Uri};
use tower::service_fn;

struct Tapped {
    tap: Tap,
    client: RuntimeServiceClient<Channel>,
    _serving: JoinSet<()>,
    _directory: TempDir,
}

fn client(socket: &Path) -> RuntimeServiceClient<Channel> {
    let socket = socket.to_owned();
    let connect = service_fn(move |_: Uri| {
        let socket = socket.clone();
        async move { tokio::net::UnixStream::connect(socket).await.map(TokioIo::new) }
    });
    let address = Uri::from_static("http://localhost");
    RuntimeServiceClient::new(Channel::builder(address).connect_with_connector_lazy(connect))
        .max_decoding_message_size(64 << 20)
}

async fn tapped(pods: usize) -> Tapped {
    let directory = tempfile::tempdir().unwrap();
    let (cri, tap) = (directory.path().join("cri.sock"), directory.path().join("tap.sock"));
    let hollow = Hollow::new(Settings {
        images: None,
        image_directory: directory.path().into(),
        write_logs: false,
        users: std::collections::BTreeMap::new(),
        requests: None,
    });
    hollow.populate(&Population::of(pods, 1)).await.unwrap();
    let mut serving = JoinSet::new();
    let runtime = serve(hollow, bind(&cri).unwrap());
    serving.spawn(async { runtime.await.unwrap() });
    let client = client(&tap);
    let listener = bind(&tap).unwrap();
    let tap = Tap::on(&cri, &["StopContainer", "ContainerStatus"]);
    let passing = tap.clone().serve(listener);
    serving.spawn(async { passing.await.unwrap() });
    Tapped { tap, client, _serving: serving, _directory: directory }
}

#[tokio::test]
async fn calls_pass_unchanged_and_are_counted_with_their_bytes() {
    let mut tapped = tapped(3000).await;
    let request = cri::ListContainersRequest::default();
    let listed = tapped.client.list_containers(request).await.unwrap().into_inner();
    assert_eq!(listed.containers.len(), 3000);
    let size = prost::Message::encoded_len(&listed) as u64;
    let counts = tapped.tap.counts();
    let passed = counts["ListContainers"];
    // A message is preceded by five bytes that tell its length.
    assert_eq!((passed.calls, passed.well, passed.received), (1, 1, size + 5));
    assert_eq!(passed.sent, 5);
    assert_eq!(counts.len(), 1, "{counts:?}");
    assert!(tapped.tap.noted().is_empty());
}

#[tokio::test]
async fn errors_pass_and_noted_calls_tell_when_they_came_and_went() {
    let mut tapped = tapped(1).await;
    let request = cri::ListContainersRequest::default();
    let listed = tapped.client.list_containers(request).await.unwrap().into_inner();
    let id = listed.containers[0].id.clone();
    let wrong = cri::ContainerStatusRequest { container_id: "nobody".into(), ..Default::default() };
    let error = tapped.client.container_status(wrong).await.unwrap_err();
    assert_eq!(error.code(), Code::NotFound);
    let stop = cri::StopContainerRequest { container_id: id, timeout: 0 };
    tapped.client.stop_container(stop).await.unwrap();
    let noted = tapped.tap.noted();
    let methods: Vec<&str> = noted.iter().map(|call| call.method.as_str()).collect();
    assert_eq!(methods, ["ContainerStatus", "StopContainer"]);
    let answers: Vec<_> = noted.iter().map(|call| call.answered.unwrap()).collect();
    assert_eq!((answers[0].1, answers[1].1), (false, true));
    assert!(noted[0].arrived <= answers[0].0 && answers[0].0 <= noted[1].arrived);
}

#[tokio::test]
async fn streams_pass_while_they_last() {
    let mut tapped = tapped(1).await;
    let request = cri::GetEventsRequest::default();
    let mut events = tapped.client.get_container_events(request).await.unwrap().into_inner();
    let request = cri::ListContainersRequest::default();
    let listed = tapped.client.list_containers(request).await.unwrap().into_inner();
    let id = listed.containers[0].id.clone();
    let stop = cri::StopContainerRequest { container_id: id.clone(), timeout: 0 };
    tapped.client.stop_container(stop).await.unwrap();
    let event = events.message().await.unwrap().unwrap();
    assert_eq!(event.container_id, id);
    assert!(tapped.tap.counts()["GetContainerEvents"].received > 5);
}

#[tokio::test]
async fn without_the_runtime_the_caller_hears_that_it_is_away() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("tap.sock");
    let listener = bind(&socket).unwrap();
    let tap = Tap::on(&directory.path().join("cri.sock"), &[]);
    let mut serving = JoinSet::new();
    let passing = tap.clone().serve(listener);
    serving.spawn(async { passing.await.unwrap() });
    let error = client(&socket).version(cri::VersionRequest::default()).await.unwrap_err();
    assert_eq!(error.code(), Code::Unavailable);
    assert_eq!((tap.counts()["Version"].calls, tap.counts()["Version"].well), (1, 0));
}
