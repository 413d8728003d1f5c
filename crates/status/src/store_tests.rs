use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Pod, PodStatus};
use model::ids::PodUid;
use tokio::time::{sleep, timeout};

use crate::store::StatusStore;

fn uid(text: &str) -> PodUid {
    text.into()
}

/// Stores a status of a pod. Returns whether it differs from the one before.
fn set(store: &StatusStore, name: &str, phase: &str) -> bool {
    let mut pod = Pod::default();
    pod.metadata.uid = Some(name.to_owned());
    let status = PodStatus { phase: Some(phase.to_owned()), ..PodStatus::default() };
    store.lock().set_status(&Arc::new(pod), status).is_new
}

/// A timeout: the clock is paused, so it costs nothing.
const DEADLINE: Duration = Duration::from_mins(1);

#[test]
fn stored_status_is_visible_to_all_readers() {
    let store = StatusStore::new();
    let reader = store.reader();
    let other = reader.clone();
    assert_eq!(reader.get(&uid("a")), None);
    assert!(set(&store, "a", "Pending"));
    let written = store.lock().published(&uid("a"));
    for found in [written, reader.get(&uid("a")), other.get(&uid("a"))] {
        assert_eq!(found.unwrap().status.phase.as_deref(), Some("Pending"));
    }
    assert_eq!(reader.get(&uid("b")), None);
}

#[test]
fn equal_status_is_not_a_change() {
    let store = StatusStore::new();
    let changes = store.reader().subscribe();
    assert!(set(&store, "a", "Pending"));
    assert!(!set(&store, "a", "Pending"));
    assert_eq!(*changes.borrow(), 1);
    assert!(set(&store, "a", "Running"));
    assert_eq!(*changes.borrow(), 2);
}

#[test]
fn version_only_grows_when_a_pod_is_removed_and_added_again() {
    let store = StatusStore::new();
    let version = || store.lock().published(&uid("a")).unwrap().version;
    set(&store, "a", "Running");
    let first = version();
    set(&store, "b", "Running");
    assert_eq!(version(), first, "another pod's change is not its change");
    assert!(store.lock().remove(&uid("a")));
    assert!(!store.lock().remove(&uid("a")));
    set(&store, "a", "Running");
    assert!(version() > first);
}

#[test]
fn entries_are_a_snapshot() {
    let store = StatusStore::new();
    set(&store, "a", "Running");
    set(&store, "b", "Pending");
    let before = store.reader().entries();
    set(&store, "a", "Failed");
    store.lock().remove(&uid("b"));
    let phases: Vec<_> =
        before.values().map(|one| one.status.as_ref().unwrap().phase.clone().unwrap()).collect();
    assert_eq!(phases, ["Running", "Pending"]);
    assert_eq!(store.reader().entries().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn subscriber_wakes_for_each_change_and_finds_it() {
    let store = StatusStore::new();
    let reader = store.reader();
    set(&store, "old", "Running");
    let mut changes = reader.subscribe();
    timeout(DEADLINE, changes.changed()).await.unwrap_err();

    let write = async {
        sleep(Duration::from_secs(1)).await;
        set(&store, "a", "Pending");
        sleep(Duration::from_secs(1)).await;
        store.lock().remove(&uid("a"));
    };
    let read = async {
        changes.changed().await.unwrap();
        let version = reader.get(&uid("a")).unwrap().version;
        assert_eq!(version, *changes.borrow_and_update());
        changes.changed().await.unwrap();
        assert_eq!(reader.get(&uid("a")), None);
    };
    timeout(DEADLINE, async { tokio::join!(write, read) }).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn subscription_closes_with_the_store_and_entries_stay_readable() {
    let store = StatusStore::new();
    set(&store, "a", "Running");
    let reader = store.reader();
    let mut changes = reader.subscribe();
    drop(store);
    timeout(DEADLINE, changes.changed()).await.unwrap().unwrap_err();
    assert!(reader.get(&uid("a")).is_some());
}
