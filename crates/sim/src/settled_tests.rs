use model::observed::ContainerState::{Created, Exited, Running, Unknown};

use super::*;
use crate::plan::{Action, Extras, Program, RestartRule};

const IMAGE: &str = "ferrolet.test/workload:1";

pub(crate) fn container(name: &'static str) -> ContainerPlan {
    let extras = Extras::default();
    ContainerPlan { name, image: IMAGE, program: Program::Forever, sidecar: false, extras }
}

pub(crate) fn pod(policy: Policy) -> PodPlan {
    PodPlan {
        name: "p".to_owned(),
        revision: 0,
        keeps_uid: false,
        policy,
        grace: 30,
        deadline: None,
        on_page: false,
        host_network: false,
        restarts_for_memory: false,
        init: Vec::new(),
        containers: vec![container("a"), container("b")],
    }
}

pub(crate) fn instance(name: &str, attempt: u32, state: ContainerState) -> Instance {
    Instance {
        id: format!("{name}{attempt}").into(),
        sandbox: "s".into(),
        uid: "u".into(),
        name: name.into(),
        attempt,
        definition: definition_hash_hex(name, IMAGE),
        state: Some(state),
        exit_code: 0,
        created: Duration::from_secs(1000),
        started: Some(Duration::from_secs(1000)),
        finished: (state == Exited).then_some(Duration::from_secs(1000)),
    }
}

pub(crate) fn snapshot(containers: Vec<Instance>, ready: &[bool]) -> Snapshot {
    let sandbox = |(number, ready): (usize, &bool)| SandboxSeen {
        id: if number == 0 { "s".into() } else { format!("s{number}").into() },
        uid: "u".into(),
        made: Duration::ZERO,
        age: SignedDuration::from_secs(1001),
        ready: *ready,
    };
    let sandboxes = ready.iter().enumerate().map(sandbox).collect();
    let at = Duration::from_secs(1001);
    let sandboxes: Vec<SandboxSeen> = sandboxes;
    let is_there = !containers.is_empty() || !sandboxes.is_empty();
    let cgroups = is_there.then(|| "u".into()).into_iter().collect();
    Snapshot { at, containers, sandboxes, cgroups, ..Snapshot::default() }
}

fn problem(snapshot: &Snapshot, pod: PodPlan) -> Option<String> {
    unsettled(snapshot, &Wanted::from([("u".into(), Arc::new(pod))]))
}

#[test]
fn pod_is_settled_when_all_containers_run_wait_or_ended_for_good() {
    let both = |state| vec![instance("a", 0, state), instance("b", 0, state)];
    let stale = Instance { finished: Some(Duration::ZERO), ..instance("b", 0, Exited) };
    let other = Instance { definition: "x".to_owned(), ..instance("b", 0, Running) };
    let rows = [
        ("runs", both(Running), vec![true], Policy::Always, true),
        (
            "has run before",
            [both(Running), vec![instance("a", 1, Running)]].concat(),
            vec![true],
            Policy::Always,
            true,
        ),
        ("waits", both(Exited), vec![true], Policy::Always, true),
        ("has finished", both(Exited), vec![false], Policy::Never, true),
        (
            "one ended",
            vec![instance("a", 0, Exited), instance("b", 0, Running)],
            vec![true],
            Policy::Never,
            true,
        ),
        ("has finished and lives", both(Exited), vec![true], Policy::Never, false),
        ("not started", both(Created), vec![true], Policy::Always, false),
        ("one never ran", vec![instance("a", 0, Running)], vec![true], Policy::Always, false),
        ("forgotten", vec![instance("a", 0, Running), stale], vec![true], Policy::Always, false),
        (
            "old definition",
            vec![instance("a", 0, Running), other],
            vec![true],
            Policy::Always,
            false,
        ),
        (
            "never gets another sandbox",
            vec![instance("a", 0, Exited)],
            vec![false],
            Policy::Never,
            true,
        ),
        ("lives without a sandbox", both(Running), vec![false], Policy::Never, false),
        ("no sandbox", both(Running), vec![false], Policy::Always, false),
        ("two sandboxes", both(Running), vec![true, true], Policy::Always, false),
    ];
    for (name, containers, ready, policy, settled) in rows {
        let found = problem(&snapshot(containers, &ready), pod(policy));
        assert_eq!(found.is_none(), settled, "{name}: {found:?}");
    }
}

#[test]
fn ended_pod_stays_until_the_grace_of_its_sidecars() {
    let sidecar = || ContainerPlan { sidecar: true, ..container("i") };
    let finished = (
        PodPlan { init: vec![sidecar()], ..pod(Policy::Never) },
        vec![instance("a", 0, Exited), instance("b", 0, Exited)],
        "p (u): has finished and lives",
    );
    let failed = (
        PodPlan { init: vec![sidecar(), container("j")], ..pod(Policy::Never) },
        vec![Instance { exit_code: 1, ..instance("j", 0, Exited) }],
        "p (u): its init containers failed and the pod lives",
    );
    let rows = [
        ("not stopped", Running, None, false),
        ("another was stopped", Running, Some(("x0", 1060)), false),
        ("it has its grace", Running, Some(("i0", 1060)), true),
        ("its grace is over", Running, Some(("i0", 1000)), false),
        ("only its sandbox lives", Exited, Some(("i0", 1060)), false),
    ];
    for (plan, ended, wrong) in [finished, failed] {
        for (name, state, stopping, settled) in rows {
            let containers = [ended.clone(), vec![instance("i", 0, state)]].concat();
            let mut seen = snapshot(containers, &[true]);
            let stopping =
                stopping.map(|(id, until)| (ContainerId::from(id), Duration::from_secs(until)));
            seen.ending = stopping.into_iter().collect();
            let found = problem(&seen, plan.clone());
            assert_eq!(found.as_deref(), (!settled).then_some(wrong), "{name}");
        }
    }
}

#[test]
fn sidecars_stay_stopped_when_an_init_container_failed_for_good() {
    let sidecar = ContainerPlan { sidecar: true, ..container("i") };
    let mut failing = container("j");
    let rule = RestartRule { policy: Policy::Never, action: Action::Restart(137) };
    failing.extras.rule = Some(rule);
    let plan = PodPlan { init: vec![sidecar, failing], ..pod(Policy::OnFailure) };
    let old = |name| Instance { finished: Some(Duration::ZERO), ..instance(name, 0, Exited) };
    let ended = |code| vec![old("i"), Instance { exit_code: code, ..old("j") }];
    assert_eq!(problem(&snapshot(ended(1), &[false]), plan.clone()), None);
    assert!(
        problem(&snapshot(ended(137), &[false]), plan.clone()).is_some(),
        "it is started again"
    );
    assert!(problem(&snapshot(ended(1), &[true]), plan).is_some(), "it lives");
}

#[test]
fn sidecars_run_as_long_as_regular_containers() {
    let sidecar = ContainerPlan { sidecar: true, ..container("i") };
    let plan = |policy| PodPlan { init: vec![sidecar.clone()], ..pod(policy) };
    let old = |one: Instance| Instance { finished: Some(Duration::ZERO), ..one };
    let ended = || vec![instance("i", 0, Exited)];
    let long_ago = || vec![old(instance("i", 0, Exited))];
    let changed = Instance { definition: "x".to_owned(), ..instance("i", 0, Running) };
    let elsewhere = Instance { sandbox: "old".into(), ..instance("i", 0, Running) };
    let unknown = "p (u): i is Some(Unknown)";
    let rows = [
        (vec![instance("i", 0, Running)], Running, None),
        (ended(), Running, None),
        (long_ago(), Running, Some("p (u): i ended 1001s ago and was not started again")),
        (long_ago(), Exited, None),
        (vec![], Running, Some("p (u): i has not run")),
        (vec![instance("i", 0, Unknown)], Running, Some(unknown)),
        (vec![instance("i", 0, Created)], Running, Some("p (u): i is Some(Created)")),
        (vec![changed], Running, Some("p (u): i runs with another definition")),
        (vec![elsewhere], Running, Some("p (u): i is not in the newest sandbox")),
    ];
    for (sidecars, state, expected) in rows {
        // One of the others has ended for good.
        let others = vec![instance("a", 0, Exited), instance("b", 0, state)];
        let containers = [sidecars, others].concat();
        let seen = snapshot(containers, &[state == Running]);
        let found = problem(&seen, plan(Policy::OnFailure));
        assert_eq!(found.as_deref(), expected, "{seen:?}");
    }
    // The others wait.
    let others = vec![instance("a", 0, Exited), instance("b", 0, Exited)];
    let waiting = snapshot([long_ago(), others].concat(), &[true]);
    assert!(problem(&waiting, plan(Policy::Always)).is_some());
    // A cap removed its instances.
    let others = vec![instance("a", 0, Running), instance("b", 0, Running)];
    let mut taken = snapshot(others, &[true]);
    taken.capped = [("u".into(), "i".into())].into();
    assert_eq!(problem(&taken, plan(Policy::Always)), None);
}

#[test]
fn container_does_not_wait_longer_than_its_back_off() {
    let mut seen = snapshot(vec![instance("a", 0, Running), instance("b", 0, Exited)], &[true]);
    seen.start_by.insert("b0".into(), seen.at);
    assert_eq!(problem(&seen, pod(Policy::Always)), None);
    seen.at += Duration::from_secs(1);
    let expected = "p (u): b ended 2s ago and was not started again";
    assert_eq!(problem(&seen, pod(Policy::Always)).as_deref(), Some(expected));
    assert_eq!(problem(&seen, pod(Policy::OnFailure)), None, "it has ended for good");
}

#[test]
fn containers_end_within_their_grace_when_the_whole_pod_restarts() {
    let both = vec![instance("a", 1, Running), instance("b", 0, Running)];
    let mut seen = snapshot(both, &[true]);
    assert_eq!(problem(&seen, pod(Policy::Always)), None);
    seen.due.insert("b0".into(), "a0".into());
    let expected = "p (u): b0 lives, although a0 restarts the whole pod";
    assert_eq!(problem(&seen, pod(Policy::Always)).as_deref(), Some(expected));
    seen.ending.insert("b0".into(), seen.at);
    assert_eq!(problem(&seen, pod(Policy::Always)), None);
}

#[test]
fn orphaned_pod_leaves_nothing() {
    assert_eq!(unsettled(&snapshot(vec![], &[]), &Wanted::new()), None);
    let dead = snapshot(vec![instance("a", 0, Exited)], &[false]);
    assert!(unsettled(&dead, &Wanted::new()).is_some());
    let live = snapshot(vec![instance("a", 0, Running)], &[false]);
    assert!(unsettled(&live, &Wanted::new()).is_some());
    assert!(unsettled(&snapshot(vec![], &[true]), &Wanted::new()).is_some());
}

#[test]
fn pod_has_ended_some_time_after_its_deadline() {
    let live = snapshot(vec![instance("a", 0, Running)], &[true]);
    let until = |deadline| PodPlan { deadline: Some(deadline), ..pod(Policy::Always) };
    assert_eq!(problem(&live, until(900)), None, "its deadline has passed, and it is about to end");
    assert!(problem(&live, until(100)).is_some());
    let mut ending = live;
    ending.ending.insert(ending.containers[0].id.clone(), ending.at);
    assert_eq!(problem(&ending, until(100)), None, "it was blocked, and has its grace now");
}

#[test]
fn pod_runs_until_its_deadline() {
    let until = |deadline| PodPlan { deadline: Some(deadline), ..pod(Policy::Always) };
    let all = vec![instance("a", 0, Running), instance("b", 0, Running)];
    assert_eq!(problem(&snapshot(all.clone(), &[true]), until(1100)), None);
    let lazy = [vec![], vec![instance("a", 0, Running)], vec![instance("a", 0, Created)]];
    for containers in lazy {
        let mut seen = snapshot(containers, &[true]);
        assert!(problem(&seen, until(1100)).is_some(), "{seen:?}");
        // Its first sandbox is removed, or the clock was set back: its deadline may have passed.
        seen.longest.insert("u".into(), SignedDuration::from_secs(1100));
        assert_eq!(problem(&seen, until(1100)), None);
    }
    assert!(problem(&snapshot(all, &[false]), until(1100)).is_some(), "it has lost its sandbox");
}

#[test]
fn pod_with_late_removals_may_have_finished_or_run() {
    let mut gone = snapshot(vec![], &[false]);
    assert!(problem(&gone, pod(Policy::Never)).is_some(), "it has not run");
    gone.late_removals.insert("u".into());
    assert_eq!(problem(&gone, pod(Policy::Never)), None);
    assert!(problem(&gone, pod(Policy::Always)).is_some(), "it never finishes");
    let lasting = || {
        let mut pod = pod(Policy::Never);
        let (policy, action) = (Policy::Always, Action::RestartAll);
        pod.containers[0].extras.rule = Some(RestartRule { policy, action });
        pod
    };
    assert_eq!(problem(&gone, lasting()), None, "it gets no other sandbox");
    assert!(
        problem(&snapshot(vec![], &[false]), lasting()).is_some(),
        "its objects were not removed"
    );
    let mut live = snapshot(vec![instance("a", 0, Running)], &[true]);
    live.late_removals.insert("u".into());
    assert!(problem(&live, pod(Policy::Never)).is_some(), "it runs partly");
}

#[test]
fn pod_without_sandbox_stays_so_when_caps_removed_its_containers() {
    let mut gone = snapshot(vec![], &[false]);
    assert!(problem(&gone, pod(Policy::Never)).is_some(), "it has not run");
    gone.capped = [("u".into(), "a".into()), ("u".into(), "b".into())].into();
    assert_eq!(problem(&gone, pod(Policy::Never)), None);
    assert!(problem(&gone, pod(Policy::Always)).is_some(), "it gets another");
    gone.sandboxes[0].ready = true;
    assert_eq!(problem(&gone, pod(Policy::Never)), None, "it has another");
    gone.capped = [("other".into(), "a".into())].into();
    assert!(problem(&gone, pod(Policy::Never)).is_some(), "none of its objects was removed");
}

#[test]
fn clock_step_moves_the_deadline() {
    let until = PodPlan { deadline: Some(100), ..pod(Policy::Always) };
    let all = vec![instance("a", 0, Running), instance("b", 0, Running)];
    let mut live = snapshot(all, &[true]);
    assert!(problem(&live, until.clone()).is_some());
    live.sandboxes[0].age = SignedDuration::from_secs(-3600);
    assert_eq!(problem(&live, until), None);
}

#[test]
fn init_containers_may_fail_again_in_a_new_sandbox() {
    let pod = PodPlan { init: vec![container("i")], ..pod(Policy::Always) };
    let old = |name| Instance { finished: Some(Duration::ZERO), ..instance(name, 0, Exited) };
    let failed = Instance { sandbox: "s1".into(), exit_code: 1, ..instance("i", 1, Exited) };
    let containers = || vec![old("a"), old("b"), failed.clone()];
    let mut seen = snapshot(containers(), &[false, true]);
    seen.sandboxes[1].made = Duration::from_mins(15);
    assert_eq!(problem(&seen, pod.clone()), None);
    seen.sandboxes[1].ready = false;
    assert!(problem(&seen, pod.clone()).is_some(), "it waits without a sandbox");
    let finished = PodPlan { policy: Policy::OnFailure, ..pod.clone() };
    assert_eq!(problem(&seen, finished), None, "nothing is left to run");
    let same = snapshot(containers(), &[true]);
    assert!(problem(&same, pod).is_some(), "a and b have run, and ended long ago");
}

#[test]
fn init_containers_removed_by_a_cap_may_fail_the_next_time() {
    let pod = || PodPlan { init: vec![container("i")], ..pod(Policy::Always) };
    let long_ago = |name| Instance { finished: Some(Duration::ZERO), ..instance(name, 0, Exited) };
    let failed = |created| Instance { created, exit_code: 1, ..instance("i", 0, Exited) };
    let later = long_ago("a").created + Duration::from_secs(1);
    let all = |init: Option<Instance>, a: Instance| {
        snapshot([a, long_ago("b")].into_iter().chain(init).collect(), &[true])
    };
    assert_eq!(problem(&all(Some(failed(later)), long_ago("a")), pod()), None);
    let before = all(Some(failed(long_ago("a").created)), long_ago("a"));
    assert!(problem(&before, pod()).is_some(), "the others came after it");
    let mut taken = all(None, long_ago("a"));
    assert!(problem(&taken, pod()).is_some());
    taken.capped = [("u".into(), "i".into())].into();
    assert_eq!(problem(&taken, pod()), None);
    let lost = all(Some(failed(later)), instance("a", 0, Unknown));
    assert!(problem(&lost, pod()).is_some(), "it may still run");
}

#[test]
fn init_container_has_run_when_a_later_one_is_in_the_sandbox() {
    let failed = |sandbox: &str| Instance {
        sandbox: sandbox.into(),
        exit_code: 1,
        ..instance("j", 0, Exited)
    };
    let late = || instance("i", 1, Created);
    let rows = [
        (false, vec![failed("s")], None),
        (false, vec![failed("s"), late()], None),
        (false, vec![late()], Some("p (u): i is Some(Created)")),
        (true, vec![failed("s"), late()], Some("p (u): i is Some(Created)")),
        (false, vec![], Some("p (u): i has not run")),
        (false, vec![failed("old")], Some("p (u): i has not run")),
        (true, vec![failed("s")], Some("p (u): i has not run")),
    ];
    for (sidecar, containers, expected) in rows {
        let first = ContainerPlan { sidecar, ..container("i") };
        let pod = PodPlan { init: vec![first, container("j")], ..pod(Policy::OnFailure) };
        let found = problem(&snapshot(containers.clone(), &[true]), pod);
        assert_eq!(found.as_deref(), expected, "{sidecar} {containers:?}");
    }
}

#[test]
fn pod_has_its_cgroup_and_containers_have_their_resources() {
    let running = || snapshot(vec![instance("a", 0, Running), instance("b", 0, Running)], &[true]);
    let wants = |keeps_uid| PodPlan { keeps_uid, revision: 2, ..pod(Policy::Always) };
    let mut astray = running();
    astray.cgroups.clear();
    assert_eq!(problem(&astray, wants(true)).as_deref(), Some("u lives and has no cgroup"));
    let mut left = snapshot(vec![], &[]);
    left.cgroups.insert("u".into());
    let found = unsettled(&left, &Wanted::new());
    assert_eq!(found.as_deref(), Some("u has left its cgroup and is not wanted"));
    for (shares, keeps_uid, settled) in [(122, true, true), (102, true, false), (2, false, true)] {
        let mut seen = running();
        seen.shares = [("a0".into(), shares), ("b0".into(), shares)].into();
        assert_eq!(problem(&seen, wants(keeps_uid)).is_none(), settled, "{shares}");
    }
    for (mebibytes, keeps_uid, settled) in [(160, true, true), (128, true, false), (0, false, true)]
    {
        let mut seen = running();
        seen.memory = [("a0".into(), mebibytes * MEBIBYTE)].into();
        assert_eq!(problem(&seen, wants(keeps_uid)).is_none(), settled, "{mebibytes}");
    }
}

#[test]
fn container_restart_rule_overrides_the_pod_policy() {
    let ruled = |policy, rule| {
        let mut pod = pod(policy);
        for container in &mut pod.containers {
            container.extras.rule = Some(rule);
        }
        pod
    };
    let rule = |policy, action| RestartRule { policy, action };
    let ended = |code| {
        let failed = |name| Instance { exit_code: code, ..instance(name, 0, Exited) };
        vec![failed("a"), failed("b")]
    };
    let again = rule(Policy::Never, Action::Restart(3));
    let finished = |code, sandbox: bool, plan| problem(&snapshot(ended(code), &[sandbox]), plan);
    assert_eq!(finished(3, true, ruled(Policy::Always, again)), None, "they wait");
    assert!(finished(1, true, ruled(Policy::Always, again)).is_some(), "it has finished and lives");
    assert_eq!(finished(1, false, ruled(Policy::Always, again)), None, "it has finished");
    let always = rule(Policy::Always, Action::RestartAll);
    assert_eq!(finished(0, true, ruled(Policy::OnFailure, always)), None, "they wait");
}
