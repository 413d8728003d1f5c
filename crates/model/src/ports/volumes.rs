//! Mounts and volume directories of the host.

use std::fmt::Debug;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;

use crate::ports::files::FileError;
use crate::volume::{DevicePlaces, Ownership, Payload, Place};

/// Something that is mounted on the host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MountPoint {
    /// Where.
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

/// What a payload was written over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Written {
    /// Other content, or nothing.
    New,
    /// The same content. Missing links were made again.
    Same,
}

/// What a path of the host must be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum HostPathKind {
    /// Anything, or nothing.
    #[default]
    Any,
    /// A directory, which is made with mode 0755 if nothing is there.
    DirectoryOrCreate,
    /// A directory.
    Directory,
    /// A file, which is made with mode 0644 if nothing is there. Its directory must be there.
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

/// A path of the host is not what it must be.
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
    /// It cannot be examined or made.
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
    /// The directory is missing and cannot be made.
    #[error("cannot create directory {path} in the volume", path = .path.display())]
    Create {
        /// The path inside the volume.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// It leads out of the volume, or cannot be mounted.
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

/// Mounts, unmounts and writes volumes. Every operation can be repeated: one that finds its work done does nothing.
/// A place that leads out of its root, by its names or over a link, is an error.
#[async_trait]
pub trait VolumeHost: Debug + Send + Sync {
    /// What is mounted on a directory and below it, in the order in which it was mounted.
    async fn mounts(&self, below: &Path) -> Result<Vec<MountPoint>, FileError>;

    /// The names of the directories in a directory; none if it is not there.
    async fn directories(&self, place: &Place) -> Result<Vec<String>, FileError>;

    /// Makes a directory with exactly this mode, also if it is there already; missing parents get 0750.
    async fn make_directory(&self, place: &Place, mode: u32) -> Result<(), FileError>;

    /// Mounts a file system on a directory. One that has a mount of this kind is left alone; huge pages of another
    /// size are an error.
    async fn mount(&self, place: &Place, file_system: &FileSystem) -> Result<(), FileError>;

    /// Mounts a directory or file of the host also at a place, which is made. A bind mount of the same source is left
    /// alone, another mount is an error.
    async fn bind(&self, source: &Path, place: &Place, read_only: bool) -> Result<(), FileError>;

    /// Gives a pod a device: binds it at the map, and makes the link lead to it. A link to another device is replaced.
    async fn map_device(&self, device: &Path, places: &DevicePlaces) -> Result<(), FileError>;

    /// Takes a device from a pod: removes the map and the link, and detaches loop devices that the upstream kubelet has
    /// attached to the map. A place that is not there is no error; one that holds something else is.
    async fn unmap_device(&self, places: &DevicePlaces) -> Result<(), FileError>;

    /// Ends all mounts on a place and below it, the innermost first. One on which nothing is mounted is no error. Never
    /// follows a link below the root.
    async fn unmount(&self, place: &Place) -> Result<(), FileError>;

    /// Makes files the content of a directory, in one step for its readers: through the link `..data`. On an error the
    /// old content stays. Equal content is not written again, but missing links are made.
    async fn write_payload(
        &self,
        place: &Place,
        payload: &Payload,
        ownership: Option<&Ownership>,
    ) -> Result<Written, FileError>;

    /// Gives a volume and all that is in it to a group. Follows no link and enters no other mount. Calls `progress` with
    /// the number of files after each thousand. Errors of single files are logged and not returned.
    async fn set_ownership(
        &self,
        place: &Place,
        ownership: &Ownership,
        progress: Progress,
    ) -> Result<(), FileError>;

    /// The group of a directory.
    async fn group(&self, place: &Place) -> Result<u32, FileError>;

    /// Checks what a path of the host is, and makes it where its kind says so.
    async fn check_host_path(&self, path: &Path, kind: HostPathKind) -> Result<(), HostPathError>;

    /// Mounts a part of a volume at a place. Links inside the volume are followed if they stay inside. A missing
    /// directory is made, with the mode of the volume's root. The same inode at the place is left alone.
    async fn bind_subpath(&self, subpath: &Subpath) -> Result<(), SubpathError>;

    /// Ends the mounts of parts of a volume, and removes the places on which they were: `subpaths` has a directory for
    /// each volume. A file or directory that is not empty stays and is an error.
    async fn clean_subpaths(&self, subpaths: &Place, volume: &str) -> Result<(), FileError>;

    /// The content of a file in a volume, at most `limit` bytes. Links that stay inside the volume are followed.
    async fn read_in_volume(
        &self,
        volume: &Path,
        path: &Path,
        limit: u64,
    ) -> Result<Vec<u8>, FileError>;

    /// Makes a directory a mount whose mounts reach containers, and theirs reach the host (`rshared`).
    async fn share_mounts(&self, directory: &Path) -> Result<(), FileError>;
}
