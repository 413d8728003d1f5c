use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use serde_json::json;
use testkit::cluster::Trouble;
use testkit::cluster::node_api::NodeAsk;
use tokio::time::Instant;

use crate::world::{NAME, World, condition, is_ready, pass, wait};

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
async fn a_node_that_is_well_is_ready_from_its_first_call_on() {
    let world = World::new();
    let begin = Instant::now();
    let running = world.start();
    let node = world.node(is_ready).await;
    assert!(begin.elapsed().as_millis() < 500, "{:?}", begin.elapsed());
    let status = node.status.as_ref().unwrap();
    assert_eq!(status.capacity.as_ref().unwrap()["cpu"].0, "2");
    assert_eq!(status.allocatable.as_ref().unwrap()["cpu"].0, "1500m");
    assert_eq!(status.addresses.as_ref().unwrap()[0].address, "10.0.0.1");
    let runtime = &status.node_info.as_ref().unwrap().container_runtime_version;
    assert!(runtime.contains("://") && !runtime.contains("Unknown"), "{runtime}");
    pass(5).await;
    let asked = world.api.calls();
    assert_eq!(asked.iter().filter(|ask| **ask == NodeAsk::Create).count(), 1);
    assert_eq!(asked.iter().filter(|ask| **ask == NodeAsk::Patch).count(), 0, "{asked:?}");
    let mut reasons = world.reasons();
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

/// What was timed, by the part of the name that is its own; zero is nothing.
fn timed(world: &World, part: &str) -> f64 {
    let name = format!("kubelet_node_startup_{part}duration_seconds");
    let all = world.timed.lock().unwrap().gather();
    let found = all.iter().find(|one| one.name() == name).unwrap();
    found.get_metric()[0].get_gauge().get_value()
}

// behaviour: NODE-41
#[tokio::test(start_paused = true)]
async fn it_is_timed_how_long_a_new_node_takes_to_start() {
    let mut world = World::new();
    world.booted = Instant::now().checked_sub(Duration::from_mins(1));
    world.runtime.set_network_ready(false);
    world.api.trouble(NodeAsk::Create, Trouble::Unreachable, 3);
    let running = world.start();
    world.node(|node| !is_ready(node)).await;
    pass(30).await;
    assert_eq!((timed(&world, "pre_kubelet_"), timed(&world, "")), (60.0, 0.0), "it is not ready");
    assert!(timed(&world, "registration_") > 0.1, "it took some tries");
    assert!((0.9..2.0).contains(&timed(&world, "pre_registration_")), "it was waited for");
    world.runtime.set_network_ready(true);
    world.node(is_ready).await;
    pass(1).await;
    let (after, in_all) = (timed(&world, "post_registration_"), timed(&world, ""));
    assert!(after >= 30.0 && in_all > 60.0 + after, "{after} {in_all}");
    // The next agent finds the node, and times nothing.
    drop(running);
    let _next = world.start();
    pass(30).await;
    let parts = ["pre_kubelet_", "pre_registration_", "registration_", "post_registration_", ""];
    assert!(parts.iter().all(|part| timed(&world, part) == 0.0));
}

// behaviour: NODE-2
#[tokio::test(start_paused = true)]
async fn a_node_that_was_there_is_made_what_it_should_be_by_one_patch() {
    let world = World::new();
    world.api.put_node(existing());
    let _running = world.start();
    let node = world.node(is_ready).await;
    let labels = node.metadata.labels.clone().unwrap();
    assert_eq!((labels["kubernetes.io/os"].as_str(), labels["theirs"].as_str()), ("linux", "x"));
    assert_eq!(node.spec.as_ref().unwrap().taints.as_ref().unwrap()[0].key, "theirs");
    assert_eq!(condition(&node, "Theirs").status, "True");
    pass(5).await;
    assert_eq!(world.api.count(NodeAsk::Create), 0, "the feed told of it");
    assert_eq!(world.api.count(NodeAsk::Patch), 1);
    assert!(world.reasons().contains(&"NodeNotSchedulable"));
}

// behaviour: NODE-2
#[tokio::test(start_paused = true)]
async fn whoever_may_not_make_the_node_keeps_the_one_that_is_there() {
    for refusal in [409, 403] {
        let world = World::new();
        world.api.freeze(true);
        world.api.put_node(existing());
        world.api.trouble(NodeAsk::Create, Trouble::Refused(refusal), 1);
        let _running = world.start();
        world.node(is_ready).await;
        assert_eq!(world.api.count(NodeAsk::Create), 1);
        assert_eq!(world.api.count(NodeAsk::Get), 1);
    }
}

// behaviour: NODE-3
#[tokio::test(start_paused = true)]
async fn a_server_that_is_away_is_tried_again_for_as_long_as_it_takes() {
    let world = World::new();
    world.api.trouble(NodeAsk::Create, Trouble::Unreachable, 20);
    let begin = Instant::now();
    let _running = world.start();
    world.node(is_ready).await;
    // 100 ms doubling to 6.4 s, and 7 s from then on.
    let waited = begin.elapsed().as_secs();
    assert!((100..110).contains(&waited), "{waited}");
    assert_eq!(world.api.count(NodeAsk::Create), 21);
}

// behaviour: NODE-4, NODE-33
#[tokio::test(start_paused = true)]
async fn a_node_that_is_deleted_is_made_again_and_its_lease_follows() {
    for told in [true, false] {
        let world = World::new();
        let _running = world.start();
        let first = world.node(is_ready).await.metadata.uid;
        wait(|| world.api.lease(NAME)).await;
        world.api.freeze(!told);
        world.api.drop_node(NAME);
        if !told {
            // Nobody tells; it shows with the next change.
            world.runtime.set_network_ready(false);
        }
        let begin = Instant::now();
        let second = world.node(|_| true).await.metadata.uid;
        assert_ne!(first, second);
        assert!(begin.elapsed().as_secs() <= 12, "{:?}", begin.elapsed());
        wait(|| {
            let owners = world.api.lease(NAME)?.metadata.owner_references?;
            (owners.len() == 1 && Some(&owners[0].uid) == second.as_ref()).then_some(())
        })
        .await;
    }
}

// behaviour: NODE-4
#[tokio::test(start_paused = true)]
async fn a_server_that_lost_everything_gets_node_and_lease_again() {
    let world = World::new();
    let _running = world.start();
    world.node(is_ready).await;
    wait(|| world.api.lease(NAME)).await;
    world.api.freeze(true);
    world.api.drop_node(NAME);
    world.api.drop_lease(NAME);
    world.api.expire();
    world.api.freeze(false);
    world.node(is_ready).await;
    wait(|| world.api.lease(NAME)).await;
}

// behaviour: NODE-5
#[tokio::test(start_paused = true)]
async fn who_is_not_to_register_waits_for_somebody_to_do_it() {
    let world = World::new();
    let _running = world.start_with(World::settings(|config| config.register_node = false));
    pass(60).await;
    assert_eq!(world.api.count(NodeAsk::Create), 0);
    assert!(world.api.lease(NAME).is_none(), "there is no node that it would be the lease of");
    world.api.put_node(existing());
    let node = world.node(is_ready).await;
    assert_eq!(node.metadata.labels.as_ref().unwrap()["kubernetes.io/os"], "linux");
    wait(|| world.api.lease(NAME)).await;
}

// behaviour: NODE-4
#[tokio::test(start_paused = true)]
async fn a_quiet_node_finds_out_by_its_lease_that_everything_is_lost() {
    let world = World::new();
    let _running = world.start();
    world.node(is_ready).await;
    wait(|| world.api.lease(NAME)).await;
    pass(20).await;
    // Nobody tells, and nothing changes.
    world.api.freeze(true);
    world.api.drop_node(NAME);
    world.api.drop_lease(NAME);
    let begin = Instant::now();
    world.node(is_ready).await;
    assert!(begin.elapsed().as_secs() <= 13, "{:?}", begin.elapsed());
    wait(|| world.api.lease(NAME)).await;
}

// behaviour: NODE-4
#[tokio::test(start_paused = true)]
async fn a_feed_that_went_deaf_is_begun_anew_with_the_node() {
    let world = World::new();
    let _running = world.start();
    world.node(is_ready).await;
    wait(|| world.api.lease(NAME)).await;
    pass(20).await;
    // As a server does that lost its data, to who waits for what comes after the last version.
    world.api.deafen();
    world.api.drop_node(NAME);
    world.api.drop_lease(NAME);
    world.node(is_ready).await;
    world.api.update_node(NAME, |node| {
        node.spec.get_or_insert_default().unschedulable = Some(true);
    });
    let begin = Instant::now();
    wait(|| (world.reasons().last() == Some(&"NodeNotSchedulable")).then_some(())).await;
    assert!(begin.elapsed().as_secs() <= 12, "not by the next report: {:?}", begin.elapsed());
}

// behaviour: NODE-1
#[tokio::test(start_paused = true)]
async fn labels_that_pods_are_placed_by_are_the_machines_from_the_beginning() {
    let world = World::new();
    let mut settings = World::settings(|_| {});
    let asked = [("kubernetes.io/arch", "other"), ("zone", "a")];
    settings.own.labels =
        asked.map(|(name, value)| (name.to_owned(), value.to_owned())).into_iter().collect();
    let _running = world.start_with(settings);
    let node = world.node(is_ready).await;
    let labels = node.metadata.labels.unwrap();
    assert_eq!((labels["kubernetes.io/arch"].as_str(), labels["zone"].as_str()), ("amd64", "a"));
    pass(30).await;
    assert_eq!(world.api.count(NodeAsk::Patch), 0, "nothing is undone");
}

// behaviour: NODE-2
#[tokio::test(start_paused = true)]
async fn sizes_of_huge_pages_that_the_machine_lost_are_told_no_longer() {
    let world = World::new();
    let mut node = existing();
    let amount = |text: &str| Quantity(text.to_owned());
    let had = [("cpu", "64"), ("hugepages-1Gi", "1Gi"), ("example.com/x", "1")];
    let had = had.map(|(name, text)| (name.to_owned(), amount(text)));
    node.status.as_mut().unwrap().capacity = Some(had.into());
    world.api.put_node(node);
    let _running = world.start();
    let node = world.node(is_ready).await;
    let capacity = node.status.unwrap().capacity.unwrap();
    let names: Vec<&str> = capacity.keys().map(String::as_str).collect();
    assert_eq!(names, ["cpu", "ephemeral-storage", "example.com/x", "memory", "pods"]);
    assert_eq!(capacity["cpu"].0, "2");
}

// behaviour: NODE-56
#[tokio::test(start_paused = true)]
async fn devices_of_a_former_agent_are_none_whoever_makes_the_node() {
    let device = "example.com/x";
    for (register, is_there) in [(true, false), (true, true), (false, true)] {
        let world = World::new();
        let mut node = existing();
        let amount = Quantity("4".to_owned());
        let had = [device, "example.com/by-hand"].map(|name| (name.to_owned(), amount.clone()));
        node.status.as_mut().unwrap().capacity = Some(had.into());
        if is_there {
            world.api.put_node(node);
        }
        let mut settings = World::settings(|config| config.register_node = register);
        settings.own.former_devices.insert(device.to_owned());
        let _running = world.start_with(settings);
        let status = world.node(is_ready).await.status.unwrap();
        for found in [status.capacity.unwrap(), status.allocatable.unwrap()] {
            let by_hand = found.get("example.com/by-hand").map(|amount| amount.0.as_str());
            let expected = ("0", is_there.then_some("4"));
            assert_eq!((found[device].0.as_str(), by_hand), expected, "{register} {is_there}");
        }
        // Once: what somebody says later stays.
        let two = || Quantity("2".to_owned());
        world.api.update_node(NAME, |node| {
            let capacity = node.status.as_mut().unwrap().capacity.as_mut().unwrap();
            capacity.insert(device.to_owned(), two());
        });
        let can_have = |node: &Node| node.status.clone()?.allocatable?.get(device).cloned();
        world.node(|node| can_have(node) == Some(two())).await;
    }
}
