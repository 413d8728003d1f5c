//! Makes measurements through the ports.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use model::cgroup::usage::CgroupSample;
use model::ids::{ContainerId, PodUid, SandboxId};
use model::log_layout::LogLayout;
use model::ports::cgroup_usage::{Detail, Selection};
use model::ports::disk::DiskSpace;
use model::ports::node_usage::InterfaceCounters;
use model::ports::runtime::{Code, ImageFilesystem, ImageFsInfo};
use model::ports::usage::UsageError;
use model::stats::{NodeStats, Summary};
use tokio::time::{Instant, sleep, timeout, timeout_at};
use tracing::{debug, warn};

use crate::decide::cadvisor::{self, Machine, Shown};
use crate::decide::observation::{RunningPod, running_pods};
use crate::decide::owners::Owners;
use crate::decide::rates::Rates;
use crate::decide::storage::PodFiles;
use crate::decide::summary::{Assembly, Cgroups, NodeMeasurement, PodMeasurements, ROOT};
use crate::source::{StatisticsParts, StatisticsSettings};

/// How long the runtime may take for the sizes of its file systems. Without them the last known directories are
/// measured.
const RUNTIME: Duration = Duration::from_secs(5);

/// How long the runtime may take for the images of all new sandboxes. The page is served without the others.
const SANDBOXES: Duration = Duration::from_secs(5);

/// The time between two measurements if there is no earlier one.
const BETWEEN: Duration = Duration::from_secs(1);

/// The process whose network namespace is the machine's.
const MACHINE: i32 = 1;

fn failed(step: &str, error: impl Display) -> UsageError {
    UsageError { step: step.to_owned(), message: error.to_string() }
}

/// Makes measurements, and keeps what the next ones need.
#[derive(Debug)]
pub(crate) struct Measurer {
    parts: StatisticsParts,
    settings: StatisticsSettings,
    /// Never held across an await, as the others.
    rates: Mutex<Rates>,
    /// The last known file systems of the runtime.
    file_systems: Mutex<Option<ImageFsInfo>>,
    booted_at: Mutex<Option<Timestamp>>,
    /// The images of sandboxes, which do not change.
    sandbox_images: Mutex<BTreeMap<SandboxId, String>>,
}

fn lock<T>(value: &Mutex<T>) -> MutexGuard<'_, T> {
    value.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Measurer {
    pub(crate) fn new(parts: StatisticsParts, settings: StatisticsSettings) -> Self {
        Self {
            parts,
            settings,
            rates: Mutex::default(),
            file_systems: Mutex::default(),
            booted_at: Mutex::default(),
            sandbox_images: Mutex::default(),
        }
    }

    /// The node alone.
    pub(crate) async fn node(&self) -> Result<NodeStats, UsageError> {
        let groups = self.settings.facts.system.iter().map(|group| group.path.clone());
        let alone: BTreeSet<String> = groups.chain([ROOT.to_owned()]).collect();
        let selection = Selection { alone: alone.into_iter().collect(), ..Selection::default() };
        let (samples, measured) = tokio::join!(
            self.cgroups(&selection, Detail::CpuAndMemory),
            self.measure_node(BTreeSet::new())
        );
        let (samples, measured) = (samples?, measured?);
        let rates = lock(&self.rates);
        Ok(self.assembly(&samples, &rates).node(&measured))
    }

    /// CPU and memory of the node and its pods.
    pub(crate) async fn cpu_and_memory(&self) -> Result<Summary, UsageError> {
        let samples = self.cgroups(&self.all(), Detail::CpuAndMemory).await?;
        let pods = self.pods();
        let rates = lock(&self.rates);
        Ok(self.assembly(&samples, &rates).cpu_and_memory(&pods))
    }

    /// The node and its pods.
    pub(crate) async fn whole(&self) -> Result<Summary, UsageError> {
        let pods = self.pods();
        let (samples, layers, files) =
            tokio::join!(self.with_rates(), self.layers(), self.files(&pods));
        let (samples, layers) = (samples?, layers?);
        let mounts = layers.values().map(|layer| layer.mount_point.clone()).collect();
        let (measured, interfaces) =
            tokio::join!(self.measure_node(mounts), self.interfaces(&pods, &samples));
        let measured = measured?;
        let volumes = pods
            .iter()
            .filter_map(|pod| Some((pod.uid.clone(), self.parts.volumes.of_pod(&pod.uid)?)));
        let of_pods = PodMeasurements { layers, interfaces, files, volumes: volumes.collect() };
        let rates = lock(&self.rates);
        Ok(self.assembly(&samples, &rates).whole(&pods, &measured, &of_pods))
    }

    /// The page `/metrics/cadvisor`.
    pub(crate) async fn cadvisor(&self) -> Result<String, UsageError> {
        let samples = self.cgroups(&self.all(), Detail::All).await?;
        let pods = self.pods();
        let (interfaces, images, machine_interfaces) = tokio::join!(
            self.interfaces(&pods, &samples),
            self.sandbox_images(&pods),
            self.parts.node.interfaces(&[MACHINE])
        );
        let devices: BTreeSet<_> = samples
            .iter()
            .flat_map(|sample| sample.io.iter().flat_map(|io| &io.devices))
            .map(|io| io.device)
            .collect();
        let devices: Vec<_> = devices.into_iter().collect();
        let devices = self.parts.node.devices(&devices).await.unwrap_or_else(|error| {
            debug!(%error, "Cannot read the names of block devices");
            BTreeMap::new()
        });
        let machine = Machine {
            cpus: self.settings.cpus,
            memory: self.settings.facts.memory,
            identity: &self.settings.identity,
            interfaces: machine_interfaces.ok().and_then(|mut all| all.remove(&MACHINE)),
        };
        Ok(cadvisor::page(&Shown {
            now: self.parts.clock.now(),
            samples: &samples,
            pods: &pods,
            machine,
            interfaces: &interfaces,
            sandbox_images: &images,
            devices: &devices,
        }))
    }

    fn assembly<'a>(&'a self, samples: &'a [CgroupSample], rates: &'a Rates) -> Assembly<'a> {
        Assembly::new(&self.settings.facts, Cgroups { samples, rates })
    }

    fn pods(&self) -> Vec<RunningPod> {
        running_pods(&self.parts.pods.observed_pods())
    }

    /// The cgroups of the node and of all pods.
    fn all(&self) -> Selection {
        let pods = &self.settings.pods_cgroup;
        // Without cgroups of pods, those of containers may be anywhere.
        if pods == ROOT {
            return Selection { alone: Vec::new(), with_children: vec![ROOT.to_owned()] };
        }
        let groups = self.settings.facts.system.iter().map(|group| &group.path);
        let alone = groups.filter(|path| *path != pods && *path != ROOT).cloned();
        let alone = alone.chain([ROOT.to_owned()]);
        Selection { alone: alone.collect(), with_children: vec![pods.clone()] }
    }

    /// Measures cgroups. The root must be among them.
    async fn cgroups(
        &self,
        selection: &Selection,
        detail: Detail,
    ) -> Result<Vec<CgroupSample>, UsageError> {
        let samples = self.parts.cgroups.measure(selection, detail).await;
        let samples =
            samples.map_err(|error| failed("read cgroups", model::chain::Chain(&error)))?;
        if !samples.iter().any(|sample| sample.path == ROOT) {
            return Err(failed("read the root cgroup", "it does not exist"));
        }
        lock(&self.rates).record(&samples);
        Ok(samples)
    }

    /// Measures all cgroups, a second time if no cgroup of a pod has a rate yet.
    async fn with_rates(&self) -> Result<Vec<CgroupSample>, UsageError> {
        let selection = self.all();
        let samples = self.cgroups(&selection, Detail::CpuAndMemory).await?;
        let is_first = {
            let rates = lock(&self.rates);
            let mut below = samples.iter().filter(|sample| !selection.alone.contains(&sample.path));
            !below.any(|sample| rates.rate(&sample.path, sample.time).is_some())
        };
        if !is_first {
            return Ok(samples);
        }
        sleep(BETWEEN).await;
        self.cgroups(&selection, Detail::CpuAndMemory).await
    }

    async fn layers(&self) -> Result<BTreeMap<ContainerId, ImageFilesystem>, UsageError> {
        let found = self.parts.runtime.containers.list_writable_layers().await;
        let found = found.map_err(|error| failed("list the statistics of containers", error))?;
        Ok(found.into_iter().map(|layer| (layer.container, layer.usage)).collect())
    }

    /// Measures the node, and the file systems of more directories.
    async fn measure_node(
        &self,
        mut directories: BTreeSet<PathBuf>,
    ) -> Result<NodeMeasurement, UsageError> {
        let runtime = self.runtime_file_systems().await?;
        let found = runtime.images.iter().take(1).chain(runtime.containers.iter().take(1));
        directories.extend(found.map(|one| one.mount_point.clone()));
        let root = &self.settings.facts.root_dir;
        let space = self.parts.disks.space(root).await;
        let space = space.map_err(|error| {
            failed("measure the file system of the root directory", model::chain::Chain(&error))
        })?;
        let mut spaces = BTreeMap::from([(root.clone(), space)]);
        for directory in directories {
            spaces.extend(self.space(directory).await);
        }
        let (interfaces, tasks) =
            tokio::join!(self.parts.node.interfaces(&[MACHINE]), self.parts.node.tasks());
        Ok(NodeMeasurement {
            time: self.parts.clock.now(),
            booted_at: self.booted_at().await,
            interfaces: interfaces.ok().and_then(|mut all| all.remove(&MACHINE)),
            tasks: Some(tasks.map_err(|error| failed("count tasks", model::chain::Chain(&error)))?),
            runtime,
            spaces,
        })
    }

    /// The space at a directory of the runtime, if it can be measured.
    async fn space(&self, directory: PathBuf) -> Option<(PathBuf, DiskSpace)> {
        match self.parts.disks.space(&directory).await {
            Ok(space) => Some((directory, space)),
            Err(error) => {
                debug!(%error, "Cannot measure a file system of the runtime");
                None
            }
        }
    }

    /// The file systems of the runtime. If it does not answer, the last known ones.
    async fn runtime_file_systems(&self) -> Result<ImageFsInfo, UsageError> {
        let answer = timeout(RUNTIME, self.parts.runtime.images.image_fs_info()).await;
        let found = match answer {
            Ok(Ok(found)) if !found.images.is_empty() => {
                *lock(&self.file_systems) = Some(found.clone());
                return Ok(found);
            }
            Ok(Ok(_)) => "the runtime reports none".to_owned(),
            Ok(Err(error)) => error.to_string(),
            Err(_) => format!("the runtime has not answered for {} s", RUNTIME.as_secs()),
        };
        let known = lock(&self.file_systems).clone();
        known.ok_or_else(|| failed("find the file systems of the runtime", found))
    }

    async fn booted_at(&self) -> Option<Timestamp> {
        if let Some(known) = *lock(&self.booted_at) {
            return Some(known);
        }
        let found = self.parts.node.booted_at().await.ok();
        *lock(&self.booted_at) = found;
        found
    }

    /// The interfaces of pods, in the network namespace of a process of their sandboxes.
    async fn interfaces(
        &self,
        pods: &[RunningPod],
        samples: &[CgroupSample],
    ) -> BTreeMap<PodUid, Vec<InterfaceCounters>> {
        let owners = Owners::new(samples);
        let process = |pod: &RunningPod| {
            // Some runtimes have sandboxes without a process.
            let containers = pod.containers.iter().map(|one| one.id.as_str());
            let mut objects = std::iter::once(pod.sandbox.as_str()).chain(containers);
            let first = objects.find_map(|id| owners.object(id)?.processes?.first)?;
            Some((pod.uid.clone(), first))
        };
        let processes: BTreeMap<PodUid, i32> = pods.iter().filter_map(process).collect();
        let all: Vec<i32> = processes.values().copied().collect();
        match self.parts.node.interfaces(&all).await {
            Ok(found) => {
                let of = |(uid, process)| Some((uid, found.get(&process)?.clone()));
                processes.into_iter().filter_map(of).collect()
            }
            Err(error) => {
                warn!(%error, "Cannot read the network traffic of pods");
                BTreeMap::new()
            }
        }
    }

    /// Logs and hosts files of pods.
    async fn files(&self, pods: &[RunningPod]) -> BTreeMap<PodUid, PodFiles> {
        let mut found = BTreeMap::new();
        for pod in pods {
            let name = LogLayout::pod_directory_name(&pod.name, &pod.uid);
            let logs = self.parts.disks.listed_usage(&self.settings.pod_logs.join(name)).await;
            let hosts = self.settings.pods.join(pod.uid.as_str()).join("etc-hosts");
            let etc_hosts = self.parts.disks.file_usage(&hosts).await;
            for error in [logs.as_ref().err(), etc_hosts.as_ref().err()].into_iter().flatten() {
                if !error.is_not_found() {
                    debug!(pod = %pod.name, %error, "Cannot measure files of a pod");
                }
            }
            let files = PodFiles { logs: logs.ok(), etc_hosts: etc_hosts.ok() };
            found.insert(pod.uid.clone(), files);
        }
        found
    }

    /// The images of the pods' sandboxes, as far as the runtime reports them.
    async fn sandbox_images(&self, pods: &[RunningPod]) -> BTreeMap<SandboxId, String> {
        let mut known = lock(&self.sandbox_images).clone();
        let reported: BTreeSet<&SandboxId> = pods.iter().map(|pod| &pod.sandbox).collect();
        known.retain(|id, _| reported.contains(id));
        let deadline = Instant::now() + SANDBOXES;
        for pod in pods {
            if known.contains_key(&pod.sandbox) {
                continue;
            }
            let image = self.parts.runtime.sandboxes.sandbox_image(&pod.sandbox);
            match timeout_at(deadline, image).await {
                Ok(Ok(image)) => drop(known.insert(pod.sandbox.clone(), image.unwrap_or_default())),
                Ok(Err(error)) => {
                    debug!(%error, "Cannot read the image of a sandbox");
                    if error.code == Code::DeadlineExceeded {
                        break;
                    }
                }
                Err(_) => {
                    debug!(sandbox = %pod.sandbox, "The runtime takes too long for the images of sandboxes");
                    break;
                }
            }
        }
        lock(&self.sandbox_images).clone_from(&known);
        known
    }
}

#[cfg(test)]
#[path = "measure_tests.rs"]
mod tests;
