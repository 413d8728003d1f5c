//! Tables for limits of local storage.

use k8s_openapi::api::core::v1::EmptyDirVolumeSource;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as ApiQuantity;
use testkit::pods::{PodBuilder, pod};

use super::*;
use crate::decide::test_pods::{container as of_container, no_stats, used, volume, with_resources};

fn with_volume(builder: PodBuilder, name: &str, limit: Option<&str>) -> PodBuilder {
    let size_limit = limit.map(|limit| ApiQuantity(limit.to_owned()));
    let empty_dir = Some(EmptyDirVolumeSource { medium: None, size_limit });
    let volume = Volume { name: name.to_owned(), empty_dir, ..Volume::default() };
    builder.spec(|spec| spec.volumes.get_or_insert_default().push(volume))
}

/// A pod with a container `main` that has this limit, if any.
fn limited(limit: Option<&str>) -> PodBuilder {
    let builder = pod("web").container("main", "image", []);
    match limit {
        Some(limit) => with_resources(builder, &[], &[("ephemeral-storage", limit)]),
        None => builder,
    }
}

// behaviour: EVI-24, EVI-25, EVI-26
#[test]
fn pod_is_evicted_for_the_first_limit_that_it_exceeds() {
    let two_volumes = || {
        let builder = with_volume(limited(None), "small", Some("1Ki"));
        with_volume(builder, "unlimited", None)
    };
    // The pod, its volumes, its whole usage, rootfs and logs of `main`; signal and message
    let rows = vec![
        (two_volumes(), vec![volume("small", 1024), volume("unlimited", 9999)], 0, [0, 0], None),
        (
            two_volumes(),
            vec![volume("small", 1025)],
            0,
            [0, 0],
            Some((EMPTY_DIR, "Usage of EmptyDir volume \"small\" exceeds the limit \"1Ki\". ")),
        ),
        (with_volume(limited(None), "zero", Some("0")), vec![volume("zero", 5)], 0, [0, 0], None),
        (limited(Some("2Ki")), vec![], 2048, [1024, 1024], None),
        (
            limited(Some("2Ki")),
            vec![],
            2049,
            [9999, 0],
            Some((
                POD,
                "Pod ephemeral local storage usage exceeds the total limit of containers 2Ki. ",
            )),
        ),
        (
            limited(Some("2Ki")),
            vec![],
            0,
            [1024, 1025],
            Some((
                CONTAINER,
                "Container main exceeded its local ephemeral storage limit \"2Ki\". ",
            )),
        ),
        (limited(None), vec![], 9999, [9999, 9999], None),
    ];
    for (row, (builder, volumes, whole, [rootfs, logs], expected)) in rows.into_iter().enumerate() {
        let pod = builder.build();
        let stats = PodStats {
            volumes,
            ephemeral_storage: used(whole, 0),
            containers: vec![of_container("main", rootfs, logs)],
            ..no_stats(&pod)
        };
        let found = violation(&pod, &stats, DiskLayout::Single);
        let found = found.as_ref().map(|found| (found.signal, found.message.as_str()));
        assert_eq!(found, expected, "row {row}");
    }
}

// behaviour: EVI-26
#[test]
fn writable_layer_counts_for_a_container_unless_it_is_on_another_disk() {
    let pod = limited(Some("1000")).build();
    let stats = PodStats { containers: vec![of_container("main", 900, 200)], ..no_stats(&pod) };
    let rows = [
        (DiskLayout::Single, true),
        (DiskLayout::DedicatedImageFs, false),
        (DiskLayout::Split, false),
    ];
    for (layout, expected) in rows {
        assert_eq!(violation(&pod, &stats, layout).is_some(), expected, "{layout:?}");
    }
}

// behaviour: EVI-25
#[test]
fn limit_of_a_pod_includes_init_containers_and_overhead() {
    let builder = limited(Some("1000")).init_container("first", "image", []);
    let pod = builder
        .spec(|spec| {
            let first = &mut spec.init_containers.as_mut().unwrap()[0];
            let limit = [("ephemeral-storage".to_owned(), ApiQuantity("5000".to_owned()))];
            first.resources.get_or_insert_default().limits = Some(limit.into());
            let overhead = [("ephemeral-storage".to_owned(), ApiQuantity("10".to_owned()))];
            spec.overhead = Some(overhead.into());
        })
        .build();
    for (whole, expected) in [(5010, false), (5011, true)] {
        let stats = PodStats { ephemeral_storage: used(whole, 0), ..no_stats(&pod) };
        assert_eq!(violation(&pod, &stats, DiskLayout::Single).is_some(), expected, "{whole}");
    }
}

// behaviour: EVI-27
#[test]
fn statistics_of_pods_are_needed_only_for_limits() {
    let rows = [
        (limited(None), false),
        (limited(Some("1Gi")), true),
        (with_volume(limited(None), "cache", None), false),
        (with_volume(limited(None), "cache", Some("0")), false),
        (with_volume(limited(None), "cache", Some("1Gi")), true),
    ];
    for (row, (builder, expected)) in rows.into_iter().enumerate() {
        assert_eq!(has_limit(&builder.build()), expected, "row {row}");
    }
}
