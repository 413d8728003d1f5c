//! Every call of the adapter, as the authorizer sees it.

use std::collections::BTreeSet;
use std::time::Duration;

use cluster::{Cluster, NEEDED};
use jiff::Timestamp;
use model::cluster::{
    AccessRequest, ClusterEvent, FailedStatus, InvolvedObject, Lease, LeaseName, LeaseRecord,
    NodeRecord, PodRecord, Uid, User,
};
use model::ports::cluster::{
    Change, ClusterEvents as _, Leases as _, Nodes as _, PodFeed as _, PodWrites as _,
    Reviews as _, Sink,
};
use tokio::time::{Instant, timeout};

use crate::server::{ReceivedRequest, Server, ok, refused};
use crate::writes::{target, verdict};

/// Ignores changes.
#[derive(Debug)]
struct NoopSink;

impl Sink<PodRecord, Uid> for NoopSink {
    fn receive(&self, _: Change<PodRecord, Uid>) {}
}

impl Sink<NodeRecord, String> for NoopSink {
    fn receive(&self, _: Change<NodeRecord, String>) {}
}

/// Group, resource and verb of a request.
fn seen(requested: &ReceivedRequest) -> (String, String, String) {
    let (path, query) = requested.path.split_once('?').unwrap_or((&requested.path, ""));
    let mut parts: Vec<&str> = path.split('/').skip(1).collect();
    let group = if parts[0] == "api" { "" } else { parts[1] }.to_owned();
    parts.drain(..if parts[0] == "api" { 2 } else { 3 });
    if parts[0] == "namespaces" {
        parts.drain(..2);
    }
    let is_one = parts.len() > 1;
    let resource = match parts.get(2) {
        Some(sub) => format!("{}/{sub}", parts[0]),
        None => parts[0].to_owned(),
    };
    let verb = match requested.method.as_str() {
        "GET" if query.contains("watch=true") => "watch",
        "GET" if is_one => "get",
        "GET" => "list",
        "POST" => "create",
        "PUT" => "update",
        "PATCH" => "patch",
        "DELETE" => "delete",
        other => panic!("{other}"),
    };
    (group, resource, verb.to_owned())
}

/// Makes every possible request; every response is a refusal.
async fn send_every_request(cluster: &Cluster) {
    let name = LeaseName { namespace: "k".to_owned(), name: "l".to_owned() };
    let lease = Lease { record: LeaseRecord::default(), uid: "u".into(), version: "1".to_owned() };
    drop(cluster.node("n").await);
    drop(cluster.fail_pod(&target(), &FailedStatus::default()).await);
    drop(cluster.remove_pod(&target(), &verdict()).await);
    drop(cluster.lease(&name).await);
    drop(cluster.create_lease(&name, &lease.record).await);
    drop(cluster.update_lease(&name, &lease, &lease.record).await);
    drop(cluster.token_owner("t").await);
    drop(cluster.is_allowed(&User::default(), &path("/metrics")).await);
    let about = InvolvedObject {
        api_version: "v1",
        kind: "Pod",
        namespace: "n".to_owned(),
        name: "a".to_owned(),
        uid: "u".into(),
        field_path: String::new(),
    };
    let (message, at) = (String::new(), Timestamp::UNIX_EPOCH);
    let reason = "PodGC".into();
    let event = ClusterEvent::new(about, false, reason, message, at);
    drop(cluster.write_event(&event).await);
    // If the server refuses the watch, the client lists instead.
    let time_limit = Duration::from_secs(3);
    drop(timeout(time_limit, cluster.follow_pods(&NoopSink)).await);
    drop(timeout(time_limit, cluster.follow_nodes(&NoopSink)).await);
}

fn path(path: &str) -> AccessRequest {
    AccessRequest::Path(path.to_owned())
}

// behaviour: PGC-103
#[tokio::test]
async fn documented_permissions_match_the_requests() {
    let server = Server::start(vec![refused(400, "no"); 100]).await;
    send_every_request(&server.cluster().await).await;
    let seen: BTreeSet<_> = server.requested().iter().map(seen).collect();
    let needed = NEEDED
        .iter()
        .map(|one| (one.group.to_owned(), one.resource.to_owned(), one.verb.to_owned()));
    assert_eq!(seen, needed.collect());
}

// behaviour: PGC-143
#[tokio::test]
async fn reviews_have_their_own_rate_limit() {
    let server = Server::start(vec![ok("{}"); 26]).await;
    let cluster = server.cluster().await;
    let begun = Instant::now();
    for number in 0..13 {
        cluster.token_owner(&format!("token {number}")).await.unwrap();
        cluster.is_allowed(&User::default(), &path(&format!("/{number}"))).await.unwrap();
    }
    // Twenty at once, and then ten in a second.
    assert!(begun.elapsed() >= Duration::from_millis(590), "{:?}", begun.elapsed());
}
