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

    /// Makes a directory and its parents with the given mode; one that exists is left as it is.
    async fn create_directory(&self, path: &Path, mode: u32) -> Result<(), FileError>;
}
