//! The API server is down for hours: the calls that this costs, and what the agent reports afterwards.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Pod, PodStatus};
use model::ids::PodName;
use model::objects::ObjectKey;
use model::observed::{Container, ContainerState};
use serde_json::json;
use testkit::cluster::node_api::{MemoryNodeApi, NodeApiCall};
use testkit::cluster::{ApiCall, CallFault, MemoryPods, object};
use testkit::pods::pod;
use testkit::runtime::Method;
use tokio::time::{Instant, sleep, sleep_until};

use crate::harness::Harness;

const PODS: usize = 30;
const AWAY: Duration = Duration::from_hours(3);
/// How long all reports may take after the server is back: the longest back-off, and a little more.
const CATCH_UP: Duration = Duration::from_secs(15);

fn name(number: usize) -> String {
    format!("web-{number:02}")
}

fn sleeper(number: usize) -> Pod {
    let pod = pod(&name(number)).on_node("node").restart_policy("Always").grace(30);
    pod.container("main", "ferrolet.test/workload:1", ["sleep", "forever"]).build()
}

fn running(harness: &Harness, number: usize) -> Option<Container> {
    let (name, mut all) = (name(number), harness.runtime.containers());
    all.retain(|one| *one.pod.name == name && one.state == ContainerState::Running);
    assert!(all.len() <= 1, "{all:?}");
    all.pop()
}

/// Whether the published status of a pod is ready, after this number of restarts.
fn is_reported(api: &MemoryPods, number: usize, restarts: i32) -> Option<()> {
    let status: PodStatus = api.pod(&PodName::new("default", name(number)))?.status.clone()?;
    let is_ready =
        status.conditions.iter().flatten().any(|c| c.type_ == "Ready" && c.status == "True");
    let container = status.container_statuses?.into_iter().next()?;
    (is_ready && container.restart_count == restarts).then_some(())
}

async fn all_reported(harness: &Harness, api: &MemoryPods, restarts: i32) {
    let all = |_: &Harness| (0..PODS).all(|number| is_reported(api, number, restarts).is_some());
    harness.until("all pods are reported", |harness| all(harness).then_some(())).await;
}

/// Takes the whole API server down, or brings it back.
fn set_away(harness: &Harness, api: &MemoryPods, node: &MemoryNodeApi, is_away: bool) {
    api.away(is_away);
    node.freeze(is_away);
    if !is_away {
        node.clear_faults();
        harness.rest.clear_faults();
        return;
    }
    let queries = [
        NodeApiCall::Get,
        NodeApiCall::Create,
        NodeApiCall::Patch,
        NodeApiCall::GetLease,
        NodeApiCall::CreateLease,
        NodeApiCall::UpdateLease,
    ];
    for call in queries {
        node.inject_fault(call, CallFault::Unreachable, u32::MAX);
    }
    for call in [ApiCall::Event, ApiCall::CountEvent, ApiCall::Object] {
        harness.rest.inject_fault(call, CallFault::Unreachable, u32::MAX);
    }
}

/// Restarts the container of each pod, one after the other; returns the pods in the order of their restarts.
async fn restart_all(harness: &Harness) -> Vec<String> {
    // Not in the order of their names.
    let order: Vec<usize> = (0..PODS).map(|number| number * 7 % PODS).collect();
    for number in &order {
        let old = running(harness, *number).expect("it runs");
        assert!(harness.runtime.kill_container(&old.id, 1));
        let next = |harness: &Harness| running(harness, *number).filter(|one| one.id != old.id);
        harness.until("another container runs", next).await;
        sleep(Duration::from_mins(2)).await;
    }
    order.into_iter().map(name).collect()
}

// behaviour: API-33, STW-30, STW-33, STW-35
#[tokio::test(start_paused = true)]
async fn api_server_outage_costs_few_calls_and_then_one_patch_per_pod() {
    let (mut harness, api) = Harness::in_cluster();
    let node = MemoryNodeApi::default();
    harness.own_node = Some(node.clone());
    for number in 0..PODS {
        api.make(sleeper(number));
    }
    let _agent = harness.start();
    all_reported(&harness, &api, 0).await;
    sleep(Duration::from_mins(1)).await;

    set_away(&harness, &api, &node, true);
    let back = Instant::now() + AWAY;
    node.forget_calls();
    harness.rest.forget_calls();
    harness.runtime.forget_calls();
    let order = restart_all(&harness).await;
    sleep_until(back).await;
    let (of_pods, of_node, of_events) =
        (api.missed(), node.calls().len(), harness.rest.calls().len());
    let calls = of_pods + of_node + of_events;
    println!(
        "{calls} calls in {AWAY:?}: {of_pods} of pods, {of_node} of node, {of_events} of events"
    );
    // Together less than one a second, however many pods wait; no task gave up.
    let seconds = usize::try_from(AWAY.as_secs()).expect("hours are few seconds");
    assert!(calls < seconds, "{of_pods} {of_node} {of_events}");
    assert!(of_pods > seconds / 12 && of_node > seconds / 8, "{of_pods} {of_node}");
    assert_eq!(harness.runtime.count(Method::CreateContainer), PODS);
    assert_eq!(harness.runtime.count(Method::RunPodSandbox), 0);

    node.forget_calls();
    harness.rest.forget_calls();
    harness.runtime.forget_calls();
    api.forget_calls();
    let begun = Instant::now();
    set_away(&harness, &api, &node, false);
    all_reported(&harness, &api, 1).await;
    assert!(begun.elapsed() <= CATCH_UP, "{:?}", begun.elapsed());
    sleep(Duration::from_mins(1)).await;
    let mut newest_first: Vec<String> =
        order.iter().rev().map(|name| format!("PATCH default/{name}")).collect();
    let reported = api.calls();
    // The attempt before the last was for another pod: of the two newest, either may be first.
    if reported.first() == newest_first.get(1) {
        newest_first.swap(0, 1);
    }
    assert_eq!(reported, newest_first);
    let rest = (node.calls(), harness.rest.calls().len());
    println!("after that: {rest:?}");
    assert!(rest.0.len() <= 16 && rest.1 <= 10, "{rest:?}");
    for method in [Method::RunPodSandbox, Method::CreateContainer, Method::StopContainer] {
        assert_eq!(harness.runtime.count(method), 0, "{method:?}");
    }
}

/// A pod with a variable from a secret.
fn with_secret(number: usize) -> Pod {
    let mut pod = sleeper(number);
    let from = json!({ "secretKeyRef": { "name": "code", "key": "word" } });
    let variables = serde_json::from_value(json!([{ "name": "WORD", "valueFrom": from }]));
    let containers = &mut pod.spec.as_mut().expect("a pod has one").containers;
    containers[0].env = variables.expect("variables");
    pod
}

// behaviour: API-7, OBJ-41
#[tokio::test(start_paused = true)]
async fn container_with_secret_env_restarts_while_the_api_server_is_down() {
    let (mut harness, api) = Harness::in_cluster();
    let node = MemoryNodeApi::default();
    harness.own_node = Some(node.clone());
    harness.rest.put_object(&ObjectKey::secret("default", "code"), object([("word", "open")]));
    api.make(with_secret(0));
    let _agent = harness.start();
    let first = harness.until("it runs", |harness| running(harness, 0)).await;
    // So long that the watch of the secret has stopped.
    sleep(Duration::from_mins(10)).await;
    assert!(harness.rest.followed().is_empty(), "{:?}", harness.rest.followed());
    set_away(&harness, &api, &node, true);
    harness.rest.freeze_objects(true);
    sleep(Duration::from_hours(1)).await;
    assert!(harness.runtime.kill_container(&first.id, 1));
    let next = |harness: &Harness| running(harness, 0).filter(|one| one.id != first.id);
    let second = harness.until("another container runs", next).await;
    let config = harness.runtime.container_config(&second.id).expect("the container");
    let variable = ("WORD".to_owned(), "open".to_owned());
    assert!(config.envs.contains(&variable), "{:?}", config.envs);
}

// behaviour: API-1, API-37
#[tokio::test(start_paused = true)]
async fn pods_keep_running_when_the_agent_starts_without_the_api_server() {
    let (mut harness, api) = Harness::in_cluster();
    let node = MemoryNodeApi::default();
    harness.own_node = Some(node.clone());
    harness.write_manifest("fixed", "Always", "[sleep, forever]");
    for number in [0, 1] {
        api.make(sleeper(number));
    }
    let former = harness.start();
    for number in [0, 1] {
        harness.until("it is reported", |_| is_reported(&api, number, 0)).await;
    }
    let fixed = harness.one_runs("fixed").await;
    let [steady, shaken] = [0, 1].map(|number| running(&harness, number).expect("it runs"));
    set_away(&harness, &api, &node, true);
    former.stop().await;
    harness.runtime.forget_calls();

    let _agent = harness.start();
    for id in [&shaken.id, &fixed.id] {
        assert!(harness.runtime.kill_container(id, 1));
    }
    // Static pods do not wait.
    harness.write_manifest("late", "Always", "[sleep, forever]");
    harness.one_runs("late").await;
    assert_ne!(harness.one_runs("fixed").await.id, fixed.id);
    sleep(Duration::from_hours(1)).await;
    assert_eq!(running(&harness, 0), Some(steady.clone()));
    assert_eq!(running(&harness, 1), None, "it is unknown whether the pod still exists");
    for method in [Method::StopContainer, Method::StopPodSandbox, Method::RemovePodSandbox] {
        assert_eq!(harness.runtime.count(method), 0, "{method:?}");
    }

    set_away(&harness, &api, &node, false);
    // The dead container was kept, so it counts as a restart.
    harness.until("the restart is reported", |_| is_reported(&api, 1, 1)).await;
    assert_eq!(running(&harness, 0), Some(steady));
    assert!(is_reported(&api, 0, 0).is_some());
}
