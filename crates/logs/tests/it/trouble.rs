//! Failures of the runtime, the disk and the agent.

use std::io::ErrorKind;
use std::time::Duration;

use logs::REPAIR;
use tokio::time::sleep;

use crate::harness::{Harness, assert_contiguous, bytes_per_second, has_extension, log_of, small};

const SECOND: Duration = Duration::from_secs(1);

// behaviour: ROT-13
#[tokio::test(start_paused = true)]
async fn log_gets_its_name_back_when_the_runtime_does_not_reopen_it() {
    let harness = Harness::new(small());
    harness.run("web", &["main"]);
    harness.containers.refuse(true);
    let mut lines = bytes_per_second(400);
    harness.write_for("web-main", &mut lines, 10 * SECOND).await;
    assert!(harness.containers.reopened() >= 1);
    assert_eq!(harness.names("web"), ["0.log"]);
    // Once the runtime works again, logs are rotated again.
    harness.containers.refuse(false);
    harness.write_for("web-main", &mut lines, 12 * SECOND).await;
    let (kept, sizes) = harness.kept("web");
    assert!(sizes.len() > 1);
    assert_contiguous(&kept, &lines);
    assert_eq!(kept[0], 0);
    harness.stop().await;
}

// behaviour: ROT-8
#[tokio::test(start_paused = true)]
async fn next_agent_completes_work_of_a_killed_agent() {
    let harness = Harness::new(small());
    harness.run("web", &["main"]);
    let mut lines = bytes_per_second(400);
    harness.write_for("web-main", &mut lines, 6 * SECOND).await;
    let containers = std::sync::Arc::clone(&harness.containers);
    let files = harness.kill().await;
    // It was killed after a rename, while it compressed an older file.
    let live = log_of("web");
    let names = files.names(live.parent().unwrap());
    let draft = names.iter().find(|name| name.len() > "0.log".len()).unwrap();
    let draft = draft.trim_end_matches(".gz").to_owned() + ".tmp";
    files.write(live.with_file_name(&draft), "half");
    files.rename(&live, live.with_file_name("0.log.20260101-235959"));
    containers.write("web-main", &format!("{:09}\n", lines.next));
    lines.next += 1;

    let harness = Harness::on(files, small());
    harness.containers.adopt(&containers);
    harness.observe("web", &["main"], model::observed::ContainerState::Running);
    sleep(SECOND).await;
    assert_eq!(harness.containers.reopened(), 1);
    harness.write_for("web-main", &mut lines, 3 * SECOND).await;
    let names = harness.names("web");
    assert!(!names.contains(&draft) && names.contains(&"0.log".to_owned()), "{names:?}");
    let verdicts = harness.verdicts();
    assert!(verdicts[0].contains("by rotation-leftover"), "{verdicts:?}");
    assert_contiguous(&harness.kept("web").0, &lines);
    harness.stop().await;
}

// behaviour: ROT-14
#[tokio::test(start_paused = true)]
async fn full_disk_loses_no_line_and_files_stay_bounded() {
    let harness = Harness::new(small());
    harness.files.fill_disk(true);
    harness.run("web", &["main"]);
    let mut lines = bytes_per_second(400);
    harness.write_for("web-main", &mut lines, 30 * SECOND).await;
    let names = harness.names("web");
    assert_eq!(names.len(), 5);
    assert!(names.iter().all(|name| !has_extension(name, "gz") && !has_extension(name, "tmp")));
    assert_contiguous(&harness.kept("web").0, &lines);
    harness.files.fill_disk(false);
    sleep(61 * SECOND).await;
    let compressed = harness.names("web").iter().filter(|name| has_extension(name, "gz")).count();
    assert_eq!(compressed, 3);
    assert_contiguous(&harness.kept("web").0, &lines);
    harness.stop().await;
}

// behaviour: ROT-4
#[tokio::test(start_paused = true)]
async fn log_that_cannot_be_watched_is_checked_once_an_interval() {
    let harness = Harness::new(small());
    harness.files.refuse_watches(ErrorKind::StorageFull);
    harness.run("web", &["main"]);
    sleep(20 * SECOND).await;
    harness.containers.write("web-main", &"x".repeat(2000));
    sleep(11 * SECOND).await;
    assert_eq!(harness.containers.reopened(), 1);
    harness.stop().await;
}

// behaviour: ROT-16
#[tokio::test(start_paused = true)]
async fn removal_that_hangs_delays_no_other_log() {
    let harness = Harness::new(small());
    let left = log_of("a").with_file_name("0.log.20250101-000000.tmp");
    harness.files.write(&left, "half");
    harness.files.hold_removal(&left);
    harness.run("a", &["main"]);
    harness.run("b", &["main"]);
    let mut lines = bytes_per_second(400);
    harness.write_for("b-main", &mut lines, 30 * SECOND).await;
    assert_eq!(harness.files.held_removals(&left), 1);
    assert_eq!(harness.names("b").len(), 5);
    harness.files.release_removal(&left);
    sleep(SECOND).await;
    assert_eq!(harness.names("a"), ["0.log"]);
    harness.stop().await;
}

// behaviour: ROT-7
#[tokio::test(start_paused = true)]
async fn undeletable_file_stops_only_rotation() {
    let harness = Harness::new(small());
    harness.run("web", &["main"]);
    let mut lines = bytes_per_second(400);
    harness.write_for("web-main", &mut lines, 30 * SECOND).await;
    let oldest = log_of("web").with_file_name(&harness.names("web")[1]);
    harness.files.fail(&oldest, ErrorKind::PermissionDenied);
    harness.write_for("web-main", &mut lines, 30 * SECOND).await;
    // One more than allowed: the rotation that found the failure.
    assert_eq!(harness.names("web").len(), 6);
    harness.files.repair(&oldest);
    harness.write_for("web-main", &mut lines, 30 * SECOND).await;
    assert_eq!(harness.names("web").len(), 5);
    assert_contiguous(&harness.kept("web").0, &lines);
    harness.stop().await;
}

#[tokio::test(start_paused = true)]
async fn runtime_without_logs_is_rarely_called() {
    let harness = Harness::new(small());
    harness.containers.write_no_files();
    harness.run("web", &["main"]);
    sleep(30 * SECOND).await;
    assert_eq!(harness.containers.reopened(), 1);
    sleep(REPAIR).await;
    assert_eq!(harness.containers.reopened(), 2);
    harness.stop().await;
}
