//! An agent that maintains its Node object, and acts on its content.

use std::time::Duration;

use gc::decide::images::Policy;
use k8s_openapi::api::core::v1::{EnvVar, Node, PodSpec};
use model::ids::PodName;
use model::observed::{Container, ContainerState};
use model::ports::addresses::FoundAddresses;
use testkit::cluster::node_api::{MemoryNodeApi, NodeApiCall};
use testkit::cluster::{CallFault, MemoryPods};
use testkit::pods::{PodBuilder, pod};
use testkit::runtime::{Method, RemoteImage};
use tokio::time::{Instant, sleep};

use crate::harness::Harness;

const IMAGE: &str = "ferrolet.test/workload:1";

fn harness() -> (Harness, MemoryPods) {
    let (mut harness, api) = Harness::in_cluster();
    harness.own_node = Some(MemoryNodeApi::default());
    (harness, api)
}

/// The Node object on the API server.
fn node(harness: &Harness) -> Option<Node> {
    harness.own_node.as_ref()?.node("node")
}

fn bound(name: &str) -> PodBuilder {
    pod(name).on_node("node").restart_policy("Always").grace(30)
}

fn runs(api: &MemoryPods, name: &str) -> Option<()> {
    let status = api.pod(&PodName::new("default", name))?.status.clone()?;
    (status.phase.as_deref() == Some("Running")).then_some(())
}

fn is_ready(node: &Node) -> bool {
    let all = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
    all.into_iter().any(|one| one.type_ == "Ready" && one.status == "True")
}

async fn registered(harness: &Harness) {
    let ready = |harness: &Harness| node(harness).filter(is_ready).map(drop);
    harness.until("the node is ready", ready).await;
}

/// Waits until the node status lists an image, or no longer does.
async fn wait_for_image(harness: &Harness, name: &str, is_there: bool) {
    let reported = |harness: &Harness| {
        let images = node(harness)?.status?.images.unwrap_or_default();
        let mut names = images.iter().flat_map(|image| image.names.iter().flatten());
        (names.any(|one| one == name) == is_there).then_some(())
    };
    harness.until(&format!("the node status lists {name}: {is_there}"), reported).await;
}

// behaviour: NODE-9
#[tokio::test(start_paused = true)]
async fn node_images_are_updated_after_pulls_and_removals() {
    let (mut harness, api) = harness();
    harness.images.policy = Policy { minimum_age: Duration::from_mins(2), ..Policy::default() };
    harness.runtime.add_image(&RemoteImage::new("ferrolet.test/unused:1"));
    harness.runtime.publish(RemoteImage::new("ferrolet.test/new:1").entrypoint(["/workload"]));
    harness.write_manifest("web", "Always", "[sleep, forever]");
    let agent = harness.start();
    registered(&harness).await;
    wait_for_image(&harness, "ferrolet.test/unused:1", true).await;
    sleep(Duration::from_secs(241)).await;
    // Images were listed a second ago, and are listed again in half a minute.
    let begin = Instant::now();
    api.make(bound("other").container("main", "ferrolet.test/new:1", ["sleep", "forever"]).build());
    wait_for_image(&harness, "ferrolet.test/new:1", true).await;
    assert!(begin.elapsed().as_secs() < 20, "{:?}", begin.elapsed());
    harness.disk.set_capacity(3_000_000);
    let begin = Instant::now();
    agent.image_gc().run_now().await;
    wait_for_image(&harness, "ferrolet.test/unused:1", false).await;
    assert!(begin.elapsed().as_secs() < 15, "{:?}", begin.elapsed());
}

// behaviour: NODE-28
#[tokio::test(start_paused = true)]
async fn pod_waits_for_the_network_unless_it_uses_the_host_network() {
    let (harness, api) = harness();
    harness.runtime.set_network_ready(false);
    harness.files.write("/etc/hosts", "127.0.0.1 localhost\n");
    let _agent = harness.start();
    sleep(Duration::from_secs(2)).await;
    let sleeper = |name: &str| bound(name).container("main", IMAGE, ["sleep", "forever"]);
    api.make(sleeper("own").build());
    api.make(sleeper("hosts").host_network().build());
    harness.until("the other runs", |_| runs(&api, "hosts")).await;
    let start =
        "network is not ready: container runtime network not ready: NetworkReady=false reason:";
    let warned = |harness: &Harness| {
        let all = harness.events.all().into_iter().filter(|one| one.reason == "NetworkNotReady");
        all.last().map(|event| event.message)
    };
    let message = harness.until("it is reported", warned).await;
    assert!(message.starts_with(start), "{message}");
    sleep(Duration::from_secs(30)).await;
    assert_eq!(harness.runtime.count(Method::RunPodSandbox), 1, "no call for the waiting pod");
    let begin = Instant::now();
    harness.runtime.set_network_ready(true);
    harness.until("it runs", |_| runs(&api, "own")).await;
    assert!(begin.elapsed().as_secs() <= 4, "{:?}", begin.elapsed());
}

// behaviour: NODE-25, WRK-21
#[tokio::test(start_paused = true)]
async fn not_ready_node_syncs_no_pod_and_checks_the_runtime_every_five_seconds() {
    let (harness, api) = harness();
    api.make(bound("web").container("main", IMAGE, ["sleep", "forever"]).build());
    let _agent = harness.start();
    registered(&harness).await;
    harness.until("it runs", |_| runs(&api, "web")).await;
    sleep(Duration::from_secs(30)).await;
    harness.runtime.forget_calls();
    sleep(Duration::from_mins(1)).await;
    let requested = harness.runtime.count(Method::Status);
    assert!((11..=13).contains(&requested), "{requested}");

    let begin = Instant::now();
    harness.runtime.set_runtime_ready(false);
    let unready = |harness: &Harness| node(harness).filter(|node| !is_ready(node)).map(drop);
    harness.until("the node is not ready", unready).await;
    assert!(begin.elapsed().as_secs() <= 6, "{:?}", begin.elapsed());
    harness.runtime.forget_calls();
    let running = harness.runtime.containers();
    harness.runtime.kill_container(&running[0].id, 1);
    sleep(Duration::from_mins(1)).await;
    assert_eq!(harness.runtime.count(Method::CreateContainer), 0, "pods are left alone");
    harness.runtime.set_runtime_ready(true);
    let begin = Instant::now();
    harness
        .until("it is restarted", |harness| {
            (harness.runtime.count(Method::StartContainer) == 1).then_some(())
        })
        .await;
    assert!(begin.elapsed().as_secs() <= 12, "{:?}", begin.elapsed());
}

/// Creates the Node object with a label that the agent does not know.
fn labelled(harness: &Harness) {
    let mut object = Node::default();
    object.metadata.name = Some("node".to_owned());
    object.metadata.labels = Some([("zone".to_owned(), "north".to_owned())].into());
    harness.own_node.as_ref().expect("the agent has a Node object").put_node(object);
}

// behaviour: API-31
#[tokio::test(start_paused = true)]
async fn api_pods_wait_for_the_node_object_and_static_pods_do_not() {
    let (harness, api) = harness();
    let nodes = harness.own_node.as_ref().unwrap();
    labelled(&harness);
    nodes.freeze(true);
    nodes.inject_fault(NodeApiCall::Create, CallFault::Unreachable, u32::MAX);
    harness.write_manifest("fixed", "Always", "[sleep, forever]");
    let selector = |spec: &mut PodSpec| {
        spec.node_selector = Some([("zone".to_owned(), "north".to_owned())].into());
    };
    let sleeper = bound("north").container("main", IMAGE, ["sleep", "forever"]);
    api.make(sleeper.spec(selector).build());
    let _agent = harness.start();
    harness.one_runs("fixed").await;
    sleep(Duration::from_mins(2)).await;
    let phase =
        api.pod(&PodName::new("default", "north")).and_then(|pod| pod.status.clone()?.phase);
    assert!(!matches!(phase.as_deref(), Some("Failed" | "Running")), "{phase:?}");
    nodes.freeze(false);
    harness.until("it runs", |_| runs(&api, "north")).await;
}

/// The address of a pod and of its node in the pod's status.
fn reported_addresses(api: &MemoryPods, name: &str) -> Option<(String, String)> {
    let status = api.pod(&PodName::new("default", name))?.status.clone()?;
    Some((status.host_ip?, status.pod_ip?))
}

/// Waits until a pod with the host network reports this address.
async fn wait_for_address(harness: &Harness, api: &MemoryPods, address: &str) {
    let address = address.to_owned();
    let reported =
        |_: &Harness| reported_addresses(api, "hosts").filter(|reported| reported.0 == address);
    let (_, own) = harness.until(&format!("its address is {address}"), reported).await;
    assert_eq!(own, address);
}

/// The value of the variable `AT` of the running container.
fn variable(harness: &Harness) -> Option<String> {
    let is_running = |one: &&Container| one.state == ContainerState::Running;
    let id = harness.runtime.containers().iter().find(is_running)?.id.clone();
    let envs = harness.runtime.container_config(&id)?.envs;
    envs.0.into_iter().find(|(name, _)| name == "AT").map(|(_, value)| value)
}

fn machine_at(address: &str) -> FoundAddresses {
    let ip = address.parse().expect("an address");
    let (on_interfaces, by_default_route) = (vec![ip], vec![ip]);
    FoundAddresses { on_interfaces, by_default_route, ..FoundAddresses::default() }
}

// behaviour: NODE-39
#[tokio::test(start_paused = true)]
async fn host_ips_of_pods_follow_the_node_object() {
    let (harness, api) = harness();
    harness.files.write("/etc/hosts", "127.0.0.1 localhost\n");
    // It differs from the address at the start of the agent.
    harness.addresses.set(machine_at("192.0.2.7"));
    let _agent = harness.start();
    let at: EnvVar = serde_json::from_value(serde_json::json!({
        "name": "AT", "valueFrom": { "fieldRef": { "fieldPath": "status.hostIP" } }
    }))
    .unwrap();
    let asks = |spec: &mut PodSpec| spec.containers[0].env = Some(vec![at]);
    let sleeper = bound("hosts").container("main", IMAGE, ["sleep", "forever"]);
    api.make(sleeper.spec(asks).host_network().build());
    wait_for_address(&harness, &api, "192.0.2.7").await;
    assert_eq!(harness.until("it runs", variable).await, "192.0.2.7");
    harness.addresses.set(machine_at("192.0.2.8"));
    wait_for_address(&harness, &api, "192.0.2.8").await;
    let old = harness.runtime.containers()[0].id.clone();
    harness.runtime.kill_container(&old, 1);
    let anew = |harness: &Harness| variable(harness).filter(|at| at == "192.0.2.8");
    harness.until("the next container has the new address", anew).await;
}

// behaviour: NODE-35
#[tokio::test(start_paused = true)]
async fn pod_cidr_is_sent_to_the_runtime() {
    let (harness, _api) = harness();
    let _agent = harness.start();
    registered(&harness).await;
    harness.own_node.as_ref().unwrap().update_node("node", |node| {
        node.spec.get_or_insert_default().pod_cidrs = Some(vec!["10.1.0.0/24".to_owned()]);
    });
    let reported = |harness: &Harness| {
        let calls = harness.runtime.calls().into_iter();
        calls.rev().find(|call| call.method == Method::UpdateRuntimeConfig)
    };
    let reported = harness.until("the runtime has the pod CIDR", reported).await;
    assert_eq!(reported.object, "10.1.0.0/24");
}
