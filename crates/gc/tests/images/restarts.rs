//! Records of an earlier agent.

use std::time::Duration;

use jiff::SignedDuration;
use testkit::runtime::{Fault, Method, Rule};

use crate::harness::{Harness, fates};
use testkit::logged::Logged;

const FILE: &str = "/state/image-use.json";

// behaviour: IMG-44
#[tokio::test(start_paused = true)]
async fn use_times_and_maximum_age_survive_a_restart() {
    let mut harness = Harness::new();
    harness.policy.maximum_age = Duration::from_mins(10);
    let used = harness.image("used", 10);
    harness.image("unused", 10);
    harness.container("web", &used, None).await;
    let running = harness.start();
    tokio::time::sleep(Duration::from_mins(9)).await;
    running.kill().await;
    let before = harness.records();
    assert!(before.contains("lastUsed"), "{before}");
    let running = harness.start();
    tokio::time::sleep(Duration::from_secs(70)).await;
    let report = running.gc.run_now().await;
    assert_eq!(fates(&report.plan), ["unused unused-longer-than-maximum-age", "used image-in-use"]);
    assert_eq!(harness.left(), ["used"]);
    assert!(!harness.records().contains("unused"), "removed images are dropped");
    running.stop().await;
}

// behaviour: IMG-45
#[tokio::test(start_paused = true)]
async fn damaged_records_file_is_ignored() {
    let mut harness = Harness::new();
    harness.policy.maximum_age = Duration::from_mins(10);
    harness.image("a", 10);
    let running = harness.start();
    tokio::time::sleep(Duration::from_mins(9)).await;
    running.stop().await;
    let good = harness.records();
    let damaged = [
        String::new(),
        "{".to_owned(),
        good[..good.len() / 2].to_owned(),
        good.replace("\"version\":2", "\"version\":3"),
        good.replacen("2026-01-01", "2025-01-01", 1),
    ];
    let logged = Logged::new();
    for text in damaged {
        harness.files.write(FILE, text.clone());
        let running = harness.start();
        tokio::time::sleep(Duration::from_secs(130)).await;
        let report = running.gc.run_now().await;
        assert_eq!(
            logged.warnings_of("Image records are unusable, starting with new ones"),
            1,
            "{text}"
        );
        assert_eq!(fates(&report.plan), ["a below-high-threshold"], "{text}");
        running.stop().await;
    }
    harness.files.fail(FILE, std::io::ErrorKind::PermissionDenied);
    let running = harness.start();
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(running.gc.run_now().await.error.is_none());
    assert_eq!(logged.warnings_of("Image records are unusable, starting with new ones"), 1);
    running.stop().await;
}

// behaviour: IMG-48
#[tokio::test(start_paused = true)]
async fn clock_set_back_after_a_restart_keeps_no_image() {
    let mut harness = Harness::new();
    harness.policy.minimum_age = Duration::from_mins(2);
    harness.image("a", 900);
    let running = harness.started(1000).await;
    harness.set_clock(SignedDuration::from_hours(-24 * 365));
    // As far as known, it started now.
    let young = running.gc.run_now().await;
    assert_eq!(fates(&young.plan), ["a younger-than-minimum-age"]);
    tokio::time::sleep(Duration::from_secs(119)).await;
    assert_eq!(fates(&running.gc.plan().await.plan), ["a younger-than-minimum-age"]);
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(fates(&running.gc.plan().await.plan), ["a disk-over-high-threshold"]);
    let report = running.gc.run_now().await;
    assert_eq!(fates(&report.plan), ["a disk-over-high-threshold"]);
    assert_eq!(harness.left(), [""; 0]);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn image_gc_continues_after_an_agent_killed_in_mid_pass() {
    let harness = Harness::new();
    for number in 0..4 {
        harness.image(&format!("image-{number}"), 250);
    }
    let running = harness.started(1000).await;
    let late = Fault::lost_answer();
    harness.runtime.inject(Rule::on(Method::RemoveImage, late).once());
    let pass = running.gc.run_now();
    let waited = tokio::time::timeout(Duration::from_secs(30), pass).await;
    assert!(waited.is_err(), "the call hangs");
    running.kill().await;
    assert_eq!(harness.left().len(), 3);
    let running = harness.start();
    tokio::time::sleep(Duration::from_secs(30)).await;
    // The removed image freed enough space.
    assert_eq!(harness.left().len(), 3);
    harness.disk.set_others(250);
    assert!(running.gc.run_now().await.error.is_none());
    assert_eq!(harness.left().len(), 2);
    running.stop().await;
}
