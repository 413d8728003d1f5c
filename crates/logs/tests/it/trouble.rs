//! What goes wrong: the runtime, the disk, the agent.

use std::io::ErrorKind;
use std::time::Duration;

use logs::REPAIR;
use tokio::time::sleep;

use crate::harness::{World, assert_contiguous, bytes_per_second, has_extension, log_of, small};

const SECOND: Duration = Duration::from_secs(1);

// behaviour: ROT-13
#[tokio::test(start_paused = true)]
async fn log_gets_its_name_back_when_the_runtime_does_not_reopen_it() {
    let world = World::new(small());
    world.run("web", &["main"]);
    world.containers.refuse(true);
    let mut lines = bytes_per_second(400);
    world.write_for("web-main", &mut lines, 10 * SECOND).await;
    assert!(world.containers.reopened() >= 1);
    assert_eq!(world.names("web"), ["0.log"]);
    // Once the runtime works again, so does rotation.
    world.containers.refuse(false);
    world.write_for("web-main", &mut lines, 12 * SECOND).await;
    let (kept, sizes) = world.kept("web");
    assert!(sizes.len() > 1);
    assert_contiguous(&kept, &lines);
    assert_eq!(kept[0], 0);
    world.stop().await;
}

// behaviour: ROT-8
#[tokio::test(start_paused = true)]
async fn next_agent_finishes_what_a_killed_one_left() {
    let world = World::new(small());
    world.run("web", &["main"]);
    let mut lines = bytes_per_second(400);
    world.write_for("web-main", &mut lines, 6 * SECOND).await;
    let containers = std::sync::Arc::clone(&world.containers);
    let files = world.kill().await;
    // It was killed after a rename, while it compressed an older file.
    let live = log_of("web");
    let names = files.names(live.parent().unwrap());
    let draft = names.iter().find(|name| name.len() > "0.log".len()).unwrap();
    let draft = draft.trim_end_matches(".gz").to_owned() + ".tmp";
    files.write(live.with_file_name(&draft), "half");
    files.rename(&live, live.with_file_name("0.log.20260101-235959"));
    containers.write("web-main", &format!("{:09}\n", lines.next));
    lines.next += 1;

    let world = World::on(files, small());
    world.containers.adopt(&containers);
    world.observe("web", &["main"], model::observed::ContainerState::Running);
    sleep(SECOND).await;
    assert_eq!(world.containers.reopened(), 1);
    world.write_for("web-main", &mut lines, 3 * SECOND).await;
    let names = world.names("web");
    assert!(!names.contains(&draft) && names.contains(&"0.log".to_owned()), "{names:?}");
    let verdicts = world.verdicts();
    assert!(verdicts[0].contains("by rotation-leftover"), "{verdicts:?}");
    assert_contiguous(&world.kept("web").0, &lines);
    world.stop().await;
}

// behaviour: ROT-14
#[tokio::test(start_paused = true)]
async fn full_disk_loses_no_line_and_files_stay_bounded() {
    let world = World::new(small());
    world.files.fill_disk(true);
    world.run("web", &["main"]);
    let mut lines = bytes_per_second(400);
    world.write_for("web-main", &mut lines, 30 * SECOND).await;
    let names = world.names("web");
    assert_eq!(names.len(), 5);
    assert!(names.iter().all(|name| !has_extension(name, "gz") && !has_extension(name, "tmp")));
    assert_contiguous(&world.kept("web").0, &lines);
    world.files.fill_disk(false);
    sleep(61 * SECOND).await;
    let compressed = world.names("web").iter().filter(|name| has_extension(name, "gz")).count();
    assert_eq!(compressed, 3);
    assert_contiguous(&world.kept("web").0, &lines);
    world.stop().await;
}

// behaviour: ROT-4
#[tokio::test(start_paused = true)]
async fn log_that_cannot_be_watched_is_looked_at_once_an_interval() {
    let world = World::new(small());
    world.files.refuse_watches(ErrorKind::StorageFull);
    world.run("web", &["main"]);
    sleep(20 * SECOND).await;
    world.containers.write("web-main", &"x".repeat(2000));
    sleep(11 * SECOND).await;
    assert_eq!(world.containers.reopened(), 1);
    world.stop().await;
}

// behaviour: ROT-16
#[tokio::test(start_paused = true)]
async fn removal_that_hangs_delays_no_other_log() {
    let world = World::new(small());
    let left = log_of("a").with_file_name("0.log.20250101-000000.tmp");
    world.files.write(&left, "half");
    world.files.hold_removal(&left);
    world.run("a", &["main"]);
    world.run("b", &["main"]);
    let mut lines = bytes_per_second(400);
    world.write_for("b-main", &mut lines, 30 * SECOND).await;
    assert_eq!(world.files.held_removals(&left), 1);
    assert_eq!(world.names("b").len(), 5);
    world.files.release_removal(&left);
    sleep(SECOND).await;
    assert_eq!(world.names("a"), ["0.log"]);
    world.stop().await;
}

// behaviour: ROT-7
#[tokio::test(start_paused = true)]
async fn file_that_cannot_be_deleted_stops_rotation_and_not_the_rest() {
    let world = World::new(small());
    world.run("web", &["main"]);
    let mut lines = bytes_per_second(400);
    world.write_for("web-main", &mut lines, 30 * SECOND).await;
    let oldest = log_of("web").with_file_name(&world.names("web")[1]);
    world.files.fail(&oldest, ErrorKind::PermissionDenied);
    world.write_for("web-main", &mut lines, 30 * SECOND).await;
    // One more than allowed: the rotation that found the obstacle.
    assert_eq!(world.names("web").len(), 6);
    world.files.repair(&oldest);
    world.write_for("web-main", &mut lines, 30 * SECOND).await;
    assert_eq!(world.names("web").len(), 5);
    assert_contiguous(&world.kept("web").0, &lines);
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn runtime_that_writes_no_logs_is_rarely_asked() {
    let world = World::new(small());
    world.containers.write_no_files();
    world.run("web", &["main"]);
    sleep(30 * SECOND).await;
    assert_eq!(world.containers.reopened(), 1);
    sleep(REPAIR).await;
    assert_eq!(world.containers.reopened(), 2);
    world.stop().await;
}
