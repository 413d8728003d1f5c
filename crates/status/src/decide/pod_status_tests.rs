//! Fields of a status other than containers, phase and conditions.

use std::net::IpAddr;

use k8s_openapi::api::core::v1::{PodStatus, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use model::observed::ContainerState::{Created, Exited, Running};
use model::observed::SandboxState::NotReady;

use crate::decide::pod_status::has_container_in_sandbox;
use crate::decide::test_pods::{Harness, NOW, at, instance, pod, sidecar, time, with_init};

fn ips(texts: &[&str]) -> Vec<IpAddr> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

#[test]
fn pod_has_one_address_per_family_preferred_first() {
    let rows: [(&[&str], bool, &[&str]); 5] = [
        (&[], false, &[]),
        (&["10.0.0.1", "10.0.0.2", "fd00::1"], false, &["10.0.0.1", "fd00::1"]),
        (&["fd00::1", "10.0.0.1"], false, &["10.0.0.1", "fd00::1"]),
        (&["10.0.0.1", "fd00::1"], true, &["fd00::1", "10.0.0.1"]),
        (&["fd00::1"], false, &["fd00::1"]),
    ];
    for (observed, prefers_v6, expected) in rows {
        let mut harness = Harness::new(pod("Always", &["a"]), vec![]);
        harness.observed.ips = ips(observed);
        harness.node.prefers_v6 = prefers_v6;
        // The node's own addresses do not matter.
        harness.node.host_ips = ips(&["fd00::9", "192.0.2.1"]);
        let status = harness.status();
        let shown: Vec<String> = status.pod_ips.into_iter().flatten().map(|one| one.ip).collect();
        assert_eq!(shown, expected);
        assert_eq!(status.pod_ip.as_deref(), expected.first().copied());
    }
}

#[test]
fn host_network_pod_has_the_host_addresses() {
    let mut harness = Harness::new(pod("Always", &["a"]), vec![]);
    harness.pod.spec.as_mut().unwrap().host_network = Some(true);
    harness.observed.ips.clear();
    assert_eq!(harness.status().pod_ip, None, "not known yet");
    harness.node.host_ips = ips(&["192.0.2.1", "fd00::9"]);
    let status = harness.status();
    assert_eq!(status.pod_ip.as_deref(), Some("192.0.2.1"));
    assert_eq!(status.pod_ips.unwrap().len(), 2);
    assert_eq!(status.host_ip.as_deref(), Some("192.0.2.1"));
    assert_eq!(status.host_ips.unwrap().len(), 2);
}

#[test]
fn node_addresses_are_published_once_known() {
    let mut harness = Harness::new(pod("Always", &["a"]), vec![]);
    assert_eq!((harness.status().host_ip, harness.status().host_ips), (None, None));
    harness.node.host_ips = ips(&["192.0.2.1"]);
    assert_eq!(harness.status().host_ip.as_deref(), Some("192.0.2.1"));
    assert_eq!(harness.status().pod_ip.as_deref(), Some("10.0.0.1"));
}

#[test]
fn start_time_is_set_once() {
    let mut harness = Harness::new(pod("Always", &["a"]), vec![]);
    assert_eq!(
        harness.status().start_time,
        Some(time(10)),
        "with its sandbox, under another agent"
    );
    harness.observed.sandboxes.clear();
    assert_eq!(harness.status().start_time, Some(time(NOW)));
    harness.pod.status = Some(PodStatus { start_time: Some(time(50)), ..PodStatus::default() });
    assert_eq!(harness.status().start_time, Some(time(50)));
    harness.previous = Some(PodStatus { start_time: Some(time(60)), ..PodStatus::default() });
    assert_eq!(harness.status().start_time, Some(time(60)));
}

#[test]
fn times_are_whole_seconds() {
    let mut harness = Harness::new(pod("Never", &["a", "b"]), vec![]);
    let fine = |second: i64| at(second) + jiff::SignedDuration::from_millis(750);
    let mut a = instance("a-0", Exited, 0);
    (a.started_at, a.finished_at) = (Some(fine(1)), Some(fine(2)));
    let mut b = instance("b-0", Running, 0);
    b.started_at = Some(fine(3));
    harness.observed.containers = vec![a, b];
    harness.now = fine(NOW);
    harness.observed.sandboxes[0].created_at = fine(10);
    let status = harness.status();
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
fn termination_messages_share_the_size_limit_of_the_pod() {
    for (names, share) in [(vec!["a"], 12 * 1024), (vec!["a", "b", "c"], 4 * 1024)] {
        let mut long = instance("a-0", Exited, 1);
        long.message = "é".repeat(10_000).into();
        let harness = Harness::new(pod("Never", &names), vec![long]);
        let message = harness.first().state.unwrap().terminated.unwrap().message.unwrap();
        assert_eq!(message.len(), share, "{names:?}");
    }
}

#[test]
fn truncated_message_keeps_whole_characters() {
    let mut long = instance("a-0", Exited, 1);
    long.message = format!("x{}", "é".repeat(10_000)).into();
    let harness = Harness::new(pod("Never", &["a"]), vec![long]);
    let message = harness.first().state.unwrap().terminated.unwrap().message.unwrap();
    assert_eq!(message.len(), 12 * 1024 - 1);
}

#[test]
fn qos_class_is_from_the_api_or_the_specification() {
    let mut harness = Harness::new(pod("Always", &["a"]), vec![]);
    assert_eq!(harness.status().qos_class.as_deref(), Some("BestEffort"));
    let limits = [("cpu", "1"), ("memory", "1Gi")]
        .map(|(name, amount)| (name.to_owned(), Quantity(amount.to_owned())));
    harness.pod.spec.as_mut().unwrap().containers[0].resources = Some(ResourceRequirements {
        limits: Some(limits.clone().into()),
        requests: Some(limits.into()),
        ..ResourceRequirements::default()
    });
    assert_eq!(harness.status().qos_class.as_deref(), Some("Guaranteed"));
    harness.pod.status =
        Some(PodStatus { qos_class: Some("Burstable".to_owned()), ..PodStatus::default() });
    assert_eq!(harness.status().qos_class.as_deref(), Some("Burstable"));
}

#[test]
fn observed_generation_never_decreases() {
    let rows = [
        (None, None, None),
        (Some(2), None, Some(2)),
        (Some(2), Some(3), Some(3)),
        (Some(4), Some(3), Some(4)),
        (Some(0), None, None),
    ];
    for (generation, before, expected) in rows {
        let mut harness = Harness::new(pod("Always", &["a"]), vec![]);
        harness.pod.metadata.generation = generation;
        harness.previous = Some(PodStatus { observed_generation: before, ..PodStatus::default() });
        assert_eq!(harness.status().observed_generation, expected);
    }
}

#[test]
fn pod_is_initialized_once_a_regular_container_exists_in_its_sandbox() {
    let live = |made: i64, name: &str, change: fn(&mut Harness)| {
        let mut one = instance(name, Created, 0);
        one.created_at = at(made);
        let pod = with_init(pod("Always", &["a"]), vec![sidecar("beside")]);
        let mut harness = Harness::new(pod, vec![one]);
        harness.observed.sandboxes[0].created_at = at(10);
        change(&mut harness);
        has_container_in_sandbox(&harness.input())
    };
    assert!(live(11, "a-0", |_| {}));
    assert!(live(10, "a-0", |_| {}));
    assert!(!live(9, "a-0", |_| {}), "it was created in an earlier sandbox");
    assert!(!live(11, "beside-0", |_| {}), "a sidecar is not a regular container");
    assert!(!live(11, "a-0", |harness| harness.observed.sandboxes[0].state = NotReady));
    assert!(!live(11, "a-0", |harness| harness.observed.sandboxes.clear()));
}

#[test]
fn resource_claim_statuses_are_kept() {
    let claim = || {
        Some(vec![k8s_openapi::api::core::v1::PodResourceClaimStatus {
            name: "gpu".to_owned(),
            resource_claim_name: Some("web-gpu".to_owned()),
        }])
    };
    let mut harness =
        Harness::new(pod("Always", &["a"]), vec![]).with_previous(PodStatus::default());
    harness.pod.status =
        Some(PodStatus { resource_claim_statuses: claim(), ..PodStatus::default() });
    assert_eq!(harness.status().resource_claim_statuses, claim());
}
