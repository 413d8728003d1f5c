//! The node's own objects.

use std::sync::Mutex;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Node;
use model::ports::cluster::{ApiError, Change, Sink};
use model::ports::node_api::{NodeApi as _, NodeLeases as _};

use crate::server::{Server, lines, ok, refused};

const NODE: &str =
    r#"{"kind":"Node","apiVersion":"v1","metadata":{"name":"n","resourceVersion":"7"}}"#;
const LEASE: &str =
    r#"{"metadata":{"name":"n","namespace":"kube-node-lease","resourceVersion":"8"}}"#;

#[tokio::test]
async fn node_is_created_and_its_status_patched() {
    let another = refused(422, "metadata.uid: Invalid value: field is immutable");
    let script = [refused(404, "no"), ok(NODE), refused(409, "exists"), ok(NODE), another];
    let server = Server::start(script).await;
    let cluster = server.cluster().await;
    assert_eq!(cluster.own_node("n").await.unwrap(), None);
    let mut node = Node::default();
    node.metadata.name = Some("n".to_owned());
    let made = cluster.create_node(&node).await.unwrap();
    assert_eq!(made.metadata.resource_version.as_deref(), Some("7"));
    let exists = cluster.create_node(&node).await.unwrap_err();
    assert!(matches!(exists, ApiError::Conflict(_)), "{exists:?}");
    let patch = r#"{"status":{"phase":"x"}}"#;
    cluster.patch_node_status("n", patch.to_owned()).await.unwrap();
    let another = cluster.patch_node_status("n", patch.to_owned()).await.unwrap_err();
    assert!(matches!(another, ApiError::Conflict(_)), "{another:?}");
    let requested = server.requested();
    let paths: Vec<_> =
        requested.iter().map(|one| format!("{} {}", one.method, one.path)).collect();
    let expected = [
        "GET /api/v1/nodes/n",
        "POST /api/v1/nodes",
        "POST /api/v1/nodes",
        "PATCH /api/v1/nodes/n/status",
        "PATCH /api/v1/nodes/n/status",
    ];
    assert_eq!(paths, expected);
    assert_eq!(requested[3].content_type, "application/strategic-merge-patch+json");
    assert_eq!(requested[3].body, patch);
}

#[tokio::test]
async fn node_lease_is_written_to_the_lease_namespace() {
    let server = Server::start([refused(404, "no"), ok(LEASE), ok(LEASE)]).await;
    let cluster = server.cluster().await;
    assert_eq!(cluster.node_lease("n").await.unwrap(), None);
    let mut lease = Lease::default();
    lease.metadata.name = Some("n".to_owned());
    let made = cluster.create_node_lease(&lease).await.unwrap();
    cluster.update_node_lease(&made).await.unwrap();
    let requested = server.requested();
    let paths: Vec<_> =
        requested.iter().map(|one| format!("{} {}", one.method, one.path)).collect();
    let leases = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";
    assert_eq!(
        paths,
        [format!("GET {leases}/n"), format!("POST {leases}"), format!("PUT {leases}/n")]
    );
    assert!(requested[2].body.contains(r#""resourceVersion":"8""#), "{}", requested[2].body);
}

#[derive(Debug, Default)]
struct RecordingSink(Mutex<Vec<String>>);

impl Sink<Node, ()> for RecordingSink {
    fn receive(&self, change: Change<Node, ()>) {
        self.0.lock().unwrap().push(match change {
            Change::Restarted => "restarted".to_owned(),
            Change::Complete => "complete".to_owned(),
            Change::Gone(()) => "gone".to_owned(),
            Change::Unread(()) => "unread".to_owned(),
            Change::Applied(node) => node.metadata.resource_version.unwrap_or_default(),
        });
    }
}

#[tokio::test]
async fn own_node_is_followed_by_a_field_selector() {
    let bookmark = r#"{"type":"BOOKMARK","object":{"kind":"Node","apiVersion":"v1","metadata":{"resourceVersion":"5","annotations":{"k8s.io/initial-events-end":"true"}}}}"#;
    let script = lines(&[
        &format!(r#"{{"type":"ADDED","object":{NODE}}}"#),
        bookmark,
        &format!(r#"{{"type":"DELETED","object":{NODE}}}"#),
    ]);
    let server = Server::start([script]).await;
    let cluster = server.cluster().await;
    let sink = RecordingSink::default();
    let paths = tokio::select! {
        biased;
        () = cluster.follow_own_node("n", &sink) => unreachable!("it never ends"),
        paths = server.paths(2) => paths,
    };
    assert!(
        paths[0].starts_with("/api/v1/nodes?fieldSelector=metadata.name%3Dn&watch=true"),
        "{paths:?}"
    );
    assert_eq!(*sink.0.lock().unwrap(), ["restarted", "7", "complete", "gone"]);
}
