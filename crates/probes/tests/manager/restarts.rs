//! Restarts of the agent.

use k8s_openapi::api::core::v1::ContainerStatus;
use podspec::view;

use crate::harness::{Harness, pod, running, seconds, tcp};

#[tokio::test(start_paused = true)]
async fn results_and_run_lengths_survive_a_kill() {
    let harness = Harness::start().await;
    let pod = pod("web", |main| {
        main.readiness_probe = Some(tcp(80));
        main.liveness_probe = Some(tcp(81));
    });
    harness.port(80, true);
    harness.port(81, true);
    harness.run(&pod, "a");
    let since = jiff::Timestamp::from_second(1_767_225_600).unwrap();
    seconds(3.5).await;
    harness.port(81, false);
    seconds(2.5).await;
    let next = harness.killed().await;
    next.manager.add_pod(&std::sync::Arc::new(pod.clone()));
    let ready = true;
    next.publish(&pod, vec![ContainerStatus { ready, ..running("main", "a", since, true) }]);
    assert_eq!(next.results(&pod, "a").readiness, Some(true));
    let (before, calls) = (next.results(&pod, "a").failure, next.calls(81));
    assert_eq!(before, None, "two failures of three");
    seconds(0.4).await;
    assert_eq!(next.calls(81), calls, "probes after a restart are spread over their period");
    seconds(0.2).await;
    assert!(next.results(&pod, "a").failure.is_some(), "the third failure in a row");
    assert_eq!(next.results(&pod, "a").readiness, Some(true));
}

// behaviour: PRB-17
#[tokio::test(start_paused = true)]
async fn results_are_written_at_most_once_a_second_and_only_when_they_change() {
    let mut harness = Harness::start().await;
    let pods: Vec<_> = (0..50)
        .map(|number| {
            let pod = pod(&format!("web-{number}"), |main| main.readiness_probe = Some(tcp(80)));
            harness.run(&pod, "a");
            pod
        })
        .collect();
    harness.port(80, true);
    seconds(5.0).await;
    let settled = harness.files.content("/state/probes").unwrap();
    harness.files.write("/state/probes", "not written again");
    seconds(60.0).await;
    assert_eq!(harness.files.content("/state/probes").unwrap(), b"not written again");
    harness.manager.remove_pod(&view::uid(&pods[0]));
    harness.stop().await;
    let last = harness.files.content("/state/probes").unwrap();
    assert!(last.len() < settled.len() && last.len() > settled.len() / 2);
}

#[tokio::test(start_paused = true)]
async fn damaged_results_are_ignored() {
    let harness = Harness::start().await;
    harness.files.write("/state/probes", "{}\nno");
    let next = harness.killed().await;
    let pod = pod("web", |main| main.readiness_probe = Some(tcp(80)));
    next.port(80, true);
    next.run(&pod, "a");
    seconds(0.1).await;
    assert_eq!(next.results(&pod, "a").readiness, Some(true));
}

#[tokio::test(start_paused = true)]
async fn results_of_pods_that_are_gone_are_dropped() {
    let harness = Harness::start().await;
    let pod = pod("web", |main| main.liveness_probe = Some(tcp(80)));
    harness.port(80, false);
    harness.run(&pod, "a");
    seconds(5.0).await;
    assert!(harness.results(&pod, "a").failure.is_some());
    let next = harness.killed().await;
    next.manager.retain(|_| false);
    let since = jiff::Timestamp::from_second(1_767_225_600).expect("a time");
    next.manager.add_pod(&std::sync::Arc::new(pod.clone()));
    next.publish(&pod, vec![running("main", "a", since, true)]);
    assert_eq!(next.results(&pod, "a").failure, None, "its failures were dropped");
}
