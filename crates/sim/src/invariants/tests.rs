use std::sync::Arc;
use std::time::Duration;

use gc::policy::ContainerPolicy;
use model::observed::ContainerState::{self, Created, Exited, Running, Unknown};
use model::observed::SandboxState;
use model::ports::runtime::Code;

use super::*;
use crate::history::{Event, ImageRemoval, Instance, ObjectRef, Removed, ReservedName};
use crate::plan::{
    Action, Collecting, ContainerPlan, Extras, PodPlan, Policy, Program, RestartRule,
};

pub(super) const IN_ORDER: &str = "init containers and sidecars start before the others, and sidecars end after them and one another";

pub(super) fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

pub(super) fn pod(policy: Policy) -> Arc<PodPlan> {
    let container = |name, sidecar| ContainerPlan {
        name,
        image: "ferrolet.test/workload:1",
        program: Program::Forever,
        sidecar,
        extras: Extras::default(),
    };
    Arc::new(PodPlan {
        name: "p".to_owned(),
        revision: 0,
        keeps_uid: false,
        policy,
        grace: 30,
        deadline: None,
        on_page: false,
        host_network: false,
        restarts_for_memory: false,
        init: vec![container("i", false), container("side", true)],
        containers: vec![container("a", false)],
    })
}

pub(super) fn wanted(policy: Policy) -> Event {
    Event::Wanted("u".into(), pod(policy))
}

/// A container of the pod after a change; it started at 10 and ended at 20.
pub(super) fn container(
    name: &str,
    number: u32,
    state: ContainerState,
    was: ContainerState,
) -> Event {
    let started = (state != Created).then_some(seconds(10));
    let finished = (state == Exited).then_some(seconds(20));
    let instance = Instance {
        id: format!("{name}{number}").into(),
        sandbox: "s".into(),
        uid: "u".into(),
        name: name.into(),
        attempt: number,
        definition: "d".to_owned(),
        state: Some(state),
        exit_code: 0,
        created: seconds(10 + u64::from(number)),
        started,
        finished,
    };
    Event::Container(Arc::new(instance), Some(was))
}

pub(super) fn with(event: Event, change: impl FnOnce(&mut Instance)) -> Event {
    let Event::Container(one, was) = event else { panic!("not a container: {event:?}") };
    let mut one = (*one).clone();
    change(&mut one);
    Event::Container(Arc::new(one), was)
}

/// The invariant that is broken by events a second apart, if any.
pub(super) fn broken(events: impl IntoIterator<Item = Event>) -> Option<&'static str> {
    broken_on(&Collecting::default(), events)
}

/// Like `broken`, with these GC settings.
pub(super) fn broken_on(
    collecting: &Collecting,
    events: impl IntoIterator<Item = Event>,
) -> Option<&'static str> {
    let at = (0..).map(seconds);
    let records: Vec<Record> = at.zip(events).map(|(at, event)| Record { at, event }).collect();
    Invariants::new(collecting).read(&records).err().map(|broken| broken.invariant)
}

/// Whether events at these seconds break one invariant.
pub(super) fn breaks(
    mut invariant: impl Invariant,
    events: impl IntoIterator<Item = (u64, Event)>,
) -> bool {
    let mut records = events.into_iter().map(|(at, event)| Record { at: seconds(at), event });
    records.any(|record| invariant.read(&record).is_err())
}

/// A stop request with this grace in seconds.
pub(super) fn stop(id: &str, grace: u64) -> Event {
    Event::StopRequested(id.into(), seconds(grace))
}

/// GC settings with a cap that may remove the last dead instance of a container.
pub(super) fn takes_the_last() -> Collecting {
    let containers = ContainerPolicy { in_all: Some(0), ..ContainerPolicy::default() };
    Collecting { containers, ..Collecting::default() }
}

/// The init containers are done.
pub(super) fn initialized() -> [Event; 2] {
    [container("i", 0, Exited, Running), container("side", 0, Running, Created)]
}

/// Time for all existing containers to start.
pub(super) fn a_while() -> impl Iterator<Item = Event> + Clone {
    std::iter::repeat_n(Event::ClockJumped, 10)
}

#[test]
fn finds_two_live_containers_of_one_name() {
    let sentence = Some("at most one container of each name of a pod lives");
    let rows = [
        (vec![container("a", 0, Running, Created), container("a", 1, Running, Created)], sentence),
        (vec![container("a", 0, Unknown, Running), container("a", 1, Running, Created)], sentence),
        (vec![container("a", 0, Running, Created), container("b", 1, Running, Created)], None),
        (
            vec![
                container("a", 0, Running, Created),
                container("a", 0, Exited, Running),
                container("a", 1, Running, Created),
            ],
            None,
        ),
    ];
    for (events, expected) in rows {
        assert_eq!(broken(events.clone()), expected, "{events:?}");
    }
}

#[test]
fn finds_pod_running_with_its_earlier_instance() {
    let other = || Event::Wanted("other".into(), pod(Policy::Always));
    let of_other = |event| with(event, |one| (one.uid, one.id) = ("other".into(), "o".into()));
    let first = || [wanted(Policy::Always), other(), container("x", 0, Running, Created)];
    let start = || of_other(container("y", 0, Running, Created));
    let mut invariant = one_pod_instance::OnePodInstance::default();
    let mut read = |event| invariant.read(&Record { at: Duration::ZERO, event });
    for event in first() {
        read(event).unwrap();
    }
    read(container("x", 0, Exited, Running)).unwrap();
    read(start()).unwrap();
    assert!(read(container("x", 1, Running, Created)).is_err());
}

#[test]
fn finds_container_started_before_its_init_containers() {
    let sentence = Some(IN_ORDER);
    let start = || container("a", 0, Running, Created);
    let [init, side] = initialized();
    let rows = [
        (vec![init.clone(), side.clone(), start()], None),
        (vec![init.clone(), start()], sentence),
        (vec![side.clone(), start()], sentence),
        (vec![container("i", 0, Running, Created), side.clone()], sentence),
        (vec![with(init.clone(), |one| one.exit_code = 1), side.clone()], sentence),
        (vec![with(init, |one| one.sandbox = "old".into()), side], sentence),
    ];
    for (events, expected) in rows {
        let events: Vec<Event> = [wanted(Policy::Always)].into_iter().chain(events).collect();
        assert_eq!(broken(events.clone()), expected, "{events:?}");
    }
}

#[test]
fn finds_container_restarted_before_its_init_containers() {
    let remove = |name: &str, rule| {
        let id = format!("{name}0");
        let gone = with(container(name, 0, Exited, Exited), |one| one.state = None);
        [Event::RemovalRequested(Removed::Container(id.as_str().into()), rule), gone]
    };
    let again = |name: &str, state, was| {
        with(container(name, 1, state, was), |one| one.started = Some(seconds(99)))
    };
    let starts = || again("a", Running, Created);
    let history = |rule, removed: &[&str], last: Vec<Event>| {
        let first = [wanted(Policy::Always)].into_iter().chain(initialized());
        let ended = ["a", "side"].map(|name| container(name, 0, Exited, Running));
        let ran = [container("a", 0, Running, Created)].into_iter().chain(ended).chain(a_while());
        let removals = removed.iter().flat_map(|name| remove(name, rule));
        broken(first.chain(ran).chain(removals).chain(last))
    };
    let (start_over, all) = ("restart-all-containers", ["a", "side", "i"]);
    assert_eq!(history(start_over, &all, vec![starts()]), Some(IN_ORDER));
    assert_eq!(
        history(start_over, &["a"], vec![starts()]),
        Some(IN_ORDER),
        "the whole pod restarts"
    );
    let sidecar_first = vec![again("side", Running, Created)];
    assert_eq!(history(start_over, &all, sidecar_first), Some(IN_ORDER));
    let anew = vec![again("i", Exited, Running), again("side", Running, Created), starts()];
    assert_eq!(history(start_over, &all, anew), None);
    assert_eq!(history("pod-is-gone", &all, vec![starts()]), None, "they had run");
}

#[test]
fn finds_sidecar_stopped_before_the_other_containers() {
    let stop = |name: &str| Event::StopRequested(format!("{name}0").as_str().into(), seconds(2));
    let ending = |last: Vec<Event>| {
        let first = [wanted(Policy::Always)].into_iter().chain(initialized());
        let running = [container("a", 0, Running, Created), Event::Unwanted("u".into())];
        broken(first.chain(running).chain(a_while()).chain([stop("a")]).chain(last))
    };
    assert_eq!(ending(vec![stop("side")]), Some(IN_ORDER));
    assert_eq!(ending(vec![container("a", 0, Exited, Running), stop("side")]), None);
    let lost = container("side", 0, Unknown, Running);
    assert_eq!(ending(vec![lost, stop("side")]), None, "it is replaced");
    let gone = with(container("side", 0, Exited, Unknown), |one| one.state = None);
    assert_eq!(ending(vec![gone, stop("side")]), None, "it was removed meanwhile");
    let mut late = vec![Event::ClockJumped; 30];
    late.push(stop("side"));
    assert_eq!(ending(late), None, "its grace is over");
    let mut wanted_meanwhile = vec![wanted(Policy::Always), Event::Unwanted("u".into())];
    wanted_meanwhile.extend(vec![Event::ClockJumped; 30]);
    wanted_meanwhile.push(stop("side"));
    assert_eq!(ending(wanted_meanwhile), None, "its grace is over nevertheless");
}

#[test]
fn sidecar_may_stop_when_an_earlier_grace_is_over() {
    let stop = |id: &str, grace| Event::StopRequested(id.into(), seconds(grace));
    let events = [wanted(Policy::Always)]
        .into_iter()
        .chain(initialized())
        .chain([container("a", 0, Running, Created)]);
    // It has no sandbox; then the manifest is removed.
    let events = events.chain(a_while()).chain([stop("a0", 30), Event::Unwanted("u".into())]);
    let wait = std::iter::repeat_n(Event::ClockJumped, 30);
    let early = events.clone().chain([stop("side0", 2)]);
    assert_eq!(broken(early), Some(IN_ORDER));
    assert_eq!(broken(events.chain(wait).chain([stop("side0", 2)])), None);
}

#[test]
fn finds_sidecar_stopped_out_of_order_with_grace_left() {
    let stop = |id: &str, grace| Event::StopRequested(id.into(), seconds(grace));
    let ended = |name: &str| container(name, 0, Exited, Running);
    let two = {
        let mut pod = (*pod(Policy::Always)).clone();
        let second = ContainerPlan { name: "next", ..pod.init[1].clone() };
        pod.init.push(second);
        Event::Wanted("u".into(), Arc::new(pod))
    };
    let late = with(ended("next"), |one| {
        (one.state, one.started, one.finished) = (Some(Running), Some(seconds(99)), None);
    });
    // The order holds for any agent, whether or not the pod is wanted.
    let rows = [
        (
            vec![stop("a0", 30), ended("a"), stop("next0", 20), ended("next"), stop("side0", 10)],
            None,
        ),
        (vec![stop("a0", 30), stop("next0", 20)], Some(IN_ORDER)),
        (vec![stop("a0", 30), ended("a"), stop("side0", 20)], Some(IN_ORDER)),
        (vec![Event::AgentStarted(2), ended("a"), stop("side0", 20)], Some(IN_ORDER)),
        (vec![stop("next0", 2), stop("side0", 2), stop("a0", 2)], None),
        (vec![ended("a"), ended("next"), stop("side0", 20)], None),
        (vec![stop("a0", 30), ended("a"), ended("next"), late, stop("side0", 20)], None),
    ];
    for (events, expected) in rows {
        let first = [two.clone()].into_iter().chain(initialized());
        let running = ["next", "a"].map(|name| container(name, 0, Running, Created));
        let all = first.chain(running).chain(a_while()).chain(events.clone());
        assert_eq!(broken(all), expected, "{events:?}");
    }
}

#[test]
fn finds_removal_of_a_running_container() {
    let sentence = Some("no running container is removed before it was stopped");
    let runs = || [container("x", 0, Running, Created)];
    let observed = |runs| Event::ContainerObserved("x0".into(), runs);
    let removed = || Event::RemovalRequested(Removed::Container("x0".into()), "never-started");
    let rows = [
        (vec![observed(true), removed()], sentence),
        (vec![observed(false), observed(true), removed()], sentence),
        // It started after the last read.
        (vec![observed(false), removed()], None),
        // The read was before its start, and was answered late.
        (vec![observed(true), observed(false), removed()], None),
        (vec![observed(true), Event::StopRequested("x0".into(), seconds(2)), removed()], None),
        // A stop of its sandbox is not a stop of the container.
        (
            vec![
                observed(false),
                Event::SandboxStopRequested("s".into()),
                observed(true),
                removed(),
            ],
            sentence,
        ),
        (vec![observed(true), container("x", 0, Exited, Running), removed()], None),
    ];
    for (events, expected) in rows {
        assert_eq!(broken(runs().into_iter().chain(events.clone())), expected, "{events:?}");
    }
}

#[test]
fn finds_restart_of_a_container_that_ended_for_good() {
    let sentence = Some("a container that ended for good never starts again");
    let failed = |event| with(event, |one| one.exit_code = 1);
    let ended = || container("a", 0, Exited, Running);
    let stop = || Event::StopRequested("a0".into(), seconds(30));
    let goes = |rule| Event::RemovalRequested(Removed::Container("a0".into()), rule);
    let rows = [
        (Policy::Never, vec![ended()], sentence),
        (Policy::Never, vec![failed(ended())], sentence),
        (Policy::OnFailure, vec![ended()], sentence),
        (Policy::OnFailure, vec![failed(ended())], None),
        (Policy::Always, vec![ended()], None),
        (Policy::Never, vec![stop(), ended()], None),
        (Policy::Never, vec![ended(), stop()], None),
        (Policy::Never, vec![container("a", 0, Exited, Unknown)], None),
        // Its end is not recorded any more.
        (Policy::Never, vec![ended(), goes("node-cap-oldest")], None),
        (Policy::Never, vec![ended(), goes("pod-is-gone")], sentence),
    ];
    for (policy, events, expected) in rows {
        let again =
            with(container("a", 1, Running, Created), |one| one.started = Some(seconds(99)));
        let first = [wanted(policy)].into_iter().chain(initialized());
        let all: Vec<Event> = first.chain(events).chain([again]).collect();
        assert_eq!(broken_on(&takes_the_last(), all.clone()), expected, "{policy:?} {all:?}");
    }
}

#[test]
fn finds_start_long_after_the_pod_was_removed() {
    let mut invariant = orphans::OrphansStayDead::default();
    let mut read = |at, event| invariant.read(&Record { at: seconds(at), event });
    read(0, container("a", 0, Created, Created)).unwrap();
    read(1, Event::StartRequested("a0".into())).unwrap();
    read(2, Event::Unwanted("u".into())).unwrap();
    read(60, Event::StartRequested("a0".into())).unwrap();
    assert!(read(600, Event::StartRequested("a0".into())).is_err());
    let made =
        || Event::CreationRequested(ReservedName { uid: "u".into(), name: None, attempt: 1 });
    assert!(read(600, made()).is_err());
    read(601, wanted(Policy::Always)).unwrap();
    read(602, Event::StartRequested("a0".into())).unwrap();
    read(603, made()).unwrap();
}

#[test]
fn finds_growing_grace() {
    let sentence = Some(
        "the grace of a container is at most its pod's, less the time before its turn, and only shrinks",
    );
    let stop = |grace| Event::StopRequested("a0".into(), seconds(grace));
    let stop_sidecar = |grace| Event::StopRequested("side0".into(), seconds(grace));
    let rows = [
        (vec![stop(30), stop(30), stop(2)], None),
        (vec![stop(10), stop(11)], sentence),
        (vec![stop(31)], sentence),
        (vec![stop(10), wanted(Policy::Always), stop(30)], None),
        (vec![stop_sidecar(2), stop_sidecar(12)], None),
        (vec![stop_sidecar(31)], sentence),
    ];
    let first = || {
        let made = ["a", "side"].map(|name| container(name, 0, Created, Created));
        [wanted(Policy::Always)].into_iter().chain(made)
    };
    for (events, expected) in rows {
        assert_eq!(broken(first().chain(events.clone())), expected, "{events:?}");
    }
    // A restart of the whole pod has no grace.
    let over = |graces: [u64; 2]| {
        let rule = RestartRule { policy: Policy::Never, action: Action::RestartAll };
        let mut pod = (*pod(Policy::Always)).clone();
        pod.containers[0].extras.rule = Some(rule);
        let ruled = Event::Wanted("u".into(), Arc::new(pod));
        broken(first().chain([ruled]).chain(graces.map(stop)))
    };
    assert_eq!((over([2, 30]), over([10, 11])), (None, sentence));
}

#[test]
fn finds_restart_without_back_off() {
    let life = |number: u32, started: u64| {
        let starts = container("a", number, Running, Created);
        let ends = container("a", number, Exited, Running);
        let at = |one: &mut Instance| one.started = Some(seconds(started));
        let ended = move |one: &mut Instance| {
            one.started = Some(seconds(started));
            one.finished = Some(seconds(started + 1));
        };
        [with(starts, at), with(ends, ended)]
    };
    let lives = |starts: [u64; 3], between: Option<Event>| {
        let [one, two, three] = starts;
        broken(life(0, one).into_iter().chain(life(1, two)).chain(between).chain(life(2, three)))
    };
    let sentence = Some("a container that keeps failing is restarted with a back-off");
    // The first restart is free.
    assert_eq!(lives([0, 1, 12], None), None);
    assert_eq!(lives([0, 1, 3], None), sentence);
    // Then the back-off doubles, until the container ran well or the back-off was forgotten.
    let fourth = |starts: [u64; 4]| {
        broken((0..).zip(starts).flat_map(|(number, started)| life(number, started)))
    };
    assert_eq!(fourth([0, 1, 12, 33]), None);
    assert_eq!(fourth([0, 1, 12, 32]), sentence);
    assert_eq!(fourth([0, 1, 700, 702]), None);
    let wanted_event = |revision| {
        let requesting = PodPlan { keeps_uid: true, revision, ..(*pod(Policy::Always)).clone() };
        Event::Wanted("u".into(), Arc::new(requesting))
    };
    let resized = |first, then| {
        let done = initialized().into_iter().chain(life(0, 0));
        let lives = [wanted_event(first)]
            .into_iter()
            .chain(done)
            .chain(life(1, 1))
            .chain([wanted_event(then)]);
        broken(lives.chain(life(2, 3)))
    };
    assert_eq!(resized(0, 1), None, "a resize resets the back-off");
    assert_eq!(resized(1, 1), sentence);
    // Another agent has no record of a failure; a stopped container did not fail.
    assert_eq!(lives([0, 1, 3], Some(Event::AgentStarted(2))), None);
    assert_eq!(lives([0, 1, 3], Some(Event::ClockJumped)), None);
    // It was to be replaced, and ended just before.
    let stop = Event::StopRequested("a0".into(), seconds(2));
    let replaced = life(0, 0).into_iter().chain([stop]).chain(life(1, 1));
    assert_eq!(broken(replaced.chain(life(2, 3))), None);
    // A restart that was allowed before the clock was set, and happened after.
    let late = life(0, 0).into_iter().chain([Event::ClockJumped]).chain(life(1, 1));
    assert_eq!(broken(late.chain(life(2, 3))), None);
}

#[test]
fn finds_creation_of_an_object_known_to_exist() {
    let reserved = |name: Option<&str>| ReservedName {
        uid: "u".into(),
        name: name.map(Arc::from),
        attempt: 0,
    };
    let made = |name| Event::CreationAnswered(reserved(name), Ok("id".to_owned()));
    let refused = |name| Event::CreationAnswered(reserved(name), Err(Code::FailedPrecondition));
    let failed = |name| Event::CreationAnswered(reserved(name), Err(Code::DeadlineExceeded));
    let removed = |kind: &str| {
        let object = ObjectRef { kind: kind.to_owned(), id: "id".to_owned() };
        let noted = Event::IntentWritten(object.clone(), "old".to_owned());
        [noted, Event::RemovalBegan(object.clone(), "old"), Event::Gone(object)]
    };
    let after =
        |made, removed: [Event; 3], then| [vec![made], removed.to_vec(), vec![then]].concat();
    let sentence = Some("the agent does not create an object that it knows to exist");
    let rows = [
        (vec![made(None), refused(None)], sentence),
        (vec![made(Some("a")), refused(Some("a"))], sentence),
        (vec![failed(Some("a")), refused(Some("a"))], None),
        (after(made(Some("a")), removed("container"), refused(Some("a"))), None),
        (after(made(None), removed("sandbox"), refused(None)), None),
    ];
    for (events, expected) in rows {
        assert_eq!(broken(events.clone()), expected, "{events:?}");
    }
}

#[test]
fn finds_removal_of_live_objects_or_of_last_objects_of_a_wanted_pod() {
    let sentence = "no live object is removed, nor the last instance of a wanted pod's container";
    let remove = |id: &str| Event::RemovalRequested(Removed::Container(id.into()), "pod-is-gone");
    let first = || initialized().into_iter().chain([container("a", 0, Running, Created)]);
    let found = |last: Vec<Event>, wait: u64| {
        let mut invariants = Invariants::default();
        let events = std::iter::once(wanted(Policy::Always)).chain(first()).chain(last);
        let records: Vec<Record> = (0..)
            .zip(events)
            .map(|(n, event)| {
                let at = seconds(if n < 4 { n } else { n + wait });
                Record { at, event }
            })
            .collect();
        invariants.read(&records).err().map(|broken| broken.invariant)
    };
    let ended = || container("a", 0, Exited, Running);
    assert_eq!(found(vec![remove("a0")], 600), Some(sentence));
    assert_eq!(found(vec![ended(), remove("a0")], 600), Some(sentence));
    assert_eq!(found(vec![ended(), remove("a0")], 0), None, "it may have just come back");
    let gone = Event::Unwanted("u".into());
    assert_eq!(found(vec![ended(), gone, remove("a0")], 600), None);
    let sandbox = |state| Event::Sandbox("s".into(), "u".into(), state);
    let remove = |rule| Event::RemovalRequested(Removed::Sandbox("s".into()), rule);
    let older = || remove("sandbox-older");
    assert_eq!(found(vec![sandbox(SandboxState::Ready), older()], 0), Some(sentence));
    assert_eq!(found(vec![sandbox(SandboxState::NotReady), older()], 600), None);
    let unobserved = || vec![sandbox(SandboxState::NotReady), remove("pod-is-gone")];
    assert_eq!(found(unobserved(), 600), Some(sentence), "a source was not read");
    assert_eq!(found(unobserved(), 0), None, "it may have just come back");
}

#[test]
fn finds_removal_of_a_kept_image() {
    let sentence = Some("no image is removed that is used, pinned or being pulled");
    let plain = || ImageRemoval { id: "i".to_owned(), ..ImageRemoval::default() };
    let rows = [
        (plain(), None),
        (ImageRemoval { users: vec!["c".into()], ..plain() }, sentence),
        (ImageRemoval { pinned: true, ..plain() }, sentence),
        (ImageRemoval { wanted: vec!["far:1".to_owned()], ..plain() }, sentence),
    ];
    for (removal, expected) in rows {
        let event = Event::ImageRemovalRequested(removal);
        assert_eq!(broken([event.clone()]), expected, "{event:?}");
    }
}

#[test]
fn finds_removal_of_logs_of_a_wanted_pod() {
    let late = 600;
    let rows = [
        // The time, the removed object, the rule, and whether the removal is allowed.
        (late, "default_p-node_u", "pod-is-gone", false),
        (late, "default_p-node_u", "per-container-cap", false),
        (late, "default_p-node_u/a/0.log", "pod-is-gone", false),
        (late, "default_p-node_u/a/0.log", "per-container-cap", true),
        (late, "default_p-node_u/a/0.log", "never-started", true),
        (late, "default_p-node_other", "pod-is-gone", true),
        // It may have just come back.
        (10, "default_p-node_u", "pod-is-gone", true),
    ];
    for (at, path, rule, expected) in rows {
        let mut invariant = logs::LogsStay::default();
        let mut read = |at, event| invariant.read(&Record { at: seconds(at), event });
        let id = format!("/var/log/pods/{path}");
        let removal =
            || Event::RemovalBegan(ObjectRef { kind: "log".to_owned(), id: id.clone() }, rule);
        read(0, wanted(Policy::Never)).unwrap();
        assert_eq!(read(at, removal()).is_ok(), expected, "{path} by {rule}");
        read(at, Event::Unwanted("u".into())).unwrap();
        read(at, removal()).unwrap();
    }
}
