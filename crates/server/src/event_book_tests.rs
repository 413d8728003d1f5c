//! Stored and removed events.

use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;
use testkit::clock::VirtualClock;
use testkit::events::{KeptEvents, KeptNodeEvents};

use super::*;

fn event(pod: &str, reason: &'static str, message: &str) -> PodEvent {
    PodEvent {
        pod_uid: format!("uid-of-{pod}").into(),
        pod: PodName::new("default", pod),
        field_path: "".into(),
        kind: EventType::Normal,
        reason: reason.into(),
        message: message.to_owned(),
        annotations: Vec::new(),
    }
}

fn book(per_pod: usize, in_all: usize) -> (EventBook, Arc<KeptEvents>) {
    let next = Arc::new(KeptEvents::default());
    let limits = EventLimits { per_pod, in_all };
    (EventBook::new(Arc::new(VirtualClock::new()), limits, Arc::clone(&next) as _), next)
}

fn messages(book: &EventBook, pod: Option<&str>) -> Vec<String> {
    let pod = pod.map(|pod| PodName::new("default", pod));
    book.items(pod.as_ref()).into_iter().map(|item| item.message).collect()
}

#[tokio::test(start_paused = true)]
async fn repeated_event_is_counted_and_moved_to_the_end() {
    let (book, next) = book(10, 10);
    Events::record(&book, event("web", "Pulling", "a"));
    tokio::time::advance(Duration::from_secs(5)).await;
    Events::record(&book, event("web", "Started", "b"));
    tokio::time::advance(Duration::from_secs(5)).await;
    Events::record(&book, event("web", "Pulling", "a"));
    let items = book.items(None);
    let recorded: Vec<_> = items.iter().map(|item| (item.reason.as_str(), item.count)).collect();
    assert_eq!(recorded, [("Started", 1), ("Pulling", 2)]);
    let pulling = &items[1];
    assert_eq!(pulling.last_time.duration_since(pulling.first_time).as_secs(), 10);
    assert_eq!(next.reasons(), ["Pulling", "Started", "Pulling"]);
    let last = book.last(&"uid-of-web".into()).unwrap();
    assert_eq!((last.reason, last.time), ("Pulling".to_owned(), pulling.last_time));
}

// behaviour: PULL-12
#[tokio::test(start_paused = true)]
async fn reminder_of_a_pull_is_not_the_last_event() {
    let (book, _) = book(10, 10);
    Events::record(&book, event("web", "Pulling", "a"));
    tokio::time::advance(Duration::from_mins(5)).await;
    Events::record(&book, event("web", STILL_PULLING, "b"));
    let last = book.last(&"uid-of-web".into()).unwrap();
    assert_eq!((last.reason, last.time), ("Pulling".to_owned(), book.items(None)[0].last_time));
}

#[tokio::test(start_paused = true)]
async fn difference_in_any_field_makes_another_event() {
    let (book, _) = book(10, 10);
    let first = event("web", "BackOff", "a");
    Events::record(&book, first.clone());
    Events::record(&book, PodEvent { message: "b".to_owned(), ..first.clone() });
    Events::record(&book, PodEvent { reason: "Failed".into(), ..first.clone() });
    Events::record(&book, PodEvent { kind: EventType::Warning, ..first.clone() });
    Events::record(&book, PodEvent { field_path: "spec.containers{main}".into(), ..first.clone() });
    Events::record(&book, PodEvent { pod_uid: "another".into(), ..first });
    assert!(book.items(None).iter().all(|item| item.count == 1));
    assert_eq!(book.items(None).len(), 6);
}

#[tokio::test(start_paused = true)]
async fn least_recent_event_is_removed_from_a_full_book() {
    let (book, _) = book(2, 3);
    for (pod, message) in [("a", "1"), ("a", "2"), ("a", "1"), ("a", "3")] {
        Events::record(&book, event(pod, "Reason", message));
    }
    assert_eq!(messages(&book, Some("a")), ["1", "3"]);
    Events::record(&book, event("b", "Reason", "4"));
    Events::record(&book, event("b", "Reason", "5"));
    assert_eq!(messages(&book, None), ["3", "4", "5"]);
    assert_eq!(messages(&book, Some("b")), ["4", "5"]);
    Events::record(&book, event("b", "Reason", "6"));
    Events::record(&book, event("c", "Reason", "7"));
    assert_eq!(messages(&book, Some("a")), [""; 0]);
    assert!(book.last(&"uid-of-a".into()).is_none());
}

#[tokio::test(start_paused = true)]
async fn long_message_is_cut_between_characters() {
    let (book, _) = book(2, 2);
    for _ in 0..2 {
        Events::record(&book, event("web", "Failed", &"é".repeat(3000)));
    }
    let item = &book.items(None)[0];
    assert_eq!(item.count, 2, "a truncated message is still the same message");
    assert!(item.message.len() <= LONGEST_MESSAGE && item.message.ends_with("é…"));
}

#[tokio::test(start_paused = true)]
async fn every_event_is_a_change() {
    let (book, _) = book(2, 2);
    let mut changes = book.changes();
    Events::record(&book, event("web", "Failed", "a"));
    assert!(changes.has_changed().unwrap());
    changes.borrow_and_update();
    Events::record(&book, event("web", "Failed", "a"));
    assert!(changes.has_changed().unwrap());
}

proptest! {
    #[test]
    fn book_keeps_its_limits_and_order(
        recorded in vec((0..4_u8, 0..6_u8), 0..80),
        per_pod in 1..4_usize,
        in_all in 1..8_usize,
    ) {
        let limits = EventLimits { per_pod, in_all };
        let mut pages = Pages::default();
        for (second, (pod, message)) in (0_i64..).zip(&recorded) {
            let now = Timestamp::from_second(second).unwrap();
            pages.add(event(&pod.to_string(), "Reason", &message.to_string()), now, limits);
            prop_assert!(pages.entries.len() <= in_all);
            prop_assert!(pages.by_pod.values().all(|keys| keys.len() <= per_pod && !keys.is_empty()));
            let indexed: usize = pages.by_pod.values().map(Vec::len).sum();
            prop_assert_eq!(indexed, pages.entries.len());
            let last: Vec<_> = pages.entries.values().map(|entry| entry.last).collect();
            prop_assert!(last.is_sorted());
            let entry = pages.entries.values().next_back().unwrap();
            prop_assert_eq!(&entry.event.message, &message.to_string());
        }
    }
}

#[test]
fn node_events_are_stored_and_passed_on() {
    let (book, _) = book(2, 10);
    let next = Arc::new(KeptNodeEvents::default());
    let book = book.of_node("node-1", Arc::clone(&next) as _);
    let failed = NodeEvent {
        kind: EventType::Warning,
        reason: "ContainerGCFailed",
        message: "failed to list containers".to_owned(),
    };
    Events::record(&book, event("web", "Pulling", "a"));
    NodeEvents::record(&book, failed.clone());
    NodeEvents::record(&book, failed.clone());
    let items = book.items(None);
    let recorded: Vec<_> = items.iter().map(|one| (&*one.involved, &*one.pod, one.count)).collect();
    assert_eq!(recorded, [("Pod", "default/web", 1), ("Node", "node-1", 2)]);
    assert_eq!(messages(&book, Some("web")), ["a"]);
    assert_eq!(next.all(), [failed.clone(), failed]);
}
