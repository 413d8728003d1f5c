//! Statistics: their view of pods and volumes, and their pages.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use async_trait::async_trait;
use cgroups::{MemoryAlarms, Tree, UsageReader};
use hostfs::{Host, HostUsage, Pool};
use model::observed::RuntimePodStatus;
use model::ports::cgroup_usage::CgroupUsage;
use model::ports::memory_alarm::MemoryAlarm;
use model::ports::node_usage::NodeUsage;
use model::ports::usage::{UsageError, UsageSource as _};
use model::stats::{ClaimReference, Summary};
use model::volume::{Plugin, VolumeLayout};
use server::node_api::UsagePages;
use stats::decide::cadvisor;
use stats::{MeasuredBy, ObservedPods, PodToWalk, Statistics, VolumeToMeasure, VolumesOfPods};
use tracing::{error, warn};
use volumes::VolumeManager;
use volumes::decide::resolve::{Medium, VolumeSource, VolumeSpec};

/// How old an answer may be.
const YOUNG: Duration = Duration::from_secs(1);

/// The ports that measure the machine.
#[derive(Debug, Clone)]
pub struct UsagePorts {
    /// Reads cgroups.
    pub cgroups: Arc<dyn CgroupUsage>,
    /// Reads network traffic and tasks.
    pub node: Arc<dyn NodeUsage>,
    /// Reports that memory is short; none in some tests.
    pub alarm: Option<Arc<dyn MemoryAlarm>>,
}

impl UsagePorts {
    /// Measures this machine. Its threads are added to the pools.
    pub(crate) fn of_machine(host: &Host, pools: &mut Vec<Pool>) -> Result<Self> {
        let tree = Tree::of_machine().context("find the cgroups of this machine")?;
        let alarm = Arc::new(MemoryAlarms::new(tree.clone()));
        let cgroups = UsageReader::new(tree);
        let of_volumes = [host.walk_pool().clone(), host.volume_space_pool().clone()];
        pools.push(cgroups.pool().clone());
        pools.extend(of_volumes);
        let node = Arc::new(HostUsage::new(host.clone()));
        Ok(Self { cgroups: Arc::new(cgroups), node, alarm: Some(alarm) })
    }
}

/// The pods that the PLEG observed.
#[derive(Debug)]
pub(crate) struct PodsOfPleg(pub(crate) pleg::cache::Reader);

impl ObservedPods for PodsOfPleg {
    fn observed_pods(&self) -> Vec<Arc<RuntimePodStatus>> {
        let live = self.0.all_live();
        live.keys().filter_map(|uid| self.0.get(uid).ok()).collect()
    }
}

/// The mounted volumes of pods.
#[derive(Debug)]
pub(crate) struct MountedVolumes {
    pub(crate) manager: VolumeManager,
    pub(crate) layout: VolumeLayout,
}

impl VolumesOfPods for MountedVolumes {
    fn pods_to_walk(&self) -> Vec<PodToWalk> {
        let pods = self.manager.all_mounted().into_iter().map(|(uid, specs)| {
            let volumes = specs.iter().flat_map(|spec| {
                let place = self.layout.volume(&uid, &spec.id);
                let measured = measured(spec);
                let of_name = move |outer: &volumes::decide::resolve::OuterName| {
                    let (measured_by, is_ephemeral) = measured?;
                    Some(VolumeToMeasure {
                        name: outer.name.to_string(),
                        place: place.clone(),
                        measured_by,
                        is_ephemeral,
                        claim: claim(spec),
                    })
                };
                spec.outer_names.iter().filter_map(of_name)
            });
            PodToWalk { volumes: volumes.collect(), uid: uid.clone() }
        });
        pods.filter(|pod| !pod.volumes.is_empty()).collect()
    }
}

/// How a volume is measured, and whether it counts as ephemeral storage. `None` if it is not measured at all, like upstream.
fn measured(spec: &VolumeSpec) -> Option<(MeasuredBy, bool)> {
    match &spec.source {
        _ if spec.is_block => None,
        VolumeSource::EmptyDir { medium, .. } => Some((MeasuredBy::Walk, *medium == Medium::Disk)),
        VolumeSource::Content => Some((MeasuredBy::OneWalk, spec.id.plugin == Plugin::ConfigMap)),
        VolumeSource::Local { .. } | VolumeSource::Nfs { .. } => Some((MeasuredBy::Space, false)),
        VolumeSource::HostPath { .. } | VolumeSource::Image { .. } => None,
    }
}

fn claim(spec: &VolumeSpec) -> Option<ClaimReference> {
    let claim = &spec.persistent.as_ref()?.claim;
    Some(ClaimReference { name: claim.name.to_string(), namespace: claim.namespace.to_string() })
}

/// The pages of statistics. Without ports that measure the machine there are none.
#[derive(Debug)]
pub(crate) struct StatisticsPages(pub(crate) Option<Statistics>);

impl StatisticsPages {
    async fn measured(&self, only_cpu_and_memory: bool) -> Result<Arc<Summary>, UsageError> {
        let Some(statistics) = &self.0 else {
            let message = "this agent does not measure its machine".to_owned();
            return Err(UsageError { step: "measure usage".to_owned(), message });
        };
        if only_cpu_and_memory {
            return statistics.cpu_and_memory().await;
        }
        statistics.summary(YOUNG).await
    }
}

#[async_trait]
impl UsagePages for StatisticsPages {
    async fn summary(&self, only_cpu_and_memory: bool) -> Result<String, String> {
        let summary = self.measured(only_cpu_and_memory).await.map_err(|failed| {
            error!(error = %failed, "HTTP InternalServerError serving /stats/summary");
            failed.to_string()
        })?;
        serde_json::to_string(&*summary).map_err(|error| error.to_string())
    }

    async fn resource_metrics(&self) -> String {
        match &self.0 {
            Some(statistics) => statistics.resource_metrics().await,
            None => stats::decide::resource_metrics::page(None),
        }
    }

    async fn cadvisor_metrics(&self) -> String {
        let Some(statistics) = &self.0 else { return cadvisor::error_page() };
        match statistics.cadvisor_metrics().await {
            Ok(page) => page.to_string(),
            Err(error) => {
                warn!(%error, "Cannot measure cgroups for /metrics/cadvisor");
                cadvisor::error_page()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use model::volume::VolumeId;

    use super::*;

    fn spec(plugin: Plugin, source: VolumeSource) -> VolumeSpec {
        VolumeSpec {
            id: VolumeId::new(plugin, "v"),
            outer_names: Vec::new(),
            source,
            read_only: false,
            is_block: false,
            fs_group_applies: false,
            persistent: None,
        }
    }

    // behaviour: STA-7
    #[test]
    fn volumes_are_measured_and_counted_as_upstream() {
        use MeasuredBy::{OneWalk, Space, Walk};
        let empty_dir = |medium| VolumeSource::EmptyDir { medium, size_limit: None };
        let nfs =
            VolumeSource::Nfs { server: String::new(), path: String::new(), options: Vec::new() };
        let image = VolumeSource::Image { reference: String::new(), pull_policy: String::new() };
        let rows = [
            (Plugin::EmptyDir, empty_dir(Medium::Disk), Some((Walk, true))),
            (Plugin::EmptyDir, empty_dir(Medium::Memory), Some((Walk, false))),
            (Plugin::ConfigMap, VolumeSource::Content, Some((OneWalk, true))),
            (Plugin::Secret, VolumeSource::Content, Some((OneWalk, false))),
            (Plugin::Projected, VolumeSource::Content, Some((OneWalk, false))),
            (Plugin::Nfs, nfs, Some((Space, false))),
            (Plugin::Image, image, None),
        ];
        for (plugin, source, expected) in rows {
            assert_eq!(measured(&spec(plugin, source)), expected, "{plugin:?}");
        }
        let block = VolumeSpec { is_block: true, ..spec(Plugin::Local, empty_dir(Medium::Disk)) };
        assert_eq!(measured(&block), None);
    }
}
