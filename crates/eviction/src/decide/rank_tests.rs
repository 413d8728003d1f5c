//! Tables and laws of the ranking.

use k8s_openapi::api::core::v1::{
    ConfigMapVolumeSource, EmptyDirVolumeSource, GitRepoVolumeSource, HostPathVolumeSource,
    ResourceRequirements, SecretVolumeSource,
};
use proptest::prelude::*;
use testkit::pods::pod;

use super::*;
use crate::decide::test_pods::{
    amounts, container, memory, no_stats, processes, summary, volume, with_resources,
};

const CRITICAL: i32 = 2_000_000_000;

/// A pod of the API with a priority and a request.
fn requesting(name: &str, priority: Option<i32>, request: &[(&str, &str)]) -> Arc<Pod> {
    let builder = pod(name).container("main", "image", []);
    let builder = with_resources(builder, request, &[]);
    Arc::new(builder.spec(|spec| spec.priority = priority).build())
}

fn names(ranked: &[Ranked]) -> Vec<&str> {
    ranked.iter().map(|one| &*one.name.name).collect()
}

// behaviour: EVI-17, EVI-18
#[test]
fn memory_is_ranked_by_excess_then_priority_then_amount_beyond_the_request() {
    let pods = [
        ("guaranteed-high-priority", Some(9), "100", Some(100)),
        ("over-a-little", Some(0), "100", Some(101)),
        ("over-much", None, "100", Some(900)),
        ("over-high-priority", Some(5), "1", Some(9_999)),
        ("over-negative-priority", Some(-1), "100", Some(101)),
        ("under-low-priority", Some(-9), "500", Some(400)),
        ("under", Some(0), "500", Some(400)),
        ("under-a-little", Some(0), "500", Some(499)),
        ("silent", Some(7), "100", None),
        ("silent-low-priority", Some(1), "100", None),
        ("none-used", Some(0), "0", Some(0)),
    ];
    let built: Vec<Arc<Pod>> = pods
        .iter()
        .map(|(name, priority, request, _)| requesting(name, *priority, &[("memory", *request)]))
        .collect();
    let stats = built.iter().zip(&pods).filter_map(|(pod, (.., used))| {
        used.map(|used| PodStats { memory: memory(used), ..no_stats(pod) })
    });
    let summary = summary(stats.collect());
    let usage = PodUsage::new(&summary);
    for signal in [Signal::MemoryAvailable, Signal::AllocatableMemoryAvailable] {
        let ranked = rank(signal, DiskLayout::Single, &built, usage);
        let expected = [
            "silent-low-priority",
            "silent",
            "over-negative-priority",
            "over-much",
            "over-a-little",
            "over-high-priority",
            "under-low-priority",
            "none-used",
            "under-a-little",
            "under",
            "guaranteed-high-priority",
        ];
        assert_eq!(names(&ranked), expected);
        let much = ranked.iter().find(|one| &*one.name.name == "over-much").unwrap();
        assert_eq!((much.usage, much.request, much.priority), (Some(900), 100, 0));
        assert!(much.exceeds && !much.critical);
    }
}

// behaviour: EVI-19
#[test]
fn pids_are_ranked_by_priority_then_number() {
    let rows =
        [("few", 0, Some(2)), ("many", 0, Some(20)), ("low", -1, Some(1)), ("silent", 0, None)];
    let built: Vec<Arc<Pod>> =
        rows.iter().map(|(name, priority, _)| requesting(name, Some(*priority), &[])).collect();
    let stats = built.iter().zip(&rows).filter_map(|(pod, (.., count))| {
        count.map(|count| PodStats { processes: processes(count), ..no_stats(pod) })
    });
    let summary = summary(stats.collect());
    let usage = PodUsage::new(&summary);
    let ranked = rank(Signal::PidAvailable, DiskLayout::Single, &built, usage);
    assert_eq!(names(&ranked), ["low", "silent", "many", "few"]);
}

/// A pod with a volume of each kind, each with 10,000 bytes, and one container.
fn with_volumes() -> (Arc<Pod>, PodStats) {
    let volumes = vec![
        ("disk", Volume { empty_dir: Some(EmptyDirVolumeSource::default()), ..<_>::default() }),
        (
            "memory",
            Volume {
                empty_dir: Some(EmptyDirVolumeSource {
                    medium: Some("Memory".to_owned()),
                    size_limit: None,
                }),
                ..<_>::default()
            },
        ),
        ("host", Volume { host_path: Some(HostPathVolumeSource::default()), ..<_>::default() }),
        ("config", Volume { config_map: Some(ConfigMapVolumeSource::default()), ..<_>::default() }),
        ("git", Volume { git_repo: Some(GitRepoVolumeSource::default()), ..<_>::default() }),
        ("secret", Volume { secret: Some(SecretVolumeSource::default()), ..<_>::default() }),
    ];
    let names: Vec<&str> = volumes.iter().map(|(name, _)| *name).collect();
    let volumes = volumes.into_iter().map(|(name, volume)| Volume { name: name.into(), ..volume });
    let builder = pod("web").container("main", "image", []);
    let request = [("ephemeral-storage", "100")];
    let pod = with_resources(builder, &request, &[])
        .spec(|spec| spec.volumes = Some(volumes.collect()))
        .build();
    let volumes = names.into_iter().map(|name| volume(name, 10_000)).collect();
    let containers = vec![container("main", 1000, 200), container("side", 2000, 300)];
    let stats = PodStats { volumes, containers, ..no_stats(&pod) };
    (Arc::new(pod), stats)
}

// behaviour: EVI-11, EVI-20, EVI-21
#[test]
fn disk_usage_counts_the_parts_on_the_disk() {
    let (pod, stats) = with_volumes();
    let summary = summary(vec![stats]);
    let (rootfs, logs, volumes) = (3000, 500, 40_000);
    let rows = [
        (DiskLayout::Single, Signal::NodeFsAvailable, rootfs + logs + volumes),
        (DiskLayout::Single, Signal::ImageFsAvailable, rootfs + logs + volumes),
        (DiskLayout::DedicatedImageFs, Signal::NodeFsAvailable, logs + volumes),
        (DiskLayout::DedicatedImageFs, Signal::ImageFsAvailable, rootfs),
        (DiskLayout::Split, Signal::ContainerFsAvailable, rootfs + logs + volumes),
        (DiskLayout::Split, Signal::ImageFsAvailable, 0),
        // 300 of writable layers, 2 log files, 4,000 of volumes.
        (DiskLayout::Single, Signal::NodeFsInodesFree, 4302),
    ];
    for (layout, signal, expected) in rows {
        let ranked = rank(signal, layout, &[Arc::clone(&pod)], PodUsage::new(&summary));
        assert_eq!(ranked[0].usage, Some(expected), "{layout:?} {signal}");
        // Upstream subtracts the request for bytes from inodes, too, and compares inodes with zero.
        assert_eq!(ranked[0].request, 100);
        assert_eq!(ranked[0].exceeds, expected > 100);
    }
}

// behaviour: EVI-21
#[test]
fn inodes_exceed_a_request_of_zero() {
    let pod = requesting("web", None, &[("ephemeral-storage", "100")]);
    let stats = PodStats { containers: vec![container("main", 20, 0)], ..no_stats(&pod) };
    let summary = summary(vec![stats]);
    let ranked =
        rank(Signal::NodeFsInodesFree, DiskLayout::Single, &[pod], PodUsage::new(&summary));
    assert_eq!((ranked[0].usage, ranked[0].exceeds), (Some(3), true));
}

// behaviour: EVI-22
#[test]
fn request_is_that_of_the_pod_with_its_overhead() {
    let whole = |pod: &mut Pod| {
        let spec = pod.spec.as_mut().unwrap();
        let requests = amounts(&[("memory", "5k")]);
        spec.resources = Some(ResourceRequirements { requests, ..<_>::default() });
    };
    let overhead = |pod: &mut Pod| {
        pod.spec.as_mut().unwrap().overhead = amounts(&[("memory", "10")]);
    };
    let base = || Pod::clone(&requesting("web", None, &[("memory", "1k")]));
    let mut pods = [base(), base(), base(), Pod::clone(&requesting("web", None, &[]))];
    overhead(&mut pods[1]);
    whole(&mut pods[2]);
    overhead(&mut pods[2]);
    overhead(&mut pods[3]);
    for (pod, expected) in pods.into_iter().zip([1000, 1010, 5010, 0]) {
        let empty = summary(Vec::new());
        let pods = [Arc::new(pod)];
        let ranked =
            rank(Signal::MemoryAvailable, DiskLayout::Single, &pods, PodUsage::new(&empty));
        assert_eq!(ranked[0].request, expected);
    }
}

// behaviour: EVI-23
#[test]
fn static_and_high_priority_pods_are_critical() {
    let of = |priority: Option<i32>, annotation: Option<(&str, &str)>| {
        let mut pod = Pod::clone(&requesting("web", priority, &[]));
        let annotation = annotation.map(|(key, value)| [(key.to_owned(), value.to_owned())].into());
        pod.metadata.annotations = annotation;
        Arc::new(pod)
    };
    let rows = [
        (of(None, None), false),
        (of(Some(CRITICAL - 1), None), false),
        (of(Some(CRITICAL), None), true),
        (of(None, Some(("kubernetes.io/config.source", "file"))), true),
        // Every user can write this annotation.
        (of(None, Some(("kubernetes.io/config.mirror", "x"))), false),
    ];
    for (pod, expected) in rows {
        let empty = summary(Vec::new());
        let ranked = rank(Signal::PidAvailable, DiskLayout::Single, &[pod], PodUsage::new(&empty));
        assert_eq!(ranked[0].critical, expected);
    }
}

/// A pod for the laws: priority, request and usage.
type Drawn = (i32, u16, Option<u16>);

fn drawn() -> impl Strategy<Value = Vec<Drawn>> {
    proptest::collection::vec((-2..3, 0..50_u16, proptest::option::of(0..100_u16)), 1..8)
}

fn signal() -> impl Strategy<Value = Signal> {
    proptest::sample::select(Signal::ALL)
}

fn build(drawn: &[Drawn]) -> (Vec<Arc<Pod>>, Summary) {
    let mut pods = Vec::new();
    let mut stats = Vec::new();
    for (index, (priority, request, used)) in drawn.iter().enumerate() {
        let request = request.to_string();
        let requests = [("memory", &*request), ("ephemeral-storage", &*request)];
        let pod = requesting(&format!("pod-{index}"), Some(*priority), &requests);
        if let Some(used) = used {
            let used = u64::from(*used);
            stats.push(PodStats {
                memory: memory(used),
                processes: processes(used),
                containers: vec![container("main", used, 0)],
                ..no_stats(&pod)
            });
        }
        pods.push(pod);
    }
    (pods, summary(stats))
}

fn position(ranked: &[Ranked], index: usize) -> usize {
    let name = format!("pod-{index}");
    ranked.iter().position(|one| *one.name.name == name).unwrap()
}

proptest! {
    #[test]
    fn ranking_is_a_permutation_that_does_not_depend_on_the_order(
        drawn in drawn(), signal in signal()
    ) {
        let (mut pods, summary) = build(&drawn);
        let usage = PodUsage::new(&summary);
        let ranked = rank(signal, DiskLayout::Single, &pods, usage);
        prop_assert_eq!(ranked.len(), pods.len());
        pods.reverse();
        prop_assert_eq!(ranked, rank(signal, DiskLayout::Single, &pods, usage));
    }

    #[test]
    fn less_usage_never_ranks_earlier(
        drawn in drawn(), signal in signal(), chosen in any::<proptest::sample::Index>(),
        less in 0..100_u16
    ) {
        let index = chosen.index(drawn.len());
        prop_assume!(drawn[index].2.is_some_and(|used| used > less));
        let (pods, summary) = build(&drawn);
        let before = rank(signal, DiskLayout::Single, &pods, PodUsage::new(&summary));
        let mut changed = drawn;
        changed[index].2 = Some(less);
        let (pods, summary) = build(&changed);
        let after = rank(signal, DiskLayout::Single, &pods, PodUsage::new(&summary));
        prop_assert!(position(&after, index) >= position(&before, index));
    }

    #[test]
    fn higher_priority_never_ranks_earlier(
        drawn in drawn(), signal in signal(), chosen in any::<proptest::sample::Index>()
    ) {
        let index = chosen.index(drawn.len());
        let (pods, summary) = build(&drawn);
        let before = rank(signal, DiskLayout::Single, &pods, PodUsage::new(&summary));
        let mut changed = drawn;
        changed[index].0 += 1;
        let (pods, summary) = build(&changed);
        let after = rank(signal, DiskLayout::Single, &pods, PodUsage::new(&summary));
        prop_assert!(position(&after, index) >= position(&before, index));
    }
}
