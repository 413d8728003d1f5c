//! Builds statistics.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use model::cgroup::CgroupDriver;
use model::machine::Identity;
use model::volume::VolumeLayout;
use process::tasks::Tasks;
use stats::decide::summary::{NodeFacts, SystemGroup};
use stats::{
    Statistics, StatisticsParts, StatisticsSettings, VolumeMetrics, VolumeUsage, VolumeWalks,
};
use volumes::VolumeManager;

use super::{Ports, Settings};
use crate::statistics::{MountedVolumes, PodsOfPleg};

/// The settings of statistics.
#[derive(Debug, Clone, Default)]
pub struct StatisticsRules {
    /// How often volumes are measured; never without a period.
    pub volume_period: Option<Duration>,
    /// The cgroup of the agent, unless it is the root.
    pub own_cgroup: Option<PathBuf>,
    /// The identity of the machine.
    pub identity: Identity,
}

/// What statistics need of other parts of the agent.
pub(super) struct StatisticsInputs<'a> {
    pub(super) cache: &'a pleg::cache::Reader,
    pub(super) volumes: &'a VolumeManager,
}

/// Starts statistics; `None` without ports that measure the machine.
pub(super) fn start_statistics(
    settings: &Settings,
    ports: &Ports,
    inputs: StatisticsInputs<'_>,
    tasks: &mut Tasks,
) -> Option<Statistics> {
    let usage = ports.usage.as_ref()?;
    let parts = StatisticsParts {
        cgroups: Arc::clone(&usage.cgroups),
        node: Arc::clone(&usage.node),
        disks: Arc::clone(&ports.disks),
        runtime: ports.runtime.clone(),
        pods: Arc::new(PodsOfPleg(inputs.cache.clone())),
        volumes: start_volume_walks(settings, ports, inputs.volumes, tasks),
        clock: Arc::clone(&ports.clock),
    };
    let (statistics, task) = Statistics::new(parts, statistics_settings(settings, ports));
    tasks.spawn("statistics", |stop| task.run(stop));
    Some(statistics)
}

/// The cgroup of all pods; `/` if pods have no cgroups.
pub(super) fn pods_cgroup(settings: &Settings, ports: &Ports) -> String {
    let driver = ports.cgroups.as_ref().map_or(CgroupDriver::Cgroupfs, |port| port.driver());
    let cgroups = &settings.cgroups;
    if cgroups.per_pod { cgroups.pods.root.path(driver) } else { "/".to_owned() }
}

fn statistics_settings(settings: &Settings, ports: &Ports) -> StatisticsSettings {
    let pods_cgroup = pods_cgroup(settings, ports);
    let rules = &settings.statistics;
    let own = rules.own_cgroup.as_ref().map(|path| SystemGroup {
        name: "kubelet",
        path: path.display().to_string(),
        started: Some(ports.clock.now()),
    });
    let pods = SystemGroup { name: "pods", path: pods_cgroup.clone(), started: None };
    let pods = Some(pods).filter(|pods| pods.path != "/");
    StatisticsSettings {
        facts: NodeFacts {
            name: settings.node_name.clone(),
            memory: settings.node.machine.memory,
            root_dir: settings.node.root_dir.clone(),
            system: own.into_iter().chain(pods).collect(),
        },
        pods_cgroup,
        pod_logs: settings.pod_logs.clone(),
        pods: settings.pods(),
        cpus: settings.node.machine.cpus,
        identity: rules.identity.clone(),
    }
}

/// Starts the walks through volumes, unless they are switched off.
fn start_volume_walks(
    settings: &Settings,
    ports: &Ports,
    volumes: &VolumeManager,
    tasks: &mut Tasks,
) -> VolumeUsage {
    let usage = VolumeUsage::default();
    VolumeMetrics::register(usage.clone(), &ports.metrics).expect("no other part measures volumes");
    let Some(period) = settings.statistics.volume_period else {
        tracing::info!("Volume stats collection disabled");
        return usage;
    };
    let walks = VolumeWalks {
        pods: Arc::new(MountedVolumes {
            manager: volumes.clone(),
            layout: VolumeLayout { pods: settings.pods() },
        }),
        disks: Arc::clone(&ports.disks),
        clock: Arc::clone(&ports.clock),
        usage: usage.clone(),
        period,
    };
    tasks.spawn("volume statistics", |stop| walks.run(stop));
    usage
}
