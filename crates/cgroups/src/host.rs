//! The implementation of the port.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use async_trait::async_trait;
use blocking::{Call, Pool, Size};
use model::cgroup::{CgroupDriver, CgroupName, CgroupValues};
use model::chain::Chain;
use model::machine::Cgroups as Version;
use model::ports::cgroups::{CgroupError, Cgroups, Limits, subject};
use model::ports::files::Removed;
use model::verdict::Verdict;
use tracing::warn;

use crate::files::Place;
use crate::remove::Attempt;
use crate::tree::Tree;

/// The first delay before a busy cgroup is tried again, and how often it doubles.
const PAUSE: Duration = Duration::from_millis(5);
const ATTEMPTS: u32 = 9;

/// The limit of concurrent cgroup operations.
const THREADS: Size = Size { threads: 4, spare: 12 };

/// The timeout of an operation: killing thousands of processes takes some seconds.
const LIMIT: Duration = Duration::from_mins(1);

/// The cgroups of this machine, created by the agent itself.
#[derive(Debug, Clone)]
pub struct HostCgroups {
    tree: Tree,
    driver: CgroupDriver,
    pool: Pool,
}

impl HostCgroups {
    /// The cgroups of these hierarchies.
    pub fn new(tree: Tree) -> Self {
        Self::of_driver(tree, CgroupDriver::Cgroupfs)
    }

    /// The cgroups of these hierarchies, with a driver.
    pub(crate) fn of_driver(tree: Tree, driver: CgroupDriver) -> Self {
        Self { tree, driver, pool: Pool::new("cgroups", THREADS) }
    }

    /// The threads for reads and writes of control files.
    pub fn pool(&self) -> &Pool {
        &self.pool
    }

    pub(crate) fn version(&self) -> Version {
        self.tree.version
    }

    /// Whether a cgroup exists in any hierarchy.
    pub(crate) async fn is_left(&self, name: &CgroupName) -> Result<bool, CgroupError> {
        self.blocking(name, |tree, place| Ok(tree.is_left(place))).await
    }

    /// Kills the processes in a cgroup and below it.
    pub(crate) async fn kill(&self, name: &CgroupName) -> Result<(), CgroupError> {
        self.blocking(name, Tree::kill).await
    }

    fn place(&self, name: &CgroupName) -> Place {
        Place { name: name.clone(), directories: name.directories(self.driver()) }
    }

    /// Runs file operations on a thread that may block.
    async fn blocking<T: Send + 'static>(
        &self,
        name: &CgroupName,
        work: impl FnOnce(&Tree, &Place) -> Result<T, CgroupError> + Send + 'static,
    ) -> Result<T, CgroupError> {
        let (tree, place) = (self.tree.clone(), self.place(name));
        let named = PathBuf::from(name.to_string());
        let call = Call { operation: "cgroup operation on", subject: &named, limit: LIMIT };
        let done = self.pool.run(call, move || work(&tree, &place)).await;
        done.unwrap_or_else(|error| Err(crate::tree::failed("look after", named, error.into())))
    }

    /// Checks that a cgroup exists, with any controllers.
    pub(crate) async fn check_directories(&self, name: &CgroupName) -> Result<(), CgroupError> {
        self.blocking(name, Tree::check_directories).await
    }
}

#[async_trait]
impl Cgroups for HostCgroups {
    fn driver(&self) -> CgroupDriver {
        self.driver
    }

    async fn check(&self, name: &CgroupName) -> Result<(), CgroupError> {
        self.blocking(name, Tree::check).await
    }

    async fn create(
        &self,
        name: &CgroupName,
        values: &CgroupValues,
    ) -> Result<Limits, CgroupError> {
        let values = values.clone();
        self.blocking(name, move |tree, place| {
            tree.make(place)?;
            let Err(error) = tree.update(place, &values) else { return Ok(Limits::Written) };
            warn!(cgroup = %place.name, error = %Chain(&error), "Cannot set all limits of a new cgroup");
            // A retry does not help if the machine lacks the controller.
            let lacks = matches!(error, CgroupError::Missing { .. });
            Ok(if lacks { Limits::Written } else { Limits::Lacking })
        })
        .await
    }

    async fn update(&self, name: &CgroupName, values: &CgroupValues) -> Result<(), CgroupError> {
        let values = values.clone();
        self.blocking(name, move |tree, place| tree.update(place, &values)).await
    }

    async fn has(&self, name: &CgroupName, values: &CgroupValues) -> Result<bool, CgroupError> {
        let values = values.clone();
        self.blocking(name, move |tree, place| {
            tree.check(place)?;
            tree.has(place, &values)
        })
        .await
    }

    async fn values(&self, name: &CgroupName) -> Result<CgroupValues, CgroupError> {
        self.blocking(name, |tree, place| {
            tree.check(place)?;
            tree.values(place)
        })
        .await
    }

    async fn memory_usage(
        &self,
        name: &CgroupName,
        part: Option<&str>,
    ) -> Result<Option<u64>, CgroupError> {
        let part = part.map(ToOwned::to_owned);
        self.blocking(name, move |tree, place| tree.memory_usage(place, part.as_deref())).await
    }

    async fn children(&self, name: &CgroupName) -> Result<BTreeSet<CgroupName>, CgroupError> {
        let found = self.blocking(name, Tree::directories_in).await?;
        let child = |directory: &String| name.child_of_directory(self.driver(), directory);
        Ok(found.iter().filter_map(child).collect())
    }

    async fn remove(&self, verdict: &Verdict) -> Result<Removed, CgroupError> {
        let name = subject(verdict)?;
        let (mut pause, mut removed) = (PAUSE, Removed::Before);
        let mut left = BTreeSet::new();
        for _ in 0..ATTEMPTS {
            match self.blocking(name, Tree::try_remove).await? {
                Attempt::Gone(Removed::Now) => return Ok(Removed::Now),
                Attempt::Gone(Removed::Before) => return Ok(removed),
                Attempt::Busy(pids) => (removed, left) = (Removed::Now, pids),
            }
            tokio::time::sleep(pause).await;
            pause *= 2;
        }
        Err(CgroupError::Busy { name: name.clone(), pids: left })
    }
}
