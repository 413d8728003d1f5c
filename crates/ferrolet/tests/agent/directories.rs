//! Directories of pods that are gone, on disks that hang or fail.

use std::io::ErrorKind;
use std::path::PathBuf;
use std::time::Duration;

use journal::{EntryOutcome, Query, find};
use model::observed::Container;

use crate::harness::Harness;

fn directory(container: &Container) -> PathBuf {
    PathBuf::from("/var/lib/kubelet/pods").join(container.pod_uid.as_str())
}

fn exists(harness: &Harness, directory: &PathBuf) -> bool {
    harness.files.mode(directory).is_some()
}

/// Removes the manifest of a pod, and waits until the removal of its directory hangs.
async fn hang(harness: &Harness, name: &str, directory: &PathBuf) {
    harness.files.hold_removal(directory);
    harness.remove_manifest(name);
    let hangs = |harness: &Harness| (harness.files.held_removals(directory) > 0).then_some(());
    harness.until("its directory is being removed", hangs).await;
}

// behaviour: ACT-307, ACT-308
#[tokio::test(start_paused = true)]
async fn hanging_removal_delays_no_other_pod_and_is_retried_after_its_failure() {
    let harness = Harness::new();
    harness.write_manifest("web", "Always", "[sleep, forever]");
    harness.write_manifest("other", "Always", "[sleep, forever]");
    let _agent = harness.start();
    let gone = directory(&harness.one_runs("web").await);
    let other = harness.one_runs("other").await;
    hang(&harness, "web", &gone).await;
    harness.write_manifest("late", "Always", "[sleep, forever]");
    let late = directory(&harness.one_runs("late").await);
    harness.runtime.kill_container(&other.id, 1);
    let again = |harness: &Harness| {
        let running = harness.running("other");
        running.into_iter().find(|container| container.id != other.id)
    };
    harness.until("a dead container is restarted", again).await;
    harness.remove_manifest("late");
    let removed = |harness: &Harness| (!exists(harness, &late)).then_some(());
    harness.until("other directories are removed", removed).await;
    tokio::time::sleep(Duration::from_mins(3)).await;
    assert_eq!(harness.files.held_removals(&gone), 1, "one removal of a pod at a time");
    harness.files.fail(&gone, ErrorKind::ResourceBusy);
    harness.files.release_removal(&gone);
    tokio::time::sleep(Duration::from_mins(3)).await;
    harness.files.repair(&gone);
    assert!(exists(&harness, &gone));
    tokio::time::sleep(Duration::from_secs(61)).await;
    assert!(!exists(&harness, &gone), "housekeeping retries");
}

// behaviour: ACT-307
#[tokio::test(start_paused = true)]
async fn many_hanging_removals_delay_another_for_at_most_two_minutes() {
    let harness = Harness::new();
    let left = |name: &str| PathBuf::from("/var/lib/kubelet/pods").join(name);
    for name in ["a", "b", "c", "d", "z"] {
        harness.files.write(left(name).join("etc-hosts"), "text");
        if name != "z" {
            harness.files.hold_removal(left(name));
        }
    }
    let _agent = harness.start();
    let all_hang = |harness: &Harness| {
        ["a", "b", "c", "d"]
            .iter()
            .all(|name| harness.files.held_removals(left(name)) > 0)
            .then_some(())
    };
    harness.until("four hang", all_hang).await;
    tokio::time::sleep(Duration::from_mins(2)).await;
    assert!(!exists(&harness, &left("z")));
    for name in ["a", "b", "c", "d"] {
        harness.files.release_removal(left(name));
    }
}

// behaviour: ACT-309
#[tokio::test(start_paused = true)]
async fn pod_that_comes_back_starts_after_its_directory_is_removed() {
    let harness = Harness::new();
    harness.write_manifest("web", "Always", "[sleep, forever]");
    let _agent = harness.start();
    let web = harness.one_runs("web").await;
    let directory = directory(&web);
    hang(&harness, "web", &directory).await;
    harness.write_manifest("web", "Always", "[sleep, forever]");
    tokio::time::sleep(Duration::from_mins(3)).await;
    assert!(harness.running("web").is_empty(), "its directory would be removed while it starts");
    harness.files.release_removal(&directory);
    let back = harness.one_runs("web").await;
    assert_eq!(back.pod_uid, web.pod_uid);
    tokio::time::sleep(Duration::from_mins(3)).await;
    assert!(exists(&harness, &directory));
}

// behaviour: ACT-307, ACT-308
#[tokio::test(start_paused = true)]
async fn failed_list_of_leftover_directories_is_retried() {
    let harness = Harness::new();
    let left = PathBuf::from("/var/lib/kubelet/pods/long-gone");
    harness.files.write(left.join("etc-hosts"), "text");
    harness.files.fail_list("/var/lib/kubelet/pods", ErrorKind::PermissionDenied);
    harness.files.hold_removal(&left);
    harness.write_manifest("web", "Always", "[sleep, forever]");
    let _agent = harness.start();
    harness.one_runs("web").await;
    tokio::time::sleep(Duration::from_mins(2)).await;
    assert_eq!(harness.files.held_removals(&left), 0);
    harness.files.repair("/var/lib/kubelet/pods");
    tokio::time::sleep(Duration::from_secs(61)).await;
    assert_eq!(harness.files.held_removals(&left), 1);
    harness.write_manifest("late", "Always", "[sleep, forever]");
    harness.one_runs("late").await;
    harness.files.release_removal(&left);
    let removed = |harness: &Harness| (!exists(harness, &left)).then_some(());
    harness.until("it is removed", removed).await;
}

// behaviour: ACT-311
#[tokio::test(start_paused = true)]
async fn cancelled_removal_that_succeeds_is_recorded_as_gone() {
    let harness = Harness::new();
    let left = PathBuf::from("/var/lib/kubelet/pods/long-gone");
    harness.files.write(left.join("etc-hosts"), "text");
    harness.files.hold_removal(&left);
    let _agent = harness.start();
    let begun = |harness: &Harness| (harness.files.held_removals(&left) > 0).then_some(());
    harness.until("it is being removed", begun).await;
    harness.files.fail(&left, ErrorKind::TimedOut);
    harness.files.release_removal(&left);
    let path = left.to_str().expect("text");
    let outcomes = |harness: &Harness| -> Vec<EntryOutcome> {
        let found = find(&harness.journal, &Query::new(path), 10).expect("the journal can be read");
        found.entries.into_iter().map(|entry| entry.outcome).collect()
    };
    let failed = |harness: &Harness| (outcomes(harness) == [EntryOutcome::Failed]).then_some(());
    harness.until("the removal was given up", failed).await;
    // The abandoned removal continues, and succeeds.
    harness.files.repair(&left);
    harness.files.remove(&left);
    let gone = |harness: &Harness| outcomes(harness).contains(&EntryOutcome::Gone).then_some(());
    harness.until("the journal says that it is gone", gone).await;
}

// behaviour: ACT-313
#[tokio::test(start_paused = true)]
async fn failed_removal_of_a_directory_is_planned_with_its_error() {
    let harness = Harness::new();
    let left = PathBuf::from("/var/lib/kubelet/pods/long-gone");
    harness.files.write(left.join("etc-hosts"), "text");
    harness.files.fail(&left, ErrorKind::DirectoryNotEmpty);
    let agent = harness.start();
    let planned = async || {
        let plan = agent.collector().plan().await;
        plan.items.into_iter().find(|item| item.kind == "pod-directory")
    };
    tokio::time::sleep(Duration::from_mins(2)).await;
    let item = planned().await.expect("the directory is in the plan");
    assert_eq!((item.id.as_str(), item.rule.as_str()), (left.to_str().unwrap(), "pod-is-gone"));
    let detail = format!("{:?}", item.detail);
    assert!(detail.contains("error"), "{detail}");
    harness.files.repair(&left);
    tokio::time::sleep(Duration::from_mins(2)).await;
    assert!(!exists(&harness, &left));
    assert_eq!(planned().await, None);
}
