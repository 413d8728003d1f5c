//! Summaries of recorded measurements.

use model::cgroup::usage::{CpuSample, MemorySample, ProcessSample};
use model::ids::PodName;
use model::ports::disk::{FileUsage, ListedUsage};

use super::*;

const MEBIBYTE: u64 = 1 << 20;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn cgroup(path: &str, memory: u64, limit: Option<u64>) -> CgroupSample {
    CgroupSample {
        path: path.to_owned(),
        time: at(100),
        created: Some(at(7)),
        cpu: Some(CpuSample { usage: memory, ..CpuSample::default() }),
        memory: Some(MemorySample { usage: memory, limit, ..MemorySample::default() }),
        io: None,
        processes: Some(ProcessSample { count: 2, ..ProcessSample::default() }),
    }
}

fn pod(uid: &str, containers: &[(&str, &str)]) -> RunningPod {
    let status = model::observed::RuntimePodStatus {
        sandboxes: vec![model::observed::SandboxStatus {
            pod_uid: uid.into(),
            pod: PodName::new("shop", uid),
            created_at: at(50),
            ..testkit::observed::sandbox_status("s1", model::observed::SandboxState::Ready)
        }],
        containers: containers
            .iter()
            .map(|(id, name)| {
                let running = model::observed::ContainerState::Running;
                testkit::observed::container_status(id, name, running)
            })
            .collect(),
        ..model::observed::RuntimePodStatus::empty(uid.into())
    };
    super::super::observation::running_pods(&[std::sync::Arc::new(status)]).remove(0)
}

fn facts() -> NodeFacts {
    NodeFacts {
        name: "n1".to_owned(),
        memory: 1000,
        root_dir: "/var/lib/kubelet".into(),
        system: vec![
            SystemGroup { name: "pods", path: "/kubepods".to_owned(), started: None },
            SystemGroup { name: "kubelet", path: "/agent".to_owned(), started: Some(at(9)) },
            SystemGroup { name: "misc", path: "/missing".to_owned(), started: None },
        ],
    }
}

fn space(device: u64) -> DiskSpace {
    DiskSpace { capacity: 100, available: 30, free: 40, inodes: 10, inodes_free: 4, device }
}

fn layer(mount_point: &str, used_bytes: u64) -> ImageFilesystem {
    ImageFilesystem {
        mount_point: mount_point.into(),
        used_bytes,
        inodes_used: Some(1),
        measured_at: at(90),
    }
}

fn measured(spaces: &[(&str, u64)], containers: &str) -> NodeMeasurement {
    NodeMeasurement {
        time: at(100),
        booted_at: Some(at(1)),
        tasks: Some(TaskCounts { running: Some(5), maximum: Some(9) }),
        runtime: ImageFsInfo {
            images: vec![layer("/images", 60)],
            containers: vec![layer(containers, 70)],
        },
        spaces: spaces.iter().map(|(path, device)| ((*path).into(), space(*device))).collect(),
        ..NodeMeasurement::default()
    }
}

// behaviour: STA-2
#[test]
fn node_has_its_memory_as_limit_and_its_groups() {
    let samples =
        [cgroup("/", 400, None), cgroup("/kubepods", 300, Some(800)), cgroup("/agent", 5, None)];
    let (facts, rates) = (facts(), Rates::default());
    let assembly = Assembly::new(&facts, Cgroups { samples: &samples, rates: &rates });
    let spaces = [("/var/lib/kubelet", 1), ("/images", 1)];
    let node = assembly.node(&measured(&spaces, "/images"));
    assert_eq!((node.node_name.as_str(), node.start_time), ("n1", Some(at(1))));
    assert_eq!(node.memory.unwrap().available_bytes, Some(600));
    let groups: Vec<_> = node.system_containers.iter().map(|one| one.name.as_str()).collect();
    assert_eq!(groups, ["pods", "kubelet"], "a missing cgroup is left out");
    let pods = &node.system_containers[0];
    assert_eq!(pods.memory.as_ref().unwrap().available_bytes, Some(500));
    assert_eq!(node.system_containers[1].start_time, Some(at(9)));
    let fs = node.fs.unwrap();
    assert_eq!((fs.used_bytes, fs.inodes_used), (Some(60), Some(6)));
    let rlimit = node.rlimit.unwrap();
    assert_eq!((rlimit.maxpid, rlimit.running), (Some(9), Some(5)));
}

// behaviour: STA-12
#[test]
fn writable_layers_on_another_device_are_a_file_system_of_their_own() {
    let (facts, rates) = (facts(), Rates::default());
    let assembly = Assembly::new(&facts, Cgroups { samples: &[], rates: &rates });
    let of = |containers: &str| {
        let spaces = [("/images", 1), ("/same", 1), ("/layers", 2)];
        let runtime = assembly.node(&measured(&spaces, containers)).runtime.unwrap();
        (runtime.image_fs.unwrap().used_bytes, runtime.container_fs.unwrap().used_bytes)
    };
    assert_eq!(of("/same"), (Some(60), Some(60)));
    assert_eq!(of("/unknown"), (Some(60), Some(60)));
    assert_eq!(of("/layers"), (Some(60), Some(70)));
}

// behaviour: STA-3
#[test]
fn pod_has_the_values_of_its_cgroup_and_of_its_containers() {
    let holder = 64 * MEBIBYTE;
    let samples = [
        cgroup("/kubepods/burstable/podu1", holder + 1, Some(128 * MEBIBYTE)),
        cgroup("/kubepods/burstable/podu1/c1", holder, None),
        cgroup("/kubepods/burstable/podu1/s1", 1, None),
    ];
    let (facts, rates) = (facts(), Rates::default());
    let assembly = Assembly::new(&facts, Cgroups { samples: &samples, rates: &rates });
    let logs = ListedUsage {
        files: FileUsage { bytes: 1000, inodes: 1 },
        directories: [("main".to_owned(), FileUsage { bytes: 10, inodes: 1 })].into(),
    };
    let files = PodFiles { logs: Some(logs), etc_hosts: Some(FileUsage { bytes: 100, inodes: 1 }) };
    let of_pods = PodMeasurements {
        layers: [("c1".into(), layer("/images", 1))].into(),
        files: [("u1".into(), files)].into(),
        ..PodMeasurements::default()
    };
    let node = measured(&[("/var/lib/kubelet", 1), ("/images", 1)], "/images");
    let summary = assembly.whole(&[pod("u1", &[("c1", "main")])], &node, &of_pods);
    let [pod] = &summary.pods[..] else { panic!("{summary:?}") };
    assert_eq!((pod.pod_ref.uid.as_str(), pod.start_time), ("u1", Some(at(50))));
    let memory = pod.memory.as_ref().unwrap();
    assert_eq!(memory.available_bytes, Some(64 * MEBIBYTE - 1));
    assert_eq!(pod.processes.unwrap().count, Some(2), "without those of the sandbox");
    let [main] = &pod.containers[..] else { panic!("{pod:?}") };
    assert_eq!(main.memory.as_ref().unwrap().working_set_bytes, Some(holder));
    let rootfs = main.rootfs.unwrap();
    assert_eq!((rootfs.used_bytes, rootfs.capacity_bytes), (Some(1), Some(100)));
    assert_eq!(main.logs.unwrap().used_bytes, Some(10));
    assert_eq!(pod.ephemeral_storage.unwrap().used_bytes, Some(1111));
}

// behaviour: STA-3
#[test]
fn pod_without_a_cgroup_is_the_sum_of_its_containers() {
    let samples = [cgroup("/k8s.io/c1", 3, None), cgroup("/k8s.io/c2", 4, None)];
    let (facts, mut rates) = (facts(), Rates::default());
    rates.record(&samples.clone().map(|sample| CgroupSample {
        time: at(99),
        cpu: Some(CpuSample::default()),
        ..sample
    }));
    rates.record(&samples);
    let assembly = Assembly::new(&facts, Cgroups { samples: &samples, rates: &rates });
    let summary = assembly.cpu_and_memory(&[pod("u1", &[("c1", "a"), ("c2", "b")])]);
    let cpu = summary.pods[0].cpu.as_ref().unwrap();
    assert_eq!((cpu.usage_core_nano_seconds, cpu.usage_nano_cores), (Some(7), Some(7)));
    assert_eq!(summary.pods[0].memory.as_ref().unwrap().usage_bytes, Some(7));
}

// behaviour: STA-10
#[test]
fn cpu_and_memory_alone_leaves_out_the_rest() {
    let samples = [cgroup("/", 1, None), cgroup("/kubepods/podu1/c1", 1, None)];
    let (facts, rates) = (facts(), Rates::default());
    let assembly = Assembly::new(&facts, Cgroups { samples: &samples, rates: &rates });
    let summary = assembly.cpu_and_memory(&[pod("u1", &[("c1", "main")])]);
    let written = serde_json::to_value(&summary).unwrap();
    let keys = |value: &serde_json::Value| -> Vec<String> {
        value.as_object().unwrap().keys().cloned().collect()
    };
    assert_eq!(keys(&written["node"]), ["cpu", "memory", "nodeName", "startTime"]);
    let pod = &written["pods"][0];
    assert_eq!(keys(pod), ["containers", "cpu", "memory", "podRef", "startTime"]);
    assert_eq!(keys(&pod["containers"][0]), ["cpu", "memory", "name", "startTime"]);
}
