use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use model::storage::{PersistentVolumeRecord, PersistentVolumeSource};
use testkit::volumes::Operation;
use tokio::time::Instant;

use crate::harness::{Harness, PODS, RESYNC, volume, with_claim};

/// A local directory that is a persistent volume.
pub(crate) fn local(path: &str) -> PersistentVolumeRecord {
    PersistentVolumeRecord {
        claim_uid: Some("c1".into()),
        mode: Some("Filesystem".into()),
        access_modes: vec!["ReadWriteOnce".to_owned()],
        mount_options: Vec::new(),
        group: None,
        node_affinity: None,
        source: PersistentVolumeSource::Local { path: path.to_owned(), fs_type: None },
    }
}

// behaviour: VOL-93
#[tokio::test(start_paused = true)]
async fn unresolved_claim_ends_the_wait_at_once_with_an_event() {
    let harness = Harness::new();
    let pod = with_claim("u1");
    let began = Instant::now();
    let wait = harness.sync(&pod).await.unwrap();
    assert_eq!(began.elapsed(), Duration::ZERO);
    let event = wait.event.unwrap();
    let expected = "Unable to attach or mount volumes: unmounted volumes=[data], unattached volumes=[], \
                    failed to process volumes=[data]: error processing PVC shop/disk: failed to fetch PVC \
                    from API server: persistentvolumeclaims \"disk\" not found";
    assert_eq!((&*event.reason, &*event.message), ("FailedMount", expected));
    harness.files.write("/mnt/disk/file", "data");
    harness.storage.bind(local("/mnt/disk"));
    assert_eq!(harness.sync(&pod).await, None);
    let place = volume(&pod, "local-volume", "pv");
    let file = "file";
    assert_eq!(harness.content(&place, file).await.as_deref(), Some("data"));
}

// behaviour: VOL-94
#[tokio::test(start_paused = true)]
async fn unreadable_claim_unmounts_nothing_of_a_running_pod() {
    let harness = Harness::new();
    harness.files.write("/mnt/disk/file", "data");
    harness.storage.bind(local("/mnt/disk"));
    let pod = with_claim("u1");
    assert_eq!(harness.sync(&pod).await, None);
    let mounts = harness.mounts().await;
    assert_eq!(mounts.len(), 1);
    harness.storage.is_down.store(true, Ordering::Relaxed);
    tokio::time::sleep(RESYNC * 2).await;
    assert_eq!(harness.sync(&pod).await, None, "containers can start again");
    assert_eq!(harness.mounts().await, mounts);

    let harness = harness.restarted();
    assert!(harness.sync(&pod).await.is_some(), "the claim is not known");
    tokio::time::sleep(RESYNC).await;
    assert_eq!(harness.mounts().await, mounts);
    harness.release(&pod).await;
    assert_eq!(harness.mounts().await, []);
}

// behaviour: VOL-97
#[tokio::test(start_paused = true)]
async fn volume_for_one_pod_is_refused_to_a_second_one_until_the_first_has_ended() {
    let harness = Harness::new();
    harness.files.write("/mnt/disk/file", "data");
    let access_modes = vec!["ReadWriteOncePod".to_owned()];
    harness.storage.bind(PersistentVolumeRecord { access_modes, ..local("/mnt/disk") });
    let pods = ["u1", "u2", "u3"].map(with_claim);
    assert_eq!(harness.sync(&pods[0]).await, None);
    harness.manager.update(&pods[1]);
    harness.manager.update(&pods[2]);
    tokio::time::sleep(Duration::from_millis(100)).await;
    let expected = "MountVolume.SetUp failed for volume \"pv\" : volume uses the ReadWriteOncePod access mode \
                    and is already in use by another pod";
    assert_eq!(harness.messages(), [expected; 2]);
    harness.release(&pods[0]).await;
    harness.release(&pods[2]).await;
    assert_eq!(harness.sync(&pods[1]).await, None);
}

// behaviour: VOL-98
#[tokio::test(start_paused = true)]
async fn group_of_a_persistent_volume_is_known_while_it_is_mounted() {
    let harness = Harness::new();
    harness.files.write("/mnt/disk/file", "data");
    harness
        .storage
        .bind(PersistentVolumeRecord { group: Some("1234".into()), ..local("/mnt/disk") });
    let pod = with_claim("u1");
    assert!(harness.manager.groups(&"u1".into()).is_empty());
    assert_eq!(harness.sync(&pod).await, None);
    assert_eq!(harness.manager.groups(&"u1".into()), [1234].into());
}

// behaviour: VOL-99
#[tokio::test(start_paused = true)]
async fn local_device_is_mounted_once_and_unmounted_after_the_last_pod() {
    let harness = Harness::new();
    harness.host.add_device("/dev/disk");
    harness.storage.bind(local("/dev/disk"));
    let pods = ["u1", "u2"].map(with_claim);
    for pod in &pods {
        assert_eq!(harness.sync(pod).await, None);
    }
    let device = "/var/lib/kubelet/plugins/kubernetes.io/local-volume/mounts/pv";
    let paths = || async {
        let mounts = harness.mounts().await;
        mounts.into_iter().map(|mount| mount.path).collect::<Vec<_>>()
    };
    let [first, second] = pods.each_ref().map(|pod| volume(pod, "local-volume", "pv"));
    assert_eq!(paths().await, [device.into(), first, second.clone()]);
    harness.release(&pods[0]).await;
    assert_eq!(paths().await, [device.into(), second]);
    harness.release(&pods[1]).await;
    assert_eq!(harness.mounts().await, []);
}

/// A pod whose container uses the claim as a device.
fn with_device(uid: &str) -> Arc<Pod> {
    let mut pod = (*with_claim(uid)).clone();
    let container = &mut pod.spec.as_mut().unwrap().containers[0];
    container.volume_mounts = None;
    let devices = serde_json::json!([{ "name": "data", "devicePath": "/dev/data" }]);
    container.volume_devices = Some(serde_json::from_value(devices).unwrap());
    Arc::new(pod)
}

// behaviour: VOL-103
#[tokio::test(start_paused = true)]
async fn block_volume_is_mapped_per_pod_and_unmapped_across_restarts() {
    let harness = Harness::new();
    let mode = Some("Block".into());
    harness.storage.bind(PersistentVolumeRecord { mode, ..local("/dev/disk") });
    let pods = ["u1", "u2"].map(with_device);
    harness.manager.update(&pods[0]);
    tokio::time::sleep(Duration::from_millis(100)).await;
    let failed = "MapVolume.MapBlockVolume failed for volume \"pv\" : hostPath type check failed: \
                  /dev/disk is not a block device";
    assert_eq!(harness.messages(), [failed]);
    harness.host.add_device("/dev/disk");
    for pod in &pods {
        assert_eq!(harness.sync(pod).await, None);
    }
    let maps = "/var/lib/kubelet/plugins/kubernetes.io~local-volume/volumeDevices/pv";
    let paths = |harness: Harness| async move {
        let mounts = harness.mounts().await;
        (mounts.into_iter().map(|mount| mount.path).collect::<Vec<_>>(), harness)
    };
    let (mounted, harness) = paths(harness).await;
    assert_eq!(mounted, ["u1", "u2"].map(|uid| Path::new(maps).join(uid)));
    let reasons = harness.events.reasons();
    assert_eq!(reasons[0], "FailedMapVolume");
    assert_eq!(reasons[1..], ["SuccessfulMountVolume"; 4]);
    let succeeded =
        format!("MapVolume.MapPodDevice succeeded for volume \"pv\" globalMapPath {maps:?}");
    assert_eq!(harness.messages()[1], succeeded);

    let harness = harness.restarted();
    for pod in &pods {
        assert_eq!(harness.sync(pod).await, None);
    }
    harness.release(&pods[0]).await;
    let (mounted, harness) = paths(harness).await;
    assert_eq!(mounted, [Path::new(maps).join("u2")]);
    // The claim of an orphan is not known: its link is.
    let harness = harness.restarted();
    harness.manager.release(&"u2".into(), None).await.unwrap();
    assert_eq!(harness.mounts().await, []);
    for uid in ["u1", "u2"] {
        let links = format!("{PODS}/{uid}/volumeDevices/kubernetes.io~local-volume");
        assert_eq!(harness.names(&links).await, [""; 0]);
    }
}

// behaviour: VOL-107
#[tokio::test(start_paused = true)]
async fn bind_mounted_directory_survives_the_clean_up_of_an_orphan() {
    let harness = Harness::new();
    harness.files.write("/mnt/disk/file", "data");
    harness.storage.bind(local("/mnt/disk"));
    let pod = with_claim("u1");
    assert_eq!(harness.sync(&pod).await, None);
    let path = volume(&pod, "local-volume", "pv");
    let harness = harness.restarted();
    harness.host.fail(Operation::Unmount, &path, ErrorKind::ResourceBusy);
    harness.manager.release(&"u1".into(), None).await.unwrap_err();
    assert_eq!(harness.content(&path, "file").await.as_deref(), Some("data"));
    harness.host.repair(Operation::Unmount, &path);
    harness.manager.release(&"u1".into(), None).await.unwrap();
    assert_eq!(harness.mounts().await, []);
    assert_eq!(harness.files.content("/mnt/disk/file").as_deref(), Some(&b"data"[..]));
}

/// A pod with the claim and a group.
fn with_group(uid: &str, group: i64) -> Arc<Pod> {
    let mut pod = (*with_claim(uid)).clone();
    let context = serde_json::json!({ "fsGroup": group });
    pod.spec.as_mut().unwrap().security_context = Some(serde_json::from_value(context).unwrap());
    Arc::new(pod)
}

// behaviour: VOL-102
#[tokio::test(start_paused = true)]
async fn group_of_a_shared_volume_is_kept_and_a_mismatch_is_reported() {
    let harness = Harness::new();
    harness.files.write("/mnt/disk/file", "data");
    harness.storage.bind(local("/mnt/disk"));
    let pods = [with_group("u1", 1000), with_group("u2", 1000), with_group("u3", 2000)];
    for pod in &pods {
        assert_eq!(harness.sync(pod).await, None);
    }
    let expected = "The requested fsGroup is 2000, but the volume pv has GID 1000. The volume may not be \
                    shareable.";
    assert_eq!(harness.messages(), [expected]);
    assert_eq!(harness.events.reasons(), ["AlreadyMountedVolume"]);
    for pod in &pods {
        harness.release(pod).await;
    }
    assert_eq!(harness.sync(&with_group("u4", 2000)).await, None);
    assert_eq!(harness.messages().len(), 1, "the first pod sets the group");
}

// behaviour: VOL-100
#[tokio::test(start_paused = true)]
async fn slow_change_of_the_group_is_reported() {
    let harness = Harness::new();
    harness.files.write("/mnt/disk/file", "data");
    harness.storage.bind(local("/mnt/disk"));
    let pod = with_group("u1", 1000);
    let path = volume(&pod, "local-volume", "pv");
    harness.host.hold(Operation::SetOwnership, &path);
    harness.manager.update(&pod);
    tokio::time::sleep(Duration::from_secs(29)).await;
    assert_eq!(harness.messages(), [""; 0]);
    tokio::time::sleep(Duration::from_secs(62)).await;
    let messages = harness.messages();
    let volume = "u1/volumes/kubernetes.io~local-volume/pv";
    assert!(messages[0].starts_with(&format!("Setting volume ownership for {volume} is taking")));
    assert_eq!(messages[1], format!("Setting volume ownership for {volume}, processed 0 files."));
    assert_eq!(harness.events.reasons(), ["VolumePermissionChangeInProgress"; 2]);
}
