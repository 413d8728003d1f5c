use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use model::image_claims::ImageListener as _;
use model::ports::addresses::FoundAddresses;
use model::ports::runtime::Code;
use node::Pressure;
use testkit::cluster::Trouble;
use testkit::cluster::node_api::NodeAsk;
use testkit::runtime::{Fault, Method, Rule};
use tokio::time::Instant;

use crate::world::{NAME, World, condition, is_ready, pass, wait};

// behaviour: NODE-7
#[tokio::test(start_paused = true)]
async fn a_quiet_node_reports_at_its_pace_and_not_more() {
    let world = World::new();
    let _running = world.start();
    world.node(is_ready).await;
    pass(149).await;
    assert_eq!(world.api.count(NodeAsk::Patch), 0);
    let begin = Instant::now();
    wait(|| (world.api.count(NodeAsk::Patch) == 1).then_some(())).await;
    assert!(begin.elapsed().as_secs() <= 312, "within one and a half of five minutes");
    let begin = Instant::now();
    wait(|| (world.api.count(NodeAsk::Patch) == 2).then_some(())).await;
    let after = begin.elapsed().as_secs();
    assert!((299..=311).contains(&after), "from then on every five minutes: {after} s");
    let patch = &world.api.patches()[1];
    let fields: Vec<&String> = patch["status"].as_object().unwrap().keys().collect();
    assert_eq!(fields, ["conditions"], "{patch}");
    assert_eq!(world.api.count(NodeAsk::Get), 0);
}

// behaviour: NODE-8, NODE-20
#[tokio::test(start_paused = true)]
async fn a_shortage_is_told_at_once() {
    let world = World::new();
    let running = world.start();
    world.node(is_ready).await;
    pass(20).await;
    let begin = Instant::now();
    running.handle.set_pressure(Pressure { disk: true, ..Pressure::default() });
    let node = world.node(|node| condition(node, "DiskPressure").status == "True").await;
    assert!(begin.elapsed().as_millis() <= 1100, "{:?}", begin.elapsed());
    assert!(is_ready(&node));
    running.handle.set_pressure(Pressure::default());
    world.node(|node| condition(node, "DiskPressure").status == "False").await;
    let told = world.reasons();
    assert!(told.ends_with(&["NodeHasDiskPressure", "NodeHasNoDiskPressure"]), "{told:?}");
    let message = world.events.all().pop().unwrap().message;
    assert_eq!(message, "Node n status is now: NodeHasNoDiskPressure");
}

// behaviour: NODE-25
#[tokio::test(start_paused = true)]
async fn a_node_without_a_network_is_not_ready_until_there_is_one() {
    let world = World::new();
    world.runtime.set_network_ready(false);
    let running = world.start();
    let node = world.node(|_| true).await;
    let message = condition(&node, "Ready").message.unwrap();
    let start = "container runtime network not ready: NetworkReady=false reason:";
    assert!(message.starts_with(start), "{message}");
    assert!(running.handle.network_error().unwrap().starts_with(start));
    pass(5).await;
    let begin = Instant::now();
    world.runtime.set_network_ready(true);
    world.node(is_ready).await;
    assert!(begin.elapsed().as_millis() < 1500, "{:?}", begin.elapsed());
    assert_eq!(running.handle.network_error(), None);
    pass(60).await;
    world.runtime.set_network_ready(false);
    running.handle.runtime_changed();
    world.node(|node| !is_ready(node)).await;
    assert!(world.reasons().ends_with(&["NodeReady", "NodeNotReady"]), "{:?}", world.reasons());
}

// behaviour: NODE-21
#[tokio::test(start_paused = true)]
async fn a_part_that_is_not_well_shows_and_its_recovery_too() {
    let world = World::new();
    world.part.set(Some("pleg has yet to be successful"));
    let running = world.start();
    let node = world.node(|_| true).await;
    let message = condition(&node, "Ready").message.unwrap();
    assert_eq!(message, "PLEG is not healthy: pleg has yet to be successful");
    let begin = Instant::now();
    world.part.set(None);
    world.node(is_ready).await;
    assert!(begin.elapsed().as_millis() < 500, "while it starts it is looked at often");
    pass(300).await;
    world.part.set(Some("pleg was last seen active 3m1s ago; threshold is 3m0s"));
    let begin = Instant::now();
    world.node(|node| !is_ready(node)).await;
    assert!(begin.elapsed().as_secs() <= 12, "{:?}", begin.elapsed());
    world.runtime.set_network_ready(false);
    running.handle.runtime_changed();
    let both = "[PLEG is not healthy: pleg was last seen active 3m1s ago; threshold is 3m0s, \
                container runtime network not ready: NetworkReady=false reason:";
    let says_both =
        |node: &Node| condition(node, "Ready").message.is_some_and(|all| all.starts_with(both));
    world.node(says_both).await;
}

// behaviour: NODE-11
#[tokio::test(start_paused = true)]
async fn a_node_that_was_given_up_says_that_it_lives() {
    let world = World::new();
    let _running = world.start();
    world.node(is_ready).await;
    pass(30).await;
    world.api.update_node(NAME, |node| {
        let all = node.status.as_mut().unwrap().conditions.as_mut().unwrap();
        for condition in all {
            condition.status = "Unknown".to_owned();
        }
    });
    let begin = Instant::now();
    let node = world.node(is_ready).await;
    assert!(begin.elapsed().as_millis() <= 1100, "{:?}", begin.elapsed());
    assert_eq!(condition(&node, "MemoryPressure").status, "False");
}

// behaviour: NODE-10
#[tokio::test(start_paused = true)]
async fn what_others_say_about_the_node_stays() {
    let world = World::new();
    let _running = world.start();
    world.node(is_ready).await;
    world.api.update_node(NAME, |node| {
        node.metadata.labels.as_mut().unwrap().insert("team".to_owned(), "a".to_owned());
        let status = node.status.as_mut().unwrap();
        let amount = status.capacity.as_ref().unwrap()["pods"].clone();
        status.capacity.as_mut().unwrap().insert("example.com/dongle".to_owned(), amount);
    });
    let node = world
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
async fn a_write_that_fails_is_tried_again_from_what_is_there() {
    let world = World::new();
    let running = world.start();
    world.node(is_ready).await;
    pass(20).await;
    world.api.forget_calls();
    world.api.trouble(NodeAsk::Patch, Trouble::Refused(409), 2);
    running.handle.set_pressure(Pressure { pid: true, ..Pressure::default() });
    world.node(|node| condition(node, "PIDPressure").status == "True").await;
    let asked: Vec<NodeAsk> = world.api.calls();
    let asked: Vec<&NodeAsk> =
        asked.iter().filter(|ask| matches!(ask, NodeAsk::Patch | NodeAsk::Get)).collect();
    let (patch, get) = (&NodeAsk::Patch, &NodeAsk::Get);
    assert_eq!(asked, [patch, get, patch, get, patch]);
    // Five tries, and then the server has some rest.
    world.api.forget_calls();
    world.api.trouble(NodeAsk::Patch, Trouble::Unreachable, 7);
    running.handle.set_pressure(Pressure::default());
    let begin = Instant::now();
    world.node(|node| condition(node, "PIDPressure").status == "False").await;
    assert_eq!(world.api.count(NodeAsk::Patch), 8);
    assert!((9..13).contains(&begin.elapsed().as_secs()), "{:?}", begin.elapsed());
}

// behaviour: NODE-9, NODE-13
#[tokio::test(start_paused = true)]
async fn new_images_and_addresses_are_told_before_long() {
    let world = World::new();
    let running = world.start();
    world.node(is_ready).await;
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
    world.runtime.list_besides(image);
    running.handle.images_changed();
    let begin = Instant::now();
    world.node(|node| node.status.as_ref().unwrap().images.is_some()).await;
    assert!(begin.elapsed().as_secs() <= 12, "{:?}", begin.elapsed());
    world.addresses.set(moved());
    world.node(has_moved).await;
    assert!(begin.elapsed().as_secs() <= 45, "{:?}", begin.elapsed());
    world.addresses.set(FoundAddresses::default());
    pass(120).await;
    assert!(has_moved(&world.api.node(NAME).unwrap()), "what cannot be found out changes nothing");
}

/// Another address of the machine than it has at first.
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
async fn images_that_come_all_the_time_keep_no_address_from_being_told() {
    let world = World::new();
    let running = world.start();
    world.node(is_ready).await;
    world.addresses.set(moved());
    for _ in 0..6 {
        running.handle.images_changed();
        pass(10).await;
    }
    assert!(has_moved(&world.api.node(NAME).unwrap()));
}

// behaviour: NODE-24
#[tokio::test(start_paused = true)]
async fn it_is_told_when_pods_can_be_placed_and_when_not() {
    let world = World::new();
    let _running = world.start();
    world.node(is_ready).await;
    for (unschedulable, reason) in [(true, "NodeNotSchedulable"), (false, "NodeSchedulable")] {
        world.api.update_node(NAME, |node| {
            node.spec.get_or_insert_default().unschedulable = Some(unschedulable);
        });
        wait(|| (world.reasons().last() == Some(&reason)).then_some(())).await;
    }
    pass(30).await;
    assert_eq!(world.api.count(NodeAsk::Patch), 0);
}

// behaviour: NODE-22
#[tokio::test(start_paused = true)]
async fn a_runtime_that_does_not_answer_makes_the_node_not_ready_after_half_a_minute() {
    let world = World::new();
    let _running = world.start();
    world.node(is_ready).await;
    pass(60).await;
    world.runtime.inject(Rule::on(Method::Status, Fault::error(Code::Unavailable)));
    let begin = Instant::now();
    let node = world.node(|node| !is_ready(node)).await;
    let waited = begin.elapsed().as_secs();
    assert!((20..=42).contains(&waited), "{waited}");
    assert_eq!(condition(&node, "Ready").message.as_deref(), Some("container runtime is down"));
    world.runtime.clear_faults();
    world.node(is_ready).await;
    assert!(begin.elapsed().as_secs() - waited <= 6);
}

// behaviour: NODE-16
#[tokio::test(start_paused = true)]
async fn that_the_machine_started_anew_is_told_once() {
    let world = World::new();
    let _running = world.start();
    world.node(is_ready).await;
    let boot_id = |node: &Node| node.status.clone().unwrap().node_info.unwrap().boot_id;
    for earlier in ["one", "two"] {
        // As if the object were put back to what it was before.
        world.api.update_node(NAME, |node| {
            let info = node.status.as_mut().unwrap().node_info.as_mut().unwrap();
            earlier.clone_into(&mut info.boot_id);
        });
        world.node(|node| boot_id(node).is_empty()).await;
    }
    pass(30).await;
    let told = world.reasons().into_iter().filter(|reason| *reason == "Rebooted").count();
    assert_eq!(told, 1);
}

// behaviour: NODE-36
#[tokio::test(start_paused = true)]
async fn a_server_that_wants_to_be_left_alone_is_left_alone() {
    let world = World::new();
    let busy = Trouble::Throttled(Some(Duration::from_secs(25)));
    for ask in [NodeAsk::Create, NodeAsk::GetLease] {
        world.api.trouble(ask, busy.clone(), 1);
    }
    let begin = Instant::now();
    let _running = world.start();
    world.node(is_ready).await;
    assert!((25..28).contains(&begin.elapsed().as_secs()), "{:?}", begin.elapsed());
    wait(|| world.api.lease(NAME)).await;
    assert!((25..28).contains(&begin.elapsed().as_secs()), "{:?}", begin.elapsed());
    pass(5).await;
    for ask in [NodeAsk::Patch, NodeAsk::UpdateLease] {
        world.api.trouble(ask, busy.clone(), 1);
    }
    let begin = Instant::now();
    world.runtime.set_network_ready(false);
    world.node(|node| !is_ready(node)).await;
    // Up to ten seconds until it is noticed.
    assert!((25..40).contains(&begin.elapsed().as_secs()), "{:?}", begin.elapsed());
    let renewals = world.api.count(NodeAsk::UpdateLease);
    assert!(renewals <= 2, "{renewals}");
}

// behaviour: NODE-35
#[tokio::test(start_paused = true)]
async fn the_runtime_is_told_which_addresses_pods_have_until_it_knows() {
    let world = World::new();
    world
        .runtime
        .inject(Rule::on(Method::UpdateRuntimeConfig, Fault::error(Code::Internal)).times(2));
    let _running = world.start();
    world.node(is_ready).await;
    pass(20).await;
    assert_eq!(world.runtime.count(Method::UpdateRuntimeConfig), 0);
    let give = |cidrs: &[&str]| {
        let cidrs: Vec<String> = cidrs.iter().map(|one| (*one).to_owned()).collect();
        world.api.update_node(NAME, |node| {
            node.spec.get_or_insert_default().pod_cidrs = Some(cidrs);
        });
    };
    let told = || {
        let calls = world.runtime.calls().into_iter();
        let told = calls.filter(|call| call.method == Method::UpdateRuntimeConfig);
        told.map(|call| call.object).collect::<Vec<_>>()
    };
    give(&["10.1.0.0/24", "fd00::/64"]);
    wait(|| (told().len() == 3).then_some(())).await;
    assert_eq!(told(), ["10.1.0.0/24,fd00::/64"; 3], "two of which failed");
    pass(60).await;
    assert_eq!(told().len(), 3);
    give(&["10.2.0.0/24"]);
    wait(|| (told().len() == 4).then_some(())).await;
    assert_eq!(told()[3], "10.2.0.0/24");
}
