//! What an agent remembers of the one before it.

use std::time::Duration;

use jiff::SignedDuration;
use testkit::runtime::{Fault, Method, Rule};

use crate::world::{World, fates};
use testkit::logged::Logged;

const FILE: &str = "/state/image-use.json";

// behaviour: IMG-44
#[tokio::test(start_paused = true)]
async fn use_times_and_maximum_age_survive_a_restart() {
    let mut world = World::new();
    world.policy.maximum_age = Duration::from_mins(10);
    let used = world.image("used", 10);
    world.image("unused", 10);
    world.container("web", &used, None).await;
    let running = world.start();
    tokio::time::sleep(Duration::from_mins(9)).await;
    running.kill().await;
    let before = world.records();
    assert!(before.contains("lastUsed"), "{before}");
    let running = world.start();
    tokio::time::sleep(Duration::from_secs(70)).await;
    let report = running.gc.run_now().await;
    assert_eq!(fates(&report.plan), ["unused unused-longer-than-maximum-age", "used image-in-use"]);
    assert_eq!(world.left(), ["used"]);
    assert!(!world.records().contains("unused"), "what went is forgotten");
    running.stop().await;
}

// behaviour: IMG-45
#[tokio::test(start_paused = true)]
async fn damaged_records_file_is_ignored() {
    let mut world = World::new();
    world.policy.maximum_age = Duration::from_mins(10);
    world.image("a", 10);
    let running = world.start();
    tokio::time::sleep(Duration::from_mins(9)).await;
    running.stop().await;
    let good = world.records();
    let damaged = [
        String::new(),
        "{".to_owned(),
        good[..good.len() / 2].to_owned(),
        good.replace("\"version\":2", "\"version\":3"),
        good.replacen("2026-01-01", "2025-01-01", 1),
    ];
    let logged = Logged::new();
    for text in damaged {
        world.files.write(FILE, text.clone());
        let running = world.start();
        tokio::time::sleep(Duration::from_secs(130)).await;
        let report = running.gc.run_now().await;
        assert_eq!(logged.warnings_of("use times of images are lost; starting over"), 1, "{text}");
        assert_eq!(fates(&report.plan), ["a below-high-threshold"], "{text}");
        running.stop().await;
    }
    world.files.fail(FILE, std::io::ErrorKind::PermissionDenied);
    let running = world.start();
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(running.gc.run_now().await.error.is_none());
    assert_eq!(logged.warnings_of("use times of images are lost; starting over"), 1);
    running.stop().await;
}

// behaviour: IMG-48
#[tokio::test(start_paused = true)]
async fn clock_set_back_after_a_restart_keeps_no_image() {
    let mut world = World::new();
    world.policy.minimum_age = Duration::from_mins(2);
    world.image("a", 900);
    let running = world.started(1000).await;
    world.set_clock(SignedDuration::from_hours(-24 * 365));
    // As far as anybody can tell, it began now.
    let young = running.gc.run_now().await;
    assert_eq!(fates(&young.plan), ["a younger-than-minimum-age"]);
    tokio::time::sleep(Duration::from_secs(119)).await;
    assert_eq!(fates(&running.gc.plan().await.plan), ["a younger-than-minimum-age"]);
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(fates(&running.gc.plan().await.plan), ["a disk-over-high-threshold"]);
    let report = running.gc.run_now().await;
    assert_eq!(fates(&report.plan), ["a disk-over-high-threshold"]);
    assert_eq!(world.left(), [""; 0]);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn image_gc_continues_after_an_agent_killed_in_mid_pass() {
    let world = World::new();
    for number in 0..4 {
        world.image(&format!("image-{number}"), 250);
    }
    let running = world.started(1000).await;
    let late = Fault::lost_answer();
    world.runtime.inject(Rule::on(Method::RemoveImage, late).once());
    let pass = running.gc.run_now();
    let waited = tokio::time::timeout(Duration::from_secs(30), pass).await;
    assert!(waited.is_err(), "the call hangs");
    running.kill().await;
    assert_eq!(world.left().len(), 3);
    let running = world.start();
    tokio::time::sleep(Duration::from_secs(30)).await;
    // The one that went left room enough.
    assert_eq!(world.left().len(), 3);
    world.disk.set_others(250);
    assert!(running.gc.run_now().await.error.is_none());
    assert_eq!(world.left().len(), 2);
    running.stop().await;
}
