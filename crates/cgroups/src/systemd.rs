//! Cgroups that systemd creates, each as a slice.
//!
//! systemd must know a cgroup and its limits, or it reverts them at its next update. Limits that it has no
//! property for, and hierarchies that it leaves alone, are written to files.

mod manager;
mod properties;

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::sync::Arc;

use async_trait::async_trait;
use blocking::Pool;
use model::cgroup::{CgroupDriver, CgroupName, CgroupValues};
use model::chain::Chain;
use model::ports::cgroups::{CgroupError, Cgroups, Limits, subject};
use model::ports::files::Removed;
use model::verdict::Verdict;
use tracing::warn;

use crate::host::HostCgroups;
use crate::tree::Tree;
pub use manager::Manager;
use properties::{Property, limits, of_slice, rounded};

/// The units of a service manager.
#[async_trait]
pub(crate) trait Units: Debug + Send + Sync {
    /// Starts a slice; an existing one stays unchanged.
    async fn start(&self, unit: &str, properties: Vec<Property>) -> Result<(), CgroupError>;
    /// Changes properties of a slice until it is stopped.
    async fn set(&self, unit: &str, properties: Vec<Property>) -> Result<(), CgroupError>;
    /// Stops a slice, if it exists.
    async fn stop(&self, unit: &str) -> Result<(), CgroupError>;
}

/// The cgroups of this machine, created by systemd.
#[derive(Debug, Clone)]
pub struct SystemdCgroups {
    files: HostCgroups,
    units: Arc<dyn Units>,
}

impl SystemdCgroups {
    /// The cgroups of these hierarchies.
    pub fn new(tree: Tree, manager: Manager) -> Self {
        Self::with(tree, Arc::new(manager))
    }

    /// The threads for reads and writes of control files.
    pub fn pool(&self) -> &Pool {
        self.files.pool()
    }

    fn with(tree: Tree, units: Arc<dyn Units>) -> Self {
        Self { files: HostCgroups::of_driver(tree, CgroupDriver::Systemd), units }
    }
}

/// The unit of a cgroup; the root has one too.
fn unit(name: &CgroupName) -> String {
    name.directories(CgroupDriver::Systemd).pop().unwrap_or_else(|| "-.slice".to_owned())
}

#[async_trait]
impl Cgroups for SystemdCgroups {
    fn driver(&self) -> CgroupDriver {
        CgroupDriver::Systemd
    }

    async fn check(&self, name: &CgroupName) -> Result<(), CgroupError> {
        self.files.check(name).await
    }

    async fn create(
        &self,
        name: &CgroupName,
        values: &CgroupValues,
    ) -> Result<Limits, CgroupError> {
        let parent = name.parent().unwrap_or_default();
        let (own, values) = (unit(name), rounded(values));
        let version = self.files.version();
        self.units.start(&own, of_slice(version, name, &unit(&parent))).await?;
        let (properties, mut has) = (limits(version, &values), Limits::Written);
        if !properties.is_empty()
            && let Err(error) = self.units.set(&own, properties).await
        {
            warn!(cgroup = %name, error = %Chain(&error), "Cannot set all limits of a new cgroup");
            has = Limits::Lacking;
        }
        Ok(self.files.create(name, &values).await?.and(has))
    }

    async fn update(&self, name: &CgroupName, values: &CgroupValues) -> Result<(), CgroupError> {
        // Before the call of systemd, whose error for a missing unit differs.
        self.files.check_directories(name).await?;
        let values = rounded(values);
        let properties = limits(self.files.version(), &values);
        if !properties.is_empty() {
            self.units.set(&unit(name), properties).await?;
        }
        self.files.update(name, &values).await
    }

    async fn has(&self, name: &CgroupName, values: &CgroupValues) -> Result<bool, CgroupError> {
        self.files.has(name, &rounded(values)).await
    }

    async fn values(&self, name: &CgroupName) -> Result<CgroupValues, CgroupError> {
        self.files.values(name).await
    }

    async fn memory_usage(
        &self,
        name: &CgroupName,
        part: Option<&str>,
    ) -> Result<Option<u64>, CgroupError> {
        self.files.memory_usage(name, part).await
    }

    async fn children(&self, name: &CgroupName) -> Result<BTreeSet<CgroupName>, CgroupError> {
        self.files.children(name).await
    }

    async fn remove(&self, verdict: &Verdict) -> Result<Removed, CgroupError> {
        let name = subject(verdict)?;
        if name.is_root() || !self.files.is_left(name).await? {
            return self.files.remove(verdict).await;
        }
        // Kill first: systemd would send SIGTERM and wait.
        self.files.kill(name).await?;
        if let Err(error) = self.units.stop(&unit(name)).await {
            // A unit without its cgroup is harmless; a remaining cgroup is not.
            warn!(cgroup = %name, error = %Chain(&error), "Cannot stop the unit of a removed cgroup");
        }
        // A cgroup that systemd removed existed before.
        self.files.remove(verdict).await?;
        Ok(Removed::Now)
    }
}

#[cfg(test)]
#[path = "systemd/tests.rs"]
#[allow(
    clippy::unused_self,
    clippy::used_underscore_binding,
    clippy::too_many_arguments,
    reason = "D-Bus methods have the arguments of the interface"
)]
mod tests;
