//! Files and directories of the host.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fmt::Debug;
use std::io;
use std::path::{Path, PathBuf};

use async_trait::async_trait;

use crate::verdict::Verdict;

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

/// What tells one version of a file from the next without reading it. Two versions that follow each
/// other within the resolution of the file system's clock, with the same size, look the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileVersion {
    /// The file system the file lies on.
    pub device: u64,
    /// Its number there.
    pub inode: u64,
    /// How many bytes it has.
    pub size: u64,
    /// When its content was last written: seconds and nanoseconds.
    pub modified: (i64, i64),
    /// When anything of it last changed, its mode included: seconds and nanoseconds.
    pub changed: (i64, i64),
}

impl FileVersion {
    /// Whether both are versions of one and the same file or directory, whatever its path.
    pub fn same_file(&self, other: &Self) -> bool {
        (self.device, self.inode) == (other.device, other.inode)
    }
}

/// What is at a path, links followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Found {
    /// What it is.
    pub kind: FileKind,
    /// Which version of it.
    pub version: FileVersion,
}

/// An entry of a directory.
#[derive(Debug)]
pub struct Entry {
    /// Its name.
    pub name: OsString,
    /// What it is, links followed.
    pub found: Result<Found, FileError>,
}

/// What was heard of a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Heard {
    /// Something happened to the entries of these names.
    Names(BTreeSet<OsString>),
    /// Anything may have happened: there was more than could be remembered.
    Anything,
}

impl Heard {
    /// Both together.
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

/// Tells when a directory changes. What it tells is a hint: changes may be told late, twice, or not
/// at all.
#[async_trait]
pub trait DirectoryWatch: Debug + Send + Sync {
    /// Waits for changes since the last answer, merged. `None` once nothing will be heard any more:
    /// the directory is gone or elsewhere. Nothing is lost when the wait is given up.
    async fn heard(&mut self) -> Option<Heard>;
}

/// The name under which a file is written before it takes its place. One that a crash left behind
/// means nothing and may be removed.
pub fn draft_of(name: &str) -> String {
    format!(".{name}.new")
}

/// Whether a name is that of a draft.
pub fn is_draft(name: &str) -> bool {
    name.strip_prefix('.').and_then(|rest| rest.strip_suffix(".new")).is_some()
}

/// How a removal found what it removes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Removed {
    /// It was there.
    Now,
    /// It was gone before.
    Before,
}

/// Reads, makes and removes the files and directories of the host that the agent is told to use.
#[async_trait]
pub trait HostFiles: Debug + Send + Sync {
    /// The names in a directory, in order.
    async fn list(&self, directory: &Path) -> Result<Vec<String>, FileError>;

    /// The content of a file of at most `limit` bytes; a longer one is an error.
    async fn read(&self, path: &Path, limit: u64) -> Result<Vec<u8>, FileError>;

    /// What is at a path, links followed.
    async fn look(&self, path: &Path) -> Result<Found, FileError>;

    /// The entries of a directory, in the order of their names.
    async fn entries(&self, directory: &Path) -> Result<Vec<Entry>, FileError>;

    /// As [`HostFiles::read`], of one version of a regular file and with that version. A file that
    /// never rests long enough to be read is an error, as is what is no file.
    async fn read_version(
        &self,
        path: &Path,
        limit: u64,
    ) -> Result<(FileVersion, Vec<u8>), FileError>;

    /// Listens to the entries of a directory: files that are written and closed, made, moved,
    /// removed, or get another mode.
    async fn watch(&self, directory: &Path) -> Result<Box<dyn DirectoryWatch>, FileError>;

    /// Writes a small file of the agent's own, for its user alone, and makes its directory if need
    /// be. When this returns, the content is on disk; after a crash at any moment there is the old
    /// content or the new, and perhaps a [draft](draft_of) beside it.
    async fn write_durably(&self, path: &Path, content: &[u8]) -> Result<(), FileError>;

    /// Writes a file where it is, so that whoever has it open or mounted sees the new content, and
    /// gives it the mode. Its directory must be there; a link in its place is an error.
    async fn overwrite(&self, path: &Path, content: &[u8], mode: u32) -> Result<(), FileError>;

    /// Removes a file that [`HostFiles::write_durably`] wrote, for good; one that is not there is no
    /// error.
    async fn remove_written(&self, path: &Path) -> Result<(), FileError>;

    /// Makes a directory and its parents below a root, with the given mode; what exists is left as
    /// it is. The root comes from the configuration and is made if need be; `below` may come from a
    /// pod, so one that leads out of the root, by its names or by a link, is an error.
    async fn create_directory(&self, root: &Path, below: &Path, mode: u32)
    -> Result<(), FileError>;

    /// Makes an empty file below a root, with exactly the given mode. Its directory must exist. `below`
    /// is held to the same rule as in [`HostFiles::create_directory`]; a file that is there already,
    /// whatever it is, is an error.
    async fn create_file(&self, root: &Path, below: &Path, mode: u32) -> Result<(), FileError>;

    /// The last bytes of a file below a root, `limit` at most. Containers may write what is read here:
    /// no link below the root is followed, and what is no file is an error.
    async fn read_end(&self, root: &Path, below: &Path, limit: u64) -> Result<Vec<u8>, FileError>;

    /// Makes a symbolic link to a file, replacing a link that is there, and the link's directory if
    /// need be. Does nothing when there is no file to link to.
    async fn link(&self, target: &Path, link: &Path) -> Result<(), FileError>;

    /// Removes what the verdict names, which must lie in `root` itself: a directory with all that is
    /// in it, or a link but never what it leads to. A container's log lies two directories further
    /// down, by its pod and its container; its rotated parts go with it. One rotated file alone goes only if it is
    /// named as one. A volume lies three directories
    /// further down: `<pod>/volumes/<plugin>/<volume>`. The directory of a pod is removed only if all that is
    /// in it is [known](crate::pod_directory::PodEntry); otherwise all of it stays, and the error names what is
    /// not. What is not there is no error;
    /// something of another kind than the verdict says is one, and stays; so is a directory on which
    /// or below which something is mounted.
    async fn remove(&self, root: &Path, verdict: &Verdict) -> Result<Removed, FileError>;
}
