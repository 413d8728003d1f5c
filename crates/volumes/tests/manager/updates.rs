use std::io::ErrorKind;
use std::time::Duration;

use serde_json::json;
use testkit::volumes::Operation;

use crate::harness::{Harness, pod, volume, with_config};

// behaviour: VOL-86
#[tokio::test(start_paused = true)]
async fn changed_object_is_written_without_a_remount() {
    let harness = Harness::new();
    let pod = with_config("u1");
    let place = volume(&pod, "configmap", "conf");
    harness.put_config("old");
    assert_eq!(harness.sync(&pod).await, None);
    let before = harness.changes().len();
    harness.put_config("new");
    harness.manager.content_changed(&"u1".into());
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert_eq!(harness.content(&place, "mode").await.as_deref(), Some("new"));
    assert_eq!(harness.changes()[before..], [(Operation::WritePayload, place.clone())]);
    harness.manager.content_changed(&"u1".into());
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert_eq!(harness.changes().len(), before + 1, "equal content is not written");
}

// behaviour: VOL-87
#[tokio::test(start_paused = true)]
async fn failed_update_keeps_the_content_records_an_event_and_is_retried() {
    let harness = Harness::new();
    let pod = with_config("u1");
    let place = volume(&pod, "configmap", "conf");
    harness.put_config("old");
    assert_eq!(harness.sync(&pod).await, None);
    harness.host.fail(Operation::WritePayload, &place, ErrorKind::StorageFull);
    harness.put_config("new");
    harness.manager.content_changed(&"u1".into());
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert_eq!(harness.content(&place, "mode").await.as_deref(), Some("old"));
    let messages = harness.messages();
    assert_eq!(messages.len(), 1);
    assert!(messages[0].starts_with("MountVolume.SetUp failed for volume \"conf\" : "));
    assert_eq!(harness.sync(&pod).await, None, "containers use the old content");
    harness.host.repair(Operation::WritePayload, &place);
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(harness.content(&place, "mode").await.as_deref(), Some("new"));
}

// behaviour: VOL-88
#[tokio::test(start_paused = true)]
async fn token_is_renewed_at_its_time() {
    let harness = Harness::new();
    let token = json!({ "serviceAccountToken": { "path": "token", "expirationSeconds": 3600 } });
    let pod = pod("u1", &json!([{ "name": "api", "projected": { "sources": [token] } }]));
    let place = volume(&pod, "projected", "api");
    let file = "token";
    assert_eq!(harness.sync(&pod).await, None);
    tokio::time::sleep(Duration::from_mins(48) - Duration::from_secs(1)).await;
    assert_eq!(harness.content(&place, file).await.as_deref(), Some("token 1"));
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(harness.content(&place, file).await.as_deref(), Some("token 2"));
    tokio::time::sleep(Duration::from_mins(48)).await;
    assert_eq!(harness.content(&place, file).await.as_deref(), Some("token 3"));
}
