//! Room on the disks of the host.

use std::fmt::Debug;
use std::path::Path;

use async_trait::async_trait;

use crate::ports::files::FileError;

/// The room on a file system.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct DiskSpace {
    /// All of it, in bytes.
    pub capacity: u64,
    /// What somebody without privileges can still write, in bytes.
    pub available: u64,
}

/// Measures file systems.
#[async_trait]
pub trait Disks: Debug + Send + Sync {
    /// The room on the file system that a directory or file lies on, as it is at this moment. A path
    /// that does not exist is an error.
    async fn space(&self, path: &Path) -> Result<DiskSpace, FileError>;
}
