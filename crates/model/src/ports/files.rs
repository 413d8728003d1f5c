//! Files and directories of the host.

use std::fmt::Debug;
use std::io;
use std::path::{Path, PathBuf};

use async_trait::async_trait;

/// What failed with a file, and which.
#[derive(Debug, thiserror::Error)]
#[error("{operation} {path}", path = .path.display())]
pub struct FileError {
    /// What was tried: `read`, `create directory`, …
    pub operation: &'static str,
    /// On which file or directory.
    pub path: PathBuf,
    /// Why it failed.
    #[source]
    pub source: io::Error,
}

impl FileError {
    /// Whether the file or directory does not exist.
    pub fn is_not_found(&self) -> bool {
        self.source.kind() == io::ErrorKind::NotFound
    }
}

/// What a directory entry is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileKind {
    /// A regular file, or a link to one.
    File,
    /// A directory, or a link to one.
    Directory,
    /// Anything else.
    Special,
}

/// Reads and makes the files and directories of the host that the agent is told to use.
#[async_trait]
pub trait HostFiles: Debug + Send + Sync {
    /// What a path is, links followed.
    async fn kind(&self, path: &Path) -> Result<FileKind, FileError>;

    /// The names in a directory, in order.
    async fn list(&self, directory: &Path) -> Result<Vec<String>, FileError>;

    /// The content of a file of at most `limit` bytes; a longer one is an error.
    async fn read(&self, path: &Path, limit: u64) -> Result<Vec<u8>, FileError>;

    /// Makes a directory and its parents below a root, with the given mode; what exists is left as
    /// it is. The root comes from the configuration and is made if need be; `below` may come from a
    /// pod, so one that leads out of the root, by its names or by a link, is an error.
    async fn create_directory(&self, root: &Path, below: &Path, mode: u32)
    -> Result<(), FileError>;

    /// Makes a symbolic link to a file, replacing a link that is there, and the link's directory if
    /// need be. Does nothing when there is no file to link to.
    async fn link(&self, target: &Path, link: &Path) -> Result<(), FileError>;
}
