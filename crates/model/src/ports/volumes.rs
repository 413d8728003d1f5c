//! Mounts and volume directories of the host.

use std::fmt::Debug;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;

use crate::ports::files::FileError;
use crate::volume::{DevicePlaces, Ownership, Payload, Place};

/// A mount of the host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MountPoint {
    /// The mount point.
    pub path: PathBuf,
    /// The kind of its file system: `tmpfs`, `ext4`.
    pub fs_type: String,
    /// The directory inside the file system that is mounted here; `/` unless it is a bind mount.
    pub root: PathBuf,
    /// The options of the mount and of the file system, separated by commas.
    pub options: String,
}

/// A file system to be mounted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FileSystem {
    /// One in memory.
    Tmpfs {
        /// Its size in bytes; half of the memory without one.
        size: Option<u64>,
        /// Whether its content must never be swapped out, where the kernel can do that.
        no_swap: bool,
    },
    /// Huge pages of one size: `2M`.
    HugePages {
        /// The size, as the kernel writes it.
        page_size: String,
    },
    /// A directory of an NFS server.
    Nfs {
        /// The server.
        server: String,
        /// The directory.
        path: String,
        /// Whether it is mounted read-only.
        read_only: bool,
        /// Further options.
        options: Vec<String>,
    },
    /// A block device, which is formatted if it is empty.
    Device {
        /// The device.
        device: PathBuf,
        /// The kind of the file system: `ext4`.
        fs_type: String,
        /// Whether it is mounted read-only.
        read_only: bool,
        /// Further options.
        options: Vec<String>,
    },
}

/// The previous content of a payload directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Written {
    /// Other content, or nothing.
    New,
    /// The content is unchanged. Missing links were created again.
    Same,
}

/// The required kind of a host path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum HostPathKind {
    /// Anything, or nothing.
    #[default]
    Any,
    /// A directory, which is created with mode 0755 if missing.
    DirectoryOrCreate,
    /// A directory.
    Directory,
    /// A file, which is created with mode 0644 if missing. Its directory must exist.
    FileOrCreate,
    /// A file.
    File,
    /// A socket.
    Socket,
    /// A character device.
    CharDevice,
    /// A block device.
    BlockDevice,
}

/// A host path has the wrong kind.
#[derive(Debug, thiserror::Error)]
pub enum HostPathError {
    /// It is something else, or nothing.
    #[error("hostPath type check failed: {path} is not a {expected}", path = .path.display())]
    WrongKind {
        /// The path.
        path: PathBuf,
        /// `directory`, `file`, `socket file`, `character device`, `block device`.
        expected: &'static str,
    },
    /// It cannot be examined or created.
    #[error(transparent)]
    File(#[from] FileError),
}

/// A part of a volume that a container mounts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subpath {
    /// The root of the volume on the host.
    pub volume: PathBuf,
    /// The path inside: relative, without `..`.
    pub path: PathBuf,
    /// Where it is bind-mounted.
    pub target: Place,
}

/// Why a part of a volume is not mounted.
#[derive(Debug, thiserror::Error)]
pub enum SubpathError {
    /// The directory is missing and cannot be created.
    #[error("cannot create directory {path} in the volume", path = .path.display())]
    Create {
        /// The path inside the volume.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// It leaves the volume, or cannot be mounted.
    #[error("cannot mount {path} of the volume", path = .path.display())]
    Prepare {
        /// The path inside the volume.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
}

/// Counts the files whose group was set.
pub type Progress = Arc<dyn Fn(u64) + Send + Sync>;

/// Mounts, unmounts and writes volumes. Every operation is idempotent.
/// A path that leaves its root, by its names or by a link, is an error.
#[async_trait]
pub trait VolumeHost: Debug + Send + Sync {
    /// The mounts on a directory and below it, in the order in which they were mounted.
    async fn mounts(&self, below: &Path) -> Result<Vec<MountPoint>, FileError>;

    /// The names of the directories in a directory; none if it does not exist.
    async fn directories(&self, place: &Place) -> Result<Vec<String>, FileError>;

    /// Creates a directory with exactly this mode, and changes the mode of an existing one; missing parents get 0750.
    async fn make_directory(&self, place: &Place, mode: u32) -> Result<(), FileError>;

    /// Mounts a file system on a directory. One that has a mount of this kind is left alone; huge pages of another
    /// size are an error.
    async fn mount(&self, place: &Place, file_system: &FileSystem) -> Result<(), FileError>;

    /// Bind-mounts a directory or file of the host at a path, which is created. A bind mount of the same source is
    /// left alone, another mount is an error.
    async fn bind(&self, source: &Path, place: &Place, read_only: bool) -> Result<(), FileError>;

    /// Maps a device for a pod: bind-mounts it at the map, and creates a link to it. A link to another device is
    /// replaced.
    async fn map_device(&self, device: &Path, places: &DevicePlaces) -> Result<(), FileError>;

    /// Unmaps a device of a pod: removes the map and the link, and detaches loop devices that the upstream kubelet has
    /// attached to the map. A missing path is not an error; one of another kind is.
    async fn unmap_device(&self, places: &DevicePlaces) -> Result<(), FileError>;

    /// Unmounts everything on a path and below it, the innermost first. A path without mounts is not an error.
    /// Never follows a link below the root.
    async fn unmount(&self, place: &Place) -> Result<(), FileError>;

    /// Replaces the content of a directory by files, atomically for its readers: through the link `..data`. On an error
    /// the old content stays. Equal content is not written again, but missing links are created.
    async fn write_payload(
        &self,
        place: &Place,
        payload: &Payload,
        ownership: Option<&Ownership>,
    ) -> Result<Written, FileError>;

    /// Changes the group of a volume and its content. Follows no link and enters no other mount. Calls `progress` with
    /// the number of files after each thousand. Errors of single files are logged and not returned.
    async fn set_ownership(
        &self,
        place: &Place,
        ownership: &Ownership,
        progress: Progress,
    ) -> Result<(), FileError>;

    /// The group of a directory.
    async fn group(&self, place: &Place) -> Result<u32, FileError>;

    /// Checks the type of a host path, and creates it if its type requires it.
    async fn check_host_path(&self, path: &Path, kind: HostPathKind) -> Result<(), HostPathError>;

    /// Mounts a part of a volume at a path. Links inside the volume are followed if they stay inside. A missing
    /// directory is created, with the mode of the volume's root. A mount of the same inode is left alone.
    async fn bind_subpath(&self, subpath: &Subpath) -> Result<(), SubpathError>;

    /// Unmounts the parts of a volume, and removes their mount points: `subpaths` has a directory for
    /// each volume. A file or directory that is not empty stays and is an error.
    async fn clean_subpaths(&self, subpaths: &Place, volume: &str) -> Result<(), FileError>;

    /// The content of a file in a volume, at most `limit` bytes. Links that stay inside the volume are followed.
    async fn read_in_volume(
        &self,
        volume: &Path,
        path: &Path,
        limit: u64,
    ) -> Result<Vec<u8>, FileError>;

    /// Makes a directory a shared mount, so that mounts propagate between host and containers (`rshared`).
    async fn share_mounts(&self, directory: &Path) -> Result<(), FileError>;
}
