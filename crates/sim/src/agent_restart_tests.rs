use std::time::Duration;

use jiff::SignedDuration;
use model::observed::ContainerState::{Created, Exited, Running};

use super::*;
use crate::plan::{Action, Extras, Hook, Policy, RestartRule};
use crate::settled::tests::{container, instance, pod, snapshot};

#[test]
fn new_agent_may_start_only_containers_that_ended() {
    let before = snapshot(vec![instance("a", 0, Running), instance("b", 0, Exited)], &[true]);
    let wanted = Wanted::from([("u".into(), Arc::new(pod(Policy::Always)))]);
    let new = |name| Event::Container(Arc::new(instance(name, 1, Created)), None);
    let sandbox = ReservedName { uid: "u".into(), name: None, attempt: 1 };
    let rows = [
        (vec![], false),
        (vec![new("b")], false),
        (vec![new("a")], true),
        (vec![new("b"), new("b")], true),
        (vec![Event::StopRequested("a0".into(), Duration::ZERO)], true),
        (vec![new("b"), Event::StopRequested("b1".into(), Duration::ZERO)], true),
        (vec![Event::CreationRequested(sandbox)], true),
    ];
    for (events, expected) in rows {
        let news: Vec<Record> =
            events.into_iter().map(|event| Record { at: Duration::ZERO, event }).collect();
        let found = unexpected_action(&before, &news, &wanted);
        assert_eq!(found.is_some(), expected, "{found:?} {news:?}");
    }
}

#[test]
fn expired_pod_may_restart_after_a_clock_step_back() {
    let mut before = snapshot(vec![instance("a", 0, Exited)], &[false]);
    let pod = PodPlan { deadline: Some(100), ..pod(Policy::Always) };
    let wanted = Wanted::from([("u".into(), Arc::new(pod))]);
    let sandbox = ReservedName { uid: "u".into(), name: None, attempt: 1 };
    // Some containers had not run at the deadline.
    let first = Event::Container(Arc::new(instance("b", 0, Created)), None);
    for event in [Event::CreationRequested(sandbox), first] {
        let news = [Record { at: Duration::ZERO, event }];
        before.sandboxes[0].age = SignedDuration::from_secs(1001);
        assert!(unexpected_action(&before, &news, &wanted).is_some());
        before.sandboxes[0].age = SignedDuration::from_secs(-3600);
        assert_eq!(unexpected_action(&before, &news, &wanted), None);
    }
}

#[test]
fn new_agent_stops_containers_only_of_pods_with_a_reason() {
    let before = snapshot(vec![instance("a", 0, Running), instance("b", 0, Exited)], &[true]);
    let rule = RestartRule { policy: Policy::Always, action: Action::RestartAll };
    let failing = Some(Hook::Exec(Duration::from_secs(1), 1));
    let quiet = [
        Extras { rule: Some(rule), ..Extras::default() },
        Extras { pre_stop: failing, ..Extras::default() },
        Extras { post_start: Some(Hook::Http), ..Extras::default() },
    ];
    let disturbs = |before: &Snapshot, first: Option<Event>, extras: Extras| {
        let mut pod = pod(Policy::Always);
        pod.containers[1].extras = extras;
        let wanted = Wanted::from([("u".into(), Arc::new(pod))]);
        let stop = Event::StopRequested("a0".into(), Duration::ZERO);
        found(before, first.into_iter().chain([stop]).collect(), &wanted)
    };
    assert!(!disturbs(&before, None, Extras { post_start: failing, ..Extras::default() }));
    assert_eq!(quiet.map(|extras| disturbs(&before, None, extras)), [true; 3]);
    // A pod that was observed to restart is not at rest.
    let ruled = || Extras { rule: Some(rule), ..Extras::default() };
    let ended = |code| Instance { exit_code: code, ..instance("b", 0, Exited) };
    let ends = |code| Some(Event::Container(Arc::new(ended(code)), Some(Running)));
    assert!(!disturbs(&before, ends(3), ruled()) && disturbs(&before, ends(1), ruled()));
    assert!(disturbs(&before, ends(3), Extras::default()));
    let starts_over = snapshot(vec![instance("a", 0, Running), ended(137)], &[true]);
    assert!(!disturbs(&starts_over, None, ruled()));
    let between = |attempt| {
        let mut running = instance("a", attempt, Running);
        running.id = "a0".into();
        snapshot(vec![running], &[true])
    };
    assert!(!disturbs(&between(1), None, ruled()), "the other was removed");
    assert!(disturbs(&between(0), None, ruled()), "the other has not run yet");
    assert!(disturbs(&between(1), None, Extras::default()), "the pod does not restart");
}

#[test]
fn finds_new_agent_that_removes_needed_objects() {
    let containers = vec![instance("a", 0, Running), instance("b", 0, Exited)];
    let before = snapshot(containers.clone(), &[true]);
    let running = snapshot(vec![containers[0].clone(), instance("b", 0, Running)], &[true]);
    let container = |rule| Event::RemovalRequested(Removed::Container("b0".into()), rule);
    let sandbox = |rule| Event::RemovalRequested(Removed::Sandbox("s".into()), rule);
    let rows = [
        (container("pod-is-gone"), true),
        (container("pod-terminated"), true),
        (container("per-container-cap"), false),
        (container("restart-all-containers"), false),
        (sandbox("pod-is-gone"), true),
        (sandbox("sandbox-older"), false),
        (Event::RemovalRequested(Removed::Container("other".into()), "pod-is-gone"), false),
    ];
    for (event, expected) in rows {
        assert_eq!(
            found(&before, vec![event.clone()], &requesting(Policy::Always)),
            expected,
            "{event:?}"
        );
        assert!(!found(&before, vec![event], &Wanted::new()), "the pod is not wanted");
    }
    let in_the_way = vec![container("never-started")];
    assert!(!found(&before, in_the_way.clone(), &requesting(Policy::Always)), "it starts again");
    assert!(found(&running, in_the_way, &requesting(Policy::Always)), "it does not start again");
    for (path, expected) in
        [("default_p_u", true), ("default_p_u/b/0.log", false), ("x_p_v", false)]
    {
        let object = ObjectRef { kind: "log".to_owned(), id: format!("{LOGS}{path}") };
        let event = Event::RemovalBegan(object, "pod-is-gone");
        assert_eq!(found(&before, vec![event], &requesting(Policy::Always)), expected, "{path}");
    }
}

/// A pod whose containers have run; one of them still runs. It requests CPU shares.
fn requesting(policy: Policy) -> Wanted {
    let pod = PodPlan { keeps_uid: true, ..pod(policy) };
    Wanted::from([("u".into(), Arc::new(pod))])
}

fn found(before: &Snapshot, events: Vec<Event>, wanted: &Wanted) -> bool {
    let record = |event| Record { at: Duration::ZERO, event };
    let news: Vec<Record> = events.into_iter().map(record).collect();
    unexpected_action(before, &news, wanted).is_some()
}

#[test]
fn finds_new_agent_that_resizes_stops_or_pulls() {
    let before = snapshot(vec![instance("a", 0, Running), instance("b", 0, Exited)], &[true]);
    let pull = |image: &str, is_there| {
        Event::PullRequested(ImagePull { image: image.to_owned(), is_there })
    };
    let image = pod(Policy::Always).containers[0].image;
    let make = |name: &str| {
        let (uid, name) = ("u".into(), Some(Arc::from(name)));
        Event::CreationRequested(ReservedName { uid, name, attempt: 1 })
    };
    let rows = [
        (Event::ResizeRequested("a0".into()), true),
        (Event::SandboxResizeRequested("s".into()), true),
        (Event::SandboxStopRequested("s".into()), true),
        (Event::SandboxStopRequested("older".into()), false),
        (make("a"), true),
        (make("b"), false),
        (pull(image, true), true),
        // The image of the container that ended.
        (pull(image, false), false),
        (pull("other", false), true),
    ];
    for (event, expected) in rows {
        let is_found = found(&before, vec![event.clone()], &requesting(Policy::Always));
        assert_eq!(is_found, expected, "{event:?}");
    }
    let twice = |image| vec![pull(image, false), pull(image, true)];
    assert!(
        !found(&before, twice(image), &requesting(Policy::Always)),
        "two workers found it missing"
    );
    let runs = Event::Container(Arc::new(instance("b", 1, Running)), None);
    let late = vec![pull(image, false), runs, pull(image, true)];
    assert!(found(&before, late, &requesting(Policy::Always)), "no container needs it any more");
    // A pod whose containers ended for good may be terminated.
    let stop = || Event::SandboxStopRequested("s".into());
    let end = Event::Container(Arc::new(instance("a", 0, Exited)), Some(Running));
    assert!(found(&before, vec![stop()], &requesting(Policy::Never)));
    assert!(!found(&before, vec![end.clone(), stop()], &requesting(Policy::Never)));
    assert!(found(&before, vec![end, stop()], &requesting(Policy::Always)));
}

#[test]
fn new_agent_may_stop_sidecars_only_of_ended_pods() {
    let containers =
        [instance("i", 0, Running), instance("a", 0, Running), instance("b", 0, Exited)];
    let before = snapshot(containers.to_vec(), &[true]);
    let wanted = |policy| {
        let sidecar = ContainerPlan { sidecar: true, ..container("i") };
        let pod = PodPlan { init: vec![sidecar], ..pod(policy) };
        Wanted::from([("u".into(), Arc::new(pod))])
    };
    let stop = || Event::StopRequested("i0".into(), Duration::ZERO);
    let end = || Event::Container(Arc::new(instance("a", 0, Exited)), Some(Running));
    let rows = [
        (vec![stop()], Policy::Never, true),
        (vec![end(), stop()], Policy::Never, false),
        (vec![end(), stop()], Policy::Always, true),
    ];
    for (events, policy, expected) in rows {
        let is_found = found(&before, events.clone(), &wanted(policy));
        assert_eq!(is_found, expected, "{policy:?} {events:?}");
    }
}

#[test]
fn finds_new_agent_that_changes_cgroups() {
    let before = snapshot(vec![instance("a", 0, Running), instance("b", 0, Exited)], &[true]);
    let write = |pod: Option<&str>, changes| {
        let (call, pod) = ("update".to_owned(), pod.map(Into::into));
        Event::CgroupWritten(CgroupWrite { call, pod, changes })
    };
    let end = Event::Container(Arc::new(instance("a", 0, Exited)), Some(Running));
    let rows = [
        (vec![write(Some("u"), true)], true),
        (vec![write(Some("u"), false)], true),
        (vec![write(None, true)], true),
        (vec![write(None, false)], false),
        // The pod ends, and its resources are released.
        (vec![end.clone(), write(None, true), write(Some("u"), true)], false),
    ];
    for (events, expected) in rows {
        let is_found = found(&before, events.clone(), &requesting(Policy::Never));
        assert_eq!(is_found, expected, "{events:?}");
    }
    let over = snapshot(vec![instance("a", 0, Exited), instance("b", 0, Exited)], &[false]);
    assert!(
        found(&over, vec![write(None, true)], &requesting(Policy::Never)),
        "the pod had ended before"
    );
}
