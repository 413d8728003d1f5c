//! Tables of requests and limits with the resulting kernel settings.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Container, Pod, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use model::machine::{Cgroups, HugePages, Machine};
use model::wanted::{HugePageLimit, LinuxResources};
use proptest::prelude::*;
use testkit::pods;

use super::resources::{LimitSettings, container_resources, overhead_resources, sandbox_resources};

/// Resource names and amounts.
type Listed<'a> = &'a [(&'a str, &'a str)];

const GIB: u64 = 1 << 30;

fn machine() -> Machine {
    Machine { memory: 10 * GIB, cgroups: Cgroups::V1, ..Machine::default() }
}

fn settings() -> LimitSettings {
    LimitSettings { cpu_period: Some(Duration::from_millis(100)), ..LimitSettings::default() }
}

fn container(requests: &[(&str, &str)], limits: &[(&str, &str)]) -> Container {
    let list = |amounts: &[(&str, &str)]| -> BTreeMap<String, Quantity> {
        amounts
            .iter()
            .map(|(name, text)| ((*name).to_owned(), Quantity((*text).to_owned())))
            .collect()
    };
    Container {
        name: "main".to_owned(),
        resources: Some(ResourceRequirements {
            requests: Some(list(requests)),
            limits: Some(list(limits)),
            claims: None,
        }),
        ..Container::default()
    }
}

fn pod(containers: Vec<Container>) -> Pod {
    let mut pod = pods::pod("web").build();
    pod.spec.as_mut().unwrap().containers = containers;
    pod
}

fn values(container: &Container) -> LinuxResources {
    container_resources(&pod(vec![container.clone()]), container, &settings(), &machine())
}

// behaviour: CON-70, CON-71
#[test]
fn cpu_becomes_shares_and_a_quota() {
    let rows: [(Listed, Listed, i64, i64); 8] = [
        (&[], &[], 2, 0),
        (&[("cpu", "1")], &[], 1024, 0),
        (&[("cpu", "1500m")], &[("cpu", "2")], 1536, 200_000),
        (&[], &[("cpu", "500m")], 512, 50_000),
        (&[("cpu", "0")], &[("cpu", "500m")], 2, 50_000),
        (&[("cpu", "1m")], &[("cpu", "1m")], 2, 1000),
        (&[("cpu", "1000")], &[], 262_144, 0),
        (&[("cpu", "100u")], &[], 2, 0),
    ];
    for (requests, limits, shares, quota) in rows {
        let values = values(&container(requests, limits));
        assert_eq!(
            (values.cpu_shares, values.cpu_quota),
            (shares, quota),
            "{requests:?} {limits:?}"
        );
        assert_eq!(values.cpu_period, 100_000);
    }
}

// behaviour: CON-72
#[test]
fn cpu_period_follows_the_configuration() {
    let limited = container(&[], &[("cpu", "500m")]);
    let pod = pod(vec![limited.clone()]);
    let off = LimitSettings { cpu_period: None, ..settings() };
    let values = container_resources(&pod, &limited, &off, &machine());
    assert_eq!((values.cpu_period, values.cpu_quota, values.cpu_shares), (0, 0, 512));
    let short = LimitSettings { cpu_period: Some(Duration::from_millis(5)), ..settings() };
    let values = container_resources(&pod, &limited, &short, &machine());
    assert_eq!((values.cpu_period, values.cpu_quota), (5000, 2500));
}

// behaviour: CON-73
#[test]
fn memory_is_limited_without_swap() {
    let limited = container(&[], &[("memory", "64Mi")]);
    let pod = pod(vec![limited.clone()]);
    let bytes = 64 << 20;
    let mut machine = Machine { swap_controller: true, ..machine() };
    let values = container_resources(&pod, &limited, &settings(), &machine);
    assert_eq!((values.memory_limit, values.memory_swap_limit), (bytes, bytes));
    machine.cgroups = Cgroups::V2;
    let grouped = LimitSettings { oom_kills_all: true, ..settings() };
    let values = container_resources(&pod, &limited, &grouped, &machine);
    assert_eq!((values.memory_limit, values.memory_swap_limit), (bytes, 0));
    let unified: Vec<_> = values.unified.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
    assert_eq!(unified, [("memory.oom.group", "1"), ("memory.swap.max", "0")]);
}

// behaviour: CON-91, CON-92
#[test]
fn swap_is_limited_by_the_memory_request() {
    let memory = (10 * GIB, 4 * GIB);
    let rows: [(Listed, Listed, bool, &str); 8] = [
        (&[("memory", "1Gi")], &[], true, "429496729"),
        (&[("memory", "5Gi")], &[("memory", "6Gi")], true, "2147483648"),
        (&[("memory", "10Gi")], &[], true, "4294967296"),
        (&[("memory", "11Gi")], &[], true, "0"),
        (&[("memory", "1Gi")], &[("memory", "1Gi")], true, "0"),
        (&[("cpu", "1")], &[("memory", "1Gi")], true, "0"),
        (&[], &[], true, "0"),
        (&[("memory", "1Gi")], &[], false, "0"),
    ];
    for (requests, limits, limited_swap, expected) in rows {
        let machine = Machine {
            memory: memory.0,
            swap_bytes: memory.1,
            swap_controller: true,
            cgroups: Cgroups::V2,
            ..Machine::default()
        };
        let (container, settings) =
            (container(requests, limits), LimitSettings { limited_swap, ..settings() });
        let pod = pod(vec![container.clone()]);
        let values = container_resources(&pod, &container, &settings, &machine);
        assert_eq!(values.unified["memory.swap.max"], expected, "{requests:?} {limits:?}");
        let without = Machine { swap_controller: false, ..machine.clone() };
        let values = container_resources(&pod, &container, &settings, &without);
        assert!(values.unified.is_empty(), "nothing can limit it");
        let old = Machine { cgroups: Cgroups::V1, ..machine };
        let values = container_resources(&pod, &container, &settings, &old);
        assert_eq!(values.memory_swap_limit, values.memory_limit, "no swap on the first version");
    }
}

// behaviour: CON-74
#[test]
fn huge_pages_are_limited_to_zero_unless_requested() {
    let wants = container(&[], &[("hugepages-2Mi", "6Mi")]);
    let pages = |size| HugePages { size, count: 0 };
    let machine = Machine { huge_pages: vec![pages(2 << 20), pages(GIB)], ..machine() };
    let values = container_resources(&pod(vec![wants.clone()]), &wants, &settings(), &machine);
    let limit = |size: &str, limit| HugePageLimit { page_size: size.to_owned(), limit };
    assert_eq!(values.huge_page_limits, [limit("2MB", 6 << 20), limit("1GB", 0)]);
}

// behaviour: CON-75
#[test]
fn oom_score_is_higher_for_smaller_requests() {
    let full = [("cpu", "1"), ("memory", "1Gi")];
    let rows: [(Listed, Listed, i64); 6] = [
        (&full, &full, -997),
        (&[], &[], 1000),
        (&[("memory", "1Gi")], &[], 900),
        (&[("cpu", "1")], &[], 999),
        (&[("memory", "10Gi")], &[], 3),
        (&[("memory", "20Gi")], &[], 3),
    ];
    for (requests, limits, expected) in rows {
        let values = values(&container(requests, limits));
        assert_eq!(values.oom_score_adj, expected, "{requests:?} {limits:?}");
    }
}

#[test]
fn sidecar_has_at_most_the_oom_score_of_regular_containers() {
    let mut sidecar = container(&[], &[]);
    sidecar.name = "sidecar".to_owned();
    sidecar.restart_policy = Some("Always".to_owned());
    let mut pod =
        pod(vec![container(&[("memory", "1Gi")], &[]), container(&[("memory", "2Gi")], &[])]);
    pod.spec.as_mut().unwrap().init_containers = Some(vec![sidecar.clone()]);
    let values = container_resources(&pod, &sidecar, &settings(), &machine());
    assert_eq!(values.oom_score_adj, 900);
}

#[test]
fn node_critical_pod_has_the_lowest_oom_score() {
    let plain = container(&[], &[]);
    let mut pod = pod(vec![plain.clone()]);
    pod.spec.as_mut().unwrap().priority_class_name = Some("system-node-critical".to_owned());
    let adjust =
        |pod: &Pod| container_resources(pod, &plain, &settings(), &machine()).oom_score_adj;
    assert_eq!(adjust(&pod), 1000, "any user can set the class name alone");
    pod.spec.as_mut().unwrap().priority = Some(2_000_001_000);
    assert_eq!(adjust(&pod), -997);
}

// behaviour: CON-76
#[test]
fn sandbox_resources_are_the_sum_of_its_containers() {
    let one = container(&[("cpu", "500m")], &[("cpu", "1"), ("memory", "64Mi")]);
    let values = sandbox_resources(&pod(vec![one.clone(), one]), &settings(), &machine());
    let expected = LinuxResources {
        cpu_period: 100_000,
        cpu_quota: 200_000,
        cpu_shares: 1024,
        memory_limit: 128 << 20,
        ..LinuxResources::default()
    };
    assert_eq!(values, expected);
}

#[test]
fn pod_limits_apply_to_containers_without_limits() {
    let plain = container(&[], &[]);
    let limited = container(&[("cpu", "100m"), ("memory", "1Gi")], &[("memory", "2Gi")]);
    let whole = container(&[("memory", "4Gi")], &[("cpu", "2"), ("memory", "4Gi")]).resources;
    let mut pod = pod(vec![plain.clone(), limited.clone()]);
    pod.spec.as_mut().unwrap().resources = whole;
    let values = |container| container_resources(&pod, container, &settings(), &machine());
    let (plain, limited) = (values(&plain), values(&limited));
    let gib = GIB.cast_signed();
    assert_eq!((plain.cpu_shares, plain.cpu_quota, plain.memory_limit), (2048, 200_000, 4 * gib));
    assert_eq!((limited.cpu_shares, limited.cpu_quota), (102, 200_000));
    assert_eq!(limited.memory_limit, 2 * gib);
    // Three GiB belong to no container; each of the two gets half of them.
    assert_eq!((plain.oom_score_adj, limited.oom_score_adj), (850, 750));
    let together = sandbox_resources(&pod, &settings(), &machine());
    assert_eq!((together.cpu_shares, together.memory_limit), (102, 4 * gib));
}

#[test]
fn overhead_resources_are_separate() {
    let mut pod = pod(vec![container(&[("cpu", "1")], &[])]);
    let values = overhead_resources(&pod, &settings(), &machine());
    assert_eq!(values, LinuxResources::default());
    let overhead = container(&[("cpu", "250m"), ("memory", "64Mi")], &[]).resources.unwrap();
    pod.spec.as_mut().unwrap().overhead = overhead.requests;
    let values = overhead_resources(&pod, &settings(), &machine());
    let expected = LinuxResources {
        cpu_period: 100_000,
        cpu_quota: 25_000,
        cpu_shares: 256,
        memory_limit: 64 << 20,
        ..LinuxResources::default()
    };
    assert_eq!(values, expected);
    assert_eq!(sandbox_resources(&pod, &settings(), &machine()).cpu_shares, 1024);
}

proptest! {
    #[test]
    fn resource_values_stay_in_the_range_of_the_kernel(cpu in 0_u64..10_000_000, memory: u64) {
        let amounts = [("cpu", format!("{cpu}m")), ("memory", memory.to_string())];
        let amounts: Vec<(&str, &str)> = amounts.iter().map(|(n, v)| (*n, v.as_str())).collect();
        let values = values(&container(&amounts[..1], &amounts));
        prop_assert!((2..=262_144).contains(&values.cpu_shares));
        prop_assert!(values.cpu_quota == 0 || values.cpu_quota >= 1000);
        prop_assert!((-1000..=1000).contains(&values.oom_score_adj));
    }
}
