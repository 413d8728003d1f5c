//! The node's own cgroups: those above the pods', and those of whom something is kept back for.

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

/// How long to wait before a limit is written again that the kernel refused: what the pods use must go
/// down first.
const RETRY: Duration = Duration::from_mins(1);

const ENFORCED: &str = "NodeAllocatableEnforced";
const NOT_ENFORCED: &str = "FailedNodeAllocatableEnforcement";

/// Which cgroups the node has, and what is written to them.
#[derive(Debug, Clone, Default)]
pub struct NodeCgroups {
    /// Where all begins.
    pub(crate) root: CgroupName,
    /// Whether each pod has one.
    pub(crate) per_pod: bool,
    /// Those of pods.
    pub(crate) pods: PodCgroupSettings,
    /// What all pods have together.
    pub(crate) values: CgroupValues,
    /// Those of others.
    pub(crate) reserved: Vec<ReservedCgroup>,
}

impl NodeCgroups {
    /// Pods have their cgroups below this one, without limits for all of them together.
    pub fn of_pods(root: &str) -> Self {
        let root = CgroupName::parse(root).expect("the name of a cgroup");
        let pods = PodCgroupSettings { root, ..PodCgroupSettings::default() };
        Self { per_pod: true, pods, ..Self::default() }
    }

    /// The same, with a cgroup for each pod or with none.
    #[must_use]
    pub fn per_pod(self, per_pod: bool) -> Self {
        Self { per_pod, ..self }
    }

    /// As it is configured.
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

    /// Whether any cgroup is looked after.
    pub(crate) fn is_any(&self) -> bool {
        self.per_pod || !self.root.is_root() || !self.reserved.is_empty()
    }
}

/// The cgroups of this machine, for the driver that the runtime has too, and the threads that they take.
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

/// Makes the cgroups above the pods', and limits those of others. What fails keeps the agent from
/// starting: pods would take what is kept back.
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
        info!(cgroup = %name, driver = %port.driver(), "pods have their cgroups");
    }
    for reserved in &cgroups.reserved {
        let ReservedCgroup { purpose, setting, .. } = reserved;
        if let Err(error) = limit(port, reserved).await {
            let error = Chain(&error);
            let message =
                format!("Failed to enforce {purpose} Cgroup Limits on {setting:?}: {error}");
            tell(events, EventType::Warning, NOT_ENFORCED, message.clone());
            bail!(message);
        }
    }
    Ok(())
}

/// Only a cgroup that is there is limited: whoever it is for makes it.
async fn limit(port: &dyn Cgroups, reserved: &ReservedCgroup) -> Result<(), CgroupError> {
    port.check(&reserved.name).await?;
    port.update(&reserved.name, &reserved.values).await
}

fn tell(events: &dyn NodeEvents, kind: EventType, reason: &'static str, message: String) {
    events.record(NodeEvent { kind, reason, message });
}

/// Tells which cgroups of others were limited. Told by who runs and not while that was done: then a cluster
/// hears nothing yet.
fn tell_limited(events: &dyn NodeEvents, reserved: &[ReservedCgroup]) {
    for ReservedCgroup { purpose, setting, .. } in reserved {
        let whose = purpose.trim_end_matches(" Compressible").to_lowercase();
        let message = format!("Updated limits on {whose} cgroup {setting}");
        tell(events, EventType::Normal, ENFORCED, message);
    }
}

/// Limits all pods together, however long it takes; others were when the agent was prepared.
pub(crate) async fn enforce(
    port: Arc<dyn Cgroups>,
    cgroups: NodeCgroups,
    events: Arc<dyn NodeEvents>,
    stop: CancellationToken,
) {
    let name = &cgroups.pods.root;
    tell_limited(&*events, &cgroups.reserved);
    let enforced = async {
        while let Err(error) = port.update(name, &cgroups.values).await {
            let error = Chain(&error).to_string();
            warn!(cgroup = %name, error, "cannot limit all pods together; trying again");
            let message = format!("Failed to update Node Allocatable Limits \"{name}\": {error}");
            tell(&*events, EventType::Warning, NOT_ENFORCED, message);
            tokio::time::sleep(RETRY).await;
        }
        let message = "Updated Node Allocatable limit across pods".to_owned();
        tell(&*events, EventType::Normal, ENFORCED, message);
        // A long task ends with the agent.
        std::future::pending::<()>().await;
    };
    stop.run_until_cancelled(enforced).await;
}

/// Where the cgroups of pods begin. Under systemd upstream takes the name as it is configured, so that an underscore
/// stays one in the name of the slice, as a dash becomes one.
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
