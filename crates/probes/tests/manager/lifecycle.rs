//! Which probes run when, and what their results are.

use model::probe::ProbeKind;
use podspec::view;

use crate::harness::{Harness, pod, running, seconds, tcp};

#[tokio::test(start_paused = true)]
async fn readiness_is_probed_at_once_and_then_each_period() {
    let harness = Harness::start().await;
    let pod = pod("web", |main| main.readiness_probe = Some(tcp(80)));
    harness.port(80, true);
    harness.run(&pod, "a");
    assert_eq!(harness.results(&pod, "a").readiness, Some(false));
    seconds(0.05).await;
    assert_eq!((harness.calls(80), harness.results(&pod, "a").readiness), (1, Some(true)));
    assert_eq!(harness.changed().await, [view::uid(&pod)]);
    seconds(3.0).await;
    assert_eq!(harness.calls(80), 4);
    assert!(harness.changed().await.is_empty(), "an equal verdict changes nothing");
    harness.port(80, false);
    seconds(2.0).await;
    assert_eq!(harness.results(&pod, "a").readiness, Some(true), "two failures of three");
    seconds(1.0).await;
    assert_eq!(harness.results(&pod, "a").readiness, Some(false));
    assert_eq!(harness.changed().await, [view::uid(&pod)]);
}

// behaviour: PRB-13
#[tokio::test(start_paused = true)]
async fn container_that_is_not_ready_is_probed_again_when_its_status_changes() {
    let harness = Harness::start().await;
    let pod = pod("web", |main| {
        let period_seconds = Some(100);
        main.readiness_probe =
            Some(k8s_openapi::api::core::v1::Probe { period_seconds, ..tcp(80) });
    });
    harness.port(80, false);
    harness.run(&pod, "a");
    seconds(1.0).await;
    assert_eq!(harness.calls(80), 1);
    harness.port(80, true);
    harness.show(&pod, "a", true);
    seconds(0.05).await;
    assert_eq!((harness.calls(80), harness.results(&pod, "a").readiness), (2, Some(true)));
    harness.show(&pod, "a", true);
    seconds(1.0).await;
    assert_eq!(harness.calls(80), 2, "a container that is ready waits for its period");
}

#[tokio::test(start_paused = true)]
async fn other_probes_wait_for_the_startup_probe() {
    let harness = Harness::start().await;
    let pod = pod("web", |main| {
        main.startup_probe = Some(tcp(1));
        main.readiness_probe = Some(tcp(2));
        main.liveness_probe = Some(tcp(3));
    });
    for (port, passes) in [(1, false), (2, true), (3, true)] {
        harness.port(port, passes);
    }
    harness.manager.add_pod(&std::sync::Arc::new(pod.clone()));
    harness.show(&pod, "a", false);
    seconds(1.5).await;
    assert_eq!((harness.calls(1), harness.calls(2), harness.calls(3)), (2, 0, 0));
    harness.port(1, true);
    seconds(1.0).await;
    assert_eq!(harness.results(&pod, "a").startup, Some(true));
    harness.show(&pod, "a", true);
    seconds(1.5).await;
    assert_eq!(harness.calls(1), 3, "the startup probe is on hold");
    assert!(harness.calls(2) >= 2 && harness.calls(3) >= 1);
}

#[tokio::test(start_paused = true)]
async fn liveness_failure_is_reported_once_and_the_next_instance_is_probed() {
    let harness = Harness::start().await;
    let pod = pod("web", |main| main.liveness_probe = Some(tcp(80)));
    harness.port(80, false);
    harness.run(&pod, "a");
    seconds(2.5).await;
    assert_eq!(harness.results(&pod, "a").failure, None);
    seconds(1.0).await;
    let failure = harness.results(&pod, "a").failure.unwrap();
    assert_eq!((failure.kind, failure.failures), (ProbeKind::Liveness, 3));
    assert_eq!(failure.output, "dial tcp: refused");
    assert_eq!(harness.changed().await, [view::uid(&pod)]);
    let calls = harness.calls(80);
    seconds(10.0).await;
    assert_eq!(harness.calls(80), calls, "on hold until there is a new instance");
    harness.port(80, true);
    harness.show(&pod, "b", true);
    seconds(1.5).await;
    assert_eq!(harness.results(&pod, "b").failure, None);
    assert_eq!(harness.calls(80), calls + 1);
}

#[tokio::test(start_paused = true)]
async fn next_instance_waits_for_its_own_delay() {
    let harness = Harness::start().await;
    let pod = pod("web", |main| {
        let initial_delay_seconds = Some(20);
        main.liveness_probe =
            Some(k8s_openapi::api::core::v1::Probe { initial_delay_seconds, ..tcp(80) });
    });
    harness.port(80, true);
    harness.run(&pod, "a");
    seconds(25.0).await;
    let calls = harness.calls(80);
    assert!(calls >= 4, "{calls}");
    // No status without an instance comes between them.
    harness.show(&pod, "b", true);
    seconds(19.0).await;
    assert_eq!(harness.calls(80), calls);
    seconds(2.0).await;
    assert!(harness.calls(80) > calls);
}

// behaviour: PRB-14
#[tokio::test(start_paused = true)]
async fn readiness_probes_continue_while_a_pod_terminates() {
    let harness = Harness::start().await;
    let mut pod = pod("web", |main| {
        main.readiness_probe = Some(tcp(2));
        main.liveness_probe = Some(tcp(3));
    });
    let sidecar = k8s_openapi::api::core::v1::Container {
        name: "proxy".to_owned(),
        restart_policy: Some("Always".to_owned()),
        liveness_probe: Some(tcp(4)),
        ..k8s_openapi::api::core::v1::Container::default()
    };
    pod.spec.as_mut().unwrap().init_containers = Some(vec![sidecar]);
    for port in 2..5 {
        harness.port(port, true);
    }
    harness.manager.add_pod(&std::sync::Arc::new(pod.clone()));
    let since = jiff::Timestamp::UNIX_EPOCH;
    harness
        .publish(&pod, vec![running("main", "a", since, true), running("proxy", "b", since, true)]);
    seconds(2.5).await;
    harness.manager.stop_liveness_and_startup(&view::uid(&pod));
    let before = [2, 3, 4].map(|port| harness.calls(port));
    seconds(3.0).await;
    let after = [2, 3, 4].map(|port| harness.calls(port));
    assert_eq!(after, [before[0] + 3, before[1], before[2] + 3], "sidecars keep theirs");
    assert!(harness.metrics().contains("probe_type=\"Readiness\",result=\"successful\""));
    harness.manager.remove_pod(&view::uid(&pod));
    seconds(3.0).await;
    assert_eq!([2, 3, 4].map(|port| harness.calls(port)), after);
    assert!(!harness.metrics().contains("default"), "{}", harness.metrics());
}

#[tokio::test(start_paused = true)]
async fn pod_without_address_is_not_probed_until_it_has_one() {
    let harness = Harness::start().await;
    let pod = pod("web", |main| main.readiness_probe = Some(tcp(80)));
    harness.port(80, true);
    harness.manager.add_pod(&std::sync::Arc::new(pod.clone()));
    let status = k8s_openapi::api::core::v1::PodStatus {
        container_statuses: Some(vec![running("main", "a", jiff::Timestamp::UNIX_EPOCH, true)]),
        ..k8s_openapi::api::core::v1::PodStatus::default()
    };
    harness.manager.observe(&view::uid(&pod), &std::sync::Arc::new(status));
    seconds(5.0).await;
    assert_eq!(harness.events.all(), []);
    harness.show(&pod, "a", true);
    seconds(1.0).await;
    assert_eq!(harness.results(&pod, "a").readiness, Some(true));
}
