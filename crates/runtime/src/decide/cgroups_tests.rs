//! Tables for the cgroups of pods.

use podspec::{Origin, read_manifest};
use proptest::prelude::*;

use super::*;

const MIB: u64 = 1 << 20;

fn settings() -> PodCgroupSettings {
    PodCgroupSettings {
        root: CgroupName::parse("/kubepods").unwrap(),
        cpu_period: Some(Duration::from_millis(100)),
        pids_limit: None,
        huge_page_sizes: vec![2 * MIB, 1024 * MIB],
    }
}

/// A pod whose containers have these resources, as an agent reads it.
fn pod(containers: &[&str], more: &str) -> Pod {
    let containers: Vec<String> = containers
        .iter()
        .enumerate()
        .map(|(n, resources)| format!("{{name: c{n}, image: 'i:1', resources: {{{resources}}}}}"))
        .collect();
    let manifest = format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: web, uid: a-b}}\nspec:\n  \
         containers: [{}]\n{more}",
        containers.join(", ")
    );
    let origin = Origin::File("/manifests/web.yaml".into());
    read_manifest(manifest.as_bytes(), &origin, "node").unwrap().pods.remove(0)
}

/// Shares, quota and memory of a pod's cgroup.
fn cgroup_limits(
    pod: &Pod,
    settings: &PodCgroupSettings,
) -> (Option<u64>, Option<i64>, Option<u64>) {
    let values = pod_cgroup_values(pod, settings);
    assert_eq!(values.cpu_period.is_some(), values.cpu_quota.is_some_and(|quota| quota > 0));
    (values.cpu_shares, values.cpu_quota, values.memory_limit)
}

#[test]
fn pod_cgroup_is_in_the_cgroup_of_its_qos_class() {
    let rows = [
        ("limits: {cpu: 1, memory: 1Mi}", "/kubepods/pod"),
        ("requests: {cpu: 1}", "/kubepods/burstable/pod"),
        ("", "/kubepods/besteffort/pod"),
    ];
    for (resources, expected) in rows {
        let pod = pod(&[resources], "");
        let name = pod_cgroup(&settings().root, &pod).unwrap();
        assert_eq!(name.to_string(), format!("{expected}{}", view::uid(&pod)));
        assert_eq!(pod_of_cgroup(&name), Some(view::uid(&pod)));
        assert!(cgroups_of_pod(&settings().root, &view::uid(&pod)).contains(&name));
    }
    for class in CLASSES {
        assert_eq!(pod_of_cgroup(&class_cgroup(&settings().root, class)), None);
    }
    let mut pod = pod(&[""], "");
    pod.metadata.uid = Some("../../x".to_owned());
    assert!(pod_cgroup(&settings().root, &pod).is_err());
}

// behaviour: OBJ-31
#[test]
fn pod_cgroup_includes_the_overhead() {
    let overhead = "  overhead: {cpu: 250m, memory: 64Mi}";
    let guaranteed = "limits: {cpu: 500m, memory: 64Mi}";
    let rows = [
        (guaranteed, (Some(768), Some(75_000), Some(128 * MIB)), 0),
        ("requests: {cpu: 250m, memory: 8Mi}", (Some(512), None, None), 500),
        ("limits: {cpu: 1}", (Some(1280), Some(125_000), None), 1250),
        // A pod without requests gets the minimum.
        ("", (Some(2), None, None), 0),
    ];
    for (resources, expected, share) in rows {
        let pod = pod(&[resources], overhead);
        assert_eq!(cgroup_limits(&pod, &settings()), expected, "{resources}");
        assert_eq!(class_share(&pod), share, "{resources}");
    }
}

// behaviour: CGR-10
#[test]
fn pod_cgroup_is_limited_when_all_containers_are() {
    let guaranteed = "limits: {cpu: 500m, memory: 64Mi}";
    let rows: [(&[&str], &str, _); 9] = [
        (&[""], "", (Some(2), None, None)),
        (&["requests: {cpu: 250m, memory: 8Mi}"], "", (Some(256), None, None)),
        (&[guaranteed], "", (Some(512), Some(50_000), Some(64 * MIB))),
        (&[guaranteed, guaranteed], "", (Some(1024), Some(100_000), Some(128 * MIB))),
        (&[guaranteed, "requests: {cpu: 1m}"], "", (Some(513), None, None)),
        (
            &["requests: {cpu: 100m}, limits: {cpu: 1}", "limits: {cpu: 500m, memory: 1Mi}"],
            "",
            (Some(614), Some(150_000), None),
        ),
        (
            &["limits: {memory: 1Mi}"],
            "  initContainers: [{name: i, image: 'i:1', resources: {limits: {memory: 8Mi}}}]\n",
            (Some(2), None, Some(8 * MIB)),
        ),
        (
            &["limits: {memory: 1Mi}"],
            "  initContainers: [{name: i, image: 'i:1'}]\n",
            (Some(2), None, None),
        ),
        (
            &["", "requests: {cpu: 100m}"],
            "  resources: {requests: {cpu: 2}, limits: {cpu: 3, memory: 32Mi}}\n",
            (Some(2048), Some(300_000), Some(32 * MIB)),
        ),
    ];
    for (containers, more, expected) in rows {
        assert_eq!(
            cgroup_limits(&pod(containers, more), &settings()),
            expected,
            "{containers:?} {more}"
        );
    }
}

#[test]
fn quotas_and_pid_limit_follow_the_configuration() {
    let pod = pod(&["limits: {cpu: 500m, memory: 64Mi}"], "");
    let off = PodCgroupSettings { cpu_period: None, ..settings() };
    assert_eq!(cgroup_limits(&pod, &off), (Some(512), Some(-1), Some(64 * MIB)));
    let short = PodCgroupSettings { cpu_period: Some(Duration::from_millis(5)), ..settings() };
    assert_eq!(cgroup_limits(&pod, &short).1, Some(2500));
    assert_eq!(pod_cgroup_values(&pod, &settings()).pids_limit, None);
    let few = PodCgroupSettings { pids_limit: Some(64), ..settings() };
    assert_eq!(pod_cgroup_values(&pod, &few).pids_limit, Some(64));
}

#[test]
fn huge_page_limits_are_the_requests_of_the_pod() {
    let pod = pod(&["limits: {cpu: 1, memory: 1Mi, hugepages-2Mi: 6Mi}"], "");
    let values = pod_cgroup_values(&pod, &settings());
    assert_eq!(values.huge_pages, BTreeMap::from([(2 * MIB, 6 * MIB), (1024 * MIB, 0)]));
    let of_class = class_values(QosClass::Burstable, 0, &settings()).huge_pages;
    assert_eq!(of_class, BTreeMap::from([(2 * MIB, 1 << 62), (1024 * MIB, 1 << 62)]));
}

// behaviour: CGR-9
#[test]
fn qos_class_has_the_cpu_requests_of_its_pods() {
    assert_eq!(class_share(&pod(&["requests: {cpu: 250m}"], "")), 250);
    assert_eq!(class_share(&pod(&[""], "")), 0);
    assert_eq!(class_share(&pod(&["limits: {cpu: 1, memory: 1Mi}"], "")), 0);
    let rows = [
        (QosClass::Burstable, 0, 2),
        (QosClass::Burstable, 1500, 1536),
        (QosClass::BestEffort, 1500, 2),
    ];
    for (class, milli, shares) in rows {
        let values = class_values(class, milli, &settings());
        assert_eq!(values.cpu_shares, Some(shares));
        assert_eq!((values.memory_limit, values.cpu_quota), (None, None));
    }
}

proptest! {
    #[test]
    fn pod_limits_are_at_least_the_sum_of_container_limits(
        cpus in prop::collection::vec(1_u32..100_000, 1..4),
        memory in prop::collection::vec(1_u32.., 4),
    ) {
        let parts: Vec<String> = cpus
            .iter()
            .zip(&memory)
            .map(|(cpu, memory)| format!("limits: {{cpu: {cpu}m, memory: {memory}}}"))
            .collect();
        let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
        let (_, quota, limit) = cgroup_limits(&pod(&parts, ""), &settings());
        let all: u64 = memory[..cpus.len()].iter().copied().map(u64::from).sum();
        prop_assert_eq!(limit, Some(all));
        let all: i64 = cpus.iter().copied().map(i64::from).sum();
        prop_assert_eq!(quota, Some((all * 100).max(1000)));
    }
}

// behaviour: CGR-43
#[test]
fn cpu_request_is_read_back_from_the_pod_cgroup() {
    for (shares, milli) in [(None, 0), (Some(2), 0), (Some(256), 250), (Some(1024), 1000)] {
        let values = CgroupValues { cpu_shares: shares, ..CgroupValues::default() };
        assert_eq!(requested(&values), milli, "{shares:?}");
    }
}
