//! Tables for capacity, allocatable and reservations.

use model::machine::{Cgroups, HugePages};
use proptest::prelude::*;

use super::*;

const GIB: u64 = 1 << 30;
const MIB: u64 = 1 << 20;

fn config(fields: &str) -> KubeletConfiguration {
    let text = format!(
        "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n{fields}\n"
    );
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("config.yaml");
    hostfs::replace(&file, text.as_bytes()).unwrap();
    let flags = config::flags::FlagSet::parse([""; 0]).unwrap();
    config::load_sources(Some(&file), None, &flags).unwrap().config
}

fn machine() -> Machine {
    Machine {
        memory: 4 * GIB,
        cpus: 2,
        cpu_set: "0-1".to_owned(),
        most_pids: Some(32_768),
        huge_pages: vec![HugePages { size: 2 * MIB, count: 8 }],
        cgroups: Cgroups::V2,
        ..Machine::default()
    }
}

fn resources(config: &KubeletConfiguration) -> NodeResources {
    node_resources(config, NodeFlags::default(), &machine(), 100_000)
}

fn reported(amounts: &Amounts) -> String {
    let each = amounts.iter().map(|(name, amount)| format!("{name} {amount}"));
    each.collect::<Vec<_>>().join(", ")
}

// behaviour: CGR-20, CGR-31
#[test]
fn allocatable_is_capacity_minus_reservations() {
    let rows = [
        ("", "2", "90k", 4 * GIB - 116 * MIB, 110),
        ("maxPods: 7\npodsPerCore: 5", "2", "90k", 4 * GIB - 116 * MIB, 7),
        ("podsPerCore: 5", "2", "90k", 4 * GIB - 116 * MIB, 10),
        (
            "kubeReserved: {cpu: 500m, memory: 1Gi, ephemeral-storage: 1k}\n\
             systemReserved: {cpu: 250m, memory: 512Mi}\n\
             evictionHard: {memory.available: 25%, nodefs.available: 1k}",
            "1250m",
            "98k",
            4 * GIB - GIB - 512 * MIB - GIB - 16 * MIB,
            110,
        ),
        ("kubeReserved: {cpu: '3', memory: 5Gi}", "0", "90k", 0, 110),
        ("reservedSystemCPUs: '1'", "1", "90k", 4 * GIB - 116 * MIB, 110),
        (
            "reservedSystemCPUs: 0-1\nkubeReserved: {cpu: 100m}",
            "0",
            "90k",
            4 * GIB - 116 * MIB,
            110,
        ),
    ];
    for (fields, cpu, disk, memory, pods) in rows {
        let config = config(fields);
        let found = resources(&config);
        let expected = format!(
            "cpu {cpu}, ephemeral-storage {disk}, hugepages-2Mi {}, memory {memory}, pods {pods}",
            16 * MIB
        );
        assert_eq!(reported(&found.allocatable), expected, "{fields}");
        let memory = 4 * GIB;
        let all = format!(
            "cpu 2, ephemeral-storage 100k, hugepages-2Mi {}, memory {memory}, pods {pods}",
            16 * MIB
        );
        assert_eq!(reported(&found.capacity), all, "{fields}");
    }
    let off = config("localStorageCapacityIsolation: false");
    let found = resources(&off);
    assert!(!found.capacity.contains_key(EPHEMERAL_STORAGE));
}

// behaviour: CGR-21
#[test]
fn reservations_above_capacity_are_an_error() {
    let check = |fields: &str| {
        let config = config(fields);
        let capacity = resources(&config).capacity;
        check_reserved(&config, NodeFlags::default(), &capacity).map_err(|error| error.to_string())
    };
    assert_eq!(check(""), Ok(()));
    assert_eq!(check("kubeReserved: {cpu: '2'}"), Ok(()));
    let expected = "invalid Node Allocatable configuration. Resource \"cpu\" has a reservation of \
                    2500m but capacity of 2. Expected capacity >= reservation.";
    let found = check("kubeReserved: {cpu: '2'}\nsystemReserved: {cpu: 500m}");
    assert_eq!(found, Err(expected.to_owned()));
    let found = check("kubeReserved: {memory: 4Gi}").unwrap_err();
    assert!(found.contains("\"memory\""), "eviction thresholds count: {found}");
}

// behaviour: CGR-20
#[test]
fn flag_keeps_the_eviction_threshold_allocatable() {
    let flags = NodeFlags { ignores_eviction: true, ..NodeFlags::default() };
    let config = config("kubeReserved: {memory: 4Gi, ephemeral-storage: 1k}");
    let found = node_resources(&config, flags, &machine(), 100_000);
    let of = |name: &str| found.allocatable[name].to_string();
    assert_eq!((of(EPHEMERAL_STORAGE), of(MEMORY)), ("99k".to_owned(), "0".to_owned()));
    assert_eq!(check_reserved(&config, flags, &found.capacity), Ok(()));
}

// behaviour: CGR-8
#[test]
fn pods_cgroup_limit_is_allocatable_when_enforced() {
    let reserved = "kubeReserved: {cpu: 500m, memory: 1Gi, pid: '1000'}\n\
                    systemReserved: {memory: 512Mi, pid: '68'}\n";
    let values = values_for_pods(&config(reserved), &machine());
    let expected = CgroupValues {
        cpu_shares: Some(1536),
        cpu_set: Some("0-1".to_owned()),
        memory_limit: Some(4 * GIB - GIB - 512 * MIB),
        pids_limit: Some(31_700),
        huge_pages: BTreeMap::from([(2 * MIB, 16 * MIB)]),
        ..CgroupValues::default()
    };
    assert_eq!(values, expected);
    let off = format!("{reserved}enforceNodeAllocatable: [none]");
    let values = values_for_pods(&config(&off), &machine());
    assert_eq!((values.cpu_shares, values.pids_limit), (Some(2048), Some(32_768)));
    assert_eq!(values.memory_limit, Some(4 * GIB));
}

// behaviour: CGR-22
#[test]
fn reservations_are_cgroup_limits_when_enforced() {
    let fields = "kubeReserved: {cpu: 500m, memory: 1Gi, pid: '1000'}\n\
                  systemReserved: {cpu: 250m}\n\
                  kubeReservedCgroup: /kube.slice\nsystemReservedCgroup: /system.slice\n";
    let found = |enforce: &str, driver| {
        let config = config(&format!("{fields}enforceNodeAllocatable: [{enforce}]"));
        reserved_cgroups(&config, &machine(), driver).unwrap()
    };
    assert_eq!(found("pods", CgroupDriver::Cgroupfs), []);
    let both = found("pods, kube-reserved, system-reserved-compressible", CgroupDriver::Systemd);
    let of: Vec<_> = both.iter().map(|one| (one.purpose, one.name.to_string())).collect();
    let kube = ("Kube Reserved", "/kube".to_owned());
    let system = ("System Reserved Compressible", "/system".to_owned());
    assert_eq!(of, [kube, system]);
    let expected = CgroupValues {
        cpu_shares: Some(512),
        cpu_set: Some("0-1".to_owned()),
        memory_limit: Some(GIB),
        pids_limit: Some(1000),
        huge_pages: BTreeMap::from([(2 * MIB, 0)]),
        ..CgroupValues::default()
    };
    assert_eq!(both[0].values, expected);
    let expected = CgroupValues {
        cpu_shares: Some(256),
        cpu_set: Some("0-1".to_owned()),
        ..CgroupValues::default()
    };
    assert_eq!(both[1].values, expected);
}

proptest! {
    #[test]
    fn allocatable_is_between_zero_and_capacity(
        cpu in 0_u32..10_000,
        memory in 0_u64..8 * GIB,
        share in 1_u32..100,
    ) {
        let config = config(&format!(
            "kubeReserved: {{cpu: {cpu}m, memory: '{memory}'}}\n\
             evictionHard: {{memory.available: {share}%}}"
        ));
        let found = resources(&config);
        for (name, left) in &found.allocatable {
            prop_assert!(!left.is_negative() && *left <= found.capacity[name], "{}", name);
        }
        let limit = values_for_pods(&config, &machine()).memory_limit.unwrap();
        prop_assert!(i128::from(limit) >= found.allocatable[MEMORY].value().into());
    }
}
