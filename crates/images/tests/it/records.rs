//! Pull records on disk, which survive a restart of the agent.

use std::collections::BTreeSet;
use std::io::ErrorKind;

use images::decide::record::file_name;
use model::ports::clock::WallClock as _;
use model::ports::image_access::ImageAccess as _;
use testkit::runtime::RemoteImage;
use tokio::time::{Duration, sleep};

use crate::harness::{Agent, Harness, IMAGE, REF, REPOSITORY, ROOT};

fn path(directory: &str, of: &str) -> String {
    format!("{ROOT}/image_manager/{directory}/{}", file_name(of))
}

fn on_disk(agent: &Agent) -> (String, String) {
    let metric = |name: &str| agent.metric(&format!("kubelet_imagemanager_ondisk_{name}"));
    (metric("pullintents"), metric("pulledrecords"))
}

/// Waits until the task has handled all requests.
async fn settled(agent: &Agent, harness: &Harness) {
    agent.may_use(&harness.pod("any", &[])).await;
}

// behaviour: PULL-34
#[tokio::test(start_paused = true)]
async fn intent_is_on_disk_during_a_pull_and_the_record_after_it() {
    let harness = Harness::new();
    harness.put_secret("key", "p");
    let (agent, pod) = (harness.start(), harness.pod("owner", &["key"]));
    let credentials = agent.access.credentials(&pod, IMAGE).await.unwrap();
    agent.access.pull_begins(IMAGE).await.unwrap();
    let intent = format!(
        "{{\"kind\":\"ImagePullIntent\",\"apiVersion\":\"kubelet.config.k8s.io/v1beta1\",\"image\":\"{IMAGE}\"}}\n"
    );
    assert_eq!(harness.record("pulling", IMAGE), Some(intent));
    assert_eq!(harness.files.mode(path("pulling", IMAGE)), Some(0o600));
    assert_eq!(harness.files.mode(format!("{ROOT}/image_manager/pulling")), Some(0o700));
    agent.access.pull_succeeded(IMAGE, REF, credentials.first()).await;
    assert!(!harness.has_intent());
    let record = harness.record("pulled", REF).unwrap();
    let parts = [
        r#""lastUpdatedTime":"2026-01-01T00:00:00Z""#,
        &format!(r#""imageRef":"{REF}""#),
        &format!(
            r#""{REPOSITORY}":{{"kubernetesSecrets":[{{"uid":"uid-key","namespace":"shop","name":"key","credentialHash":""#
        ),
    ];
    assert!(parts.iter().all(|part| record.contains(part)), "{record}");
    assert!(!record.contains("\"p\""), "the password is not in it: {record}");
    assert_eq!(harness.files.mode(path("pulled", REF)), Some(0o600));
    assert_eq!(on_disk(&agent), ("0".to_owned(), "1".to_owned()));
}

// behaviour: PULL-36
#[tokio::test(start_paused = true)]
async fn intent_stays_until_the_last_pull_of_the_image_has_ended() {
    let harness = Harness::new();
    let agent = harness.start();
    agent.access.pull_begins(IMAGE).await.unwrap();
    agent.access.pull_begins(IMAGE).await.unwrap();
    agent.access.pull_failed(IMAGE).await;
    assert!(harness.has_intent());
    assert!(!agent.may_use(&harness.pod("other", &[])).await, "a pull is in progress");
    agent.access.pull_failed(IMAGE).await;
    assert!(!harness.has_intent());
    assert!(agent.may_use(&harness.pod("other", &[])).await, "it counts as preloaded again");
}

// behaviour: PULL-36
#[tokio::test(start_paused = true)]
async fn pull_does_not_begin_without_its_intent() {
    let harness = Harness::new();
    let agent = harness.start();
    harness.files.fail(path("pulling", IMAGE), ErrorKind::StorageFull);
    let error = agent.access.pull_begins(IMAGE).await.unwrap_err();
    assert_eq!(error.path, std::path::Path::new(&path("pulling", IMAGE)));
    harness.files.repair(path("pulling", IMAGE));
    agent.access.pull_begins(IMAGE).await.unwrap();
    agent.access.pull_failed(IMAGE).await;
    assert!(!harness.has_intent(), "the first attempt is not counted");
}

// behaviour: PULL-36
#[tokio::test(start_paused = true)]
async fn intent_stays_if_the_record_cannot_be_written() {
    let harness = Harness::new();
    harness.put_secret("key", "p");
    let agent = harness.start();
    harness.files.fail(path("pulled", REF), ErrorKind::StorageFull);
    agent.pull(&harness.pod("owner", &["key"])).await;
    assert!(harness.has_intent());
    harness.files.repair(path("pulled", REF));
    assert!(!agent.may_use(&harness.pod("other", &[])).await);
    drop(agent);
    assert!(!harness.start().may_use(&harness.pod("other", &[])).await);
}

// behaviour: PULL-37
#[tokio::test(start_paused = true)]
async fn access_of_pods_survives_agent_restart() {
    let harness = Harness::new();
    harness.put_secret("key", "p");
    let (owner, other) = (harness.pod("owner", &["key"]), harness.pod("other", &[]));
    harness.start().pull(&owner).await;
    let agent = harness.start();
    assert!(agent.may_use(&owner).await);
    assert!(!agent.may_use(&other).await);
}

// behaviour: PULL-37
#[tokio::test(start_paused = true)]
async fn interrupted_pull_is_settled_if_the_runtime_has_the_image() {
    let harness = Harness::new();
    let image = RemoteImage::new("docker.io/library/busybox:latest");
    let agent = harness.start();
    for name in ["busybox:latest", IMAGE] {
        agent.access.pull_begins(name).await.unwrap();
    }
    drop(agent);
    let id = harness.runtime.add_image(&image);
    let agent = harness.start();
    settled(&agent, &harness).await;
    assert_eq!(harness.record("pulling", "busybox:latest"), None);
    let record = harness.record("pulled", &id).unwrap();
    assert!(!record.contains("credentialMapping"), "every pod must prove its access: {record}");
    assert!(harness.has_intent(), "the other image is not there yet");
    assert!(!agent.may_use(&harness.pod("other", &[])).await, "and does not count as preloaded");
    assert_eq!(on_disk(&agent), ("1".to_owned(), "1".to_owned()));
}

// behaviour: PULL-37
#[tokio::test(start_paused = true)]
async fn records_of_the_upstream_kubelet_are_used_and_older_ones_migrated() {
    let harness = Harness::new();
    let record = |version: &str| {
        format!(
            r#"{{"kind":"ImagePulledRecord","apiVersion":"kubelet.config.k8s.io/{version}","lastUpdatedTime":"2025-05-05T05:05:05Z","imageRef":"{REF}","credentialMapping":{{"{REPOSITORY}":{{"kubernetesSecrets":[{{"uid":"uid-key","namespace":"shop","name":"key","credentialHash":"x"}}]}}}}}}"#
        )
    };
    harness.put_secret("key", "p");
    for version in ["v1beta1", "v1alpha1"] {
        harness.put_record("pulled", REF, &record(version));
        let agent = harness.start();
        assert!(!agent.may_use(&harness.pod("other", &[])).await, "{version}");
        assert!(harness.record("pulled", REF).unwrap().contains("v1beta1"), "{version}");
        assert!(agent.may_use(&harness.pod("owner", &["key"])).await, "{version}");
    }
}

// behaviour: PULL-37
#[tokio::test(start_paused = true)]
async fn record_that_cannot_be_read_requires_a_pull_which_replaces_it() {
    let harness = Harness::new();
    harness.put_record("pulled", REF, "{");
    let (agent, pod) = (harness.start(), harness.pod("any", &[]));
    assert!(!agent.may_use(&pod).await);
    let errors = r#"kubelet_imagemanager_image_mustpull_checks_total{result="error"}"#;
    assert_eq!(agent.metric(errors), "1");
    agent.pull(&pod).await;
    assert!(agent.may_use(&pod).await);
}

// behaviour: PULL-38
#[tokio::test(start_paused = true)]
async fn records_of_removed_images_are_removed_after_a_collection() {
    let harness = Harness::new();
    let agent = harness.start();
    let access = &agent.access;
    for (image, image_ref) in [("r.io/kept:1", "sha256:kept"), ("r.io/gone:1", "sha256:gone")] {
        access.pull_begins(image).await.unwrap();
        access.pull_succeeded(image, image_ref, None).await;
    }
    sleep(Duration::from_secs(5)).await;
    let began = harness.clock.now();
    sleep(Duration::from_secs(5)).await;
    access.pull_begins("r.io/new:1").await.unwrap();
    access.pull_succeeded("r.io/new:1", "sha256:new", None).await;
    agent.records.prune(began, BTreeSet::from(["sha256:kept".to_owned()])).await;
    settled(&agent, &harness).await;
    let left = ["kept", "gone", "new"]
        .map(|name| harness.record("pulled", &format!("sha256:{name}")).is_some());
    assert_eq!(left, [true, false, true]);
}

// behaviour: PULL-39
#[tokio::test(start_paused = true)]
async fn records_are_read_once_and_the_least_used_leaves_the_memory() {
    let harness = Harness { most_records: 2, ..Harness::new() };
    let (agent, pod) = (harness.start(), harness.pod("any", &[]));
    for number in 0..3 {
        let (image, image_ref) = (format!("r.io/a{number}:1"), format!("sha256:{number}"));
        agent.access.pull_begins(&image).await.unwrap();
        agent.access.pull_succeeded(&image, &image_ref, None).await;
    }
    let before = harness.files.reads(path("pulled", "sha256:0"));
    for _ in 0..3 {
        agent.access.check_present(&pod, "r.io/a0:1", "sha256:0").await.unwrap();
    }
    assert_eq!(harness.files.reads(path("pulled", "sha256:0")), before + 1);
    let used = agent.metric("kubelet_imagemanager_inmemory_pulledrecords_usage_percent");
    assert_eq!(used, "100");
}
