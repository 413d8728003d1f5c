use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use model::ids::{PodName, PodUid};
use model::ports::cluster::{ApiError, Change, Sink};
use model::ports::pod_api::PodApi as _;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::server::{Server, lines, ok, refused};

/// Stores changes.
#[derive(Debug, Default)]
struct RecordingSink(watch::Sender<Vec<Change<Arc<Pod>, PodUid>>>);

impl Sink<Arc<Pod>, PodUid> for RecordingSink {
    fn receive(&self, change: Change<Arc<Pod>, PodUid>) {
        self.0.send_modify(|all| all.push(change));
    }
}

const POD: &str = r#"{"type":"ADDED","object":{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a","namespace":"d","uid":"u1","resourceVersion":"3","managedFields":[{"manager":"m","operation":"Update","apiVersion":"v1","time":"2026-01-01T00:00:00Z","fieldsType":"FieldsV1","fieldsV1":{"f:spec":{}}}]},"spec":{"nodeName":"n","containers":[{"name":"c","image":"i","resources":{}}]},"status":{"phase":"Pending"}}}"#;
const GONE: &str = r#"{"type":"DELETED","object":{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a","namespace":"d","uid":"u1","resourceVersion":"7"},"spec":{"containers":[]}}}"#;
const BOOKMARK: &str = r#"{"type":"BOOKMARK","object":{"kind":"Pod","apiVersion":"v1","metadata":{"resourceVersion":"5","creationTimestamp":null,"annotations":{"k8s.io/initial-events-end":"true"}},"spec":{"containers":null},"status":{}}}"#;
const EXPIRED: &str = r#"{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","code":410,"reason":"Expired","message":"too old"}}"#;

// behaviour: API-12
#[tokio::test]
async fn pods_of_a_node_are_complete_without_managed_fields() {
    let current = ok(r#"{"metadata":{"resourceVersion":"5000"},"items":[]}"#);
    let script = [lines(&[POD, BOOKMARK, GONE]), current, lines(&[EXPIRED]), lines(&[BOOKMARK])];
    let server = Server::start(script).await;
    let cluster = server.cluster().await;
    let sink = Arc::new(RecordingSink::default());
    let mut tasks = JoinSet::new();
    let task_sink = Arc::clone(&sink);
    tasks.spawn(async move { cluster.follow_pods_of("n", &*task_sink).await });
    let mut changes = sink.0.subscribe();
    let enough = timeout(Duration::from_secs(30), changes.wait_for(|all| all.len() >= 6)).await;
    let all = enough.expect("all changes arrive").unwrap().clone();
    let Change::Applied(pod) = &all[1] else { panic!("{all:?}") };
    assert_eq!(pod.spec.as_ref().unwrap().containers[0].image.as_deref(), Some("i"));
    assert_eq!(pod.metadata.managed_fields, None);
    let (first, rest) = (&all[0], &all[2..]);
    let expected =
        [Change::Complete, Change::Gone("u1".into()), Change::Restarted, Change::Complete];
    assert_eq!((first, rest), (&Change::Restarted, &expected[..]));
    let paths = server.paths(4).await;
    let selected = "/api/v1/pods?fieldSelector=spec.nodeName%3Dn&";
    assert!(paths.iter().all(|path| path.starts_with(selected)), "{paths:?}");
    assert!(paths[2].ends_with("&resourceVersion=7"), "{paths:?}");
}

// behaviour: STW-10
#[tokio::test]
async fn statuses_and_mirror_pods_use_their_endpoints() {
    let answer = r#"{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a","namespace":"ns","uid":"u1","resourceVersion":"8"},"spec":{"containers":[]}}"#;
    let script = [
        ok(answer),
        refused(422, "metadata.uid: Invalid value: field is immutable"),
        ok(answer),
        ok(r#"{"kind":"Node","apiVersion":"v1","metadata":{"name":"n","uid":"node-uid"}}"#),
        ok(
            r#"{"kind":"Node","apiVersion":"v1","metadata":{"name":"n","uid":"x","deletionTimestamp":"2026-01-01T00:00:00Z"}}"#,
        ),
        refused(404, "no such node"),
    ];
    let server = Server::start(script).await;
    let cluster = server.cluster().await;
    let name = PodName::new("ns", "a");
    let patch = r#"{"metadata":{"uid":"u1"},"status":{"phase":"Running"}}"#;
    let pod = cluster.patch_status(&name, patch.to_owned()).await.unwrap();
    assert_eq!(pod.metadata.resource_version.as_deref(), Some("8"));
    let other = cluster.patch_status(&name, patch.to_owned()).await;
    assert!(matches!(other, Err(ApiError::Conflict(_))), "{other:?}");
    cluster.create_pod(&pod).await.unwrap();
    assert_eq!(cluster.node_uid("n").await.unwrap().as_deref(), Some("node-uid"));
    assert_eq!(cluster.node_uid("n").await.unwrap(), None, "it is being deleted");
    assert_eq!(cluster.node_uid("n").await.unwrap(), None);
    let requested = server.requested();
    assert_eq!(
        (&*requested[0].method, &*requested[0].path),
        ("PATCH", "/api/v1/namespaces/ns/pods/a/status")
    );
    assert_eq!(requested[0].content_type, "application/strategic-merge-patch+json");
    assert_eq!(requested[0].body, patch);
    assert_eq!(
        (&*requested[2].method, &*requested[2].path),
        ("POST", "/api/v1/namespaces/ns/pods")
    );
    assert_eq!((&*requested[3].method, &*requested[3].path), ("GET", "/api/v1/nodes/n"));
}
