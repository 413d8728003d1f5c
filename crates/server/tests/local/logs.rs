//! Logs.

use hyper::StatusCode;
use k8s_openapi::api::core::v1::PodStatus;

use crate::harness::{Harness, Lines, ended, running};

#[tokio::test]
async fn log_of_the_requested_instance_is_read_with_its_options() {
    let harness = Harness::new();
    harness.pods.set("web", running("now"));
    let (status, text) = harness.get("/logs/default/web/main?tailLines=3&timestamps=true").await;
    assert_eq!(status, StatusCode::OK);
    assert!(text.starts_with("/logs/uid-of-web/now "), "{text}");
    assert!(text.contains("tail_lines: Some(3)") && text.contains("timestamps: true"), "{text}");
    assert!(text.ends_with("end\n"), "{text}");
}

#[tokio::test]
async fn log_is_followed_until_its_container_terminates() {
    let harness = Harness::new();
    harness.pods.set("web", running("now"));
    let mut lines = Lines::of(harness.send("GET", "/logs/default/web/main?follow=true", "").await);
    assert!(lines.next().await.unwrap().starts_with("/logs/uid-of-web/now"));
    harness.pods.set("other", running("elsewhere"));
    harness.pods.set("web", ended("now"));
    assert_eq!(lines.next().await.unwrap(), "end");
    assert_eq!(lines.next().await, None);
}

#[tokio::test]
async fn followed_log_ends_with_its_pod() {
    let harness = Harness::new();
    harness.pods.set("web", running("now"));
    let mut lines = Lines::of(harness.send("GET", "/logs/default/web/main?follow=true", "").await);
    lines.next().await.unwrap();
    harness.pods.remove("web");
    assert_eq!(lines.next().await.unwrap(), "end");
}

#[tokio::test]
async fn unreadable_log_is_an_error() {
    let harness = Harness::new();
    harness.pods.set("web", running("now"));
    harness.pods.set("lost", running("unknown"));
    harness.pods.set("burning", running("broken"));
    harness.pods.set("new", PodStatus::default());
    let rows = [
        ("", 400, "Missing podNamespace."),
        ("/default", 400, "Missing podID."),
        ("/default/web", 400, "Missing container name."),
        ("/default/web/", 400, "Missing container name."),
        ("/default/absent/main", 404, "pod \"absent\" does not exist"),
        ("/other/web/main", 404, "pod \"web\" does not exist"),
        ("/default/web/other", 404, "container \"other\" not found in pod \"web\""),
        ("/default/web/main?tailLines=x", 400, "Unable to decode query."),
        ("/default/web/main?tailLines=-1", 422, "Invalid request."),
        (
            "/default/web/main?previous=true",
            400,
            "previous terminated container \"main\" in pod \"web\" not found",
        ),
        ("/default/new/main", 400, "container \"main\" in pod \"new\" is not available"),
        ("/default/lost/main", 400, "unable to retrieve container logs for containerd://unknown"),
        ("/default/burning/main", 400, "unable to retrieve container logs for containerd://broken"),
    ];
    for (path, status, message) in rows {
        let found = harness.problem("GET", &format!("/logs{path}")).await;
        assert_eq!(found, (status, message.to_owned()), "{path}");
    }
}
