//! Containers and sandboxes that appear after a pod has finished.

use super::*;

/// The events of a pod that runs, is terminated and cleaned up.
fn finishes(pod: &Pod) -> Vec<Event> {
    let done = || Event::Ended(view::uid(pod), Outcome::Done);
    vec![create(pod), done(), kill(pod, None), done(), done()]
}

// behaviour: WRK-35
#[test]
fn leftovers_of_a_finished_pod_are_terminated_as_orphans() {
    let pod = api_pod("a");
    let appeared = || Event::Appeared("a".into());
    let mut workers = Workers::default();
    play(&mut workers, finishes(&pod));
    assert!(workers.is_finished(&"a".into()) && !workers.may_run(&"a".into()));
    let story = vec![appeared(), appeared(), update(&pod)];
    assert_eq!(play(&mut workers, story), ["terminate a 1"], "it is not synced");
    assert!(!workers.is_finished(&"a".into()) && workers.may_run(&"a".into()));
    let story = vec![ended("a", Outcome::Done), ended("a", Outcome::Done), desired(&["a"])];
    assert_eq!(play(&mut workers, story), ["terminated a", "clean a", "finished a"]);
    // Every time.
    assert_eq!(play(&mut workers, vec![appeared()]), ["terminate a 1"]);
    let mut unfinished: Vec<Event> = runs(&pod).into();
    unfinished.extend([appeared(), kill(&pod, None), appeared(), ended("a", Outcome::Done)]);
    unfinished.extend([appeared(), ended("a", Outcome::Done)]);
    assert_eq!(run(unfinished), run(finishes(&pod)), "a working worker finds it itself");
    assert_eq!(run(vec![appeared()]), [""; 0], "remains without a worker are an orphan");
}

// behaviour: WRK-10, WRK-35
#[test]
fn recreated_pod_waits_for_leftovers_of_its_earlier_instance() {
    let pod = static_pod("a");
    let mut workers = Workers::default();
    play(&mut workers, finishes(&pod));
    let story = vec![Event::Appeared("a".into()), create(&pod), desired(&["a"])];
    assert_eq!(play(&mut workers, story), ["terminate a 1"]);
    let done = || ended("a", Outcome::Done);
    let story = vec![done(), done(), desired(&["a"]), create(&pod)];
    let expected = ["terminated a", "clean a", "finished a", "forgotten a", "sync a"];
    assert_eq!(play(&mut workers, story), expected);
}

// behaviour: WRK-18, WRK-35
#[test]
fn static_pod_waits_for_leftovers_of_another_pod_of_its_name() {
    let (old, new) = (static_pod("old"), static_pod("new"));
    let mut workers = Workers::default();
    play(&mut workers, finishes(&old));
    let story = vec![Event::Appeared("old".into()), create(&new)];
    assert_eq!(play(&mut workers, story), ["terminate old 1"]);
    let story = vec![ended("old", Outcome::Done), ended("old", Outcome::Done)];
    let expected = ["terminated old", "clean old", "finished old", "sync new"];
    assert_eq!(play(&mut workers, story), expected);
}
