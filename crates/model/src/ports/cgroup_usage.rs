//! The usage that the kernel accounts to cgroups.

use std::fmt::Debug;

use async_trait::async_trait;

use crate::cgroup::usage::CgroupSample;
use crate::ports::cgroups::CgroupError;

/// How much is read of each cgroup.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Detail {
    /// CPU, memory and processes.
    #[default]
    CpuAndMemory,
    /// Disk I/O, limits and counters of events too.
    All,
}

/// Which cgroups are measured.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Selection {
    /// These alone, by their paths from the root of the hierarchy: `/`.
    pub alone: Vec<String>,
    /// These, and all cgroups below them.
    pub with_children: Vec<String>,
}

/// Reads the usage of cgroups.
#[async_trait]
pub trait CgroupUsage: Debug + Send + Sync {
    /// Measures cgroups. One that does not exist, or is removed meanwhile, is missing in the result. So is a value
    /// that cannot be read.
    async fn measure(
        &self,
        selection: &Selection,
        detail: Detail,
    ) -> Result<Vec<CgroupSample>, CgroupError>;
}
