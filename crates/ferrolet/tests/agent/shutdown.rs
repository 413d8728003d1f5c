//! Shutdowns of the machine.

use std::time::Duration;

use ::shutdown::decide::Phases;
use k8s_openapi::api::core::v1::{NodeCondition, Pod};
use testkit::cluster::MemoryPods;
use testkit::cluster::node_api::MemoryNodeApi;
use testkit::pods::pod;
use tokio::time::{Instant, sleep};

use crate::cluster::{ready, running, status};
use crate::harness::Harness;
use crate::incidents::incidents;

const IMAGE: &str = "ferrolet.test/workload:1";

/// A node where a shutdown waits 20 s for regular pods and 10 s for critical ones.
fn harness() -> (Harness, MemoryPods) {
    let (mut harness, api) = Harness::in_cluster();
    harness.own_node = Some(MemoryNodeApi::default());
    harness.login.configure(Duration::from_secs(30));
    harness.shutdown = Phases::of_two(Duration::from_secs(30), Duration::from_secs(10));
    (harness, api)
}

/// A pod that ignores `SIGTERM`.
fn stubborn(name: &str, priority: i32, grace: i64) -> Pod {
    let pod = pod(name).on_node("node").restart_policy("Always").grace(grace);
    let mut pod = pod.container("main", IMAGE, ["ignore", "TERM"]).build();
    pod.spec.as_mut().expect("a specification").priority = Some(priority);
    pod
}

/// The condition `Ready` of the node.
fn node_ready(harness: &Harness) -> Option<NodeCondition> {
    let node = harness.own_node.as_ref()?.node("node")?;
    node.status?.conditions?.into_iter().find(|one| one.type_ == "Ready")
}

async fn node_is(harness: &Harness, wanted: &str) -> NodeCondition {
    let ready = |harness: &Harness| node_ready(harness).filter(|one| one.status == wanted);
    harness.until(&format!("the node is ready: {wanted}"), ready).await
}

async fn delayed(harness: &Harness) {
    let locked = |harness: &Harness| (harness.login.locks().0 == 1).then_some(());
    harness.until("shutdowns are delayed", locked).await;
}

/// Phase, reason and message of a pod on the API server.
fn end(api: &MemoryPods, name: &str) -> [String; 3] {
    let status = status(api, name).unwrap_or_default();
    [status.phase, status.reason, status.message].map(Option::unwrap_or_default)
}

// behaviour: SHD-2, SHD-6, SHD-8, SHD-12
#[tokio::test(start_paused = true)]
async fn shutdown_terminates_pods_by_priority_and_reports_them_before_it_goes_on() {
    let (harness, api) = harness();
    api.make(stubborn("web", 0, 5));
    api.make(stubborn("dns", 2_000_000_000, 3));
    let _agent = harness.start();
    ready(&harness, &api, "web").await;
    ready(&harness, &api, "dns").await;
    node_is(&harness, "True").await;
    delayed(&harness).await;

    let begin = Instant::now();
    harness.login.prepare(true);
    let condition = node_is(&harness, "False").await;
    assert_eq!(condition.message.as_deref(), Some("node is shutting down"));
    assert!(begin.elapsed() < Duration::from_secs(1), "at once");
    api.make(stubborn("late", 0, 5));
    harness.until("web ended", |harness| running(harness, "web").is_none().then_some(())).await;
    assert!(running(&harness, "dns").is_some(), "its phase is later");
    harness.login.unlocked().await;
    let took = begin.elapsed();
    assert!(took >= Duration::from_secs(8) && took < Duration::from_secs(12), "{took:?}");
    let message = "Pod was terminated in response to imminent node shutdown.";
    for name in ["web", "dns"] {
        assert_eq!(end(&api, name), ["Failed", "Terminated", message], "{name}");
        let conditions = status(&api, name).and_then(|status| status.conditions);
        let disruption = conditions.iter().flatten().find(|one| one.type_ == "DisruptionTarget");
        let disruption = disruption.map(|one| (one.status.as_str(), one.reason.as_deref()));
        assert_eq!(disruption, Some(("True", Some("TerminationByKubelet"))), "{name}");
    }
    let rejected = "Pod was rejected: Pod was rejected as the node is shutting down.";
    assert_eq!(end(&api, "late"), ["Failed", "NodeShutdown", rejected]);
    let reasons = harness.node_events.all();
    assert!(reasons.iter().any(|event| event.reason == "Shutdown"), "{reasons:?}");
}

// behaviour: SHD-8
#[tokio::test(start_paused = true)]
async fn shutdown_waits_briefly_for_statuses_when_the_api_server_is_away() {
    let (harness, api) = harness();
    api.make(stubborn("web", 0, 5));
    api.make(stubborn("dns", 2_000_000_000, 3));
    let _agent = harness.start();
    ready(&harness, &api, "web").await;
    ready(&harness, &api, "dns").await;
    delayed(&harness).await;
    let begin = Instant::now();
    api.away(true);
    harness.login.prepare(true);
    harness.login.unlocked().await;
    // Without a limit both phases take all of their 30 s.
    let took = begin.elapsed();
    assert!(took >= Duration::from_secs(18) && took < Duration::from_secs(24), "{took:?}");
}

// behaviour: SHD-10
#[tokio::test(start_paused = true)]
async fn agent_that_starts_during_a_shutdown_terminates_the_pods_that_are_left() {
    let (harness, api) = harness();
    api.make(stubborn("web", 0, 30));
    api.make(stubborn("dns", 2_000_000_000, 3));
    let agent = harness.start();
    ready(&harness, &api, "web").await;
    ready(&harness, &api, "dns").await;
    delayed(&harness).await;
    let begin = Instant::now();
    harness.login.prepare(true);
    sleep(Duration::from_secs(2)).await;
    agent.stop().await;
    sleep(Duration::from_secs(1)).await;
    assert_eq!(harness.login.locks().0, 1, "the shutdown still waits");
    assert!(running(&harness, "web").is_some());

    let _next = harness.start();
    harness.login.unlocked().await;
    assert!(begin.elapsed() < Duration::from_secs(30), "{:?}", begin.elapsed());
    for name in ["web", "dns"] {
        assert_eq!(end(&api, name)[..2], ["Failed", "Terminated"], "{name}");
    }
}

// behaviour: SHD-11, SHD-12
#[tokio::test(start_paused = true)]
async fn node_runs_new_pods_after_a_cancelled_shutdown() {
    let (mut harness, api) = harness();
    harness.allocatable = vec![("cpu", "2"), ("memory", "1Gi"), ("pods", "10")];
    harness.write_manifest("local", "Always", "[sleep, forever]");
    let _agent = harness.start();
    harness.one_runs("local").await;
    delayed(&harness).await;
    harness.login.prepare(true);
    harness.login.unlocked().await;
    assert_eq!(harness.running("local").len(), 0);
    let killed = incidents(&harness, "local");
    assert!(killed[0].starts_with("kill node-shutdown: gracePeriod "), "{killed:?}");
    harness.login.prepare(false);
    delayed(&harness).await;
    api.make(stubborn("web", 0, 5));
    ready(&harness, &api, "web").await;
    node_is(&harness, "True").await;
    assert_eq!(harness.running("local").len(), 0, "it has failed");
}
