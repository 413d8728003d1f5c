//! Directories of pods that are gone, on disks that hang or fail.

use std::io::ErrorKind;
use std::path::PathBuf;
use std::time::Duration;

use journal::{Became, Query, find};
use model::observed::Container;

use crate::world::World;

fn directory(container: &Container) -> PathBuf {
    PathBuf::from("/var/lib/kubelet/pods").join(container.pod_uid.as_str())
}

fn exists(world: &World, directory: &PathBuf) -> bool {
    world.files.mode(directory).is_some()
}

/// Removes the manifest of a pod, and waits until the removal of its directory hangs.
async fn hang(world: &World, name: &str, directory: &PathBuf) {
    world.files.hold_removal(directory);
    world.remove_manifest(name);
    let hangs = |world: &World| (world.files.held_removals(directory) > 0).then_some(());
    world.until("its directory is being removed", hangs).await;
}

// behaviour: ACT-307, ACT-308
#[tokio::test(start_paused = true)]
async fn removal_that_hangs_holds_up_no_other_pod_and_is_retried_once_it_fails() {
    let world = World::new();
    world.write_manifest("web", "Always", "[sleep, forever]");
    world.write_manifest("other", "Always", "[sleep, forever]");
    let _agent = world.start();
    let gone = directory(&world.one_runs("web").await);
    let other = world.one_runs("other").await;
    hang(&world, "web", &gone).await;
    world.write_manifest("late", "Always", "[sleep, forever]");
    let late = directory(&world.one_runs("late").await);
    world.runtime.kill_container(&other.id, 1);
    let again = |world: &World| {
        let running = world.running("other");
        running.into_iter().find(|container| container.id != other.id)
    };
    world.until("a dead container is restarted", again).await;
    world.remove_manifest("late");
    let removed = |world: &World| (!exists(world, &late)).then_some(());
    world.until("other directories are removed", removed).await;
    tokio::time::sleep(Duration::from_mins(3)).await;
    assert_eq!(world.files.held_removals(&gone), 1, "one removal of a pod at a time");
    world.files.fail(&gone, ErrorKind::ResourceBusy);
    world.files.release_removal(&gone);
    tokio::time::sleep(Duration::from_mins(3)).await;
    world.files.repair(&gone);
    assert!(exists(&world, &gone));
    tokio::time::sleep(Duration::from_secs(61)).await;
    assert!(!exists(&world, &gone), "housekeeping retries");
}

// behaviour: ACT-307
#[tokio::test(start_paused = true)]
async fn many_removals_that_hang_hold_up_another_for_two_minutes_at_most() {
    let world = World::new();
    let left = |name: &str| PathBuf::from("/var/lib/kubelet/pods").join(name);
    for name in ["a", "b", "c", "d", "z"] {
        world.files.write(left(name).join("etc-hosts"), "text");
        if name != "z" {
            world.files.hold_removal(left(name));
        }
    }
    let _agent = world.start();
    let all_hang = |world: &World| {
        ["a", "b", "c", "d"]
            .iter()
            .all(|name| world.files.held_removals(left(name)) > 0)
            .then_some(())
    };
    world.until("four hang", all_hang).await;
    tokio::time::sleep(Duration::from_mins(2)).await;
    assert!(!exists(&world, &left("z")));
    for name in ["a", "b", "c", "d"] {
        world.files.release_removal(left(name));
    }
}

// behaviour: ACT-309
#[tokio::test(start_paused = true)]
async fn pod_that_comes_back_starts_after_its_directory_is_removed() {
    let world = World::new();
    world.write_manifest("web", "Always", "[sleep, forever]");
    let _agent = world.start();
    let web = world.one_runs("web").await;
    let directory = directory(&web);
    hang(&world, "web", &directory).await;
    world.write_manifest("web", "Always", "[sleep, forever]");
    tokio::time::sleep(Duration::from_mins(3)).await;
    assert!(world.running("web").is_empty(), "its directory would be removed while it starts");
    world.files.release_removal(&directory);
    let back = world.one_runs("web").await;
    assert_eq!(back.pod_uid, web.pod_uid);
    tokio::time::sleep(Duration::from_mins(3)).await;
    assert!(exists(&world, &directory));
}

// behaviour: ACT-307, ACT-308
#[tokio::test(start_paused = true)]
async fn directories_left_by_an_earlier_agent_are_listed_again_after_a_failure() {
    let world = World::new();
    let left = PathBuf::from("/var/lib/kubelet/pods/long-gone");
    world.files.write(left.join("etc-hosts"), "text");
    world.files.fail_list("/var/lib/kubelet/pods", ErrorKind::PermissionDenied);
    world.files.hold_removal(&left);
    world.write_manifest("web", "Always", "[sleep, forever]");
    let _agent = world.start();
    world.one_runs("web").await;
    tokio::time::sleep(Duration::from_mins(2)).await;
    assert_eq!(world.files.held_removals(&left), 0);
    world.files.repair("/var/lib/kubelet/pods");
    tokio::time::sleep(Duration::from_secs(61)).await;
    assert_eq!(world.files.held_removals(&left), 1);
    world.write_manifest("late", "Always", "[sleep, forever]");
    world.one_runs("late").await;
    world.files.release_removal(&left);
    let removed = |world: &World| (!exists(world, &left)).then_some(());
    world.until("it is removed", removed).await;
}

// behaviour: ACT-311
#[tokio::test(start_paused = true)]
async fn removal_that_succeeds_after_it_was_given_up_is_on_record_as_gone() {
    let world = World::new();
    let left = PathBuf::from("/var/lib/kubelet/pods/long-gone");
    world.files.write(left.join("etc-hosts"), "text");
    world.files.hold_removal(&left);
    let _agent = world.start();
    let begun = |world: &World| (world.files.held_removals(&left) > 0).then_some(());
    world.until("it is being removed", begun).await;
    world.files.fail(&left, ErrorKind::TimedOut);
    world.files.release_removal(&left);
    let path = left.to_str().expect("text");
    let outcomes = |world: &World| -> Vec<Became> {
        let found = find(&world.journal, &Query::new(path), 10).expect("the journal can be read");
        found.entries.into_iter().map(|entry| entry.outcome).collect()
    };
    let failed = |world: &World| (outcomes(world) == [Became::Failed]).then_some(());
    world.until("the removal was given up", failed).await;
    // The abandoned removal goes on, and succeeds.
    world.files.repair(&left);
    world.files.remove(&left);
    let gone = |world: &World| outcomes(world).contains(&Became::Gone).then_some(());
    world.until("the journal says that it is gone", gone).await;
}
