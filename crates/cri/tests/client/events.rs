//! The event stream.

use std::time::Duration;

use ::cri::CriRuntime;
use futures_util::StreamExt;
use model::ids::ObjectId;
use model::ports::runtime::{
    Code, ContainerEvent, ContainerEventKind, ContainerEvents, RuntimeError, RuntimeInfo,
};
use proto::runtime_v1 as cri;
use tokio::time::{Instant, timeout};

use crate::server::{LONG, Server};
use crate::tape::Tape;

const METHOD: &str = "GetContainerEvents";
const SHORT: Duration = Duration::from_millis(100);

/// A runtime that answers and sends events.
fn server_with_events() -> (Server, Tape) {
    let server = Server::running();
    server.answer("Version", &cri::VersionResponse::default());
    let tape = server.stream(METHOD);
    (server, tape)
}

fn message(id: &str, kind: cri::ContainerEventType) -> cri::ContainerEventResponse {
    let metadata = cri::PodSandboxMetadata {
        name: "web".into(),
        uid: "uid-1".into(),
        namespace: "shop".into(),
        attempt: 3,
    };
    cri::ContainerEventResponse {
        container_id: id.into(),
        container_event_type: kind.into(),
        created_at: 1_000_000_007,
        pod_sandbox_status: Some(cri::PodSandboxStatus {
            id: "s1".into(),
            metadata: Some(metadata),
            ..Default::default()
        }),
        ..Default::default()
    }
}

fn started(id: &str) -> cri::ContainerEventResponse {
    message(id, cri::ContainerEventType::ContainerStartedEvent)
}

fn event(object: ObjectId, kind: ContainerEventKind) -> ContainerEvent {
    ContainerEvent { pod_uid: "uid-1".into(), object, kind }
}

fn start_of(id: &str) -> ContainerEvent {
    event(ObjectId::Container(id.into()), ContainerEventKind::Started)
}

async fn open(client: &CriRuntime) -> ContainerEvents {
    timeout(LONG, client.container_events()).await.unwrap().unwrap()
}

/// The next item of an open stream.
async fn next(events: &mut ContainerEvents) -> Result<ContainerEvent, RuntimeError> {
    timeout(LONG, events.next()).await.unwrap().expect("the stream is open")
}

async fn is_over(events: &mut ContainerEvents) -> bool {
    timeout(LONG, events.next()).await.unwrap().is_none()
}

/// Why there are no events: the error of the call, or the first item of the stream.
async fn refusal(client: &CriRuntime) -> RuntimeError {
    match timeout(LONG, client.container_events()).await.unwrap() {
        Err(error) => error,
        Ok(mut events) => next(&mut events).await.unwrap_err(),
    }
}

#[tokio::test]
async fn every_kind_of_event_arrives_with_its_pod_and_its_object() {
    let (server, tape) = server_with_events();
    let mut events = open(&server.client()).await;
    let container = || ObjectId::Container("c1".into());
    let sandbox = || ObjectId::Sandbox("s1".into());
    let rows = [
        (cri::ContainerEventType::ContainerCreatedEvent, ContainerEventKind::Created),
        (cri::ContainerEventType::ContainerStartedEvent, ContainerEventKind::Started),
        (cri::ContainerEventType::ContainerStoppedEvent, ContainerEventKind::Stopped),
        (cri::ContainerEventType::ContainerDeletedEvent, ContainerEventKind::Deleted),
    ];
    for (sent, kind) in rows {
        tape.message(&message("c1", sent));
        assert_eq!(next(&mut events).await.unwrap(), event(container(), kind));
        tape.message(&message("s1", sent));
        assert_eq!(next(&mut events).await.unwrap(), event(sandbox(), kind));
    }
}

#[tokio::test]
async fn event_of_an_unknown_kind_is_dropped() {
    let (server, tape) = server_with_events();
    let mut events = open(&server.client()).await;
    tape.message(&cri::ContainerEventResponse { container_event_type: 4, ..started("c4") });
    tape.message(&started("c5"));
    assert_eq!(next(&mut events).await.unwrap(), start_of("c5"));
}

// behaviour: PLEG-55
#[tokio::test]
async fn event_without_sandbox_status_arrives_without_a_pod() {
    let (server, tape) = server_with_events();
    let mut events = open(&server.client()).await;
    let no_sandbox = cri::ContainerEventResponse { pod_sandbox_status: None, ..started("c1") };
    let (mut no_metadata, mut no_uid) = (started("c2"), started("c3"));
    no_metadata.pod_sandbox_status.as_mut().unwrap().metadata = None;
    let sandbox = no_uid.pod_sandbox_status.as_mut().unwrap();
    sandbox.metadata.as_mut().unwrap().uid = String::new();
    for message in [no_sandbox, no_metadata, no_uid] {
        tape.message(&message);
        let event = next(&mut events).await.unwrap();
        assert!(event.pod_uid.is_empty(), "{event:?}");
    }
}

#[tokio::test]
async fn event_stream_opens_without_events() {
    let (server, tape) = server_with_events();
    let mut events = open(&server.client()).await;
    timeout(SHORT, events.next()).await.unwrap_err();
    tape.message(&started("c1"));
    assert_eq!(next(&mut events).await.unwrap(), start_of("c1"));
}

#[tokio::test]
async fn event_stream_opens_with_its_header_while_other_calls_hang() {
    let (server, tape) = server_with_events();
    server.hang("Version");
    tape.header();
    let mut events = open(&server.client()).await;
    tape.message(&started("c1"));
    assert_eq!(next(&mut events).await.unwrap(), start_of("c1"));
}

#[tokio::test]
async fn opening_an_event_stream_has_a_deadline() {
    let (server, _tape) = server_with_events();
    server.hang("Version");
    let start = Instant::now();
    let error = refusal(&server.client_within(SHORT)).await;
    assert!(start.elapsed() >= SHORT);
    assert_eq!((error.method, error.object.as_str()), (METHOD, "of the runtime"));
    assert_eq!(error.code, Code::DeadlineExceeded, "{error}");
    server.until("cancelled", |log| log.cancelled.iter().any(|method| method == METHOD)).await;
}

#[tokio::test]
async fn open_event_stream_has_no_deadline() {
    let (server, tape) = server_with_events();
    tape.header();
    let mut events = open(&server.client_within(10 * SHORT)).await;
    timeout(15 * SHORT, events.next()).await.unwrap_err();
    tape.message(&started("c1"));
    assert_eq!(next(&mut events).await.unwrap(), start_of("c1"));
    let calls = server.calls();
    let call = calls.iter().find(|call| call.path.ends_with(METHOD)).unwrap();
    assert_eq!(call.path, "/runtime.v1.RuntimeService/GetContainerEvents");
    assert_eq!(call.timeout, None);
}

#[tokio::test]
async fn event_stream_error_has_its_code_and_is_the_last_item() {
    let (server, tape) = server_with_events();
    let mut events = open(&server.client()).await;
    tape.message(&started("c1"));
    tape.fail(tonic::Code::ResourceExhausted, "too many streams");
    assert_eq!(next(&mut events).await.unwrap(), start_of("c1"));
    let error = next(&mut events).await.unwrap_err();
    let expected = RuntimeError {
        method: METHOD,
        object: "of the runtime".into(),
        code: Code::ResourceExhausted,
        message: "too many streams".into(),
    };
    assert_eq!(error, expected);
    assert!(is_over(&mut events).await);
}

#[tokio::test]
async fn event_stream_ends_with_the_runtime() {
    let (server, tape) = server_with_events();
    let mut events = open(&server.client()).await;
    tape.message(&started("c1"));
    tape.end();
    assert_eq!(next(&mut events).await.unwrap(), start_of("c1"));
    assert!(is_over(&mut events).await);
}

#[tokio::test]
async fn runtime_without_events_is_reported_as_unsupported() {
    let server = Server::running();
    server.answer("Version", &cri::VersionResponse::default());
    let error = refusal(&server.client()).await;
    assert_eq!((error.method, error.code), (METHOD, Code::Unimplemented), "{error}");
}

#[tokio::test]
async fn stopped_runtime_ends_its_streams_and_works_after_a_restart() {
    let (mut server, tape) = server_with_events();
    let client = server.client();
    let mut quiet = open(&client).await;
    tape.message(&started("c1"));
    let mut busy = open(&client).await;
    assert_eq!(next(&mut quiet).await.unwrap(), start_of("c1"));
    assert_eq!(next(&mut busy).await.unwrap(), start_of("c1"));
    server.stop();
    for events in [&mut quiet, &mut busy] {
        let error = next(events).await.unwrap_err();
        assert_eq!((error.method, error.code), (METHOD, Code::Unavailable), "{error}");
        assert!(error.message.contains(server.socket().to_str().unwrap()), "{error}");
        assert!(is_over(events).await);
    }
    let error = refusal(&client).await;
    assert_eq!((error.method, error.code), (METHOD, Code::Unavailable), "{error}");
    server.start();
    assert_eq!(next(&mut open(&client).await).await.unwrap(), start_of("c1"));
}

#[tokio::test]
async fn dropped_event_stream_is_cancelled_in_the_runtime() {
    let (server, tape) = server_with_events();
    let client = server.client();
    let mut kept = open(&client).await;
    let dropped = open(&client).await;
    drop(dropped);
    server.until("cancelled", |log| log.cancelled == [METHOD]).await;
    tape.message(&started("c1"));
    assert_eq!(next(&mut kept).await.unwrap(), start_of("c1"));
}
