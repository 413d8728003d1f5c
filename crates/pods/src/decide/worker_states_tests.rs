//! What the workers say of pods whose remains somebody looks at.

use super::*;

fn evict(pod: &Pod) -> Event {
    let target = Target::Pod(Arc::new(pod.clone()));
    Event::Asked(view::uid(pod), Update::Kill { target, grace: None, evict: true })
}

/// Evicted, deleted, terminated; nothing for a pod without a worker.
fn state(workers: &Workers) -> Option<[bool; 3]> {
    let state = workers.state(&"a".into())?;
    Some([state.evicted, state.deleted, state.terminated])
}

// behaviour: GC-1, GC-2, GC-3, GC-23, GC-57
#[test]
fn why_a_pod_ends_is_remembered_until_it_is_forgotten() {
    let pod = api_pod("a");
    // what ends it, and whether it was evicted or deleted
    let rows = [
        (evict(&pod), [true, false]),
        (kill(&pod, None), [false, false]),
        (update(&deleted(pod.clone(), 5)), [false, true]),
        (desired(&[]), [false, true]),
        (ended("a", Outcome::Finished), [false, false]),
    ];
    for (ends, [evicted, deleted]) in rows {
        let mut workers = Workers::default();
        play(&mut workers, vec![create(&pod)]);
        assert_eq!(state(&workers), Some([false; 3]));
        if !matches!(ends, Event::Ended(..)) {
            play(&mut workers, vec![ended("a", Outcome::Done)]);
        }
        play(&mut workers, vec![ends.clone()]);
        assert_eq!(state(&workers), Some([false; 3]), "{ends:?}: it ends");
        play(&mut workers, vec![ended("a", Outcome::Done)]);
        let untold = Some([false, false, true]);
        assert_eq!(state(&workers), untold, "{ends:?}: it was not told yet how it ended");
        play(&mut workers, vec![ended("a", Outcome::Done)]);
        assert_eq!(state(&workers), Some([evicted, deleted, true]), "{ends:?}");
        play(&mut workers, vec![desired(&[])]);
        assert_eq!(state(&workers), None, "{ends:?}");
    }
}

#[test]
fn of_what_only_the_runtime_knows_nothing_is_told() {
    let mut workers = Workers::default();
    play(&mut workers, vec![found("a")]);
    assert_eq!(state(&workers), Some([false, false, false]));
    play(&mut workers, vec![ended("a", Outcome::Done)]);
    assert_eq!(state(&workers), Some([false, true, true]));
}

#[test]
fn a_finished_pod_that_is_deleted_later_stays_as_it_is_until_it_is_forgotten() {
    let pod = api_pod("a");
    let mut workers = Workers::default();
    let finished = vec![
        create(&pod),
        ended("a", Outcome::Finished),
        ended("a", Outcome::Done),
        ended("a", Outcome::Done),
        update(&deleted(pod.clone(), 5)),
    ];
    play(&mut workers, finished);
    assert_eq!(state(&workers), Some([false, false, true]));
}

// behaviour: GC-6
#[test]
fn a_pod_that_comes_again_while_it_ends_keeps_what_is_left_of_it() {
    let pod = static_pod("a");
    let mut workers = Workers::default();
    play(&mut workers, vec![create(&pod), ended("a", Outcome::Done), desired(&[])]);
    assert_eq!(state(&workers), Some([false; 3]));
    play(&mut workers, vec![create(&pod), ended("a", Outcome::Done)]);
    assert_eq!(state(&workers), Some([false, false, true]));
}

fn over(mut pod: Pod, phase: &str, reason: &str) -> Pod {
    let (phase, reason) = (Some(phase.to_owned()), Some(reason.to_owned()));
    pod.status = Some(PodStatus { phase, reason, ..PodStatus::default() });
    pod
}

// behaviour: GC-7
#[test]
fn a_pod_was_evicted_if_the_api_says_so_whenever_it_does() {
    let pod = api_pod("a");
    let done = || ended("a", Outcome::Done);
    let rows =
        [("Failed", "Evicted", true), ("Failed", "", false), ("Succeeded", "Evicted", false)];
    for (phase, reason, evicted) in rows {
        let told = over(pod.clone(), phase, reason);
        // To an agent that has just started, and of a pod that runs.
        for beginning in [vec![create(&told)], vec![create(&pod), done(), update(&told)]] {
            let mut workers = Workers::default();
            play(&mut workers, beginning);
            play(&mut workers, vec![done(), done()]);
            assert_eq!(state(&workers), Some([evicted, false, true]), "{phase} {reason}");
        }
        // Of one that has finished by itself.
        let mut workers = Workers::default();
        play(&mut workers, vec![create(&pod), ended("a", Outcome::Finished), done(), done()]);
        assert_eq!(state(&workers), Some([false, false, true]));
        let told = play(&mut workers, vec![update(&told), update(&told)]);
        let expected: &[&str] = if evicted { &["finished a"] } else { &[] };
        assert_eq!(told, expected, "{phase} {reason}: once");
        assert_eq!(state(&workers), Some([evicted, false, true]), "{phase} {reason}");
    }
    // Nobody wants it, too.
    let mut workers = Workers::default();
    let gone = over(deleted(pod, 5), "Failed", "Evicted");
    play(&mut workers, vec![create(&gone), done(), done()]);
    assert_eq!(state(&workers), Some([false, true, true]));
}
