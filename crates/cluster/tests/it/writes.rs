use std::time::Duration;

use cluster::Rate;
use jiff::Timestamp;
use model::cluster::{
    AccessRequest, ClusterEvent, FailedStatus, InvolvedObject, LeaseName, LeaseRecord, PodRemoved,
    PodTarget, User, Version,
};
use model::ids::PodName;
use model::ports::cluster::{
    ApiError, ClusterEvents as _, Leases as _, Nodes as _, PodWrites as _, Reviews as _,
};
use model::verdict::{Detail, Owner, Subject, Verdict};
use tokio::time::Instant;

use crate::server::{Server, busy, missing, ok, refused, text};

pub(crate) fn target() -> PodTarget {
    let version = Version::from(7);
    PodTarget { namespace: "ns".into(), name: "a".into(), uid: "u1".into(), version }
}

pub(crate) fn verdict() -> Verdict {
    Verdict {
        subject: Subject::Pod("u1".into()),
        name: "".into(),
        owner: Some(Owner { uid: "u1".into(), pod: Some(PodName::new("ns", "a")) }),
        rule: "node-gone",
        detail: Detail::default(),
        at: Timestamp::UNIX_EPOCH,
    }
}

// behaviour: PGC-55, PGC-56
#[tokio::test]
async fn pod_is_marked_by_strategic_merge_and_deleted_with_preconditions() {
    let script = [
        ok(r#"{"kind":"Pod","metadata":{"name":"a","resourceVersion":"8"}}"#),
        ok(r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Success","code":200}"#),
        ok(r#"{"kind":"Pod","metadata":{"name":"a","finalizers":["x/y"]}}"#),
    ];
    let server = Server::start(script).await;
    let cluster = server.cluster().await;
    let version = cluster.fail_pod(&target(), &FailedStatus::default()).await.unwrap();
    assert_eq!(version, Version::from(8));
    assert_eq!(cluster.remove_pod(&target(), &verdict()).await.unwrap(), PodRemoved::Gone);
    assert_eq!(cluster.remove_pod(&target(), &verdict()).await.unwrap(), PodRemoved::Held);
    let requested = server.requested();
    assert_eq!(
        (&*requested[0].method, &*requested[0].path),
        ("PATCH", "/api/v1/namespaces/ns/pods/a/status")
    );
    assert_eq!(requested[0].content_type, "application/strategic-merge-patch+json");
    let body = r#"{"metadata":{"resourceVersion":"7","uid":"u1"},"status":{"phase":"Failed"}}"#;
    assert_eq!(requested[0].body, body);
    assert_eq!(
        (&*requested[1].method, &*requested[1].path),
        ("DELETE", "/api/v1/namespaces/ns/pods/a")
    );
    for part in [r#""gracePeriodSeconds":0"#, r#""uid":"u1""#, r#""resourceVersion":"7""#] {
        assert!(requested[1].body.contains(part), "{}", requested[1].body);
    }
}

// behaviour: PGC-138
#[tokio::test]
async fn deletions_are_rate_limited_and_do_not_delay_the_lease() {
    let gone = r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Success","code":200}"#;
    let script = [ok(gone), ok(gone), refused(404, "no such lease"), ok(gone)];
    let server = Server::start(script).await;
    let cluster = server.cluster_with(Rate { per_second: 0.5, burst: 2 }.into()).await;
    let begun = Instant::now();
    for _ in 0..2 {
        cluster.remove_pod(&target(), &verdict()).await.unwrap();
    }
    let name = LeaseName { namespace: "kube-system".into(), name: "l".into() };
    let (pod, verdict) = (target(), verdict());
    let (third, lease) = tokio::join!(cluster.remove_pod(&pod, &verdict), cluster.lease(&name));
    assert_eq!((third.unwrap(), lease.unwrap()), (PodRemoved::Gone, None));
    assert!(begun.elapsed() >= Duration::from_millis(1900), "{:?}", begun.elapsed());
    let methods: Vec<String> =
        server.requested().into_iter().map(|requested| requested.method).collect();
    assert_eq!(methods, ["DELETE", "DELETE", "GET", "DELETE"]);
}

#[tokio::test]
async fn refusals_are_reported_by_kind() {
    let script = [
        refused(404, "pods not found"),
        refused(409, "the uid is another"),
        busy(429, "3"),
        busy(503, "5"),
        refused(500, "broken"),
    ];
    let server = Server::start(script).await;
    let cluster = server.cluster().await;
    let mut errors = Vec::new();
    for _ in 0..5 {
        errors.push(cluster.remove_pod(&target(), &verdict()).await.unwrap_err());
    }
    assert!(matches!(errors[0], ApiError::NotFound));
    assert!(matches!(&errors[1], ApiError::Conflict(message) if message == "the uid is another"));
    let pause = |seconds| Some(Duration::from_secs(seconds));
    assert!(matches!(errors[2], ApiError::Throttled { retry_after } if retry_after == pause(3)));
    assert!(matches!(errors[3], ApiError::Throttled { retry_after } if retry_after == pause(5)));
    assert!(matches!(&errors[4], ApiError::Refused { code: 500, message } if message == "broken"));
}

#[tokio::test]
async fn node_read_returns_present_absent_or_an_error() {
    let node =
        r#"{"metadata":{"name":"n"},"status":{"conditions":[{"type":"Ready","status":"True"}]}}"#;
    let server = Server::start([ok(node), missing("nodes", "n"), refused(403, "no")]).await;
    let cluster = server.cluster().await;
    assert!(cluster.node("n").await.unwrap().unwrap().is_ready);
    assert_eq!(cluster.node("n").await.unwrap(), None);
    assert!(matches!(cluster.node("n").await, Err(ApiError::Refused { code: 403, .. })));
}

// behaviour: PGC-137
#[tokio::test]
async fn not_found_counts_only_if_it_names_the_object() {
    let other_answers = [
        text(404, "<html>404 Not Found</html>"),
        text(404, "404 page not found"),
        text(404, r#"{"error":"no such route"}"#),
        refused(404, "the server could not find the requested resource"),
        missing("nodes", "n1"),
        missing("pods", "n"),
    ];
    let requested = other_answers.len();
    let server = Server::start(other_answers).await;
    let cluster = server.cluster().await;
    for index in 0..requested {
        let answer = cluster.node("n").await;
        assert!(matches!(answer, Err(ApiError::Refused { code: 404, .. })), "{index}: {answer:?}");
    }
    let server = Server::start([text(404, "404 page not found"), missing("pods", "a")]).await;
    let cluster = server.cluster().await;
    let answer = cluster.remove_pod(&target(), &verdict()).await;
    assert!(matches!(answer, Err(ApiError::Refused { code: 404, .. })), "{answer:?}");
    let answer = cluster.remove_pod(&target(), &verdict()).await;
    assert!(matches!(answer, Err(ApiError::NotFound)), "{answer:?}");
}

// behaviour: PGC-60
#[tokio::test]
async fn lease_write_has_the_version_that_was_read() {
    let lease = |version: &str| {
        ok(format!(
            r#"{{"metadata":{{"name":"l","namespace":"k","uid":"u","resourceVersion":"{version}"}},"spec":{{"holderIdentity":"a","leaseDurationSeconds":15,"leaseTransitions":2,"renewTime":"2026-01-01T00:00:00.000001Z"}}}}"#
        ))
    };
    let server =
        Server::start([refused(404, "no"), lease("3"), lease("4"), refused(409, "another")]).await;
    let cluster = server.cluster().await;
    let name = LeaseName { namespace: "k".to_owned(), name: "l".to_owned() };
    assert_eq!(cluster.lease(&name).await.unwrap(), None);
    let seen = cluster.lease(&name).await.unwrap().unwrap();
    assert_eq!((&*seen.record.holder, seen.record.transitions, &*seen.version), ("a", 2, "3"));
    assert_eq!(seen.record.duration, Duration::from_secs(15));
    let record = LeaseRecord { holder: "b".to_owned(), ..seen.record.clone() };
    assert_eq!(cluster.update_lease(&name, &seen, &record).await.unwrap().version, "4");
    let error = cluster.update_lease(&name, &seen, &record).await.unwrap_err();
    assert!(matches!(error, ApiError::Conflict(_)));
    let requested = server.requested();
    assert_eq!(requested[2].path, "/apis/coordination.k8s.io/v1/namespaces/k/leases/l");
    for part in [r#""resourceVersion":"3""#, r#""holderIdentity":"b""#, "00:00:00.000001Z"] {
        assert!(requested[2].body.contains(part), "{}", requested[2].body);
    }
}

#[tokio::test]
async fn event_is_written_to_the_namespace_of_its_object() {
    let server = Server::start([ok("{}")]).await;
    let event = ClusterEvent {
        about: InvolvedObject {
            api_version: "v1",
            kind: "Pod",
            namespace: "ns".to_owned(),
            name: "a".to_owned(),
            uid: "u1".into(),
            field_path: String::new(),
        },
        is_warning: false,
        reason: "PodGC".into(),
        message: "gone".to_owned(),
        first: Timestamp::constant(16, 0),
        at: Timestamp::constant(16, 0),
        count: 1,
        annotations: vec![("starved_resource", "memory".to_owned())],
    };
    server.cluster().await.write_event(&event).await.unwrap();
    let requested = &server.requested()[0];
    assert_eq!(requested.path, "/api/v1/namespaces/ns/events");
    let annotations = r#""annotations":{"starved_resource":"memory"}"#;
    for part in
        [r#""name":"a.3b9aca000""#, r#""component":"test""#, r#""type":"Normal""#, annotations]
    {
        assert!(requested.body.contains(part), "{}", requested.body);
    }
}

#[tokio::test]
async fn reviews_return_user_and_permission() {
    let script = [
        ok(r#"{"status":{"authenticated":true,"user":{"username":"p","groups":["g"]}}}"#),
        ok(r#"{"status":{"authenticated":false}}"#),
        ok(r#"{"status":{"allowed":true}}"#),
        ok(r#"{"status":{"allowed":false}}"#),
    ];
    let server = Server::start(script).await;
    let cluster = server.cluster().await;
    let user = cluster.token_owner("t").await.unwrap().unwrap();
    assert_eq!(
        user,
        User { name: "p".to_owned(), groups: vec!["g".to_owned()], ..User::default() }
    );
    assert_eq!(cluster.token_owner("t").await.unwrap(), None);
    let metrics = AccessRequest::Path("/metrics".to_owned());
    assert!(cluster.is_allowed(&user, &metrics).await.unwrap());
    assert!(!cluster.is_allowed(&user, &metrics).await.unwrap());
}

// behaviour: PGC-108
#[tokio::test]
async fn calls_are_counted_by_status_and_timed() {
    let gone = || missing("nodes", "n");
    let server = Server::start([gone(), gone(), refused(403, "no")]).await;
    let cluster = server.cluster().await;
    let registry = prometheus::Registry::new();
    cluster.count_calls(&registry).unwrap();
    for _ in 0..2 {
        assert_eq!(cluster.node("n").await.unwrap(), None);
    }
    cluster.remove_pod(&target(), &verdict()).await.unwrap_err();
    let text = prometheus::TextEncoder::new().encode_to_string(&registry.gather()).unwrap();
    let host = cluster.address().parse::<http::Uri>().unwrap();
    let host = host.authority().unwrap();
    for line in [
        format!("rest_client_requests_total{{code=\"404\",host=\"{host}\",method=\"GET\"}} 2\n"),
        format!("rest_client_requests_total{{code=\"403\",host=\"{host}\",method=\"DELETE\"}} 1\n"),
        format!("rest_client_request_duration_seconds_count{{host=\"{host}\",verb=\"GET\"}} 2\n"),
        format!(
            "rest_client_request_duration_seconds_count{{host=\"{host}\",verb=\"DELETE\"}} 1\n"
        ),
    ] {
        assert!(text.contains(&line), "{line} is not in {text}");
    }
}
