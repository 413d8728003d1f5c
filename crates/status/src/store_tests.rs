use std::time::Duration;

use k8s_openapi::api::core::v1::PodStatus;
use model::ids::PodUid;
use tokio::time::{sleep, timeout};

use crate::store::StatusStore;

fn uid(text: &str) -> PodUid {
    text.into()
}

fn status(phase: &str) -> PodStatus {
    PodStatus { phase: Some(phase.to_owned()), ..PodStatus::default() }
}

/// Longer than anything here takes: the clock is paused, so it is over at once.
const DEADLINE: Duration = Duration::from_mins(1);

#[test]
fn a_status_is_read_by_everybody_once_it_is_set() {
    let store = StatusStore::new();
    let reader = store.reader();
    let other = reader.clone();
    assert_eq!(reader.get(&uid("a")), None);
    assert!(store.set(&uid("a"), status("Pending")));
    for found in [store.get(&uid("a")), reader.get(&uid("a")), other.get(&uid("a"))] {
        assert_eq!(found.unwrap().status.phase.as_deref(), Some("Pending"));
    }
    assert_eq!(reader.get(&uid("b")), None);
}

#[test]
fn only_a_different_status_is_a_change() {
    let store = StatusStore::new();
    let changes = store.reader().subscribe();
    assert!(store.set(&uid("a"), status("Pending")));
    assert!(!store.set(&uid("a"), status("Pending")));
    assert_eq!(*changes.borrow(), 1);
    assert!(store.set(&uid("a"), status("Running")));
    assert_eq!(*changes.borrow(), 2);
}

#[test]
fn versions_only_grow_even_when_a_pod_goes_and_comes_back() {
    let store = StatusStore::new();
    let version = || store.get(&uid("a")).unwrap().version;
    store.set(&uid("a"), status("Running"));
    let first = version();
    store.set(&uid("b"), status("Running"));
    assert_eq!(version(), first, "another pod's change is not its change");
    assert!(store.remove(&uid("a")));
    assert!(!store.remove(&uid("a")));
    store.set(&uid("a"), status("Running"));
    assert!(version() > first);
}

#[test]
fn a_snapshot_is_one_moment() {
    let store = StatusStore::new();
    store.set(&uid("a"), status("Running"));
    store.set(&uid("b"), status("Pending"));
    let before = store.reader().snapshot();
    store.set(&uid("a"), status("Failed"));
    store.remove(&uid("b"));
    let phases: Vec<_> = before.values().map(|one| one.status.phase.clone().unwrap()).collect();
    assert_eq!(phases, ["Running", "Pending"]);
    assert_eq!(store.reader().snapshot().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_subscriber_wakes_for_each_change_and_finds_it() {
    let store = StatusStore::new();
    let reader = store.reader();
    store.set(&uid("old"), status("Running"));
    let mut changes = reader.subscribe();
    timeout(DEADLINE, changes.changed()).await.unwrap_err();

    let write = async {
        sleep(Duration::from_secs(1)).await;
        store.set(&uid("a"), status("Pending"));
        sleep(Duration::from_secs(1)).await;
        store.remove(&uid("a"));
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
async fn a_subscriber_learns_that_the_store_is_gone_and_can_still_read() {
    let store = StatusStore::new();
    store.set(&uid("a"), status("Running"));
    let reader = store.reader();
    let mut changes = reader.subscribe();
    drop(store);
    timeout(DEADLINE, changes.changed()).await.unwrap().unwrap_err();
    assert!(reader.get(&uid("a")).is_some());
}
