//! Disk space of the host.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::path::Path;
use std::time::Duration;

use async_trait::async_trait;

use crate::ports::files::FileError;
use crate::volume::Place;

/// The space of a file system.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct DiskSpace {
    /// The capacity in bytes.
    pub capacity: u64,
    /// The bytes that are available without privileges.
    pub available: u64,
    /// The bytes that are free, with those reserved for root.
    pub free: u64,
    /// The number of inodes; 0 if the file system creates them as needed.
    pub inodes: u64,
    /// The free inodes.
    pub inodes_free: u64,
    /// The device, which identifies the file system.
    pub device: u64,
}

/// The space that files take.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FileUsage {
    /// Allocated bytes.
    pub bytes: u64,
    /// Inodes. A file with several links counts once.
    pub inodes: u64,
}

impl FileUsage {
    /// The sum of both.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self { bytes: self.bytes + other.bytes, inodes: self.inodes + other.inodes }
    }
}

/// The plain files of a directory and of its subdirectories.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ListedUsage {
    /// The files directly in the directory.
    pub files: FileUsage,
    /// The files directly in each subdirectory, by its name.
    pub directories: BTreeMap<String, FileUsage>,
}

/// The limits of a walk through a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WalkBudget {
    /// The walk pauses after each this many entries, for as long as they took.
    pub entries: u32,
    /// A walk that takes longer is given up.
    pub time: Duration,
}

/// Measures file systems.
#[async_trait]
pub trait Disks: Debug + Send + Sync {
    /// The current space of the file system of a directory or file. A path
    /// that does not exist is an error.
    async fn space(&self, path: &Path) -> Result<DiskSpace, FileError>;

    /// The current space of the file system of a volume. It may not respond, so this happens on a thread apart from
    /// other operations of its pod.
    async fn volume_space(&self, path: &Path) -> Result<DiskSpace, FileError>;

    /// The space that plain files directly in a directory take, and those directly in its subdirectories. Links are not
    /// followed. A directory that does not exist is an error.
    async fn listed_usage(&self, directory: &Path) -> Result<ListedUsage, FileError>;

    /// The space that a plain file takes, links not followed.
    async fn file_usage(&self, file: &Path) -> Result<FileUsage, FileError>;

    /// The space that a directory with all its content takes. Follows no links, and enters no other file
    /// system. May take minutes, on a thread apart from other operations.
    async fn walked_usage(&self, place: &Place, budget: WalkBudget)
    -> Result<FileUsage, FileError>;
}
