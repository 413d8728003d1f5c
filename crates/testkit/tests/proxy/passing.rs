//! Calls without a fault pass unchanged.

use std::error::Error as _;
use std::time::Duration;

use proto::runtime_v1 as cri;
use testkit::hollow::Delay;
use testkit::proxy::{Proxy, serve};
use testkit::socket::bind;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tonic::Code;

use crate::pair::{LONG, Pair, client, sandbox, version};

#[tokio::test]
async fn responses_and_failures_are_forwarded_and_counted() {
    let pair = Pair::start(&[]);
    let mut client = pair.client();
    let answer = client.version(version()).await.unwrap().into_inner();
    assert_eq!(answer.version, "0.1.0");
    let failed = client.attach(cri::AttachRequest::default()).await.unwrap_err();
    assert_eq!(failed.code(), Code::NotFound, "no container has an empty id");
    let unknown = cri::ContainerStatusRequest { container_id: "none".into(), ..Default::default() };
    let failed = client.container_status(unknown).await.unwrap_err();
    assert_eq!(failed.code(), Code::NotFound);
    assert!(failed.message().contains("none"), "the runtime's own words: {failed}");

    let counts = pair.proxy.script().counts();
    assert_eq!(counts.len(), 3);
    let count = counts["Version"];
    // A gRPC message has a prefix of five bytes.
    assert_eq!((count.calls, count.spoilt, count.request_bytes), (1, 0, 9));
    let length = u64::try_from(prost::Message::encoded_len(&answer)).unwrap();
    assert_eq!(count.answer_bytes, 5 + length);
    let script = pair.proxy.script();
    let (came, went) = (script.arrivals("Version"), script.done("Version"));
    assert_eq!((came.len(), went.len(), count.done), (1, 1, 1));
    assert!(came[0] <= went[0]);
    // The runtime refused these, each with its own error.
    assert_eq!((counts["Attach"].done, counts["ContainerStatus"].done), (0, 0));
}

#[tokio::test]
async fn stream_is_forwarded_event_by_event() {
    let pair = Pair::start(&[]);
    let mut client = pair.client();
    let events = client.get_container_events(cri::GetEventsRequest {}).await.unwrap();
    let mut events = events.into_inner();
    for name in ["first", "second"] {
        let made = client.run_pod_sandbox(sandbox(name)).await.unwrap().into_inner();
        loop {
            let event = timeout(LONG, events.message()).await.unwrap().unwrap().unwrap();
            if event.container_id == made.pod_sandbox_id {
                break;
            }
        }
    }
}

#[tokio::test]
async fn cancelled_call_is_cancelled_at_the_runtime() {
    let pair = Pair::start(&[]);
    let gate = pair.hollow.gate();
    gate.delay(&Delay::parse("RunPodSandbox=1s").unwrap());
    gate.delay(&Delay::parse("Version=2s").unwrap());
    let mut client = pair.client();
    let call = client.run_pod_sandbox(sandbox("web"));
    timeout(Duration::from_millis(300), call).await.unwrap_err();
    pair.until("the call is there", |pair| pair.runtime_calls("RunPodSandbox") == 1).await;
    // By then the first would long have been done.
    client.version(version()).await.unwrap();
    let list = client.list_pod_sandbox(cri::ListPodSandboxRequest::default()).await.unwrap();
    assert!(list.into_inner().items.is_empty());
}

#[tokio::test]
async fn connection_breaks_without_a_runtime_and_fails_without_a_proxy() {
    let mut pair = Pair::start(&[]);
    pair.client().version(version()).await.unwrap();
    let lonely = tempfile::tempdir().unwrap();
    let socket = lonely.path().join("proxy.sock");
    let proxy = Proxy::new(lonely.path().join("missing.sock"));
    let mut serving = JoinSet::new();
    serving.spawn(serve(proxy, bind(&socket).unwrap()));
    let failed = client(&socket).version(version()).await.unwrap_err();
    assert!(failed.source().is_some(), "no server sent this: {failed}");
    pair.stop_proxy().await;
    let failed = pair.client().version(version()).await.unwrap_err();
    assert_eq!(failed.code(), Code::Unavailable, "{failed}");
}
