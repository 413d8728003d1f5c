use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use model::image_claims::ImageListener as _;
use model::ports::addresses::FoundAddresses;
use model::ports::runtime::Code;
use node::Pressure;
use testkit::cluster::CallFault;
use testkit::cluster::node_api::NodeApiCall;
use testkit::runtime::{Fault, Method, Rule};
use tokio::time::Instant;

use crate::harness::{Harness, NAME, condition, is_ready, pass, wait};

// behaviour: NODE-7
#[tokio::test(start_paused = true)]
async fn idle_node_writes_its_status_at_the_report_frequency() {
    let harness = Harness::new();
    let _running = harness.start();
    harness.node(is_ready).await;
    pass(149).await;
    assert_eq!(harness.api.count(NodeApiCall::Patch), 0);
    let begin = Instant::now();
    wait(|| (harness.api.count(NodeApiCall::Patch) == 1).then_some(())).await;
    assert!(begin.elapsed().as_secs() <= 312, "within one and a half of five minutes");
    let begin = Instant::now();
    wait(|| (harness.api.count(NodeApiCall::Patch) == 2).then_some(())).await;
    let after = begin.elapsed().as_secs();
    assert!((299..=311).contains(&after), "from then on every five minutes: {after} s");
    let patch = &harness.api.patches()[1];
    let fields: Vec<&String> = patch["status"].as_object().unwrap().keys().collect();
    assert_eq!(fields, ["conditions"], "{patch}");
    assert_eq!(harness.api.count(NodeApiCall::Get), 0);
}

// behaviour: NODE-8, NODE-20
#[tokio::test(start_paused = true)]
async fn pressure_is_written_immediately() {
    let harness = Harness::new();
    let running = harness.start();
    harness.node(is_ready).await;
    pass(20).await;
    let begin = Instant::now();
    running.handle.set_pressure(Pressure { disk: true, ..Pressure::default() });
    let node = harness.node(|node| condition(node, "DiskPressure").status == "True").await;
    assert!(begin.elapsed().as_millis() <= 1100, "{:?}", begin.elapsed());
    assert!(is_ready(&node));
    running.handle.set_pressure(Pressure::default());
    harness.node(|node| condition(node, "DiskPressure").status == "False").await;
    let reasons = harness.reasons();
    assert!(reasons.ends_with(&["NodeHasDiskPressure", "NodeHasNoDiskPressure"]), "{reasons:?}");
    let message = harness.events.all().pop().unwrap().message;
    assert_eq!(message, "Node n status is now: NodeHasNoDiskPressure");
}

// behaviour: NODE-25
#[tokio::test(start_paused = true)]
async fn node_without_network_is_not_ready() {
    let harness = Harness::new();
    harness.runtime.set_network_ready(false);
    let running = harness.start();
    let node = harness.node(|_| true).await;
    let message = condition(&node, "Ready").message.unwrap();
    let start = "container runtime network not ready: NetworkReady=false reason:";
    assert!(message.starts_with(start), "{message}");
    assert!(running.handle.network_error().unwrap().starts_with(start));
    pass(5).await;
    let begin = Instant::now();
    harness.runtime.set_network_ready(true);
    harness.node(is_ready).await;
    assert!(begin.elapsed().as_millis() < 1500, "{:?}", begin.elapsed());
    assert_eq!(running.handle.network_error(), None);
    pass(60).await;
    harness.runtime.set_network_ready(false);
    running.handle.runtime_changed();
    harness.node(|node| !is_ready(node)).await;
    assert!(harness.reasons().ends_with(&["NodeReady", "NodeNotReady"]), "{:?}", harness.reasons());
}

// behaviour: NODE-21
#[tokio::test(start_paused = true)]
async fn unhealthy_part_and_its_recovery_change_readiness() {
    let harness = Harness::new();
    harness.part.set(Some("pleg has yet to be successful"));
    let running = harness.start();
    let node = harness.node(|_| true).await;
    let message = condition(&node, "Ready").message.unwrap();
    assert_eq!(message, "PLEG is not healthy: pleg has yet to be successful");
    let begin = Instant::now();
    harness.part.set(None);
    harness.node(is_ready).await;
    assert!(begin.elapsed().as_millis() < 500, "checks are frequent while it starts");
    pass(300).await;
    harness.part.set(Some("pleg was last seen active 3m1s ago; threshold is 3m0s"));
    let begin = Instant::now();
    harness.node(|node| !is_ready(node)).await;
    assert!(begin.elapsed().as_secs() <= 12, "{:?}", begin.elapsed());
    harness.runtime.set_network_ready(false);
    running.handle.runtime_changed();
    let both = "[PLEG is not healthy: pleg was last seen active 3m1s ago; threshold is 3m0s, \
                container runtime network not ready: NetworkReady=false reason:";
    let says_both =
        |node: &Node| condition(node, "Ready").message.is_some_and(|all| all.starts_with(both));
    harness.node(says_both).await;
}

// behaviour: NODE-11
#[tokio::test(start_paused = true)]
async fn node_marked_unknown_is_written_as_alive() {
    let harness = Harness::new();
    let _running = harness.start();
    harness.node(is_ready).await;
    pass(30).await;
    harness.api.update_node(NAME, |node| {
        let all = node.status.as_mut().unwrap().conditions.as_mut().unwrap();
        for condition in all {
            condition.status = "Unknown".to_owned();
        }
    });
    let begin = Instant::now();
    let node = harness.node(is_ready).await;
    assert!(begin.elapsed().as_millis() <= 1100, "{:?}", begin.elapsed());
    assert_eq!(condition(&node, "MemoryPressure").status, "False");
}

// behaviour: NODE-10
#[tokio::test(start_paused = true)]
async fn foreign_conditions_labels_and_resources_are_kept() {
    let harness = Harness::new();
    let _running = harness.start();
    harness.node(is_ready).await;
    harness.api.update_node(NAME, |node| {
        node.metadata.labels.as_mut().unwrap().insert("team".to_owned(), "a".to_owned());
        let status = node.status.as_mut().unwrap();
        let amount = status.capacity.as_ref().unwrap()["pods"].clone();
        status.capacity.as_mut().unwrap().insert("example.com/dongle".to_owned(), amount);
    });
    let node = harness
        .node(|node| {
            let status = node.status.as_ref().unwrap();
            status.allocatable.as_ref().unwrap().contains_key("example.com/dongle")
        })
        .await;
    assert_eq!(node.metadata.labels.as_ref().unwrap()["team"], "a");
    let status = node.status.as_ref().unwrap();
    assert_eq!(status.capacity.as_ref().unwrap()["example.com/dongle"].0, "110");
}

// behaviour: NODE-12
#[tokio::test(start_paused = true)]
async fn failed_write_is_retried_from_the_current_object() {
    let harness = Harness::new();
    let running = harness.start();
    harness.node(is_ready).await;
    pass(20).await;
    harness.api.forget_calls();
    harness.api.inject_fault(NodeApiCall::Patch, CallFault::Refused(409), 2);
    running.handle.set_pressure(Pressure { pid: true, ..Pressure::default() });
    harness.node(|node| condition(node, "PIDPressure").status == "True").await;
    let requested: Vec<NodeApiCall> = harness.api.calls();
    let requested: Vec<&NodeApiCall> = requested
        .iter()
        .filter(|call| matches!(call, NodeApiCall::Patch | NodeApiCall::Get))
        .collect();
    let (patch, get) = (&NodeApiCall::Patch, &NodeApiCall::Get);
    assert_eq!(requested, [patch, get, patch, get, patch]);
    // Five attempts, and then a pause.
    harness.api.forget_calls();
    harness.api.inject_fault(NodeApiCall::Patch, CallFault::Unreachable, 7);
    running.handle.set_pressure(Pressure::default());
    let begin = Instant::now();
    harness.node(|node| condition(node, "PIDPressure").status == "False").await;
    assert_eq!(harness.api.count(NodeApiCall::Patch), 8);
    assert!((9..13).contains(&begin.elapsed().as_secs()), "{:?}", begin.elapsed());
}

// behaviour: NODE-9, NODE-13
#[tokio::test(start_paused = true)]
async fn new_images_and_addresses_are_written_with_the_next_update() {
    let harness = Harness::new();
    let running = harness.start();
    harness.node(is_ready).await;
    pass(60).await;
    let image = model::ports::runtime::Image {
        id: "sha256:1".to_owned(),
        repo_tags: vec!["a:1".to_owned()],
        repo_digests: vec![],
        size: 7,
        pinned: false,
        user: None,
        runtime_handler: String::new(),
    };
    harness.runtime.list_additional(image);
    running.handle.images_changed();
    let begin = Instant::now();
    harness.node(|node| node.status.as_ref().unwrap().images.is_some()).await;
    assert!(begin.elapsed().as_secs() <= 12, "{:?}", begin.elapsed());
    harness.addresses.set(moved());
    harness.node(has_moved).await;
    assert!(begin.elapsed().as_secs() <= 45, "{:?}", begin.elapsed());
    harness.addresses.set(FoundAddresses::default());
    pass(120).await;
    assert!(has_moved(&harness.api.node(NAME).unwrap()), "a failed observation changes nothing");
}

/// Another address of the machine than the initial one.
fn moved() -> FoundAddresses {
    let ip = "10.0.0.9".parse().unwrap();
    let (on_interfaces, by_default_route) = (vec![ip], vec![ip]);
    FoundAddresses { on_interfaces, by_default_route, ..FoundAddresses::default() }
}

fn has_moved(node: &Node) -> bool {
    let all = node.status.as_ref().unwrap().addresses.as_ref().unwrap();
    all.iter().map(|one| one.address.as_str()).eq(["10.0.0.9", "n"])
}

// behaviour: NODE-9
#[tokio::test(start_paused = true)]
async fn continuous_image_changes_do_not_delay_addresses() {
    let harness = Harness::new();
    let running = harness.start();
    harness.node(is_ready).await;
    harness.addresses.set(moved());
    for _ in 0..6 {
        running.handle.images_changed();
        pass(10).await;
    }
    assert!(has_moved(&harness.api.node(NAME).unwrap()));
}

// behaviour: NODE-24
#[tokio::test(start_paused = true)]
async fn schedulability_changes_are_events() {
    let harness = Harness::new();
    let _running = harness.start();
    harness.node(is_ready).await;
    for (unschedulable, reason) in [(true, "NodeNotSchedulable"), (false, "NodeSchedulable")] {
        harness.api.update_node(NAME, |node| {
            node.spec.get_or_insert_default().unschedulable = Some(unschedulable);
        });
        wait(|| (harness.reasons().last() == Some(&reason)).then_some(())).await;
    }
    pass(30).await;
    assert_eq!(harness.api.count(NodeApiCall::Patch), 0);
}

// behaviour: NODE-22
#[tokio::test(start_paused = true)]
async fn unresponsive_runtime_makes_the_node_not_ready_after_half_a_minute() {
    let harness = Harness::new();
    let _running = harness.start();
    harness.node(is_ready).await;
    pass(60).await;
    harness.runtime.inject(Rule::on(Method::Status, Fault::error(Code::Unavailable)));
    let begin = Instant::now();
    let node = harness.node(|node| !is_ready(node)).await;
    let waited = begin.elapsed().as_secs();
    assert!((20..=42).contains(&waited), "{waited}");
    assert_eq!(condition(&node, "Ready").message.as_deref(), Some("container runtime is down"));
    harness.runtime.clear_faults();
    harness.node(is_ready).await;
    assert!(begin.elapsed().as_secs() - waited <= 6);
}

// behaviour: NODE-16
#[tokio::test(start_paused = true)]
async fn reboot_is_an_event_once() {
    let harness = Harness::new();
    let _running = harness.start();
    harness.node(is_ready).await;
    let boot_id = |node: &Node| node.status.clone().unwrap().node_info.unwrap().boot_id;
    for earlier in ["one", "two"] {
        // As if the object was restored to its earlier version.
        harness.api.update_node(NAME, |node| {
            let info = node.status.as_mut().unwrap().node_info.as_mut().unwrap();
            earlier.clone_into(&mut info.boot_id);
        });
        harness.node(|node| boot_id(node).is_empty()).await;
    }
    pass(30).await;
    let reboots = harness.reasons().into_iter().filter(|reason| *reason == "Rebooted").count();
    assert_eq!(reboots, 1);
}

// behaviour: NODE-36
#[tokio::test(start_paused = true)]
async fn retry_after_of_the_server_is_respected() {
    let harness = Harness::new();
    let busy = CallFault::Throttled(Some(Duration::from_secs(25)));
    for call in [NodeApiCall::Create, NodeApiCall::GetLease] {
        harness.api.inject_fault(call, busy.clone(), 1);
    }
    let begin = Instant::now();
    let _running = harness.start();
    harness.node(is_ready).await;
    assert!((25..28).contains(&begin.elapsed().as_secs()), "{:?}", begin.elapsed());
    wait(|| harness.api.lease(NAME)).await;
    assert!((25..28).contains(&begin.elapsed().as_secs()), "{:?}", begin.elapsed());
    pass(5).await;
    for call in [NodeApiCall::Patch, NodeApiCall::UpdateLease] {
        harness.api.inject_fault(call, busy.clone(), 1);
    }
    let begin = Instant::now();
    harness.runtime.set_network_ready(false);
    harness.node(|node| !is_ready(node)).await;
    // It takes up to ten seconds until that is noticed.
    assert!((25..40).contains(&begin.elapsed().as_secs()), "{:?}", begin.elapsed());
    let renewals = harness.api.count(NodeApiCall::UpdateLease);
    assert!(renewals <= 2, "{renewals}");
}

// behaviour: NODE-35
#[tokio::test(start_paused = true)]
async fn pod_cidrs_are_sent_to_the_runtime_until_accepted() {
    let harness = Harness::new();
    harness
        .runtime
        .inject(Rule::on(Method::UpdateRuntimeConfig, Fault::error(Code::Internal)).times(2));
    let _running = harness.start();
    harness.node(is_ready).await;
    pass(20).await;
    assert_eq!(harness.runtime.count(Method::UpdateRuntimeConfig), 0);
    let give = |cidrs: &[&str]| {
        let cidrs: Vec<String> = cidrs.iter().map(|one| (*one).to_owned()).collect();
        harness.api.update_node(NAME, |node| {
            node.spec.get_or_insert_default().pod_cidrs = Some(cidrs);
        });
    };
    let sent = || {
        let calls = harness.runtime.calls().into_iter();
        let sent = calls.filter(|call| call.method == Method::UpdateRuntimeConfig);
        sent.map(|call| call.object).collect::<Vec<_>>()
    };
    give(&["10.1.0.0/24", "fd00::/64"]);
    wait(|| (sent().len() == 3).then_some(())).await;
    assert_eq!(sent(), ["10.1.0.0/24,fd00::/64"; 3], "two of which failed");
    pass(60).await;
    assert_eq!(sent().len(), 3);
    give(&["10.2.0.0/24"]);
    wait(|| (sent().len() == 4).then_some(())).await;
    assert_eq!(sent()[3], "10.2.0.0/24");
}
