//! Builds the summary of a measurement.

use std::collections::BTreeMap;
use std::path::PathBuf;

use jiff::Timestamp;
use model::cgroup::usage::CgroupSample;
use model::ids::{ContainerId, PodUid};
use model::ports::disk::DiskSpace;
use model::ports::node_usage::{InterfaceCounters, TaskCounts};
use model::ports::runtime::{ImageFilesystem, ImageFsInfo};
use model::stats::{
    ContainerStats, FsStats, NodeStats, PodReference, PodStats, RlimitStats, RuntimeFsStats,
    Summary,
};

use super::observation::{RunningContainer, RunningPod};
use super::owners::Owners;
use super::rates::Rates;
use super::storage::{self, PodFiles, PodVolumes};
use super::usage;

/// The root cgroup.
pub const ROOT: &str = "/";

/// A group of system processes that the summary shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SystemGroup {
    /// `kubelet`, `runtime`, `misc` or `pods`.
    pub name: &'static str,
    /// Its cgroup.
    pub path: String,
    /// Its start, if it differs from the creation of the cgroup.
    pub started: Option<Timestamp>,
}

/// What does not change while the agent runs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodeFacts {
    /// The name of the node.
    pub name: String,
    /// Memory of the machine in bytes.
    pub memory: u64,
    /// The root directory of the agent.
    pub root_dir: PathBuf,
    /// The groups of system processes.
    pub system: Vec<SystemGroup>,
}

/// Measured values of the node beside its cgroups.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct NodeMeasurement {
    /// When it was made.
    pub time: Timestamp,
    /// The boot of the machine.
    pub booted_at: Option<Timestamp>,
    /// The interfaces of the machine.
    pub interfaces: Option<Vec<InterfaceCounters>>,
    /// Processes and threads.
    pub tasks: Option<TaskCounts>,
    /// The file systems of the runtime, with what it uses there.
    pub runtime: ImageFsInfo,
    /// The space of file systems, by a directory on each.
    pub spaces: BTreeMap<PathBuf, DiskSpace>,
}

/// Measured values of pods beside their cgroups.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PodMeasurements {
    /// The writable layers of containers.
    pub layers: BTreeMap<ContainerId, ImageFilesystem>,
    /// The interfaces, by the pod.
    pub interfaces: BTreeMap<PodUid, Vec<InterfaceCounters>>,
    /// Logs and hosts files.
    pub files: BTreeMap<PodUid, PodFiles>,
    /// Volumes.
    pub volumes: BTreeMap<PodUid, PodVolumes>,
}

/// CPU and memory: cgroups and their rates.
#[derive(Debug, Clone, Copy)]
pub struct Cgroups<'a> {
    /// The measured cgroups.
    pub samples: &'a [CgroupSample],
    /// Rates, with these measurements recorded.
    pub rates: &'a Rates,
}

/// Builds summaries of one measurement of cgroups.
#[derive(Debug)]
pub struct Assembly<'a> {
    facts: &'a NodeFacts,
    owners: Owners<'a>,
    rates: &'a Rates,
}

impl<'a> Assembly<'a> {
    /// Of these cgroups.
    pub fn new(facts: &'a NodeFacts, cgroups: Cgroups<'a>) -> Self {
        let owners = Owners::new(cgroups.samples);
        Self { facts, owners, rates: cgroups.rates }
    }

    /// CPU and memory of the node and its pods.
    pub fn cpu_and_memory(&self, pods: &[RunningPod]) -> Summary {
        let root = self.owners.at(ROOT);
        let start_time = root.and_then(|root| root.created);
        let node = NodeStats { start_time, ..self.node_base() };
        let without_io = |mut stats: ContainerStats| {
            stats.io = None;
            stats
        };
        let system = node.system_containers.into_iter().map(without_io).collect();
        let node = NodeStats { io: None, system_containers: system, ..node };
        let pods = pods.iter().map(|pod| {
            let mut stats = self.pod_base(pod);
            stats.containers = stats.containers.into_iter().map(without_io).collect();
            PodStats { io: None, processes: None, ..stats }
        });
        Summary { node, pods: pods.collect() }
    }

    /// The whole node.
    pub fn node(&self, measured: &NodeMeasurement) -> NodeStats {
        let time = measured.time;
        let fs = measured.spaces.get(&self.facts.root_dir);
        let network = measured.interfaces.as_ref().map(|all| usage::network(time, all));
        let rlimit = measured.tasks.map(|tasks| RlimitStats {
            time,
            maxpid: tasks.maximum,
            running: tasks.running,
        });
        NodeStats {
            start_time: measured.booted_at,
            network,
            fs: fs.map(|space| storage::whole(time, space)),
            runtime: runtime_file_systems(measured),
            rlimit,
            ..self.node_base()
        }
    }

    /// The whole node and its pods.
    pub fn whole(
        &self,
        pods: &[RunningPod],
        measured: &NodeMeasurement,
        of_pods: &PodMeasurements,
    ) -> Summary {
        let pods = pods.iter().map(|pod| self.pod(pod, measured, of_pods));
        Summary { node: self.node(measured), pods: pods.collect() }
    }

    fn node_base(&self) -> NodeStats {
        let root = self.owners.at(ROOT);
        let machine = Some(self.facts.memory);
        let system = self.facts.system.iter().filter_map(|group| self.system_group(group));
        NodeStats {
            node_name: self.facts.name.clone(),
            cpu: root.and_then(|root| usage::cpu(root, self.rate(root))),
            memory: root.and_then(|root| usage::memory(root, machine)),
            swap: root.and_then(usage::swap),
            io: root.and_then(usage::io),
            system_containers: system.collect(),
            ..NodeStats::default()
        }
    }

    fn system_group(&self, group: &SystemGroup) -> Option<ContainerStats> {
        let sample = self.owners.at(&group.path)?;
        Some(ContainerStats {
            name: group.name.to_owned(),
            start_time: group.started.or(sample.created),
            ..self.of_cgroup(sample)
        })
    }

    fn of_cgroup(&self, sample: &CgroupSample) -> ContainerStats {
        ContainerStats {
            cpu: usage::cpu(sample, self.rate(sample)),
            memory: usage::memory(sample, None),
            swap: usage::swap(sample),
            io: usage::io(sample),
            ..ContainerStats::default()
        }
    }

    fn rate(&self, sample: &CgroupSample) -> Option<u64> {
        self.rates.rate(&sample.path, sample.time)
    }

    /// The values of a pod's cgroups.
    fn pod_base(&self, pod: &RunningPod) -> PodStats {
        let containers: Vec<_> = pod.containers.iter().map(|one| self.container(one)).collect();
        let samples = pod.containers.iter().filter_map(|one| self.owners.object(one.id.as_str()));
        let own = self.owners.pod(&pod.uid);
        let sums = || sum(&containers);
        PodStats {
            pod_ref: PodReference { name: pod.name.clone(), uid: pod.uid.clone() },
            start_time: Some(pod.created_at),
            cpu: own.map_or_else(|| sums().cpu, |own| usage::cpu(own, self.rate(own))),
            memory: own.map_or_else(|| sums().memory, |own| usage::memory(own, None)),
            swap: own.map_or_else(|| sums().swap, usage::swap),
            io: own.and_then(usage::io),
            processes: usage::processes(samples),
            network: None,
            volumes: Vec::new(),
            ephemeral_storage: None,
            containers,
        }
    }

    fn container(&self, container: &RunningContainer) -> ContainerStats {
        let sample = self.owners.object(container.id.as_str());
        let measured = sample.map(|sample| self.of_cgroup(sample)).unwrap_or_default();
        ContainerStats {
            name: container.name.to_string(),
            start_time: Some(container.created_at),
            ..measured
        }
    }

    fn pod(
        &self,
        pod: &RunningPod,
        measured: &NodeMeasurement,
        of_pods: &PodMeasurements,
    ) -> PodStats {
        let mut stats = self.pod_base(pod);
        let time = measured.time;
        let own = of_pods.files.get(&pod.uid).cloned().unwrap_or_default();
        let space = measured.spaces.get(&self.facts.root_dir);
        for (stats, container) in stats.containers.iter_mut().zip(&pod.containers) {
            stats.rootfs =
                of_pods.layers.get(&container.id).map(|layer| rootfs(layer, &measured.spaces));
            let logs = own.logs.as_ref().and_then(|logs| logs.directories.get(&*container.name));
            stats.logs = logs.zip(space).map(|(usage, space)| storage::files(time, space, *usage));
        }
        let volumes = of_pods.volumes.get(&pod.uid).cloned().unwrap_or_default();
        stats.ephemeral_storage = space.map(|space| {
            let node = storage::of_space(time, space);
            storage::ephemeral(node, &stats.containers, &volumes, &own)
        });
        let interfaces = of_pods.interfaces.get(&pod.uid);
        stats.network = interfaces.map(|all| usage::network(time, all));
        stats.volumes = volumes.ephemeral.into_iter().chain(volumes.others).collect();
        stats
    }
}

/// A writable layer on its file system.
fn rootfs(layer: &ImageFilesystem, spaces: &BTreeMap<PathBuf, DiskSpace>) -> FsStats {
    let time = layer.measured_at;
    let space = spaces.get(&layer.mount_point);
    FsStats {
        time,
        used_bytes: Some(layer.used_bytes),
        inodes_used: layer.inodes_used,
        ..space.map(|space| storage::of_space(time, space)).unwrap_or_default()
    }
}

/// The file systems of the runtime. If both are on one device, they are the same, like upstream.
fn runtime_file_systems(measured: &NodeMeasurement) -> Option<RuntimeFsStats> {
    let images = measured.runtime.images.first()?;
    let containers = measured.runtime.containers.first();
    let device =
        |found: &ImageFilesystem| measured.spaces.get(&found.mount_point).map(|space| space.device);
    let image_fs = rootfs(images, &measured.spaces);
    let split =
        containers.filter(|found| device(found).is_some() && device(found) != device(images));
    let container_fs = split.map_or(image_fs, |found| rootfs(found, &measured.spaces));
    Some(RuntimeFsStats { image_fs: Some(image_fs), container_fs: Some(container_fs) })
}

/// The sum of the containers of a pod without a cgroup.
fn sum(containers: &[ContainerStats]) -> ContainerStats {
    let mut all = ContainerStats::default();
    let plus = |one: Option<u64>, other: Option<u64>| match (one, other) {
        (None, None) => None,
        _ => Some(one.unwrap_or_default().saturating_add(other.unwrap_or_default())),
    };
    for container in containers {
        if let Some(cpu) = &container.cpu {
            let sum = all.cpu.get_or_insert_default();
            sum.time = cpu.time;
            sum.usage_nano_cores = plus(sum.usage_nano_cores, cpu.usage_nano_cores);
            sum.usage_core_nano_seconds =
                plus(sum.usage_core_nano_seconds, cpu.usage_core_nano_seconds);
        }
        if let Some(memory) = &container.memory {
            let sum = all.memory.get_or_insert_default();
            sum.time = memory.time;
            sum.available_bytes = plus(sum.available_bytes, memory.available_bytes);
            sum.usage_bytes = plus(sum.usage_bytes, memory.usage_bytes);
            sum.working_set_bytes = plus(sum.working_set_bytes, memory.working_set_bytes);
            sum.rss_bytes = plus(sum.rss_bytes, memory.rss_bytes);
            sum.page_faults = plus(sum.page_faults, memory.page_faults);
            sum.major_page_faults = plus(sum.major_page_faults, memory.major_page_faults);
        }
        if let Some(swap) = &container.swap {
            let sum = all.swap.get_or_insert_default();
            sum.time = swap.time;
            sum.swap_available_bytes = plus(sum.swap_available_bytes, swap.swap_available_bytes);
            sum.swap_usage_bytes = plus(sum.swap_usage_bytes, swap.swap_usage_bytes);
        }
    }
    all
}

#[cfg(test)]
#[path = "summary_tests.rs"]
mod tests;
