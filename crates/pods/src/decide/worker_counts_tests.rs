//! As what the workers' pods are counted.

use super::*;

fn counted(workers: &Workers) -> Option<[&'static str; 3]> {
    workers.working(&"a".into()).map(Working::labels)
}

// behaviour: WRK-31
#[test]
fn a_pod_is_counted_by_how_far_it_is_and_who_wants_it() {
    let (of_api, fixed) = (api_pod("a"), static_pod("a"));
    let gone = |pod: &Pod| vec![create(pod), ended("a", Outcome::Done), desired(&[])];
    let and = |mut events: Vec<Event>, more: Vec<Event>| {
        events.extend(more);
        events
    };
    let done = || ended("a", Outcome::Done);
    let rows = [
        ("it came", vec![create(&of_api)], Some(["sync", "desired", ""])),
        ("a static one came", vec![create(&fixed)], Some(["sync", "desired", "true"])),
        ("it is wanted", vec![create(&of_api), desired(&["a"])], Some(["sync", "desired", ""])),
        (
            "it is killed",
            vec![create(&of_api), kill(&of_api, None)],
            Some(["terminating", "desired", ""]),
        ),
        ("nobody wants it", gone(&of_api), Some(["terminating", "orphan", ""])),
        ("nobody wants a static one", gone(&fixed), Some(["terminating", "orphan", "true"])),
        ("it has ended", and(gone(&of_api), vec![done()]), Some(["terminated", "orphan", ""])),
        (
            "it was cleaned up after",
            and(gone(&of_api), vec![done(), done()]),
            Some(["terminated", "orphan", ""]),
        ),
        ("it is forgotten", and(gone(&of_api), vec![done(), done(), desired(&[])]), None),
        (
            "it is wanted again while it ends",
            and(gone(&fixed), vec![create(&fixed), desired(&["a"])]),
            Some(["terminating", "desired", "true"]),
        ),
        ("the runtime has it", vec![found("a")], Some(["terminating", "runtime_only", "unknown"])),
        (
            "the runtime has it, and nobody wants it",
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
fn who_is_wanted_no_more_or_again_is_told_once() {
    let mut workers = Workers::default();
    play(&mut workers, vec![create(&api_pod("a")), create(&api_pod("b")), desired(&["a", "b"])]);
    assert_eq!(workers.take_other_orphans(), Vec::<PodUid>::new());
    play(&mut workers, vec![desired(&["b"])]);
    assert_eq!(workers.take_other_orphans(), [PodUid::from("a")]);
    play(&mut workers, vec![desired(&["b"])]);
    assert_eq!(workers.take_other_orphans(), Vec::<PodUid>::new());
    play(&mut workers, vec![desired(&["a", "b"])]);
    assert_eq!(workers.take_other_orphans(), [PodUid::from("a")]);
}

#[test]
fn whatever_is_counted_has_labels_of_its_own() {
    let all: BTreeSet<[&str; 3]> = Working::all().map(Working::labels).collect();
    assert_eq!(all.len(), 15);
}
