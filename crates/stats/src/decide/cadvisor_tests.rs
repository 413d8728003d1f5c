//! Series and labels of recorded cgroups.

use std::sync::Arc;

use model::cgroup::usage::{
    CpuLimits, CpuSample, DeviceIo, IoSample, MemorySample, ProcessSample, Throttling,
};
use model::ids::PodName;
use model::observed::{
    ContainerState, ContainerStatus, RuntimePodStatus, SandboxState, SandboxStatus,
};
use model::ports::node_usage::TrafficCounters;
use testkit::observed::{container_status, sandbox_status};

use super::*;
use crate::decide::observation::running_pods;

fn cgroup(path: &str, quota: Option<u64>) -> CgroupSample {
    let throttling = Throttling { periods: 9, throttled_periods: 3, throttled: 2_000_000_000 };
    CgroupSample {
        path: path.to_owned(),
        time: Timestamp::from_millisecond(100_500).unwrap(),
        created: Some(Timestamp::from_second(7).unwrap()),
        cpu: Some(CpuSample {
            usage: 1_500_000_000,
            throttling: Some(throttling),
            limits: CpuLimits { shares: Some(512), quota, period: Some(100_000) },
            ..CpuSample::default()
        }),
        memory: Some(MemorySample { usage: 100, inactive_file: 30, ..MemorySample::default() }),
        io: Some(IoSample {
            devices: vec![DeviceIo { device: (8, 0), read_bytes: 5, ..DeviceIo::default() }],
            psi: None,
        }),
        processes: Some(ProcessSample { count: 2, ..ProcessSample::default() }),
    }
}

fn pod() -> RunningPod {
    let status = RuntimePodStatus {
        sandboxes: vec![SandboxStatus {
            pod: PodName::new("shop", "web"),
            ..sandbox_status("s1", SandboxState::Ready)
        }],
        containers: vec![ContainerStatus {
            image: "registry/app:1".into(),
            ..container_status("c1", "main", ContainerState::Running)
        }],
        ..RuntimePodStatus::empty("u1".into())
    };
    running_pods(&[Arc::new(status)]).remove(0)
}

fn text() -> String {
    let samples = [
        cgroup("/", None),
        cgroup("/kubepods", None),
        cgroup("/kubepods/podu1", Some(20_000)),
        cgroup("/kubepods/podu1/c1", Some(10_000)),
        cgroup("/kubepods/podu1/s1", None),
    ];
    let eth0 = InterfaceCounters {
        name: "eth0".to_owned(),
        received: TrafficCounters { bytes: 11, ..TrafficCounters::default() },
        ..InterfaceCounters::default()
    };
    let identity = Identity { boot_id: "b".to_owned(), swap: 3, ..Identity::default() };
    page(&Shown {
        now: Timestamp::from_second(101).unwrap(),
        samples: &samples,
        pods: &[pod()],
        machine: Machine {
            cpus: 2,
            memory: 1000,
            identity: &identity,
            interfaces: Some(vec![eth0.clone()]),
        },
        interfaces: &[("u1".into(), vec![eth0])].into(),
        sandbox_images: &[("s1".into(), "pause:3".to_owned())].into(),
        devices: &[((8, 0), "/dev/sda".to_owned())].into(),
    })
}

/// The labels of all series of a metric.
fn labels<'a>(text: &'a str, metric: &str) -> Vec<&'a str> {
    let lines = text.lines().filter_map(|line| line.strip_prefix(metric)?.strip_prefix('{'));
    lines.filter_map(|line| line.split_once('}')).map(|(labels, _)| labels).collect()
}

const CONTAINER: &str = "container=\"main\",id=\"/kubepods/podu1/c1\",image=\"registry/app:1\",\
                         name=\"c1\",namespace=\"shop\",pod=\"web\"";
const SANDBOX: &str = "container=\"\",id=\"/kubepods/podu1/s1\",image=\"pause:3\",name=\"s1\",\
                       namespace=\"shop\",pod=\"web\"";
const POD: &str =
    "container=\"\",id=\"/kubepods/podu1\",image=\"\",name=\"\",namespace=\"shop\",pod=\"web\"";
const PODS: &str = "container=\"\",id=\"/kubepods\",image=\"\",name=\"\",namespace=\"\",pod=\"\"";
const MACHINE: &str = "container=\"\",id=\"/\",image=\"\",name=\"\",namespace=\"\",pod=\"\"";

// behaviour: STA-15
#[test]
fn every_cgroup_has_the_same_labels() {
    let text = text();
    let all = [MACHINE, PODS, POD, CONTAINER, SANDBOX];
    assert_eq!(labels(&text, "container_memory_working_set_bytes"), all);
    let with_cpu = all.map(|labels| format!("{labels},cpu=\"total\""));
    assert_eq!(labels(&text, "container_cpu_usage_seconds_total"), with_cpu);
    let with_device = all.map(|labels| format!("{labels},device=\"/dev/sda\""));
    assert_eq!(labels(&text, "container_fs_reads_bytes_total"), with_device);
}

// behaviour: STA-16
#[test]
fn throttling_is_shown_only_with_a_quota() {
    let text = text();
    for metric in ["container_cpu_cfs_throttled_periods_total", "container_spec_cpu_quota"] {
        assert_eq!(labels(&text, metric), [POD, CONTAINER], "{metric}");
    }
}

// behaviour: STA-17
#[test]
fn traffic_is_shown_for_sandboxes_and_the_machine() {
    let text = text();
    let expected = [MACHINE, SANDBOX].map(|labels| format!("{labels},interface=\"eth0\""));
    assert_eq!(labels(&text, "container_network_receive_bytes_total"), expected);
}

#[test]
fn samples_have_their_times_and_properties_none() {
    let text = text();
    for line in [
        format!("container_cpu_usage_seconds_total{{{CONTAINER},cpu=\"total\"}} 1.5 100500"),
        format!("container_cpu_cfs_throttled_seconds_total{{{CONTAINER}}} 2 100500"),
        format!("container_memory_working_set_bytes{{{CONTAINER}}} 70 100500"),
        format!("container_start_time_seconds{{{CONTAINER}}} 7"),
        format!("container_spec_memory_limit_bytes{{{CONTAINER}}} 0"),
        format!("container_spec_memory_limit_bytes{{{MACHINE}}} 1000"),
        format!("container_last_seen{{{POD}}} 101 101000"),
        "machine_cpu_cores{boot_id=\"b\",machine_id=\"\",system_uuid=\"\"} 2".to_owned(),
        "container_scrape_error 0".to_owned(),
    ] {
        assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
    }
}

/// The metrics that kubernetes-mixin and kube-prometheus query, where the kernel has them.
const QUERIED: [&str; 21] = [
    "container_cpu_usage_seconds_total",
    "container_cpu_cfs_periods_total",
    "container_cpu_cfs_throttled_periods_total",
    "container_memory_working_set_bytes",
    "container_memory_rss",
    "container_memory_cache",
    "container_memory_swap",
    "container_memory_usage_bytes",
    "container_network_receive_bytes_total",
    "container_network_transmit_bytes_total",
    "container_network_receive_packets_total",
    "container_network_transmit_packets_total",
    "container_network_receive_packets_dropped_total",
    "container_network_transmit_packets_dropped_total",
    "container_fs_reads_total",
    "container_fs_writes_total",
    "container_fs_reads_bytes_total",
    "container_fs_writes_bytes_total",
    "container_start_time_seconds",
    "machine_cpu_cores",
    "machine_memory_bytes",
];

#[test]
fn dashboards_find_their_metrics() {
    let text = text();
    for metric in QUERIED {
        assert!(!labels(&text, metric).is_empty(), "{metric}");
    }
}
