use std::io::ErrorKind;
use std::time::Duration;

use model::wait::{Retry, WaitOn};
use serde_json::json;
use testkit::volumes::Operation;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::harness::{Harness, pod, volume, with_config};

// behaviour: VOL-80
#[tokio::test(start_paused = true)]
async fn wait_for_volumes_ends_when_all_are_mounted() {
    let harness = Harness::new();
    let volumes = json!([
        { "name": "scratch", "emptyDir": {} },
        { "name": "fast", "emptyDir": { "medium": "Memory" } },
        { "name": "info", "downwardAPI": { "items": [
            { "path": "name", "fieldRef": { "fieldPath": "metadata.name" } }] } },
    ]);
    let pod = pod("u1", &volumes);
    let fast = volume(&pod, "empty-dir", "fast");
    harness.host.hold(Operation::Mount, &fast);
    harness.manager.update(&pod);
    let cancel = CancellationToken::new();
    let early =
        tokio::time::timeout(Duration::from_secs(5), harness.manager.wait(&pod, &cancel)).await;
    assert!(early.is_err(), "one volume is not mounted");
    harness.host.release(Operation::Mount, &fast);
    assert_eq!(harness.manager.wait(&pod, &cancel).await, None);
    let mounted: Vec<_> = harness.mounts().await.into_iter().map(|mount| mount.path).collect();
    let info = volume(&pod, "downward-api", "info");
    assert_eq!(mounted, [info.clone(), fast]);
    assert_eq!(harness.content(&info, "name").await.as_deref(), Some("web-u1"));
    assert_eq!(harness.files.mode(volume(&pod, "empty-dir", "scratch")), Some(0o777));
    assert_eq!(harness.messages(), [""; 0]);
}

// behaviour: VOL-81
#[tokio::test(start_paused = true)]
async fn missing_config_map_is_reported_and_mounted_once_it_appears() {
    let harness = Harness::new();
    let pod = with_config("u1");
    harness.register(&pod);
    harness.manager.update(&pod);
    tokio::time::sleep(Duration::from_millis(100)).await;
    let message =
        "MountVolume.SetUp failed for volume \"conf\" : configmap \"app\" not found".to_owned();
    assert_eq!(harness.messages(), std::slice::from_ref(&message));
    assert_eq!(harness.events.reasons(), ["FailedMount"]);
    let waiting = harness.manager.waiting(&"u1".into());
    assert_eq!((&*waiting[0].name, waiting[0].failure.clone()), ("conf", Some(message)));
    harness.put_config("fast");
    assert_eq!(harness.sync(&pod).await, None);
    let place = volume(&pod, "configmap", "conf");
    let file = "mode";
    assert_eq!(harness.content(&place, file).await.as_deref(), Some("fast"));
}

// behaviour: VOL-82
#[tokio::test(start_paused = true)]
async fn wait_gives_up_without_an_event_after_its_time() {
    let harness = Harness::new();
    let pod = pod("u1", &json!([{ "name": "scratch", "emptyDir": {} }]));
    harness.host.hold(Operation::MakeDirectory, volume(&pod, "empty-dir", "scratch"));
    let began = Instant::now();
    let wait = harness.sync(&pod).await.unwrap();
    assert_eq!(began.elapsed(), Duration::from_secs(123));
    assert_eq!(wait.on, WaitOn::Volumes(vec!["scratch".to_owned()]));
    assert_eq!((wait.at_latest, wait.event), (Retry::Failure, None));
}

// behaviour: VOL-83
#[tokio::test(start_paused = true)]
async fn cancelled_wait_ends_at_once() {
    let harness = Harness::new();
    let pod = pod("u1", &json!([{ "name": "scratch", "emptyDir": {} }]));
    harness.host.hold(Operation::MakeDirectory, volume(&pod, "empty-dir", "scratch"));
    harness.manager.update(&pod);
    let (cancel, began) = (CancellationToken::new(), Instant::now());
    let ends = async {
        tokio::time::sleep(Duration::from_secs(7)).await;
        cancel.cancel();
    };
    let (wait, ()) = tokio::join!(harness.manager.wait(&pod, &cancel), ends);
    assert_eq!(began.elapsed(), Duration::from_secs(7));
    assert_eq!(wait.unwrap().event, None);
}

// behaviour: VOL-84
#[tokio::test(start_paused = true)]
async fn panicking_or_hanging_mount_delays_no_other_pod() {
    let harness = Harness::new();
    let hanging = pod("u1", &json!([{ "name": "scratch", "emptyDir": {} }]));
    harness.host.hold(Operation::MakeDirectory, volume(&hanging, "empty-dir", "scratch"));
    let token = json!({ "serviceAccountToken": { "path": "token" } });
    let panicking = pod(
        "u2",
        &json!([{ "name": "token", "projected": { "sources": [token] } },
                { "name": "scratch", "emptyDir": {} }]),
    );
    let mut panicking = (*panicking).clone();
    panicking.spec.as_mut().unwrap().service_account_name = Some("panics".to_owned());
    let panicking = std::sync::Arc::new(panicking);
    for pod in [&hanging, &panicking] {
        harness.manager.update(pod);
    }
    let began = Instant::now();
    let other = pod("u3", &json!([{ "name": "scratch", "emptyDir": {} }]));
    assert_eq!(harness.sync(&other).await, None);
    assert_eq!(began.elapsed(), Duration::ZERO);
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(harness.manager.mounted(&"u2".into(), "scratch").is_some(), "its other volume");
    let message = &harness.messages()[0];
    assert!(message.contains("panic in volumes"), "{message}");
}

// behaviour: VOL-85
#[tokio::test(start_paused = true)]
async fn failed_mount_is_retried_after_the_back_off() {
    let harness = Harness::new();
    let pod = pod("u1", &json!([{ "name": "scratch", "emptyDir": {} }]));
    let path = volume(&pod, "empty-dir", "scratch");
    harness.host.fail(Operation::MakeDirectory, &path, ErrorKind::StorageFull);
    harness.manager.update(&pod);
    tokio::time::sleep(Duration::from_millis(1600)).await;
    assert_eq!(harness.messages().len(), 3, "at 0, 0.5 and 1.5 s");
    harness.host.repair(Operation::MakeDirectory, &path);
    let began = Instant::now();
    assert_eq!(harness.manager.wait(&pod, &CancellationToken::new()).await, None);
    assert_eq!(began.elapsed(), Duration::from_millis(1900), "at 3.5 s");
}
