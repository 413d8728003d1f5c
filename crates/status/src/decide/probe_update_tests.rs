use k8s_openapi::api::core::v1::Probe;
use model::ids::ContainerId;
use model::observed::ContainerState::Running;
use model::probe::InstanceProbes;

use super::*;
use crate::decide::test_pods::{Harness, NOW, at, find, instance, pod, sidecar, time, with_init};

fn probes(id: &str, startup: Option<bool>, readiness: Option<bool>) -> PodProbes {
    let instance = InstanceProbes { startup, readiness, failure: None };
    PodProbes { instances: [(ContainerId::from(id), instance)].into(), ..PodProbes::default() }
}

/// A pod with a running container and these probes.
fn harness(startup: bool, readiness: bool) -> Harness {
    let mut pod = pod("Always", &["main"]);
    let container = &mut pod.spec.as_mut().unwrap().containers[0];
    container.startup_probe = startup.then(Probe::default);
    container.readiness_probe = readiness.then(Probe::default);
    Harness::new(pod, vec![instance("main-0", Running, 0)])
}

/// `started` and `ready` of the container.
fn shown(status: &PodStatus) -> (Option<bool>, bool) {
    let container = &status.container_statuses.as_ref().unwrap()[0];
    (container.started, container.ready)
}

// behaviour: PRB-8
#[test]
fn started_and_ready_follow_the_probes() {
    // Startup probe, readiness probe, their results, started and ready.
    let rows = [
        (false, false, None, None, (true, true)),
        (false, true, None, None, (true, false)),
        (false, true, None, Some(false), (true, false)),
        (false, true, None, Some(true), (true, true)),
        (true, false, None, None, (false, false)),
        (true, false, Some(false), None, (false, false)),
        (true, false, Some(true), None, (true, true)),
        (true, true, Some(true), None, (true, false)),
        (true, true, Some(true), Some(true), (true, true)),
        (true, true, None, Some(true), (false, false)),
    ];
    for (has_startup, has_readiness, startup, readiness, (started, ready)) in rows {
        let mut harness = harness(has_startup, has_readiness);
        harness.probes = probes("main-0", startup, readiness);
        let row = (has_startup, has_readiness, startup, readiness);
        assert_eq!(shown(&harness.status()), (Some(started), ready), "{row:?}");
        let earlier = probes("main-earlier", Some(true), Some(true));
        harness.probes = earlier;
        let expected = (Some(!has_startup), !has_startup && !has_readiness);
        assert_eq!(shown(&harness.status()), expected, "results of another instance do not count");
    }
}

#[test]
fn instance_without_result_keeps_what_was_published_before_a_restart() {
    let mut before = harness(true, true);
    before.probes = probes("main-0", Some(true), Some(true));
    let published = before.status();
    let mut after = harness(true, true).with_previous(published);
    assert_eq!(shown(&after.status()), (Some(true), true));
    after.probes.resets_before = Some(at(NOW));
    assert_eq!(shown(&after.status()), (Some(false), false));
    after.probes.resets_before = None;
    after.observed.containers = vec![instance("main-1", Running, 0)];
    assert_eq!(shown(&after.status()), (Some(false), false), "a new instance has no results yet");
}

#[test]
fn container_that_does_not_run_is_neither_started_nor_ready() {
    let mut harness = harness(true, true);
    harness.probes = probes("main-0", Some(true), Some(true));
    harness.observed.containers =
        vec![instance("main-0", model::observed::ContainerState::Exited, 0)];
    assert_eq!(shown(&harness.status()), (Some(false), false));
}

#[test]
fn probe_result_changes_only_readiness() {
    let mut before = harness(false, true);
    before.probes = probes("main-0", None, Some(false));
    let status = before.status();
    assert_eq!(find(&status, "Ready").unwrap().status, "False");
    let ready = with_probes(&before.pod, &status, &probes("main-0", None, Some(true)), at(NOW + 5));
    assert_eq!(shown(&ready), (Some(true), true));
    for type_ in ["Ready", "ContainersReady"] {
        let condition = find(&ready, type_).unwrap();
        assert_eq!((condition.status.as_str(), condition.reason.as_deref()), ("True", None));
        assert_eq!(condition.last_transition_time, Some(time(NOW + 5)));
    }
    let scheduled = |status: &PodStatus| find(status, "PodScheduled").cloned();
    assert_eq!(scheduled(&ready), scheduled(&status));
    before.probes = probes("main-0", None, Some(true));
    before.now = at(NOW + 5);
    let observed = before.with_previous(ready.clone()).status();
    assert_eq!(observed, ready, "the next observation yields the same status");
    let same = with_probes(
        &harness(false, true).pod,
        &ready,
        &probes("main-0", None, Some(true)),
        at(NOW + 9),
    );
    assert_eq!(same, ready);
}

#[test]
fn sidecar_has_the_rules_of_regular_containers() {
    let mut harness = Harness::new(
        with_init(pod("Always", &["main"]), vec![sidecar("proxy")]),
        vec![instance("proxy-0", Running, 0)],
    );
    let spec = harness.pod.spec.as_mut().unwrap();
    spec.init_containers.as_mut().unwrap()[0].startup_probe = Some(Probe::default());
    let started = |status: &PodStatus| status.init_container_statuses.as_ref().unwrap()[0].started;
    let status = harness.status();
    assert_eq!(started(&status), Some(false));
    let passed = probes("proxy-0", Some(true), None);
    assert_eq!(started(&with_probes(&harness.pod, &status, &passed, at(NOW))), Some(true));
}
