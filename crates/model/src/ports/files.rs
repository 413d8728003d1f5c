//! Files and directories of the host.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fmt::Debug;
use std::io;
use std::path::{Path, PathBuf};

use async_trait::async_trait;

use crate::verdict::Verdict;

/// A failed file operation.
#[derive(Debug, thiserror::Error)]
#[error("{operation} {path}", path = .path.display())]
pub struct FileError {
    /// The operation: `read`, `create directory`, …
    pub operation: &'static str,
    /// The file or directory.
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

    /// Whether a permission is missing.
    pub fn is_denied(&self) -> bool {
        self.source.kind() == io::ErrorKind::PermissionDenied
    }
}

/// The kind of a directory entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileKind {
    /// A regular file, or a link to one.
    File,
    /// A directory, or a link to one.
    Directory,
    /// Anything else.
    Special,
}

/// Identifies a version of a file without reading it. Two versions of the same size within the
/// resolution of the file system's clock look the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileVersion {
    /// The device of the file.
    pub device: u64,
    /// Its inode.
    pub inode: u64,
    /// Its size in bytes.
    pub size: u64,
    /// When its content was last written: seconds and nanoseconds.
    pub modified: (i64, i64),
    /// When it last changed, including its mode: seconds and nanoseconds.
    pub changed: (i64, i64),
}

impl FileVersion {
    /// Whether both are versions of the same file or directory, at any path.
    pub fn same_file(&self, other: &Self) -> bool {
        (self.device, self.inode) == (other.device, other.inode)
    }
}

/// The file at a path, links followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FoundFile {
    /// Its kind.
    pub kind: FileKind,
    /// Its version.
    pub version: FileVersion,
}

/// An entry of a directory.
#[derive(Debug)]
pub struct Entry {
    /// Its name.
    pub name: OsString,
    /// Its kind, links followed.
    pub found: Result<FoundFile, FileError>,
}

/// Changes of a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DirectoryChange {
    /// The entries with these names changed.
    Names(BTreeSet<OsString>),
    /// Any entry may have changed: there were too many changes to record.
    Anything,
}

impl DirectoryChange {
    /// Merges both.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Names(mut names), Self::Names(more)) => {
                names.extend(more);
                Self::Names(names)
            }
            _ => Self::Anything,
        }
    }
}

/// Reports changes of a directory. They are hints: a change may be reported late, twice, or not
/// at all.
#[async_trait]
pub trait DirectoryWatch: Debug + Send + Sync {
    /// Waits for the changes since the last call, merged. `None` once there will be no more:
    /// the directory was removed or moved. Nothing is lost when the wait is cancelled.
    async fn next_change(&mut self) -> Option<DirectoryChange>;
}

/// The name under which a file is written before it is renamed. A draft that a crash left behind
/// is garbage and may be removed.
pub fn draft_of(name: &str) -> String {
    format!(".{name}.new")
}

/// Whether a name is that of a draft.
pub fn is_draft(name: &str) -> bool {
    name.strip_prefix('.').and_then(|rest| rest.strip_suffix(".new")).is_some()
}

/// The result of a removal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Removed {
    /// It existed.
    Now,
    /// It did not exist.
    Before,
}

/// Reads, creates and removes the configured files and directories of the host.
#[async_trait]
pub trait HostFiles: Debug + Send + Sync {
    /// The names in a directory, in order.
    async fn list(&self, directory: &Path) -> Result<Vec<String>, FileError>;

    /// The content of a file of at most `limit` bytes; a longer one is an error.
    async fn read(&self, path: &Path, limit: u64) -> Result<Vec<u8>, FileError>;

    /// The file at a path, links followed.
    async fn look(&self, path: &Path) -> Result<FoundFile, FileError>;

    /// The entries of a directory, in the order of their names.
    async fn entries(&self, directory: &Path) -> Result<Vec<Entry>, FileError>;

    /// As [`HostFiles::read`], for one version of a regular file, which is returned too. A file that
    /// changes during every attempt is an error, and so is anything but a regular file.
    async fn read_version(
        &self,
        path: &Path,
        limit: u64,
    ) -> Result<(FileVersion, Vec<u8>), FileError>;

    /// Watches the entries of a directory: files that are written and closed, created, moved,
    /// removed, or get another mode.
    async fn watch(&self, directory: &Path) -> Result<Box<dyn DirectoryWatch>, FileError>;

    /// Writes a small file of the agent, for its user alone, and creates its directory if
    /// missing. When this returns, the content is on disk. After a crash the file has the old
    /// content or the new, and perhaps a [draft](draft_of) is beside it.
    async fn write_durably(&self, path: &Path, content: &[u8]) -> Result<(), FileError>;

    /// Writes a file in place, so that processes that have it open or mounted see the new content, and
    /// sets its mode. Its directory must exist; a symbolic link is an error.
    async fn overwrite(&self, path: &Path, content: &[u8], mode: u32) -> Result<(), FileError>;

    /// Removes a file that [`HostFiles::write_durably`] wrote, durably; a missing file is not an
    /// error.
    async fn remove_written(&self, path: &Path) -> Result<(), FileError>;

    /// Creates a directory and its parents below a root, with the given mode; existing directories are
    /// not changed. The root comes from the configuration and is created if missing. `below` may come from a
    /// pod, so a path that leaves the root, by its names or by a link, is an error.
    async fn create_directory(&self, root: &Path, below: &Path, mode: u32)
    -> Result<(), FileError>;

    /// Creates an empty file below a root, with exactly the given mode. Its directory must exist. `below`
    /// must not leave the root, as in [`HostFiles::create_directory`]; an existing file of any kind
    /// is an error.
    async fn create_file(&self, root: &Path, below: &Path, mode: u32) -> Result<(), FileError>;

    /// The last bytes of a file below a root, `limit` at most. Containers may write this file, so
    /// no link below the root is followed, and anything but a regular file is an error.
    async fn read_end(&self, root: &Path, below: &Path, limit: u64) -> Result<Vec<u8>, FileError>;

    /// Creates a symbolic link to a file, replacing an existing link, and the link's directory if
    /// missing. Does nothing if the file does not exist.
    async fn link(&self, target: &Path, link: &Path) -> Result<(), FileError>;

    /// Removes the file or directory of the verdict, which must be directly in `root`: a directory with its content,
    /// or a link but never its target. A container's log is two directories further down, by pod and container; its
    /// rotated parts are removed with it. A single rotated file is removed only if it is named as one. A volume is
    /// three directories further down: `<pod>/volumes/<plugin>/<volume>`. The directory of a pod is removed only if
    /// all entries in it are [known](crate::pod_directory::PodEntry); otherwise nothing is removed, and the error
    /// names the unknown entries. A missing file is not an error. A file of another kind than the verdict's is an
    /// error, and stays; so does a directory with a mount on it or below it.
    async fn remove(&self, root: &Path, verdict: &Verdict) -> Result<Removed, FileError>;
}
