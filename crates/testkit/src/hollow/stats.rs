//! Stats: zero for every object.

use jiff::Timestamp;
use model::ids::{ContainerId, SandboxId};
use model::observed::ContainerState;
use model::ports::runtime::{ContainerFilter, SandboxFilter};
use proto::runtime_v1 as cri;
use tonic::Status;

use super::runtime_service::{no_container, no_sandbox};
use super::{Hollow, from_cri, to_cri};
use crate::runtime::look::{ContainerRecord, Look, SandboxRecord};

// The protocol distinguishes zero from a missing value.
#[expect(clippy::unnecessary_wraps, reason = "every measurement is optional")]
fn value(value: u64) -> Option<cri::UInt64Value> {
    Some(cri::UInt64Value { value })
}

fn cpu(timestamp: i64) -> cri::CpuUsage {
    cri::CpuUsage {
        timestamp,
        usage_core_nano_seconds: value(0),
        usage_nano_cores: value(0),
        psi: None,
    }
}

fn memory(timestamp: i64) -> cri::MemoryUsage {
    cri::MemoryUsage {
        timestamp,
        working_set_bytes: value(0),
        available_bytes: None,
        usage_bytes: value(0),
        rss_bytes: value(0),
        page_faults: value(0),
        major_page_faults: value(0),
        psi: None,
    }
}

fn network(timestamp: i64) -> cri::NetworkUsage {
    let interface = cri::NetworkInterfaceUsage {
        name: "eth0".to_owned(),
        rx_bytes: value(0),
        rx_errors: value(0),
        tx_bytes: value(0),
        tx_errors: value(0),
    };
    cri::NetworkUsage { timestamp, default_interface: Some(interface), interfaces: Vec::new() }
}

fn of_sandbox(id: &SandboxId, state: Option<ContainerState>) -> ContainerFilter {
    ContainerFilter { sandbox_id: Some(id.clone()), state, ..ContainerFilter::default() }
}

/// Only running containers have stats.
const MEASURED: Option<ContainerState> = Some(ContainerState::Running);

impl Hollow {
    /// The usage of the image file system.
    pub(super) fn filesystem(&self, now: Timestamp, used: u64) -> cri::FilesystemUsage {
        let mountpoint = self.settings.image_directory.display().to_string();
        cri::FilesystemUsage {
            timestamp: to_cri::nanoseconds(now),
            fs_id: Some(cri::FilesystemIdentifier { mountpoint }),
            used_bytes: value(used),
            inodes_used: value(0),
        }
    }

    pub(super) fn stats_of_container(
        &self,
        id: &ContainerId,
    ) -> Result<cri::ContainerStats, Status> {
        self.runtime.look(|look| {
            let record = look.container(id).ok_or_else(|| no_container(id))?;
            Ok(self.container_stats(record, look.now))
        })
    }

    pub(super) fn stats_of_containers(
        &self,
        filter: Option<cri::ContainerStatsFilter>,
    ) -> Vec<cri::ContainerStats> {
        let filter = filter.unwrap_or_default();
        let (id, sandbox) = (filter.id, filter.pod_sandbox_id);
        let mut selection = from_cri::containers(id, sandbox, None, filter.label_selector);
        if selection.is_partial() {
            self.gate.filtered("ListContainerStats");
        }
        selection.filter.state = MEASURED;
        self.runtime.look(|look| {
            let records = look.containers(&selection.filter);
            let records = records.filter(|record| selection.wants(&record.config.labels));
            records.map(|record| self.container_stats(record, look.now)).collect()
        })
    }

    pub(super) fn stats_of_sandbox(&self, id: &SandboxId) -> Result<cri::PodSandboxStats, Status> {
        self.runtime.look(|look| {
            let record = look.sandbox(id).ok_or_else(|| no_sandbox(id))?;
            Ok(self.sandbox_stats(record, look))
        })
    }

    pub(super) fn stats_of_sandboxes(
        &self,
        filter: Option<cri::PodSandboxStatsFilter>,
    ) -> Vec<cri::PodSandboxStats> {
        let filter = filter.unwrap_or_default();
        let selection = from_cri::sandboxes(filter.id, None, filter.label_selector);
        if selection.is_partial() {
            self.gate.filtered("ListPodSandboxStats");
        }
        self.runtime.look(|look| {
            let records = look.sandboxes(&selection.filter);
            let records = records.filter(|record| selection.wants(&record.config.labels));
            records.map(|record| self.sandbox_stats(record, look)).collect()
        })
    }

    /// No metric has a descriptor, so none has a value.
    pub(super) fn metrics_of_sandboxes(&self) -> Vec<cri::PodSandboxMetrics> {
        self.runtime.look(|look| {
            let all = SandboxFilter::default();
            let metrics = look.sandboxes(&all).map(|record| {
                let running = of_sandbox(&record.id, MEASURED);
                let containers = look.containers(&running).map(|record| cri::ContainerMetrics {
                    container_id: record.id.to_string(),
                    metrics: Vec::new(),
                });
                cri::PodSandboxMetrics {
                    pod_sandbox_id: record.id.to_string(),
                    metrics: Vec::new(),
                    container_metrics: containers.collect(),
                }
            });
            metrics.collect()
        })
    }

    fn container_stats(&self, record: &ContainerRecord, now: Timestamp) -> cri::ContainerStats {
        let timestamp = to_cri::nanoseconds(now);
        cri::ContainerStats {
            attributes: Some(cri::ContainerAttributes {
                id: record.id.to_string(),
                metadata: Some(to_cri::container_metadata(record)),
                labels: record.config.labels.clone(),
                annotations: record.config.annotations.clone(),
            }),
            cpu: Some(cpu(timestamp)),
            memory: Some(memory(timestamp)),
            writable_layer: Some(self.filesystem(now, 0)),
            ..cri::ContainerStats::default()
        }
    }

    fn sandbox_stats(&self, record: &SandboxRecord, look: &Look<'_>) -> cri::PodSandboxStats {
        let timestamp = to_cri::nanoseconds(look.now);
        let running = of_sandbox(&record.id, MEASURED);
        let containers: Vec<_> = look
            .containers(&running)
            .map(|record| self.container_stats(record, look.now))
            .collect();
        // One process per container.
        let process_count = value(u64::try_from(containers.len()).unwrap_or(u64::MAX));
        cri::PodSandboxStats {
            attributes: Some(cri::PodSandboxAttributes {
                id: record.id.to_string(),
                metadata: Some(to_cri::sandbox_metadata(&record.config)),
                labels: record.config.labels.clone(),
                annotations: record.config.annotations.clone(),
            }),
            linux: Some(cri::LinuxPodSandboxStats {
                cpu: Some(cpu(timestamp)),
                memory: Some(memory(timestamp)),
                network: Some(network(timestamp)),
                process: Some(cri::ProcessUsage { timestamp, process_count }),
                containers,
                io: None,
            }),
        }
    }
}
