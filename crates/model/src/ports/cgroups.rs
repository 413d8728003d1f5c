//! The cgroups of the host.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::io;
use std::path::PathBuf;

use async_trait::async_trait;

use crate::cgroup::{CgroupDriver, CgroupName, CgroupValues};
use crate::ports::files::Removed;
use crate::verdict::{Subject, Verdict};

/// What failed with a cgroup.
#[derive(Debug, thiserror::Error)]
pub enum CgroupError {
    /// A file or directory.
    #[error("{operation} {path}", path = .path.display())]
    File {
        /// What was tried: `make`, `write 1024 to`, …
        operation: String,
        /// On which.
        path: PathBuf,
        /// Why it failed.
        #[source]
        source: io::Error,
    },
    /// It is not there, or not all of it.
    #[error("cgroup {name} is missing in {missing}")]
    Missing {
        /// Which cgroup.
        name: CgroupName,
        /// The directories or controllers that it lacks.
        missing: String,
    },
    /// Something is in it that does not go.
    #[error("cgroup {name} still has processes {pids:?}")]
    Busy {
        /// Which cgroup.
        name: CgroupName,
        /// What is in it, as far as it can be named.
        pids: BTreeSet<i32>,
    },
    /// It cannot have what it needs.
    #[error("cgroup {name} is in {mode} mode, in which nothing is limited")]
    Mode {
        /// Which cgroup.
        name: CgroupName,
        /// What the kernel calls it.
        mode: String,
    },
    /// The service manager refused.
    #[error("ask systemd to {operation} {unit}: {message}")]
    Systemd {
        /// What was asked for.
        operation: &'static str,
        /// Of which unit.
        unit: String,
        /// What it answered.
        message: String,
    },
    /// The verdict is about something else.
    #[error("{0} is no cgroup")]
    NoCgroup(Subject),
}

/// What a cgroup that was made has of its values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limits {
    /// All of them, but for what this machine cannot limit at all.
    Written,
    /// Not all of them. They may be written again.
    Lacking,
}

impl Limits {
    /// Both together.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        if self == Self::Written { other } else { self }
    }
}

/// Makes, limits and removes cgroups. One that is made lies in all hierarchies and has all controllers
/// that the agent uses and the machine has.
#[async_trait]
pub trait Cgroups: Debug + Send + Sync {
    /// Who makes them, which tells where they lie.
    fn driver(&self) -> CgroupDriver;

    /// That a cgroup is there as a whole; what it lacks is [`CgroupError::Missing`], and only that means
    /// that it is not.
    async fn check(&self, name: &CgroupName) -> Result<(), CgroupError>;

    /// Makes a cgroup and those on the way to it, where they are not there, and writes its values. A
    /// value that cannot be written is told and no error: the cgroup is there.
    async fn create(&self, name: &CgroupName, values: &CgroupValues)
    -> Result<Limits, CgroupError>;

    /// Writes values to a cgroup that is there. All are tried; the first that failed is the error.
    async fn update(&self, name: &CgroupName, values: &CgroupValues) -> Result<(), CgroupError>;

    /// Whether a cgroup that is there has these values, as far as they are told and the kernel tells them
    /// again.
    async fn has(&self, name: &CgroupName, values: &CgroupValues) -> Result<bool, CgroupError>;

    /// Which processors and how much memory a cgroup that is there lets its processes use, as far as the
    /// kernel tells. No limit of memory is `None`; no limit of processors is a quota of -1.
    async fn values(&self, name: &CgroupName) -> Result<CgroupValues, CgroupError>;

    /// Bytes of memory that are used in a cgroup, or in the one right in it that has `part` in its name,
    /// as runtimes name those of containers. `None` where there is no such, or nobody counts.
    async fn memory_usage(
        &self,
        name: &CgroupName,
        part: Option<&str>,
    ) -> Result<Option<u64>, CgroupError>;

    /// The cgroups in one, wherever a part of them is left. None if it is not there.
    async fn children(&self, name: &CgroupName) -> Result<BTreeSet<CgroupName>, CgroupError>;

    /// Kills all that is in a cgroup and below it, and removes them.
    async fn remove(&self, verdict: &Verdict) -> Result<Removed, CgroupError>;
}

/// The cgroup that a verdict is about.
pub fn subject(verdict: &Verdict) -> Result<&CgroupName, CgroupError> {
    match &verdict.subject {
        Subject::Cgroup(name) => Ok(name),
        other => Err(CgroupError::NoCgroup(other.clone())),
    }
}
