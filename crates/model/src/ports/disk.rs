//! Disk space of the host.

use std::fmt::Debug;
use std::path::Path;

use async_trait::async_trait;

use crate::ports::files::FileError;

/// The space of a file system.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct DiskSpace {
    /// The capacity in bytes.
    pub capacity: u64,
    /// The bytes that are available without privileges.
    pub available: u64,
}

/// Measures file systems.
#[async_trait]
pub trait Disks: Debug + Send + Sync {
    /// The current space of the file system of a directory or file. A path
    /// that does not exist is an error.
    async fn space(&self, path: &Path) -> Result<DiskSpace, FileError>;
}
