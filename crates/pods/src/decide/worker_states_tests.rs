//! The worker states that garbage collection reads.

use super::*;

fn evicted() -> Arc<PodFailure> {
    let message = "low on memory".to_owned();
    Arc::new(PodFailure { reason: "Evicted", message, disruption: None })
}

fn evict(pod: &Pod) -> Event {
    let target = Target::Pod(Arc::new(pod.clone()));
    let failure = Some(evicted());
    Event::Updated(view::uid(pod), Update::Kill { target, grace: None, failure })
}

/// Whether evicted, deleted and terminated; `None` for a pod without a worker.
fn state(workers: &Workers) -> Option<[bool; 3]> {
    let state = workers.state(&"a".into())?;
    Some([state.evicted, state.deleted, state.terminated])
}

// behaviour: GC-1, GC-2, GC-3, GC-23, GC-57
#[test]
fn end_reason_is_kept_until_the_pod_is_forgotten() {
    let pod = api_pod("a");
    // the end, and whether it counts as evicted or deleted
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
        assert_eq!(state(&workers), Some([false; 3]), "{ends:?}: it terminates");
        play(&mut workers, vec![ended("a", Outcome::Done)]);
        let unreported = Some([false, false, true]);
        assert_eq!(state(&workers), unreported, "{ends:?}: its final status is not computed yet");
        play(&mut workers, vec![ended("a", Outcome::Done)]);
        assert_eq!(state(&workers), Some([evicted, deleted, true]), "{ends:?}");
        play(&mut workers, vec![desired(&[])]);
        assert_eq!(state(&workers), None, "{ends:?}");
    }
}

#[test]
fn runtime_only_pod_has_no_end_reason() {
    let mut workers = Workers::default();
    play(&mut workers, vec![found("a")]);
    assert_eq!(state(&workers), Some([false, false, false]));
    play(&mut workers, vec![ended("a", Outcome::Done)]);
    assert_eq!(state(&workers), Some([false, true, true]));
}

#[test]
fn finished_pod_that_is_deleted_keeps_its_state_until_forgotten() {
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
fn pod_recreated_while_terminating_keeps_its_leftovers() {
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
fn evicted_status_in_the_api_marks_the_pod_evicted() {
    let pod = api_pod("a");
    let done = || ended("a", Outcome::Done);
    let rows =
        [("Failed", "Evicted", true), ("Failed", "", false), ("Succeeded", "Evicted", false)];
    for (phase, reason, evicted) in rows {
        let terminal = over(pod.clone(), phase, reason);
        // For an agent that has just started, and for a running pod.
        for beginning in [vec![create(&terminal)], vec![create(&pod), done(), update(&terminal)]] {
            let mut workers = Workers::default();
            play(&mut workers, beginning);
            play(&mut workers, vec![done(), done()]);
            assert_eq!(state(&workers), Some([evicted, false, true]), "{phase} {reason}");
        }
        // For a pod that has finished by itself.
        let mut workers = Workers::default();
        play(&mut workers, vec![create(&pod), ended("a", Outcome::Finished), done(), done()]);
        assert_eq!(state(&workers), Some([false, false, true]));
        let commands = play(&mut workers, vec![update(&terminal), update(&terminal)]);
        let expected: &[&str] = if evicted { &["finished a"] } else { &[] };
        assert_eq!(commands, expected, "{phase} {reason}: once");
        assert_eq!(state(&workers), Some([evicted, false, true]), "{phase} {reason}");
    }
    // It is also orphaned.
    let mut workers = Workers::default();
    let gone = over(deleted(pod, 5), "Failed", "Evicted");
    play(&mut workers, vec![create(&gone), done(), done()]);
    assert_eq!(state(&workers), Some([false, true, true]));
}

// behaviour: EVI-40
#[test]
fn failure_of_an_eviction_reaches_every_job_that_terminates_the_pod() {
    let pod = api_pod("a");
    let failures = |workers: &mut Workers, event: Event| -> Vec<Option<Arc<PodFailure>>> {
        let commands = workers.step(event).into_iter();
        let failures = commands.filter_map(|command| match command {
            Command::Start(_, Job::Terminate(termination)) => Some(termination.failure),
            _ => None,
        });
        failures.collect()
    };
    let mut workers = Workers::default();
    play(&mut workers, runs(&pod).into());
    assert_eq!(failures(&mut workers, evict(&pod)), [Some(evicted())]);
    // A later kill does not replace it.
    play(&mut workers, vec![kill(&pod, Some(1))]);
    let again = failures(&mut workers, ended("a", Outcome::Again(Retry::Failure)));
    assert_eq!(again, [Some(evicted())]);
    let mut workers = Workers::default();
    play(&mut workers, runs(&pod).into());
    assert_eq!(failures(&mut workers, kill(&pod, None)), [None]);
}
