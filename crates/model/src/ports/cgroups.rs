//! The cgroups of the host.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::io;
use std::path::PathBuf;

use async_trait::async_trait;

use crate::cgroup::{CgroupDriver, CgroupName, CgroupValues};
use crate::ports::files::Removed;
use crate::verdict::{Subject, Verdict};

/// A failed cgroup operation.
#[derive(Debug, thiserror::Error)]
pub enum CgroupError {
    /// A file operation failed.
    #[error("{operation} {path}", path = .path.display())]
    File {
        /// The operation: `make`, `write 1024 to`, …
        operation: String,
        /// The file or directory.
        path: PathBuf,
        /// Why it failed.
        #[source]
        source: io::Error,
    },
    /// It does not exist, or not completely.
    #[error("cgroup {name} is missing in {missing}")]
    Missing {
        /// Which cgroup.
        name: CgroupName,
        /// The missing directories or controllers.
        missing: String,
    },
    /// Processes in it do not end.
    #[error("cgroup {name} still has processes {pids:?}")]
    Busy {
        /// Which cgroup.
        name: CgroupName,
        /// The visible processes.
        pids: BTreeSet<i32>,
    },
    /// It is in a mode without controllers.
    #[error("cgroup {name} is in {mode} mode, in which nothing is limited")]
    Mode {
        /// Which cgroup.
        name: CgroupName,
        /// The kernel's name of the mode.
        mode: String,
    },
    /// The service manager refused.
    #[error("ask systemd to {operation} {unit}: {message}")]
    Systemd {
        /// The request.
        operation: &'static str,
        /// The unit.
        unit: String,
        /// The response.
        message: String,
    },
    /// The verdict is not about a cgroup.
    #[error("{0} is not a cgroup")]
    NoCgroup(Subject),
}

impl CgroupError {
    /// Whether the kernel lacks the operation, so that a retry fails, too.
    pub fn is_unsupported(&self) -> bool {
        matches!(self, Self::File { source, .. } if source.kind() == io::ErrorKind::Unsupported)
    }
}

/// Which values were written to a new cgroup.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limits {
    /// All of them, except those of controllers that this machine lacks.
    Written,
    /// Not all of them. The caller may write them again.
    Lacking,
}

impl Limits {
    /// The result of both.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        if self == Self::Written { other } else { self }
    }
}

/// Creates, limits and removes cgroups. A cgroup exists in all hierarchies and has all controllers
/// that the agent uses and the machine has.
#[async_trait]
pub trait Cgroups: Debug + Send + Sync {
    /// The driver, which determines the paths.
    fn driver(&self) -> CgroupDriver;

    /// Checks that a cgroup exists completely. Only [`CgroupError::Missing`] means that it does not.
    async fn check(&self, name: &CgroupName) -> Result<(), CgroupError>;

    /// Creates a cgroup and its parents, if missing, and writes its values. A value that cannot be
    /// written is reported in the result and is not an error: the cgroup exists.
    async fn create(&self, name: &CgroupName, values: &CgroupValues)
    -> Result<Limits, CgroupError>;

    /// Writes values to an existing cgroup. All are tried; the first failure is the error.
    async fn update(&self, name: &CgroupName, values: &CgroupValues) -> Result<(), CgroupError>;

    /// Whether an existing cgroup has these values. Unset values, and those that the kernel does not
    /// report, are ignored.
    async fn has(&self, name: &CgroupName, values: &CgroupValues) -> Result<bool, CgroupError>;

    /// The CPU and memory limits of an existing cgroup that the kernel reports. No memory limit is
    /// `None`; no CPU limit is a quota of -1.
    async fn values(&self, name: &CgroupName) -> Result<CgroupValues, CgroupError>;

    /// The bytes of memory used in a cgroup, or in its child that has `part` in its name,
    /// as runtimes name the cgroups of containers. `None` if there is none, or without a memory controller.
    async fn memory_usage(
        &self,
        name: &CgroupName,
        part: Option<&str>,
    ) -> Result<Option<u64>, CgroupError>;

    /// The children of a cgroup in any hierarchy. None if it does not exist.
    async fn children(&self, name: &CgroupName) -> Result<BTreeSet<CgroupName>, CgroupError>;

    /// Kills all processes in a cgroup and its children, and removes them.
    async fn remove(&self, verdict: &Verdict) -> Result<Removed, CgroupError>;
}

/// The cgroup that a verdict is about.
pub fn subject(verdict: &Verdict) -> Result<&CgroupName, CgroupError> {
    match &verdict.subject {
        Subject::Cgroup(name) => Ok(name),
        other => Err(CgroupError::NoCgroup(other.clone())),
    }
}
