//! The metric labels of pods with a worker.

use super::*;

fn counted(workers: &Workers) -> Option<[&'static str; 3]> {
    workers.working(&"a".into()).map(Working::labels)
}

// behaviour: WRK-31
#[test]
fn pod_is_counted_by_lifecycle_and_config() {
    let (of_api, fixed) = (api_pod("a"), static_pod("a"));
    let gone = |pod: &Pod| vec![create(pod), ended("a", Outcome::Done), desired(&[])];
    let and = |mut events: Vec<Event>, more: Vec<Event>| {
        events.extend(more);
        events
    };
    let done = || ended("a", Outcome::Done);
    let rows = [
        ("created", vec![create(&of_api)], Some(["sync", "desired", ""])),
        ("created static pod", vec![create(&fixed)], Some(["sync", "desired", "true"])),
        ("desired", vec![create(&of_api), desired(&["a"])], Some(["sync", "desired", ""])),
        (
            "killed",
            vec![create(&of_api), kill(&of_api, None)],
            Some(["terminating", "desired", ""]),
        ),
        ("orphaned", gone(&of_api), Some(["terminating", "orphan", ""])),
        ("orphaned static pod", gone(&fixed), Some(["terminating", "orphan", "true"])),
        ("terminated", and(gone(&of_api), vec![done()]), Some(["terminated", "orphan", ""])),
        (
            "cleaned up",
            and(gone(&of_api), vec![done(), done()]),
            Some(["terminated", "orphan", ""]),
        ),
        ("forgotten", and(gone(&of_api), vec![done(), done(), desired(&[])]), None),
        (
            "desired again while it terminates",
            and(gone(&fixed), vec![create(&fixed), desired(&["a"])]),
            Some(["terminating", "desired", "true"]),
        ),
        (
            "found in the runtime",
            vec![found("a")],
            Some(["terminating", "runtime_only", "unknown"]),
        ),
        (
            "found in the runtime and orphaned",
            vec![found("a"), desired(&[])],
            Some(["terminating", "runtime_only", "unknown"]),
        ),
    ];
    for (what, events, expected) in rows {
        let mut workers = Workers::default();
        play(&mut workers, events);
        assert_eq!(counted(&workers), expected, "{what}");
    }
}

#[test]
fn changed_orphans_are_returned_once() {
    let mut workers = Workers::default();
    play(&mut workers, vec![create(&api_pod("a")), create(&api_pod("b")), desired(&["a", "b"])]);
    assert_eq!(workers.take_changed_orphans(), Vec::<PodUid>::new());
    play(&mut workers, vec![desired(&["b"])]);
    assert_eq!(workers.take_changed_orphans(), [PodUid::from("a")]);
    play(&mut workers, vec![desired(&["b"])]);
    assert_eq!(workers.take_changed_orphans(), Vec::<PodUid>::new());
    play(&mut workers, vec![desired(&["a", "b"])]);
    assert_eq!(workers.take_changed_orphans(), [PodUid::from("a")]);
}

#[test]
fn every_counted_state_has_unique_labels() {
    let all: BTreeSet<[&str; 3]> = Working::all().map(Working::labels).collect();
    assert_eq!(all.len(), 15);
}
