//! The node's own cgroups: the parents of pod cgroups, and the reserved cgroups.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use cgroups::{HostCgroups, Manager, SystemdCgroups, Tree};
use config::KubeletConfiguration;
use hostfs::Pool;
use model::cgroup::{CgroupDriver, CgroupName, CgroupValues};
use model::chain::Chain;
use model::machine::Machine;
use model::ports::cgroups::{CgroupError, Cgroups};
use model::ports::events::{EventType, NodeEvent, NodeEvents};
use runtime::decide::{LimitSettings, PodCgroupSettings};
use runtime::make_class_cgroups;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::decide::node_resources::{ReservedCgroup, reserved_cgroups, values_for_pods};

/// The cgroup of all pods.
const KUBEPODS: &str = "kubepods";

/// How long to wait before a refused limit is written again: the pods must use less
/// first.
const RETRY: Duration = Duration::from_mins(1);

const ENFORCED: &str = "NodeAllocatableEnforced";
const NOT_ENFORCED: &str = "FailedNodeAllocatableEnforcement";

/// The cgroups of the node, and their values.
#[derive(Debug, Clone, Default)]
pub struct NodeCgroups {
    /// The cgroup root.
    pub(crate) root: CgroupName,
    /// Whether each pod has a cgroup.
    pub(crate) per_pod: bool,
    /// Settings of pod cgroups.
    pub(crate) pods: PodCgroupSettings,
    /// The values of the cgroup of all pods.
    pub(crate) values: CgroupValues,
    /// The reserved cgroups.
    pub(crate) reserved: Vec<ReservedCgroup>,
}

impl NodeCgroups {
    /// Cgroups of pods below this root, without a limit for all pods together.
    pub fn of_pods(root: &str) -> Self {
        let root = CgroupName::parse(root).expect("a valid cgroup name");
        let pods = PodCgroupSettings { root, ..PodCgroupSettings::default() };
        Self { per_pod: true, pods, ..Self::default() }
    }

    /// Sets whether each pod has a cgroup.
    #[must_use]
    pub fn per_pod(self, per_pod: bool) -> Self {
        Self { per_pod, ..self }
    }

    /// The cgroups of a configuration.
    pub(crate) fn new(
        config: &KubeletConfiguration,
        machine: &Machine,
        limits: &LimitSettings,
        driver: CgroupDriver,
    ) -> Result<Self> {
        let per_pod = config.cgroups_per_qos;
        let root = root_of_pods(&config.cgroup_root, driver)?;
        let of_pods = if per_pod { root.child(KUBEPODS)? } else { root.clone() };
        let reserved = reserved_cgroups(config, machine, driver)
            .context("kubeReservedCgroup or systemReservedCgroup")?;
        let pods = PodCgroupSettings {
            root: of_pods,
            cpu_period: limits.cpu_period,
            pids_limit: u64::try_from(config.pod_pids_limit).ok().filter(|limit| *limit > 0),
            huge_page_sizes: machine.huge_pages.iter().map(|pages| pages.size).collect(),
        };
        let values = values_for_pods(config, machine);
        Ok(Self { root, per_pod, pods, values, reserved })
    }

    /// Whether the agent manages any cgroup.
    pub(crate) fn is_any(&self) -> bool {
        self.per_pod || !self.root.is_root() || !self.reserved.is_empty()
    }
}

/// The cgroups of this machine, for the runtime's driver, and their threads.
pub fn open(driver: CgroupDriver) -> Result<(Arc<dyn Cgroups>, Pool)> {
    let tree = Tree::of_machine().context("find the cgroups of this machine")?;
    match driver {
        CgroupDriver::Cgroupfs => {
            let cgroups = HostCgroups::new(tree);
            let pool = cgroups.pool().clone();
            Ok((Arc::new(cgroups), pool))
        }
        CgroupDriver::Systemd => {
            let cgroups = SystemdCgroups::new(tree, Manager::system());
            let pool = cgroups.pool().clone();
            Ok((Arc::new(cgroups), pool))
        }
    }
}

/// Creates the parents of pod cgroups, and limits the reserved cgroups. An error aborts the start: pods could
/// use what is reserved.
pub(crate) async fn prepare(
    port: &dyn Cgroups,
    cgroups: &NodeCgroups,
    events: &dyn NodeEvents,
) -> Result<()> {
    if cgroups.per_pod {
        port.check(&cgroups.root).await.context("cgroupRoot")?;
        let name = &cgroups.pods.root;
        if port.check(name).await.is_err() {
            port.create(name, &cgroups.values).await.context("make the cgroup of all pods")?;
            port.check(name).await.context("make the cgroup of all pods")?;
        }
        let classes = make_class_cgroups(port, &cgroups.pods).await;
        classes.context("make the cgroups of the classes of pods")?;
        info!(cgroup = %name, driver = %port.driver(), "Pod cgroups enabled");
    }
    for reserved in &cgroups.reserved {
        let ReservedCgroup { purpose, setting, .. } = reserved;
        if let Err(error) = limit(port, reserved).await {
            let error = Chain(&error);
            let message =
                format!("Failed to enforce {purpose} Cgroup Limits on {setting:?}: {error}");
            record_event(events, EventType::Warning, NOT_ENFORCED, message.clone());
            bail!(message);
        }
    }
    Ok(())
}

/// Limits a reserved cgroup, which must exist: the agent does not create it.
async fn limit(port: &dyn Cgroups, reserved: &ReservedCgroup) -> Result<(), CgroupError> {
    port.check(&reserved.name).await?;
    port.update(&reserved.name, &reserved.values).await
}

fn record_event(events: &dyn NodeEvents, kind: EventType, reason: &'static str, message: String) {
    events.record(NodeEvent { kind, reason, message });
}

/// Reports the reserved cgroups that were limited. This happens once the agent runs: earlier events would not reach the
/// API server.
fn report_limited(events: &dyn NodeEvents, reserved: &[ReservedCgroup]) {
    for ReservedCgroup { purpose, setting, .. } in reserved {
        let subject = purpose.trim_end_matches(" Compressible").to_lowercase();
        let message = format!("Updated limits on {subject} cgroup {setting}");
        record_event(events, EventType::Normal, ENFORCED, message);
    }
}

/// Sets the limit of the cgroup of all pods, with retries. The reserved cgroups have their limits already.
pub(crate) async fn enforce(
    port: Arc<dyn Cgroups>,
    cgroups: NodeCgroups,
    events: Arc<dyn NodeEvents>,
    stop: CancellationToken,
) {
    let name = &cgroups.pods.root;
    report_limited(&*events, &cgroups.reserved);
    let enforced = async {
        while let Err(error) = port.update(name, &cgroups.values).await {
            let error = Chain(&error).to_string();
            warn!(cgroup = %name, error, "Failed to update Node Allocatable limits, retrying");
            let message = format!("Failed to update Node Allocatable Limits \"{name}\": {error}");
            record_event(&*events, EventType::Warning, NOT_ENFORCED, message);
            tokio::time::sleep(RETRY).await;
        }
        let message = "Updated Node Allocatable limit across pods".to_owned();
        record_event(&*events, EventType::Normal, ENFORCED, message);
        // A long task ends with the agent.
        std::future::pending::<()>().await;
    };
    stop.run_until_cancelled(enforced).await;
}

/// The cgroup root. With systemd, upstream uses the name as configured: an underscore
/// is kept in the slice name, as a dash becomes one.
fn root_of_pods(configured: &str, driver: CgroupDriver) -> Result<CgroupName> {
    let name = match driver {
        CgroupDriver::Systemd => configured.replace('_', "-"),
        CgroupDriver::Cgroupfs => configured.to_owned(),
    };
    CgroupName::parse(&name).context("cgroupRoot")
}

#[cfg(test)]
#[path = "node_cgroups_tests.rs"]
mod tests;
