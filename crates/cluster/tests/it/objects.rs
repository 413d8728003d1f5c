use std::sync::Arc;
use std::time::Duration;

use cluster::Rate;
use jiff::Timestamp;
use model::cluster::{ClusterEvent, InvolvedObject};
use model::ids::PodName;
use model::objects::{
    DataObject, ObjectKey, RuntimeClassRecord, ServiceName, ServiceRecord, TokenRequest,
    TrustBundleRecord,
};
use model::ports::cluster::{Change, ClusterEvents as _, Sink};
use model::ports::objects::{
    Freshness, ObjectReads as _, RuntimeClassFeed as _, ServiceFeed as _, StorageReads as _,
    TokenRequests as _, TrustBundleFeed as _,
};
use model::storage::ClaimName;
use tokio::sync::watch;
use tokio::time::{Instant, timeout};

use crate::server::{Server, lines, ok, refused};

/// Records changes in short form.
#[derive(Debug, Default)]
struct RecordingSink(watch::Sender<Vec<String>>);

impl RecordingSink {
    fn note<T, K>(
        &self,
        change: Change<T, K>,
        describe: impl Fn(T) -> String,
        key: impl Fn(K) -> String,
    ) {
        let note = match change {
            Change::Restarted => "restarted".to_owned(),
            Change::Applied(object) => format!("+{}", describe(object)),
            Change::Gone(name) => format!("-{}", key(name)),
            Change::Unread(name) => format!("?{}", key(name)),
            Change::Complete => "complete".to_owned(),
        };
        self.0.send_modify(|all| all.push(note));
    }

    async fn all(&self, count: usize) -> Vec<String> {
        let mut changes = self.0.subscribe();
        let enough = timeout(Duration::from_secs(30), changes.wait_for(|all| all.len() >= count));
        enough.await.unwrap_or_else(|_| panic!("only {:?}", self.0.borrow())).unwrap().clone()
    }
}

impl Sink<DataObject, ()> for RecordingSink {
    fn receive(&self, change: Change<DataObject, ()>) {
        let describe = |object: DataObject| {
            let values = object
                .data
                .iter()
                .map(|(key, value)| format!("{key}={}", String::from_utf8_lossy(value)));
            values.collect::<Vec<_>>().join(",")
        };
        self.note(change, describe, |()| String::new());
    }
}

impl Sink<ServiceRecord, ServiceName> for RecordingSink {
    fn receive(&self, change: Change<ServiceRecord, ServiceName>) {
        let describe = |service: ServiceRecord| {
            let ports = service
                .ports
                .iter()
                .map(|port| format!("{}:{}/{}", port.name, port.port, port.protocol));
            let ports: Vec<_> = ports.collect();
            format!("{} {} {}", service.name.name, service.cluster_ip, ports.join(","))
        };
        self.note(change, describe, |name| format!("{}/{}", name.namespace, name.name));
    }
}

impl Sink<RuntimeClassRecord, String> for RecordingSink {
    fn receive(&self, change: Change<RuntimeClassRecord, String>) {
        self.note(change, |class| format!("{} {}", class.name, class.handler), |name| name);
    }
}

impl Sink<TrustBundleRecord, String> for RecordingSink {
    fn receive(&self, change: Change<TrustBundleRecord, String>) {
        let noted = |one: TrustBundleRecord| {
            format!("{} {} {:?} {:?}", one.name, one.signer, one.labels, one.certificates)
        };
        self.note(change, noted, |name| name);
    }
}

const END: &str = r#"{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"9","creationTimestamp":null,"annotations":{"k8s.io/initial-events-end":"true"}}}}"#;

// behaviour: OBJ-11
#[tokio::test]
async fn single_object_is_followed_by_a_field_selector() {
    let stream = lines(&[
        r#"{"type":"ADDED","object":{"kind":"Secret","metadata":{"name":"s","resourceVersion":"3"},"data":{"k":"djE="}}}"#,
        END,
        r#"{"type":"MODIFIED","object":{"kind":"Secret","metadata":{"name":"s","resourceVersion":"10"},"data":{"k":"djI="}}}"#,
        r#"{"type":"DELETED","object":{"kind":"Secret","metadata":{"name":"s","resourceVersion":"11"}}}"#,
    ]);
    let server = Server::start([stream]).await;
    let (cluster, sink) = (server.cluster().await, Arc::new(RecordingSink::default()));
    let key = ObjectKey::secret("ns", "s");
    let all = tokio::select! {
        () = cluster.follow_object(&key, &*sink) => unreachable!("it never ends"),
        all = sink.all(5) => all,
    };
    assert_eq!(all, ["restarted", "+k=v1", "complete", "+k=v2", "-"]);
    let expected = "/api/v1/namespaces/ns/secrets?fieldSelector=metadata.name%3Ds&watch=true&\
                    allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan";
    assert_eq!(server.paths(1).await[0], expected);
}

// behaviour: OBJ-15
#[tokio::test]
async fn object_read_requests_the_needed_freshness() {
    let map = r#"{"metadata":{"resourceVersion":"3"},"data":{"k":"v"},"immutable":true}"#;
    let server = Server::start([ok(map), ok(map), refused(404, "no"), refused(403, "no")]).await;
    let cluster = server.cluster().await;
    let key = ObjectKey::config_map("ns", "m");
    let found = cluster.object(&key, Freshness::Newest).await.unwrap().unwrap();
    assert_eq!((&*found.data["k"], found.is_immutable), (&b"v"[..], true));
    cluster.object(&key, Freshness::Any).await.unwrap().unwrap();
    assert_eq!(cluster.object(&key, Freshness::Newest).await.unwrap(), None);
    cluster.object(&key, Freshness::Newest).await.unwrap_err();
    let paths = server.paths(4).await;
    let path = "/api/v1/namespaces/ns/configmaps/m";
    assert_eq!(paths, [path, &format!("{path}?resourceVersion=0"), path, path]);
}

// behaviour: OBJ-14
#[tokio::test]
async fn token_request_is_bound_to_its_pod() {
    let answer = r#"{"kind":"TokenRequest","spec":{"audiences":["a"],"expirationSeconds":3607},"status":{"token":"t","expirationTimestamp":"2026-01-01T01:00:00Z"}}"#;
    let server = Server::start([ok(answer), refused(404, "no such account")]).await;
    let cluster = server.cluster().await;
    let request = TokenRequest {
        service_account: "default".into(),
        audiences: vec!["a".to_owned()],
        expiration_seconds: 3607,
        pod: PodName::new("ns", "p"),
        pod_uid: "u1".into(),
    };
    let token = cluster.request_token(&request).await.unwrap();
    assert_eq!((&*token.token, token.expiration_seconds), ("t", 3607));
    assert_eq!(token.expires.to_string(), "2026-01-01T01:00:00Z");
    cluster.request_token(&request).await.unwrap_err();
    let requested = &server.requested()[0];
    assert_eq!(requested.path, "/api/v1/namespaces/ns/serviceaccounts/default/token");
    for part in [
        r#""audiences":["a"]"#,
        r#""expirationSeconds":3607"#,
        r#""boundObjectRef":{"apiVersion":"v1","kind":"Pod","name":"p","uid":"u1"}"#,
    ] {
        assert!(requested.body.contains(part), "{}", requested.body);
    }
}

// behaviour: OBJ-18
#[tokio::test]
async fn services_and_runtime_classes_decode_only_needed_fields() {
    let services = lines(&[
        r#"{"type":"ADDED","object":{"metadata":{"name":"s","namespace":"n","resourceVersion":"1"},"spec":{"clusterIP":"10.0.0.1","ports":[{"name":"a","port":1},{"protocol":"UDP","port":2}]},"status":{"loadBalancer":{}}}}"#,
        END,
        r#"{"type":"DELETED","object":{"metadata":{"name":"s","namespace":"n","resourceVersion":"10"}}}"#,
    ]);
    let server = Server::start([services]).await;
    let (cluster, sink) = (server.cluster().await, Arc::new(RecordingSink::default()));
    let all = tokio::select! {
        () = cluster.follow_services(&*sink) => unreachable!("it never ends"),
        all = sink.all(4) => all,
    };
    assert_eq!(all, ["restarted", "+s 10.0.0.1 a:1/TCP,:2/UDP", "complete", "-n/s"]);
    let classes = lines(&[
        r#"{"type":"ADDED","object":{"metadata":{"name":"gvisor","resourceVersion":"1"},"handler":"runsc"}}"#,
        END,
        r#"{"type":"DELETED","object":{"metadata":{"name":"gvisor","resourceVersion":"10"}}}"#,
    ]);
    let server = Server::start([classes]).await;
    let (cluster, sink) = (server.cluster().await, Arc::new(RecordingSink::default()));
    let all = tokio::select! {
        () = cluster.follow_runtime_classes(&*sink) => unreachable!("it never ends"),
        all = sink.all(4) => all,
    };
    assert_eq!(all, ["restarted", "+gvisor runsc", "complete", "-gvisor"]);
    assert!(server.paths(1).await[0].starts_with("/apis/node.k8s.io/v1/runtimeclasses?watch=true"));
}

fn event(name: &str) -> ClusterEvent {
    ClusterEvent {
        about: InvolvedObject {
            api_version: "v1",
            kind: "Pod",
            namespace: "ns".to_owned(),
            name: name.to_owned(),
            uid: "u1".into(),
            field_path: "spec.containers{main}".to_owned(),
        },
        is_warning: true,
        reason: "BackOff".into(),
        message: "again".to_owned(),
        first: Timestamp::constant(16, 0),
        at: Timestamp::constant(76, 5),
        count: 3,
        annotations: vec![("starved_resource", "memory".to_owned())],
    }
}

// behaviour: EVT-1, EVT-9
#[tokio::test]
async fn repeated_event_is_patched() {
    let server = Server::start([ok("{}"), refused(404, "forgotten"), ok("{}")]).await;
    let cluster = server.cluster().await;
    cluster.count_event(&event("a")).await.unwrap();
    assert_eq!(cluster.count_event(&event("a")).await.unwrap_err().label(), "not-found");
    cluster.write_event(&event("a")).await.unwrap();
    let requested = server.requested();
    assert_eq!(requested[0].method, "PATCH");
    assert_eq!(requested[0].path, "/api/v1/namespaces/ns/events/a.3b9aca000");
    assert_eq!(requested[0].content_type, "application/strategic-merge-patch+json");
    let patch = r#"{"count":3,"lastTimestamp":"1970-01-01T00:01:16Z","message":"again"}"#;
    assert_eq!(requested[0].body, patch);
    for part in [
        r#""name":"a.3b9aca000""#,
        r#""fieldPath":"spec.containers{main}""#,
        r#""count":3"#,
        r#""firstTimestamp":"1970-01-01T00:00:16Z""#,
        r#""lastTimestamp":"1970-01-01T00:01:16Z""#,
        r#""source":{"component":"test","host":"host"}"#,
    ] {
        assert!(requested[2].body.contains(part), "{}", requested[2].body);
    }
}

// behaviour: EVT-10, EVT-13
#[tokio::test]
async fn events_of_cluster_objects_use_the_default_namespace() {
    let server = Server::start([ok("{}"), ok("{}")]).await;
    let cluster = server.cluster().await;
    let mut of_node = event("node-1");
    (of_node.about.namespace, of_node.about.field_path) = (String::new(), String::new());
    of_node.about.uid = "".into();
    cluster.write_event(&of_node).await.unwrap();
    cluster.write_event(&event(&"x".repeat(250))).await.unwrap();
    let requested = server.requested();
    assert_eq!(requested[0].path, "/api/v1/namespaces/default/events");
    assert!(
        requested[0]
            .body
            .contains(r#""involvedObject":{"apiVersion":"v1","kind":"Pod","name":"node-1"}"#)
    );
    assert!(requested[1].body.contains(r#""name":"u1.3b9aca000""#), "{}", requested[1].body);
}

// behaviour: EVT-12
#[tokio::test]
async fn events_have_their_own_rate_limit() {
    let server = Server::start(vec![ok("{}"); 8]).await;
    let rate = Rate { per_second: 20.0, burst: 2 };
    let cluster = server.cluster_at(rate).await;
    let begun = Instant::now();
    for _ in 0..6 {
        cluster.write_event(&event("a")).await.unwrap();
    }
    // Two at once, and four that wait for 50 ms each.
    assert!(begun.elapsed() >= Duration::from_millis(190), "{:?}", begun.elapsed());
}

#[tokio::test]
async fn claims_and_persistent_volumes_are_read_individually() {
    let claim =
        r#"{"metadata":{"uid":"c1"},"spec":{"volumeName":"pv"},"status":{"phase":"Bound"}}"#;
    let volume = r#"{"metadata":{},"spec":{"claimRef":{"uid":"c1"},"local":{"path":"/disk"}}}"#;
    let replies = [ok(claim), ok(volume), refused(404, "no"), refused(403, "no")];
    let server = Server::start(replies).await;
    let cluster = server.cluster().await;
    let name = ClaimName { namespace: "ns".into(), name: "a/b".into() };
    let found = cluster.claim(&name).await.unwrap().unwrap();
    assert_eq!((&*found.volume, found.is_bound), ("pv", true));
    let found = cluster.persistent_volume("pv").await.unwrap().unwrap();
    assert_eq!(found.claim_uid.as_deref(), Some("c1"));
    assert_eq!(cluster.persistent_volume("pv").await.unwrap(), None);
    cluster.claim(&name).await.unwrap_err();
    let claim = "/api/v1/namespaces/ns/persistentvolumeclaims/a%2Fb";
    let volume = "/api/v1/persistentvolumes/pv";
    assert_eq!(server.paths(4).await, [claim, volume, volume, claim]);
}

// behaviour: VOL-49
#[tokio::test]
async fn trust_bundles_include_labels_and_certificates() {
    let bundles = lines(&[
        r#"{"type":"ADDED","object":{"metadata":{"name":"a","labels":{"k":"v"}},"spec":{"signerName":"s/x","trustBundle":"P\nE\nM"}}}"#,
        END,
        r#"{"type":"DELETED","object":{"metadata":{"name":"a"}}}"#,
    ]);
    let server = Server::start([bundles]).await;
    let (cluster, sink) = (server.cluster().await, Arc::new(RecordingSink::default()));
    let all = tokio::select! {
        () = cluster.follow_trust_bundles(&*sink) => unreachable!("it never ends"),
        all = sink.all(4) => all,
    };
    let added = r#"+a s/x {"k": "v"} "P\nE\nM""#;
    assert_eq!(all, ["restarted", added, "complete", "-a"]);
    let path = "/apis/certificates.k8s.io/v1beta1/clustertrustbundles?watch=true";
    assert!(server.paths(1).await[0].starts_with(path));
}
