use std::io::ErrorKind;
use std::time::Duration;

use podspec::view;
use serde_json::json;
use testkit::volumes::Operation;

use crate::harness::{Harness, PODS, pod, volume};

fn every_kind() -> serde_json::Value {
    json!([
        { "name": "scratch", "emptyDir": {} },
        { "name": "fast", "emptyDir": { "medium": "Memory" } },
        { "name": "conf", "configMap": { "name": "app" } },
        { "name": "info", "downwardAPI": { "items": [
            { "path": "name", "fieldRef": { "fieldPath": "metadata.name" } }] } },
    ])
}

// behaviour: VOL-89
#[tokio::test(start_paused = true)]
async fn restarted_manager_changes_nothing_and_unmounts_after_release() {
    let harness = Harness::new();
    harness.put_config("fast");
    let pod = pod("u1", &every_kind());
    assert_eq!(harness.sync(&pod).await, None);
    let scratch = volume(&pod, "empty-dir", "scratch");
    harness.files.write(scratch.join("data"), "of a container");
    let (mounts, before) = (harness.mounts().await, harness.changes().len());

    let harness = harness.restarted();
    assert_eq!(harness.sync(&pod).await, None);
    assert_eq!(harness.mounts().await, mounts);
    let again = harness.changes().split_off(before);
    let compares = |(operation, _): &(Operation, _)| *operation == Operation::WritePayload;
    assert!(again.iter().all(compares), "files are compared, nothing is made: {again:?}");
    assert_eq!(harness.content(&scratch, "data").await.as_deref(), Some("of a container"));

    harness.release(&pod).await;
    assert_eq!(harness.mounts().await, []);
    assert_eq!(harness.content(&scratch, "data").await, None);
    assert_eq!(harness.messages(), [""; 0]);
}

// behaviour: VOL-90
#[tokio::test(start_paused = true)]
async fn orphan_known_only_by_its_directory_is_unmounted() {
    let harness = Harness::new();
    harness.put_config("fast");
    let pod = pod("u1", &every_kind());
    assert_eq!(harness.sync(&pod).await, None);
    let harness = harness.restarted();
    harness.manager.release(&view::uid(&pod), None).await.unwrap();
    assert_eq!(harness.mounts().await, []);
    assert_eq!(harness.files.mode(volume(&pod, "configmap", "conf")), None);
    let directory = format!("{PODS}/u1");
    assert!(harness.files.mode(directory).is_some(), "garbage collection removes the pod's own");
}

// behaviour: VOL-91, VOL-104
#[tokio::test(start_paused = true)]
async fn release_reports_volumes_that_stay_mounted() {
    let harness = Harness::new();
    let pod = pod("u1", &json!([{ "name": "fast", "emptyDir": { "medium": "Memory" } }]));
    assert_eq!(harness.sync(&pod).await, None);
    let path = volume(&pod, "empty-dir", "fast");
    harness.host.fail(Operation::Unmount, &path, ErrorKind::ResourceBusy);
    let error = harness.manager.release(&"u1".into(), None).await.unwrap_err();
    assert_eq!(error.volumes, ["fast"]);
    let text = error.to_string();
    let expected = "mounted volumes=[fast]: UnmountVolume.TearDown failed for volume \"fast\" : ";
    assert!(text.starts_with(expected), "{text}");
    let [removal] = &harness.manager.removals()[..] else { panic!("{:?}", harness.manager) };
    let why = removal.to_string();
    assert!(why.contains("fast") && why.contains(expected.split_once(": ").unwrap().1), "{why}");
    harness.host.repair(Operation::Unmount, &path);
    harness.release(&pod).await;
    assert_eq!(harness.mounts().await, []);
    assert_eq!(harness.manager.removals(), []);
}

// behaviour: VOL-92
#[tokio::test(start_paused = true)]
async fn volume_whose_mount_is_under_way_is_unmounted_after_it() {
    let harness = Harness::new();
    let pod = pod("u1", &json!([{ "name": "fast", "emptyDir": { "medium": "Memory" } }]));
    let path = volume(&pod, "empty-dir", "fast");
    harness.host.hold(Operation::Mount, &path);
    harness.manager.update(&pod);
    tokio::time::sleep(Duration::from_millis(1)).await;
    let ends = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        harness.host.release(Operation::Mount, &path);
    };
    tokio::join!(harness.release(&pod), ends);
    assert_eq!(harness.mounts().await, []);
    assert!(harness.changes().contains(&(Operation::Unmount, path)));
}

// behaviour: VOL-101
#[tokio::test(start_paused = true)]
async fn volumes_and_orphans_are_counted() {
    let harness = Harness::new();
    let pod = pod("u1", &json!([{ "name": "fast", "emptyDir": { "medium": "Memory" } }]));
    assert_eq!(harness.sync(&pod).await, None);
    let harness = harness.restarted();
    let path = volume(&pod, "empty-dir", "fast");
    harness.host.fail(Operation::Unmount, &path, ErrorKind::ResourceBusy);
    harness.manager.release(&"u1".into(), None).await.unwrap_err();
    let mounted = r#"{plugin_name="kubernetes.io/empty-dir",state="actual_state_of_world"} 1"#;
    let total = "volume_manager_total_volumes";
    assert_eq!(harness.counted(total), [format!("{total}{mounted}")]);
    let orphans = "kubelet_orphan_pod_cleaned_volumes";
    assert_eq!(harness.counted(orphans), [format!("{orphans} 1"), format!("{orphans}_errors 1")]);
    let found = "reconstruct_volume_operations_";
    assert_eq!(harness.counted(found), [format!("{found}total 1")]);
    harness.host.repair(Operation::Unmount, &path);
    harness.manager.release(&"u1".into(), None).await.unwrap();
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert_eq!(harness.counted(orphans), [""; 0]);
}
