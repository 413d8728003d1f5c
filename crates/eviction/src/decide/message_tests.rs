//! Tables for messages.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ResourceRequirements;
use testkit::pods::pod;

use super::*;
use crate::decide::observation::Observed;
use crate::decide::signal::Signal;
use crate::decide::test_pods::{amounts, container, memory, no_stats, with_resources};
use crate::decide::threshold::{Level, Threshold};

fn crossed(signal: Signal, level: Level, available: i64) -> Crossed {
    let threshold = Threshold { signal, level, grace: Duration::ZERO, minimum_reclaim: None };
    let observed = Observed { available, capacity: 1 << 30, at: Timestamp::UNIX_EPOCH };
    Crossed { threshold, observed }
}

fn level(text: &str) -> Level {
    Level::Amount(text.parse().unwrap())
}

/// Containers `modest` and `greedy`, init container `first`.
fn two_containers() -> Pod {
    let request = [("memory", "1Mi"), ("ephemeral-storage", "1k")];
    let builder = with_resources(pod("web").container("modest", "image", []), &request, &[]);
    builder.container("greedy", "image", []).init_container("first", "image", []).build()
}

fn of_container(name: &str, working_set: u64, rootfs: u64, logs: u64) -> ContainerStats {
    ContainerStats { memory: memory(working_set), ..container(name, rootfs, logs) }
}

// behaviour: EVI-30, EVI-31
#[test]
fn message_names_the_resource_and_the_containers_beyond_their_requests() {
    let pod = two_containers();
    let stats = PodStats {
        memory: memory(5 << 20),
        containers: vec![
            of_container("first", 4096, 0, 10),
            of_container("modest", 1 << 20, 500, 500),
            of_container("greedy", 3 << 20, 2048, 1024),
            of_container("debugger", 9 << 20, 9999, 0),
        ],
        ..no_stats(&pod)
    };
    let low = "The node was low on resource: ";
    let rows = [
        (
            crossed(Signal::MemoryAvailable, level("100Mi"), 5 << 20),
            format!(
                "{low}memory. Threshold quantity: 100Mi, available: 5Mi. \
                 Container first was using 4Ki, request is 0, has larger consumption of memory. \
                 Container greedy was using 3Mi, request is 0, has larger consumption of memory. "
            ),
            ["first,greedy", "4Ki,3Mi", "memory"],
        ),
        (
            crossed(Signal::NodeFsAvailable, Level::Share(0.1), 12_345),
            format!(
                "{low}ephemeral-storage. Threshold quantity: 107374184, available: 12345. \
                 Container first was using 10, request is 0, has larger consumption of \
                 ephemeral-storage. \
                 Container greedy was using 3Ki, request is 0, has larger consumption of \
                 ephemeral-storage. "
            ),
            ["first,greedy", "10,3Ki", "ephemeral-storage"],
        ),
        (
            crossed(Signal::ImageFsInodesFree, level("5k"), 3000),
            format!("{low}inodes. Threshold quantity: 5k, available: 3k. "),
            ["", "", "inodes"],
        ),
        (
            crossed(Signal::PidAvailable, level("100"), 7),
            format!("{low}pids. Threshold quantity: 100, available: 7. "),
            ["", "", "pids"],
        ),
    ];
    for (crossed, text, [containers, usage, resource]) in rows {
        let found = message(&pod, &crossed, Some(&stats));
        assert_eq!(found.text, text);
        let annotations = [
            ("offending_containers", containers.to_owned()),
            ("offending_containers_usage", usage.to_owned()),
            ("starved_resource", resource.to_owned()),
        ];
        assert_eq!(found.annotations, annotations);
    }
}

// behaviour: EVI-31
#[test]
fn pod_without_statistics_has_a_message_without_annotations() {
    let crossed = crossed(Signal::PidAvailable, level("100"), 7);
    let found = message(&two_containers(), &crossed, None);
    let expected = "The node was low on resource: pids. Threshold quantity: 100, available: 7. ";
    assert_eq!((found.text.as_str(), found.annotations.len()), (expected, 0));
}

// behaviour: EVI-32
#[test]
fn pod_level_request_is_part_of_the_message_about_memory() {
    let mut pod = two_containers();
    let requests = amounts(&[("memory", "2Mi")]);
    let resources = ResourceRequirements { requests, ..ResourceRequirements::default() };
    pod.spec.as_mut().unwrap().resources = Some(resources);
    let stats = PodStats { memory: memory(3 << 20), ..no_stats(&pod) };
    let found =
        message(&pod, &crossed(Signal::MemoryAvailable, level("1Gi"), 1 << 20), Some(&stats));
    assert_eq!(
        found.text,
        "The node was low on resource: memory. Threshold quantity: 1Gi, available: 1Mi. \
         Pod web was using 3Mi, request is 2Mi, has larger consumption of memory. "
    );
    let offender = [("offending_pod", "web".to_owned()), ("offending_pod_usage", "3Mi".to_owned())];
    assert_eq!(found.annotations[..2], offender);
    let disk = crossed(Signal::NodeFsAvailable, level("1Gi"), 1 << 20);
    assert!(!message(&pod, &disk, Some(&stats)).text.contains("Pod web"));
}
