use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;
use model::cluster::{ClusterEvent, InvolvedObject};
use proptest::prelude::*;

use super::Correlator;

fn event(name: &str, message: &str, second: i64) -> ClusterEvent {
    let at = Timestamp::from_second(second).unwrap();
    let about = InvolvedObject {
        api_version: "v1",
        kind: "Pod",
        namespace: "ns".to_owned(),
        name: name.to_owned(),
        uid: name.into(),
        field_path: String::new(),
    };
    ClusterEvent::new(about, true, "Failed".into(), message.to_owned(), at)
}

/// The count and message of an event; zero if it is not sent.
fn sent(event: Option<ClusterEvent>) -> (u32, String) {
    event.map(|event| (event.count, event.message)).unwrap_or_default()
}

// behaviour: EVT-1
#[test]
fn repeated_event_is_counted_and_keeps_its_first_time() {
    let mut correlator = Correlator::default();
    let first = correlator.correlate(event("a", "x", 10)).unwrap();
    assert_eq!(first, event("a", "x", 10));
    let again = correlator.correlate(event("a", "x", 70)).unwrap();
    let expected = ClusterEvent { first: event("a", "x", 10).at, count: 2, ..event("a", "x", 70) };
    assert_eq!(again, expected);
    // Even after hours.
    let later = correlator.correlate(event("a", "x", 70_000));
    assert_eq!(sent(later), (3, "x".to_owned()));
}

// behaviour: EVT-2
#[test]
fn event_is_identified_by_field_reason_message_object_and_type() {
    let base = event("a", "x", 0);
    let of_part = |part: &str| {
        let mut event = base.clone();
        event.about.field_path = part.to_owned();
        event
    };
    let mut rows = vec![
        base.clone(),
        of_part("spec.containers{a}"),
        of_part("spec.containers{b}"),
        event("a", "y", 0),
        event("b", "x", 0),
        ClusterEvent { reason: "Other".into(), ..base.clone() },
        ClusterEvent { is_warning: false, ..base.clone() },
    ];
    let mut of_another = base.clone();
    of_another.about.uid = "another".into();
    rows.push(of_another);
    let mut correlator = Correlator::default();
    for row in rows {
        assert_eq!(correlator.correlate(row.clone()), Some(row));
    }
}

// behaviour: EVT-3, EVT-4
#[test]
fn similar_events_are_combined_from_the_tenth_on() {
    let mut correlator = Correlator::default();
    for number in 1..10i64 {
        let event = correlator.correlate(event("a", &format!("m{number}"), number));
        assert_eq!(sent(event), (1, format!("m{number}")));
    }
    let combined = |number: i64| format!("(combined from similar events): m{number}");
    let tenth = correlator.correlate(event("a", "m10", 10));
    assert_eq!(sent(tenth), (1, combined(10)));
    let next = correlator.correlate(event("a", "m11", 11)).unwrap();
    assert_eq!((next.count, &next.message, next.first), (2, &combined(11), event("a", "", 10).at));
    // The first nine are still separate, and events of another object are not affected.
    let known = correlator.correlate(event("a", "m3", 12));
    assert_eq!(sent(known), (2, "m3".to_owned()));
    let other = correlator.correlate(event("b", "m12", 12));
    assert_eq!(sent(other), (1, "m12".to_owned()));
    // After ten minutes without a similar event, the count starts again.
    let later = correlator.correlate(event("a", "m13", 12 + 600));
    assert_eq!(sent(later), (3, combined(13)), "exactly ten minutes is not longer");
    let later = correlator.correlate(event("a", "m14", 613 + 601));
    assert_eq!(sent(later), (1, "m14".to_owned()));
}

// behaviour: EVT-5
#[test]
fn object_gets_a_burst_and_then_one_event_in_five_minutes() {
    let mut correlator = Correlator::default();
    let mut send = |second: i64| sent(correlator.correlate(event("a", "x", second)));
    for number in 1..=25 {
        assert_eq!(send(0).0, number);
    }
    assert_eq!(send(0).0, 0);
    assert_eq!(send(299).0, 0);
    // Events that were not sent were counted, too.
    assert_eq!(send(300), (28, "x".to_owned()));
    assert_eq!(send(301).0, 0);
    assert_eq!(sent(correlator.correlate(event("b", "x", 301))).0, 1);
}

/// A simple model: the similar messages of each object, and the count of each.
#[derive(Debug, Default)]
struct Plain {
    similar: BTreeMap<u8, (BTreeSet<String>, i64)>,
    /// The count and first time of each.
    counts: BTreeMap<(u8, Option<String>), (u32, i64)>,
}

impl Plain {
    /// Count, first time and message of an event of an object at a second.
    fn correlate(&mut self, object: u8, message: &str, now: i64) -> (u32, i64, String) {
        let (messages, last) = self.similar.entry(object).or_default();
        if now - std::mem::replace(last, now) > 600 {
            messages.clear();
        }
        let is_known = messages.contains(message);
        let is_combined = !is_known && messages.len() >= 9;
        if !is_combined {
            messages.insert(message.to_owned());
        }
        let key = (object, (!is_combined).then(|| message.to_owned()));
        let (count, first) = self.counts.entry(key).or_insert((0, now));
        *count += 1;
        let combined = if is_combined { "(combined from similar events): " } else { "" };
        (*count, *first, format!("{combined}{message}"))
    }
}

proptest! {
    // behaviour: EVT-1, EVT-3, EVT-5
    #[test]
    fn counts_match_the_model_and_no_object_exceeds_its_rate(
        events in prop::collection::vec((0..3u8, 0..30u8, 0..200i64), 1..300),
    ) {
        let (mut correlator, mut plain) = (Correlator::default(), Plain::default());
        let mut now = 0;
        let mut sent = [0u32; 3];
        for (object, message, later) in events {
            now += later;
            let message = message.to_string();
            let expected = plain.correlate(object, &message, now);
            let outgoing = correlator.correlate(event(&object.to_string(), &message, now));
            let Some(event) = outgoing else { continue };
            prop_assert_eq!((event.count, event.first.as_second(), event.message), expected);
            prop_assert_eq!(event.at.as_second(), now);
            sent[usize::from(object)] += 1;
        }
        let passed = Duration::from_secs(u64::try_from(now).unwrap());
        let most = 25 + u32::try_from(passed.as_secs() / 300).unwrap();
        prop_assert!(sent.iter().all(|sent| *sent <= most), "{:?} in {:?}", sent, passed);
    }
}
