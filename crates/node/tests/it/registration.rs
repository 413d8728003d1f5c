use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use serde_json::json;
use testkit::cluster::CallFault;
use testkit::cluster::node_api::NodeApiCall;
use tokio::time::Instant;

use crate::harness::{Harness, NAME, condition, is_ready, pass, wait};

fn existing() -> Node {
    let node = json!({
        "metadata": { "name": NAME, "labels": { "kubernetes.io/os": "old", "theirs": "x" } },
        "spec": { "taints": [{ "key": "theirs", "effect": "NoSchedule" }], "unschedulable": true },
        "status": { "conditions": [{ "type": "Theirs", "status": "True" }] },
    });
    serde_json::from_value(node).unwrap()
}

// behaviour: NODE-1
#[tokio::test(start_paused = true)]
async fn healthy_node_is_registered_as_ready() {
    let harness = Harness::new();
    let begin = Instant::now();
    let running = harness.start();
    let node = harness.node(is_ready).await;
    assert!(begin.elapsed().as_millis() < 500, "{:?}", begin.elapsed());
    let status = node.status.as_ref().unwrap();
    assert_eq!(status.capacity.as_ref().unwrap()["cpu"].0, "2");
    assert_eq!(status.allocatable.as_ref().unwrap()["cpu"].0, "1500m");
    assert_eq!(status.addresses.as_ref().unwrap()[0].address, "10.0.0.1");
    let runtime = &status.node_info.as_ref().unwrap().container_runtime_version;
    assert!(runtime.contains("://") && !runtime.contains("Unknown"), "{runtime}");
    pass(5).await;
    let requested = harness.api.calls();
    assert_eq!(requested.iter().filter(|call| **call == NodeApiCall::Create).count(), 1);
    assert_eq!(
        requested.iter().filter(|call| **call == NodeApiCall::Patch).count(),
        0,
        "{requested:?}"
    );
    let mut reasons = harness.reasons();
    reasons.sort_unstable();
    let expected = [
        "NodeHasNoDiskPressure",
        "NodeHasSufficientMemory",
        "NodeHasSufficientPID",
        "NodeReady",
        "Starting",
    ];
    assert_eq!(reasons, expected);
    let seen = running.handle.wait_for_node(is_ready).await;
    assert_eq!(seen.metadata.uid, node.metadata.uid);
}

/// The measured time of the metric with this part in its name; zero if none.
fn timed(harness: &Harness, part: &str) -> f64 {
    let name = format!("kubelet_node_startup_{part}duration_seconds");
    let all = harness.timed.lock().unwrap().gather();
    let found = all.iter().find(|one| one.name() == name).unwrap();
    found.get_metric()[0].get_gauge().get_value()
}

// behaviour: NODE-41
#[tokio::test(start_paused = true)]
async fn startup_durations_of_a_new_node_are_measured() {
    let mut harness = Harness::new();
    harness.booted = Instant::now().checked_sub(Duration::from_mins(1));
    harness.runtime.set_network_ready(false);
    harness.api.inject_fault(NodeApiCall::Create, CallFault::Unreachable, 3);
    let running = harness.start();
    harness.node(|node| !is_ready(node)).await;
    pass(30).await;
    assert_eq!(
        (timed(&harness, "pre_kubelet_"), timed(&harness, "")),
        (60.0, 0.0),
        "it is not ready"
    );
    assert!(timed(&harness, "registration_") > 0.1, "it took some attempts");
    assert!(
        (0.9..2.0).contains(&timed(&harness, "pre_registration_")),
        "the registration waited for it"
    );
    harness.runtime.set_network_ready(true);
    harness.node(is_ready).await;
    pass(1).await;
    let (after, in_all) = (timed(&harness, "post_registration_"), timed(&harness, ""));
    assert!(after >= 30.0 && in_all > 60.0 + after, "{after} {in_all}");
    // The next agent finds the node, and measures nothing.
    drop(running);
    let _next = harness.start();
    pass(30).await;
    let parts = ["pre_kubelet_", "pre_registration_", "registration_", "post_registration_", ""];
    assert!(parts.iter().all(|part| timed(&harness, part) == 0.0));
}

// behaviour: NODE-2
#[tokio::test(start_paused = true)]
async fn existing_node_is_reconciled_by_one_patch() {
    let harness = Harness::new();
    harness.api.put_node(existing());
    let _running = harness.start();
    let node = harness.node(is_ready).await;
    let labels = node.metadata.labels.clone().unwrap();
    assert_eq!((labels["kubernetes.io/os"].as_str(), labels["theirs"].as_str()), ("linux", "x"));
    assert_eq!(node.spec.as_ref().unwrap().taints.as_ref().unwrap()[0].key, "theirs");
    assert_eq!(condition(&node, "Theirs").status, "True");
    pass(5).await;
    assert_eq!(harness.api.count(NodeApiCall::Create), 0, "the watch delivered it");
    assert_eq!(harness.api.count(NodeApiCall::Patch), 1);
    assert!(harness.reasons().contains(&"NodeNotSchedulable"));
}

// behaviour: NODE-2
#[tokio::test(start_paused = true)]
async fn agent_without_create_permission_updates_the_existing_node() {
    for refusal in [409, 403] {
        let harness = Harness::new();
        harness.api.freeze(true);
        harness.api.put_node(existing());
        harness.api.inject_fault(NodeApiCall::Create, CallFault::Refused(refusal), 1);
        let _running = harness.start();
        harness.node(is_ready).await;
        assert_eq!(harness.api.count(NodeApiCall::Create), 1);
        assert_eq!(harness.api.count(NodeApiCall::Get), 1);
    }
}

// behaviour: NODE-3
#[tokio::test(start_paused = true)]
async fn registration_is_retried_until_the_server_is_reachable() {
    let harness = Harness::new();
    harness.api.inject_fault(NodeApiCall::Create, CallFault::Unreachable, 20);
    let begin = Instant::now();
    let _running = harness.start();
    harness.node(is_ready).await;
    // 100 ms doubling to 6.4 s, and 7 s from then on.
    let waited = begin.elapsed().as_secs();
    assert!((100..110).contains(&waited), "{waited}");
    assert_eq!(harness.api.count(NodeApiCall::Create), 21);
}

// behaviour: NODE-4, NODE-33
#[tokio::test(start_paused = true)]
async fn deleted_node_is_created_again_and_owns_the_lease() {
    for delivered in [true, false] {
        let harness = Harness::new();
        let _running = harness.start();
        let first = harness.node(is_ready).await.metadata.uid;
        wait(|| harness.api.lease(NAME)).await;
        harness.api.freeze(!delivered);
        harness.api.drop_node(NAME);
        if !delivered {
            // Without an event of the watch, the next change reveals it.
            harness.runtime.set_network_ready(false);
        }
        let begin = Instant::now();
        let second = harness.node(|_| true).await.metadata.uid;
        assert_ne!(first, second);
        assert!(begin.elapsed().as_secs() <= 12, "{:?}", begin.elapsed());
        wait(|| {
            let owners = harness.api.lease(NAME)?.metadata.owner_references?;
            (owners.len() == 1 && Some(&owners[0].uid) == second.as_ref()).then_some(())
        })
        .await;
    }
}

// behaviour: NODE-4
#[tokio::test(start_paused = true)]
async fn node_and_lease_are_created_again_after_data_loss() {
    let harness = Harness::new();
    let _running = harness.start();
    harness.node(is_ready).await;
    wait(|| harness.api.lease(NAME)).await;
    harness.api.freeze(true);
    harness.api.drop_node(NAME);
    harness.api.drop_lease(NAME);
    harness.api.expire();
    harness.api.freeze(false);
    harness.node(is_ready).await;
    wait(|| harness.api.lease(NAME)).await;
}

// behaviour: NODE-5
#[tokio::test(start_paused = true)]
async fn agent_without_registration_waits_for_the_node() {
    let harness = Harness::new();
    let _running = harness.start_with(Harness::settings(|config| config.register_node = false));
    pass(60).await;
    assert_eq!(harness.api.count(NodeApiCall::Create), 0);
    assert!(harness.api.lease(NAME).is_none(), "there is no node that could own it");
    harness.api.put_node(existing());
    let node = harness.node(is_ready).await;
    assert_eq!(node.metadata.labels.as_ref().unwrap()["kubernetes.io/os"], "linux");
    wait(|| harness.api.lease(NAME)).await;
}

// behaviour: NODE-4
#[tokio::test(start_paused = true)]
async fn lease_renewal_detects_data_loss_of_an_idle_node() {
    let harness = Harness::new();
    let _running = harness.start();
    harness.node(is_ready).await;
    wait(|| harness.api.lease(NAME)).await;
    pass(20).await;
    // No event of the watch, and no change of the status.
    harness.api.freeze(true);
    harness.api.drop_node(NAME);
    harness.api.drop_lease(NAME);
    let begin = Instant::now();
    harness.node(is_ready).await;
    assert!(begin.elapsed().as_secs() <= 13, "{:?}", begin.elapsed());
    wait(|| harness.api.lease(NAME)).await;
}

// behaviour: NODE-4
#[tokio::test(start_paused = true)]
async fn stale_watch_is_restarted_with_the_node() {
    let harness = Harness::new();
    let _running = harness.start();
    harness.node(is_ready).await;
    wait(|| harness.api.lease(NAME)).await;
    pass(20).await;
    // Like a server that lost its data: a watch from the last version gets no events.
    harness.api.break_watches();
    harness.api.drop_node(NAME);
    harness.api.drop_lease(NAME);
    harness.node(is_ready).await;
    harness.api.update_node(NAME, |node| {
        node.spec.get_or_insert_default().unschedulable = Some(true);
    });
    let begin = Instant::now();
    wait(|| (harness.reasons().last() == Some(&"NodeNotSchedulable")).then_some(())).await;
    assert!(begin.elapsed().as_secs() <= 12, "before the next report: {:?}", begin.elapsed());
}

// behaviour: NODE-1
#[tokio::test(start_paused = true)]
async fn required_labels_are_correct_at_creation() {
    let harness = Harness::new();
    let mut settings = Harness::settings(|_| {});
    let requested = [("kubernetes.io/arch", "other"), ("zone", "a")];
    settings.own.labels =
        requested.map(|(name, value)| (name.to_owned(), value.to_owned())).into_iter().collect();
    let _running = harness.start_with(settings);
    let node = harness.node(is_ready).await;
    let labels = node.metadata.labels.unwrap();
    assert_eq!((labels["kubernetes.io/arch"].as_str(), labels["zone"].as_str()), ("amd64", "a"));
    pass(30).await;
    assert_eq!(harness.api.count(NodeApiCall::Patch), 0, "no correction was needed");
}

// behaviour: NODE-2
#[tokio::test(start_paused = true)]
async fn lost_huge_page_sizes_are_removed() {
    let harness = Harness::new();
    let mut node = existing();
    let amount = |text: &str| Quantity(text.to_owned());
    let had = [("cpu", "64"), ("hugepages-1Gi", "1Gi"), ("example.com/x", "1")];
    let had = had.map(|(name, text)| (name.to_owned(), amount(text)));
    node.status.as_mut().unwrap().capacity = Some(had.into());
    harness.api.put_node(node);
    let _running = harness.start();
    let node = harness.node(is_ready).await;
    let capacity = node.status.unwrap().capacity.unwrap();
    let names: Vec<&str> = capacity.keys().map(String::as_str).collect();
    assert_eq!(names, ["cpu", "ephemeral-storage", "example.com/x", "memory", "pods"]);
    assert_eq!(capacity["cpu"].0, "2");
}

// behaviour: NODE-56
#[tokio::test(start_paused = true)]
async fn devices_of_a_former_agent_are_zero_in_new_and_existing_nodes() {
    let device = "example.com/x";
    for (register, is_there) in [(true, false), (true, true), (false, true)] {
        let harness = Harness::new();
        let mut node = existing();
        let amount = Quantity("4".to_owned());
        let had = [device, "example.com/by-hand"].map(|name| (name.to_owned(), amount.clone()));
        node.status.as_mut().unwrap().capacity = Some(had.into());
        if is_there {
            harness.api.put_node(node);
        }
        let mut settings = Harness::settings(|config| config.register_node = register);
        settings.own.former_devices.insert(device.to_owned());
        let _running = harness.start_with(settings);
        let status = harness.node(is_ready).await.status.unwrap();
        for found in [status.capacity.unwrap(), status.allocatable.unwrap()] {
            let by_hand = found.get("example.com/by-hand").map(|amount| amount.0.as_str());
            let expected = ("0", is_there.then_some("4"));
            assert_eq!((found[device].0.as_str(), by_hand), expected, "{register} {is_there}");
        }
        // Only once: a later change by another client stays.
        let two = || Quantity("2".to_owned());
        harness.api.update_node(NAME, |node| {
            let capacity = node.status.as_mut().unwrap().capacity.as_mut().unwrap();
            capacity.insert(device.to_owned(), two());
        });
        let can_have = |node: &Node| node.status.clone()?.allocatable?.get(device).cloned();
        harness.node(|node| can_have(node) == Some(two())).await;
    }
}
