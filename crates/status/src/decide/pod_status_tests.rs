//! What a status has besides containers, phase and conditions.

use std::net::IpAddr;

use k8s_openapi::api::core::v1::{PodStatus, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use model::observed::ContainerState::{Created, Exited, Running};
use model::observed::SandboxState::NotReady;

use crate::decide::pod_status::has_container_in_sandbox;
use crate::decide::test_pods::{NOW, World, at, instance, pod, sidecar, time, with_init};

fn ips(texts: &[&str]) -> Vec<IpAddr> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

#[test]
fn a_pod_shows_one_address_of_each_family_the_preferred_first() {
    let rows: [(&[&str], bool, &[&str]); 5] = [
        (&[], false, &[]),
        (&["10.0.0.1", "10.0.0.2", "fd00::1"], false, &["10.0.0.1", "fd00::1"]),
        (&["fd00::1", "10.0.0.1"], false, &["10.0.0.1", "fd00::1"]),
        (&["10.0.0.1", "fd00::1"], true, &["fd00::1", "10.0.0.1"]),
        (&["fd00::1"], false, &["fd00::1"]),
    ];
    for (observed, prefers_v6, expected) in rows {
        let mut world = World::new(pod("Always", &["a"]), vec![]);
        world.observed.ips = ips(observed);
        world.node.prefers_v6 = prefers_v6;
        // What the node was found to have says nothing about it.
        world.node.host_ips = ips(&["fd00::9", "192.0.2.1"]);
        let status = world.status();
        let shown: Vec<String> = status.pod_ips.into_iter().flatten().map(|one| one.ip).collect();
        assert_eq!(shown, expected);
        assert_eq!(status.pod_ip.as_deref(), expected.first().copied());
    }
}

#[test]
fn a_pod_on_the_hosts_network_has_the_hosts_addresses() {
    let mut world = World::new(pod("Always", &["a"]), vec![]);
    world.pod.spec.as_mut().unwrap().host_network = Some(true);
    world.observed.ips.clear();
    assert_eq!(world.status().pod_ip, None, "nobody knows them yet");
    world.node.host_ips = ips(&["192.0.2.1", "fd00::9"]);
    let status = world.status();
    assert_eq!(status.pod_ip.as_deref(), Some("192.0.2.1"));
    assert_eq!(status.pod_ips.unwrap().len(), 2);
    assert_eq!(status.host_ip.as_deref(), Some("192.0.2.1"));
    assert_eq!(status.host_ips.unwrap().len(), 2);
}

#[test]
fn the_nodes_addresses_are_told_once_they_are_known() {
    let mut world = World::new(pod("Always", &["a"]), vec![]);
    assert_eq!((world.status().host_ip, world.status().host_ips), (None, None));
    world.node.host_ips = ips(&["192.0.2.1"]);
    assert_eq!(world.status().host_ip.as_deref(), Some("192.0.2.1"));
    assert_eq!(world.status().pod_ip.as_deref(), Some("10.0.0.1"));
}

#[test]
fn a_pod_starts_once() {
    let mut world = World::new(pod("Always", &["a"]), vec![]);
    assert_eq!(world.status().start_time, Some(time(10)), "with its sandbox, under another agent");
    world.observed.sandboxes.clear();
    assert_eq!(world.status().start_time, Some(time(NOW)));
    world.pod.status = Some(PodStatus { start_time: Some(time(50)), ..PodStatus::default() });
    assert_eq!(world.status().start_time, Some(time(50)));
    world.previous = Some(PodStatus { start_time: Some(time(60)), ..PodStatus::default() });
    assert_eq!(world.status().start_time, Some(time(60)));
}

#[test]
fn times_are_whole_seconds() {
    let mut world = World::new(pod("Never", &["a", "b"]), vec![]);
    let fine = |second: i64| at(second) + jiff::SignedDuration::from_millis(750);
    let mut a = instance("a-0", Exited, 0);
    (a.started_at, a.finished_at) = (Some(fine(1)), Some(fine(2)));
    let mut b = instance("b-0", Running, 0);
    b.started_at = Some(fine(3));
    world.observed.containers = vec![a, b];
    world.now = fine(NOW);
    world.observed.sandboxes[0].created_at = fine(10);
    let status = world.status();
    assert_eq!(status.start_time, Some(time(10)));
    for condition in status.conditions.unwrap() {
        assert_eq!(condition.last_transition_time, Some(time(NOW)));
    }
    let mut containers = status.container_statuses.unwrap().into_iter();
    let end = containers.next().unwrap().state.unwrap().terminated.unwrap();
    assert_eq!((end.started_at, end.finished_at), (Some(time(1)), Some(time(2))));
    let running = containers.next().unwrap().state.unwrap().running.unwrap();
    assert_eq!(running.started_at, Some(time(3)));
}

#[test]
fn termination_messages_share_what_a_pod_may_show() {
    for (names, share) in [(vec!["a"], 12 * 1024), (vec!["a", "b", "c"], 4 * 1024)] {
        let mut long = instance("a-0", Exited, 1);
        long.message = "é".repeat(10_000).into();
        let world = World::new(pod("Never", &names), vec![long]);
        let message = world.first().state.unwrap().terminated.unwrap().message.unwrap();
        assert_eq!(message.len(), share, "{names:?}");
    }
}

#[test]
fn a_cut_message_keeps_whole_characters() {
    let mut long = instance("a-0", Exited, 1);
    long.message = format!("x{}", "é".repeat(10_000)).into();
    let world = World::new(pod("Never", &["a"]), vec![long]);
    let message = world.first().state.unwrap().terminated.unwrap().message.unwrap();
    assert_eq!(message.len(), 12 * 1024 - 1);
}

#[test]
fn the_class_of_service_is_the_apis_or_follows_from_the_specification() {
    let mut world = World::new(pod("Always", &["a"]), vec![]);
    assert_eq!(world.status().qos_class.as_deref(), Some("BestEffort"));
    let limits = [("cpu", "1"), ("memory", "1Gi")]
        .map(|(name, amount)| (name.to_owned(), Quantity(amount.to_owned())));
    world.pod.spec.as_mut().unwrap().containers[0].resources = Some(ResourceRequirements {
        limits: Some(limits.clone().into()),
        requests: Some(limits.into()),
        ..ResourceRequirements::default()
    });
    assert_eq!(world.status().qos_class.as_deref(), Some("Guaranteed"));
    world.pod.status =
        Some(PodStatus { qos_class: Some("Burstable".to_owned()), ..PodStatus::default() });
    assert_eq!(world.status().qos_class.as_deref(), Some("Burstable"));
}

#[test]
fn the_observed_generation_never_goes_back() {
    let rows = [
        (None, None, None),
        (Some(2), None, Some(2)),
        (Some(2), Some(3), Some(3)),
        (Some(4), Some(3), Some(4)),
        (Some(0), None, None),
    ];
    for (generation, before, expected) in rows {
        let mut world = World::new(pod("Always", &["a"]), vec![]);
        world.pod.metadata.generation = generation;
        world.previous = Some(PodStatus { observed_generation: before, ..PodStatus::default() });
        assert_eq!(world.status().observed_generation, expected);
    }
}

#[test]
fn a_pod_counts_as_initialized_once_a_regular_container_was_made_in_its_live_sandbox() {
    let live = |made: i64, name: &str, change: fn(&mut World)| {
        let mut one = instance(name, Created, 0);
        one.created_at = at(made);
        let pod = with_init(pod("Always", &["a"]), vec![sidecar("beside")]);
        let mut world = World::new(pod, vec![one]);
        world.observed.sandboxes[0].created_at = at(10);
        change(&mut world);
        has_container_in_sandbox(&world.input())
    };
    assert!(live(11, "a-0", |_| {}));
    assert!(live(10, "a-0", |_| {}));
    assert!(!live(9, "a-0", |_| {}), "it was made in a sandbox before");
    assert!(!live(11, "beside-0", |_| {}), "a sidecar is not a regular container");
    assert!(!live(11, "a-0", |world| world.observed.sandboxes[0].state = NotReady));
    assert!(!live(11, "a-0", |world| world.observed.sandboxes.clear()));
}

#[test]
fn claims_on_resources_are_kept_as_others_wrote_them() {
    let claim = || {
        Some(vec![k8s_openapi::api::core::v1::PodResourceClaimStatus {
            name: "gpu".to_owned(),
            resource_claim_name: Some("web-gpu".to_owned()),
        }])
    };
    let mut world = World::new(pod("Always", &["a"]), vec![]).with_previous(PodStatus::default());
    world.pod.status = Some(PodStatus { resource_claim_statuses: claim(), ..PodStatus::default() });
    assert_eq!(world.status().resource_claim_statuses, claim());
}
