use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{PodSpec, PodStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use proptest::prelude::*;

use super::*;

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn api_pod(uid: &str) -> Pod {
    let spec = PodSpec { termination_grace_period_seconds: Some(30), ..PodSpec::default() };
    let mut pod = Pod { spec: Some(spec), ..Pod::default() };
    pod.metadata.uid = Some(uid.to_owned());
    pod.metadata.name = Some("web".to_owned());
    pod.metadata.namespace = Some("default".to_owned());
    pod
}

fn static_pod(uid: &str) -> Pod {
    let mut pod = api_pod(uid);
    let annotations = pod.metadata.annotations.get_or_insert_default();
    annotations.insert("kubernetes.io/config.source".to_owned(), "file".to_owned());
    pod
}

fn deleted(mut pod: Pod, grace: i64) -> Pod {
    pod.metadata.deletion_timestamp = Some(Time(jiff::Timestamp::UNIX_EPOCH));
    pod.metadata.deletion_grace_period_seconds = Some(grace);
    pod
}

fn create(pod: &Pod) -> Event {
    Event::Updated(view::uid(pod), Update::Create(Arc::new(pod.clone())))
}

fn update(pod: &Pod) -> Event {
    Event::Updated(view::uid(pod), Update::Update(Arc::new(pod.clone())))
}

fn kill(pod: &Pod, grace: Option<u64>) -> Event {
    let target = Target::Pod(Arc::new(pod.clone()));
    Event::Updated(
        view::uid(pod),
        Update::Kill { target, grace: grace.map(seconds), failure: None },
    )
}

fn ended(uid: &str, outcome: Outcome) -> Event {
    Event::Ended(uid.into(), outcome)
}

fn desired(uids: &[&str]) -> Event {
    Event::Desired(uids.iter().map(|uid| PodUid::from(*uid)).collect())
}

/// Commands as text.
fn words(commands: &[Command]) -> Vec<String> {
    commands
        .iter()
        .map(|command| match command {
            Command::Start(uid, Job::Sync(_)) => format!("sync {uid}"),
            Command::Start(uid, Job::Terminate(Termination { grace, .. })) => {
                format!("terminate {uid} {}", grace.as_secs())
            }
            Command::Start(uid, Job::CleanUp(_)) => format!("clean {uid}"),
            Command::Cancel(uid) => format!("cancel {uid}"),
            Command::Requeue(uid, retry) => format!("requeue {uid} {retry:?}"),
            Command::Terminated(uid) => format!("terminated {uid}"),
            Command::Finished(uid) => format!("finished {uid}"),
            Command::Forgotten(uid) => format!("forgotten {uid}"),
        })
        .collect()
}

fn play(workers: &mut Workers, events: Vec<Event>) -> Vec<String> {
    events.into_iter().flat_map(|event| words(&workers.step(event))).collect()
}

/// The commands of new workers.
fn run(events: Vec<Event>) -> Vec<String> {
    play(&mut Workers::default(), events)
}

/// The first events of a running pod.
fn runs(pod: &Pod) -> [Event; 2] {
    [create(pod), Event::Ended(view::uid(pod), Outcome::Done)]
}

fn found(uid: &str) -> Event {
    let target = Target::RuntimeOnly(PodName::new("default", "web"));
    Event::Updated(uid.into(), Update::Kill { target, grace: None, failure: None })
}

// behaviour: WRK-1
#[test]
fn pod_is_synced_terminated_cleaned_and_forgotten() {
    let pod = api_pod("a");
    let mut workers = Workers::default();
    let story = vec![
        create(&pod),
        ended("a", Outcome::Done),
        Event::Due("a".into()),
        ended("a", Outcome::Done),
        kill(&pod, None),
        ended("a", Outcome::Done),
        ended("a", Outcome::Done),
        desired(&[]),
    ];
    let expected = [
        "sync a",
        "requeue a Resync",
        "sync a",
        "requeue a Resync",
        "terminate a 30",
        "terminated a",
        "clean a",
        "finished a",
        "forgotten a",
    ];
    assert_eq!(play(&mut workers, story), expected);
    assert!(!workers.has_worker(&"a".into()));
}

#[test]
fn pod_that_finished_by_itself_is_terminated() {
    let pod = api_pod("a");
    let story = vec![create(&pod), ended("a", Outcome::Finished), ended("a", Outcome::Done)];
    assert_eq!(run(story), ["sync a", "terminate a 30", "terminated a", "clean a"]);
}

// behaviour: WRK-2
#[test]
fn updates_during_a_job_are_merged_into_one_job() {
    let pod = api_pod("a");
    let story = vec![
        create(&pod),
        update(&pod),
        update(&pod),
        Event::Updated("a".into(), Update::Sync),
        ended("a", Outcome::Done),
        ended("a", Outcome::Done),
    ];
    assert_eq!(run(story), ["sync a", "sync a", "requeue a Resync"]);
}

// behaviour: WRK-3
#[test]
fn kill_cancels_the_running_sync_and_is_never_lost() {
    let pod = api_pod("a");
    for outcome in [Outcome::Done, Outcome::Cancelled, Outcome::Again(Retry::Failure)] {
        let story = vec![create(&pod), kill(&pod, None), update(&pod), ended("a", outcome)];
        assert_eq!(run(story), ["sync a", "cancel a", "terminate a 30"]);
    }
}

#[test]
fn updates_during_termination_do_not_repeat_it() {
    let pod = api_pod("a");
    let mut story: Vec<Event> = runs(&pod).into();
    story.extend([
        kill(&pod, None),
        Event::Updated("a".into(), Update::Sync),
        ended("a", Outcome::Done),
        Event::Updated("a".into(), Update::Sync),
        ended("a", Outcome::Done),
    ]);
    let expected =
        ["sync a", "requeue a Resync", "terminate a 30", "terminated a", "clean a", "finished a"];
    assert_eq!(run(story), expected);
}

#[test]
fn failures_are_retried_in_the_same_stage() {
    let pod = api_pod("a");
    let again = || ended("a", Outcome::Again(Retry::Failure));
    let story = vec![
        create(&pod),
        again(),
        Event::Due("a".into()),
        kill(&pod, None),
        again(),
        again(),
        Event::Due("a".into()),
        ended("a", Outcome::Done),
        again(),
        Event::Due("a".into()),
        ended("a", Outcome::Done),
    ];
    let expected = [
        "sync a",
        "requeue a Failure",
        "sync a",
        "cancel a",
        "terminate a 30",
        "requeue a Failure",
        "terminate a 30",
        "terminated a",
        "clean a",
        "requeue a Failure",
        "clean a",
        "finished a",
    ];
    assert_eq!(run(story), expected);
}

// behaviour: WRK-4
#[test]
fn grace_is_taken_from_the_request_then_deletion_then_specification() {
    let rows = [
        ("specification", kill(&api_pod("a"), None), 30),
        ("deletion", update(&deleted(api_pod("a"), 5)), 5),
        ("requested", kill(&api_pod("a"), Some(2)), 2),
        ("deletion of 0", update(&deleted(api_pod("a"), 0)), 1),
        ("requested 0", kill(&api_pod("a"), Some(0)), 1),
        ("longer than the specification", kill(&api_pod("a"), Some(60)), 60),
    ];
    for (name, event, grace) in rows {
        let story = vec![create(&api_pod("a")), ended("a", Outcome::Done), event];
        let expected = format!("terminate a {grace}");
        assert_eq!(run(story).last(), Some(&expected), "{name}");
    }
}

// behaviour: WRK-5
#[test]
fn shorter_grace_restarts_termination_and_longer_one_does_not() {
    let pod = api_pod("a");
    let mut story: Vec<Event> = runs(&pod).into();
    story.extend([
        kill(&pod, Some(20)),
        kill(&pod, Some(5)),
        ended("a", Outcome::Cancelled),
        kill(&pod, Some(40)),
        ended("a", Outcome::Again(Retry::Failure)),
    ]);
    let expected = [
        "sync a",
        "requeue a Resync",
        "terminate a 20",
        "cancel a",
        "terminate a 5",
        "terminate a 5",
    ];
    assert_eq!(run(story), expected);
}

// behaviour: WRK-6
#[test]
fn terminal_or_deleted_pod_is_terminated_when_first_seen() {
    for phase in ["Failed", "Succeeded"] {
        let mut pod = api_pod("a");
        pod.status = Some(PodStatus { phase: Some(phase.to_owned()), ..PodStatus::default() });
        assert_eq!(run(vec![create(&pod)]), ["terminate a 30"]);
    }
    let pod = deleted(api_pod("a"), 3);
    assert_eq!(run(vec![create(&pod)]), ["terminate a 3"]);
}

// behaviour: WRK-7
#[test]
fn runtime_only_pod_is_terminated_and_forgotten_without_clean_up() {
    let story = vec![
        Event::Updated("a".into(), Update::Sync),
        found("a"),
        ended("a", Outcome::Done),
        desired(&[]),
    ];
    assert_eq!(run(story), ["terminate a 1", "terminated a", "finished a", "forgotten a"]);
}

// behaviour: WRK-26
#[test]
fn known_pod_terminates_with_its_own_grace_when_found_in_the_runtime() {
    let pod = api_pod("a");
    let mut workers = Workers::default();
    play(&mut workers, runs(&pod).into());
    let commands = workers.step(found("a"));
    let target = Target::Pod(Arc::new(pod));
    let job = Job::Terminate(Termination { target, grace: seconds(30), failure: None });
    assert_eq!(commands, [Command::Start("a".into(), job)]);
}

// behaviour: WRK-8
#[test]
fn static_pod_waits_until_the_previous_one_of_its_name_finished() {
    let (old, new) = (static_pod("old"), static_pod("new"));
    let story = vec![
        create(&old),
        ended("old", Outcome::Done),
        create(&new),
        kill(&old, None),
        ended("old", Outcome::Done),
        ended("old", Outcome::Done),
    ];
    let expected = [
        "sync old",
        "requeue old Resync",
        "terminate old 30",
        "terminated old",
        "clean old",
        "finished old",
        "sync new",
    ];
    assert_eq!(run(story), expected);
}

// behaviour: WRK-18
#[test]
fn static_pod_waits_for_its_earlier_version_in_the_runtime() {
    let new = static_pod("new");
    let story = vec![found("old"), create(&new), ended("old", Outcome::Again(Retry::Failure))];
    let expected = ["terminate old 1", "requeue old Failure"];
    let mut workers = Workers::default();
    assert_eq!(play(&mut workers, story), expected, "it is not synced yet");
    let story = vec![Event::Due("old".into()), ended("old", Outcome::Done)];
    let expected = ["terminate old 1", "terminated old", "finished old", "sync new"];
    assert_eq!(play(&mut workers, story), expected);
    // An orphan found later is terminated immediately, too.
    let mut story: Vec<Event> = runs(&new).into();
    story.extend([found("old"), create(&static_pod("next")), kill(&new, None)]);
    let expected = ["sync new", "requeue new Resync", "terminate old 1", "terminate new 30"];
    assert_eq!(run(story), expected);
}

// behaviour: WRK-18, WRK-26
#[test]
fn two_known_earlier_versions_terminate_with_their_own_grace() {
    let story = vec![
        kill(&static_pod("1"), None),
        kill(&static_pod("2"), None),
        create(&static_pod("3")),
        ended("2", Outcome::Done),
        ended("2", Outcome::Done),
        ended("1", Outcome::Done),
        ended("1", Outcome::Done),
    ];
    let expected = [
        "terminate 1 30",
        "terminate 2 30",
        "terminated 2",
        "clean 2",
        "finished 2",
        "terminated 1",
        "clean 1",
        "finished 1",
        "sync 3",
    ];
    assert_eq!(run(story), expected);
}

// behaviour: WRK-8, WRK-9
#[test]
fn static_pods_of_one_name_start_in_order_and_skip_removed_ones() {
    let mut story = vec![
        create(&static_pod("1")),
        create(&static_pod("2")),
        create(&static_pod("3")),
        kill(&static_pod("2"), None),
        ended("1", Outcome::Done),
        kill(&static_pod("1"), None),
    ];
    story.extend([ended("1", Outcome::Done), ended("1", Outcome::Done)]);
    let expected = [
        "sync 1",
        "terminated 2",
        "finished 2",
        "requeue 1 Resync",
        "terminate 1 30",
        "terminated 1",
        "clean 1",
        "finished 1",
        "sync 3",
    ];
    assert_eq!(run(story), expected);
}

#[test]
fn waiting_static_pod_also_waits_for_an_orphan_found_later() {
    let (first, next) = (static_pod("1"), static_pod("2"));
    let mut story: Vec<Event> = runs(&first).into();
    story.extend([create(&next), found("4"), kill(&first, None)]);
    story.extend([ended("1", Outcome::Done), ended("1", Outcome::Done), ended("4", Outcome::Done)]);
    let lines = run(story);
    let place = |text: &str| lines.iter().position(|line| line == text);
    assert!(place("finished 1").is_some() && place("sync 2").is_some(), "{lines:?}");
    assert_eq!(place("sync 2"), Some(lines.len() - 1), "{lines:?}");
    assert!(place("sync 2") > place("finished 4") && place("finished 4").is_some(), "{lines:?}");
}

#[test]
fn api_pods_do_not_wait_for_each_other() {
    let story = vec![create(&api_pod("1")), create(&api_pod("2"))];
    assert_eq!(run(story), ["sync 1", "sync 2"]);
}

// behaviour: WRK-10
#[test]
fn pod_recreated_while_terminating_is_forgotten_and_starts_over() {
    let pod = static_pod("a");
    let mut story: Vec<Event> = runs(&pod).into();
    story.extend([
        kill(&pod, None),
        create(&pod),
        desired(&["a"]),
        ended("a", Outcome::Done),
        ended("a", Outcome::Done),
        desired(&["a"]),
        create(&pod),
    ]);
    let expected = [
        "sync a",
        "requeue a Resync",
        "terminate a 30",
        "terminated a",
        "clean a",
        "finished a",
        "forgotten a",
        "sync a",
    ];
    assert_eq!(run(story), expected);
}

// behaviour: WRK-11
#[test]
fn finished_pod_that_is_still_desired_is_not_restarted() {
    let pod = static_pod("a");
    let story = vec![
        create(&pod),
        ended("a", Outcome::Finished),
        ended("a", Outcome::Done),
        ended("a", Outcome::Done),
        desired(&["a"]),
        Event::Updated("a".into(), Update::Sync),
        update(&pod),
    ];
    let expected = ["sync a", "terminate a 30", "terminated a", "clean a", "finished a"];
    assert_eq!(run(story), expected);
}

// behaviour: WRK-12
#[test]
fn orphaned_pod_is_terminated() {
    let pod = api_pod("a");
    let mut workers = Workers::default();
    let story = vec![create(&pod), ended("a", Outcome::Done), desired(&[])];
    assert_eq!(play(&mut workers, story), ["sync a", "requeue a Resync", "terminate a 30"]);
}

fn any_event() -> impl Strategy<Value = Event> {
    let uid = prop_oneof![Just("1"), Just("2"), Just("3")];
    let any_uid = prop_oneof![Just("1"), Just("2"), Just("3"), Just("4")];
    let outcome = prop_oneof![
        Just(Outcome::Done),
        Just(Outcome::Finished),
        Just(Outcome::Cancelled),
        Just(Outcome::Again(Retry::Failure)),
    ];
    prop_oneof![
        uid.clone().prop_map(|uid| create(&static_pod(uid))),
        uid.clone().prop_map(|uid| update(&static_pod(uid))),
        (uid.clone(), proptest::option::of(0u64..50))
            .prop_map(|(uid, grace)| kill(&static_pod(uid), grace)),
        Just(found("4")),
        (uid.clone(), 0i64..50).prop_map(|(uid, grace)| update(&deleted(static_pod(uid), grace))),
        (any_uid.clone(), outcome).prop_map(|(uid, outcome)| ended(uid, outcome)),
        any_uid.clone().prop_map(|uid| Event::Due(uid.into())),
        any_uid.prop_map(|uid| Event::Appeared(uid.into())),
        proptest::collection::vec(uid, 0..3).prop_map(|uids| desired(&uids)),
    ]
}

/// The jobs of a pod, checked against the invariants.
#[derive(Default)]
struct Watched {
    busy: bool,
    /// 0 nothing yet, 1 synced, 2 terminating, 3 cleaning up, 4 finished.
    stage: u8,
    grace: Option<Duration>,
}

proptest! {
    #[test]
    fn pods_only_move_forward_one_job_at_a_time_and_graces_only_shrink(
        events in proptest::collection::vec(any_event(), 0..80),
    ) {
        let mut workers = Workers::default();
        let mut watched: BTreeMap<PodUid, Watched> = BTreeMap::new();
        // All pods have one name; 4 is a pod known to the runtime only.
        for event in events {
            // Only a running job can end.
            if let Event::Ended(uid, _) = &event {
                match watched.get_mut(uid) {
                    Some(pod) if pod.busy => pod.busy = false,
                    _ => continue,
                }
            }
            // Remains of a finished pod are terminated: the only step back.
            if let Event::Appeared(uid) = &event
                && let Some(pod) = watched.get_mut(uid)
                && pod.stage == 4
            {
                pod.stage = 2;
            }
            for command in workers.step(event) {
                match command {
                    Command::Start(uid, job) => {
                        let alone = watched.iter().all(|(other, pod)| {
                            *other == uid || !(1..4).contains(&pod.stage)
                        });
                        let pod = watched.entry(uid.clone()).or_default();
                        // An orphan only terminates.
                        let begins = pod.stage == 0 && matches!(job, Job::Sync(_));
                        prop_assert!(alone || !begins, "{uid} begins while its name is taken");
                        prop_assert!(!pod.busy, "two jobs at a time");
                        pod.busy = true;
                        let stage = match job {
                            Job::Sync(_) => 1,
                            Job::Terminate(Termination { grace, .. }) => {
                                prop_assert!(pod.grace.is_none_or(|before| grace <= before));
                                prop_assert!(grace >= LEAST_GRACE);
                                pod.grace = Some(grace);
                                2
                            }
                            Job::CleanUp(_) => 3,
                        };
                        prop_assert!(stage >= pod.stage, "stage went back from {} to {stage}", pod.stage);
                        pod.stage = stage;
                    }
                    Command::Finished(uid) => {
                        let pod = watched.entry(uid).or_default();
                        prop_assert!(!pod.busy && pod.stage < 4);
                        pod.stage = 4;
                    }
                    Command::Forgotten(uid) => {
                        let pod = watched.remove(&uid);
                        prop_assert!(pod.is_some_and(|pod| pod.stage == 4 && !pod.busy));
                    }
                    Command::Terminated(uid) => {
                        prop_assert!(!watched.entry(uid).or_default().busy);
                    }
                    Command::Cancel(uid) => prop_assert!(watched[&uid].busy),
                    Command::Requeue(uid, _) => prop_assert!(!watched[&uid].busy),
                }
            }
        }
    }
}

#[path = "worker_states_tests.rs"]
mod states;

#[path = "worker_counts_tests.rs"]
mod counts;

#[path = "worker_appeared_tests.rs"]
mod appeared;
