use std::sync::atomic::Ordering;
use std::time::Duration;

use model::storage::{PersistentVolumeRecord, PersistentVolumeSource};
use tokio::time::Instant;

use crate::harness::{Harness, RESYNC, volume, with_claim};

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
