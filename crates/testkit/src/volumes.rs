//! Volumes in memory: mounts and content in the tree of the files in memory.

mod devices;
mod faults;
mod payload;
mod subpath;

use std::collections::BTreeSet;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use model::ports::files::FileError;
use model::ports::volumes::{
    FileSystem, HostPathError, HostPathKind, MountPoint, Progress, Subpath, SubpathError,
    VolumeHost, Written,
};
use model::volume::{DevicePlaces, Ownership, Payload, Place};

pub use faults::Operation;

use crate::files::{MemoryFiles, Node, Start, Tree};
use faults::Faults;

/// The number of files between progress reports, as on the host.
const REPORTED: u64 = 1000;

/// The mode of parent directories of a mount point.
const PARENT_MODE: u32 = 0o750;

/// The volumes of a host in memory.
#[derive(Debug)]
pub struct MemoryVolumes {
    files: Arc<MemoryFiles>,
    faults: Faults,
    devices: Mutex<BTreeSet<PathBuf>>,
}

impl MemoryVolumes {
    /// Volumes in these files.
    pub fn new(files: Arc<MemoryFiles>) -> Self {
        Self { files, faults: Faults::default(), devices: Mutex::default() }
    }

    /// Creates a block device.
    pub fn add_device(&self, path: impl Into<PathBuf>) {
        let path = path.into();
        self.files.special(&path);
        self.devices.lock().unwrap_or_else(PoisonError::into_inner).insert(path);
    }

    fn is_device(&self, path: &Path) -> bool {
        self.devices.lock().unwrap_or_else(PoisonError::into_inner).contains(path)
    }

    /// Makes an operation on exactly this path fail, until [`MemoryVolumes::repair`].
    pub fn fail(&self, operation: Operation, path: impl Into<PathBuf>, kind: ErrorKind) {
        self.faults.fail(operation, path.into(), kind);
    }

    /// Makes operations on a path work again.
    pub fn repair(&self, operation: Operation, path: impl AsRef<Path>) {
        self.faults.repair(operation, path.as_ref());
    }

    /// Blocks an operation on exactly this path, as for a server that does not answer, until
    /// [`MemoryVolumes::release`].
    pub fn hold(&self, operation: Operation, path: impl Into<PathBuf>) {
        self.faults.hold(operation, path.into());
    }

    /// Unblocks operations on a path.
    pub fn release(&self, operation: Operation, path: impl AsRef<Path>) {
        self.faults.release(operation, path.as_ref());
    }

    /// The number of blocked operations on a path that have begun.
    pub fn held(&self, operation: Operation, path: impl AsRef<Path>) -> usize {
        self.faults.held(operation, path.as_ref())
    }

    /// All operations so far, with their paths, in order; failed ones too.
    pub fn calls(&self) -> Vec<(Operation, PathBuf)> {
        self.faults.calls()
    }

    fn tree(&self) -> MutexGuard<'_, Tree> {
        self.files.tree()
    }

    /// Runs an operation on a path, unless it must fail.
    async fn run<T>(
        &self,
        operation: Operation,
        path: &Path,
        work: impl FnOnce(&mut Tree) -> io::Result<T> + Send,
    ) -> Result<T, FileError> {
        let failed =
            |source| FileError { operation: operation.name(), path: path.to_owned(), source };
        self.faults.pass(operation, path).await.map_err(|kind| failed(kind.into()))?;
        work(&mut self.tree()).map_err(failed)
    }

    async fn at<T>(
        &self,
        operation: Operation,
        place: &Place,
        work: impl FnOnce(&mut Tree) -> io::Result<T> + Send,
    ) -> Result<T, FileError> {
        self.run(operation, &place.path(), work).await
    }
}

/// The path of a mount point, without links.
fn beneath(tree: &Tree, place: &Place) -> Result<PathBuf, ErrorKind> {
    tree.beneath(&place.root, &place.below)
}

/// Creates the directory of a mount point, and its parents.
fn make_directory(tree: &mut Tree, place: &Place, mode: u32) -> Result<PathBuf, ErrorKind> {
    let parent = make_parent(tree, place)?;
    let path = parent.join(place.below.file_name().ok_or(ErrorKind::InvalidInput)?);
    match tree.at(&path) {
        None => tree.insert(&path, Node::Directory { mode }),
        Some(Node::Directory { mode: before }) if before & 0o777 != mode & 0o777 => {
            tree.insert(&path, Node::Directory { mode });
        }
        Some(Node::Directory { .. }) => {}
        Some(_) => return Err(ErrorKind::NotADirectory),
    }
    Ok(path)
}

fn make_parent(tree: &mut Tree, place: &Place) -> Result<PathBuf, ErrorKind> {
    let mut here = tree.make_directories(Start::Root, &place.root, 0o755)?;
    let parent = place.below.parent().ok_or(ErrorKind::InvalidInput)?;
    for part in parent.components() {
        let std::path::Component::Normal(name) = part else { return Err(ErrorKind::InvalidInput) };
        here.push(name);
        match tree.at(&here) {
            None => tree.insert(&here, Node::Directory { mode: PARENT_MODE }),
            Some(Node::Directory { .. }) => {}
            Some(_) => return Err(ErrorKind::NotADirectory),
        }
    }
    Ok(here)
}

/// The mount options that the kernel lists for a file system.
fn listed(path: PathBuf, file_system: &FileSystem) -> MountPoint {
    let access = |read_only: bool| if read_only { "ro" } else { "rw" };
    let (fs_type, options) = match file_system {
        FileSystem::Tmpfs { size, no_swap } => {
            let size = size.map(|size| format!(",size={}k", size / 1024)).unwrap_or_default();
            ("tmpfs", format!("rw{size}{}", if *no_swap { ",noswap" } else { "" }))
        }
        FileSystem::HugePages { page_size } => ("hugetlbfs", format!("rw,pagesize={page_size}")),
        FileSystem::Nfs { read_only, .. } => ("nfs4", access(*read_only).to_owned()),
        FileSystem::Device { fs_type, read_only, .. } => {
            (&**fs_type, access(*read_only).to_owned())
        }
    };
    MountPoint { path, fs_type: fs_type.to_owned(), root: "/".into(), options }
}

fn bind(tree: &mut Tree, source: &Path, place: &Place, read_only: bool) -> io::Result<()> {
    let source = tree.resolve(source)?;
    match subpath::bind_resolved(tree, &source, place, read_only)? {
        subpath::Bound::Other => Err(other_mount()),
        subpath::Bound::New | subpath::Bound::Same => Ok(()),
    }
}

fn other_mount() -> io::Error {
    io::Error::new(ErrorKind::AlreadyExists, "something else is mounted there")
}

/// Sets group and modes below a path. Returns the number of files.
fn give_to_group(tree: &mut Tree, path: &Path, ownership: Ownership) -> u64 {
    let path = tree.stored(path).into_owned();
    let mounted: Vec<PathBuf> = tree.mounts.iter().map(|mount| mount.mount.path.clone()).collect();
    let elsewhere = |below: &Path| {
        mounted
            .iter()
            .any(|mount| *mount != path && mount.starts_with(&path) && below.starts_with(mount))
    };
    let mut files = 0;
    for (place, placed) in &mut tree.nodes {
        if !place.starts_with(&path) || elsewhere(place) {
            continue;
        }
        files += 1;
        placed.group = ownership.group;
        let bits = if ownership.read_only { 0o440 } else { 0o660 };
        match &mut placed.node {
            Node::Directory { mode } => *mode |= bits | 0o2110,
            Node::File { mode, .. } => *mode |= bits,
            Node::Link(_) | Node::Special => {}
        }
    }
    files
}

/// Whether the root of a volume already has the group's owner and mode.
fn is_given(tree: &Tree, path: &Path, ownership: Ownership) -> bool {
    let bits = 0o2110 | if ownership.read_only { 0o440 } else { 0o660 };
    tree.placed(path).is_some_and(|placed| {
        placed.group == ownership.group
            && matches!(placed.node, Node::Directory { mode } if mode & bits == bits)
    })
}

#[async_trait]
impl VolumeHost for MemoryVolumes {
    async fn mounts(&self, below: &Path) -> Result<Vec<MountPoint>, FileError> {
        let work = |tree: &mut Tree| {
            let real = match tree.resolve(below) {
                Err(ErrorKind::NotFound) => return Ok(Vec::new()),
                real => real?,
            };
            let mounts = tree.mounts.iter().map(|mount| mount.mount.clone());
            let within = mounts.filter_map(|mut mount| {
                let rest = mount.path.strip_prefix(&real).ok()?;
                let is_root = rest.as_os_str().is_empty();
                mount.path = if is_root { below.to_owned() } else { below.join(rest) };
                Some(mount)
            });
            Ok(within.collect())
        };
        self.run(Operation::Mounts, below, work).await
    }

    async fn directories(&self, place: &Place) -> Result<Vec<String>, FileError> {
        let work = |tree: &mut Tree| {
            let path = match beneath(tree, place) {
                Err(ErrorKind::NotFound) => return Ok(Vec::new()),
                path => path?,
            };
            let names = tree.list(&path)?;
            let is_directory =
                |name: &String| matches!(tree.at(&path.join(name)), Some(Node::Directory { .. }));
            Ok(names.into_iter().filter(is_directory).collect())
        };
        self.at(Operation::Directories, place, work).await
    }

    async fn make_directory(&self, place: &Place, mode: u32) -> Result<(), FileError> {
        let work = |tree: &mut Tree| Ok(make_directory(tree, place, mode).map(drop)?);
        self.at(Operation::MakeDirectory, place, work).await
    }

    async fn exists(&self, place: &Place) -> Result<bool, FileError> {
        let work = |tree: &mut Tree| match beneath(tree, place) {
            Err(ErrorKind::NotFound) => Ok(false),
            path => Ok(tree.at(&path?).is_some()),
        };
        self.at(Operation::Exists, place, work).await
    }

    async fn make_file(&self, place: &Place) -> Result<(), FileError> {
        let work = |tree: &mut Tree| subpath::make_target(tree, place, false).map(drop);
        self.at(Operation::MakeFile, place, work).await
    }

    async fn mount(&self, place: &Place, file_system: &FileSystem) -> Result<(), FileError> {
        let work = |tree: &mut Tree| {
            let path = beneath(tree, place)?;
            let mount = listed(path.clone(), file_system);
            let is_huge = matches!(file_system, FileSystem::HugePages { .. });
            match tree.mount_at(&path).map(|before| &before.mount) {
                Some(before) if before.fs_type != mount.fs_type => Err(other_mount()),
                Some(before) if is_huge && before.options != mount.options => Err(other_mount()),
                Some(_) => Ok(()),
                None => {
                    tree.mount_empty(mount);
                    Ok(())
                }
            }
        };
        self.at(Operation::Mount, place, work).await
    }

    async fn bind(&self, source: &Path, place: &Place, read_only: bool) -> Result<(), FileError> {
        self.at(Operation::Bind, place, |tree| bind(tree, source, place, read_only)).await
    }

    async fn map_device(&self, device: &Path, places: &DevicePlaces) -> Result<(), FileError> {
        self.at(Operation::MapDevice, &places.link, |tree| devices::map(tree, device, places)).await
    }

    async fn unmap_device(&self, places: &DevicePlaces) -> Result<(), FileError> {
        self.at(Operation::UnmapDevice, &places.link, |tree| devices::unmap(tree, places)).await
    }

    async fn unmount(&self, place: &Place) -> Result<(), FileError> {
        let work = |tree: &mut Tree| match beneath(tree, place) {
            Err(ErrorKind::NotFound) => Ok(()),
            path => {
                tree.end_mounts(&path?);
                Ok(())
            }
        };
        self.at(Operation::Unmount, place, work).await
    }

    async fn write_payload(
        &self,
        place: &Place,
        payload: &Payload,
        ownership: Option<&Ownership>,
    ) -> Result<Written, FileError> {
        let work = |tree: &mut Tree| {
            let path = beneath(tree, place)?;
            payload::write(tree, &path, payload, ownership.copied())
        };
        self.at(Operation::WritePayload, place, work).await
    }

    async fn set_ownership(
        &self,
        place: &Place,
        ownership: &Ownership,
        progress: Progress,
    ) -> Result<(), FileError> {
        let work = |tree: &mut Tree| {
            let path = beneath(tree, place)?;
            if ownership.only_on_root_mismatch && is_given(tree, &path, *ownership) {
                return Ok(0);
            }
            Ok(give_to_group(tree, &path, *ownership))
        };
        let files = self.at(Operation::SetOwnership, place, work).await?;
        (1..=files / REPORTED).for_each(|thousands| progress(thousands * REPORTED));
        Ok(())
    }

    async fn group(&self, place: &Place) -> Result<u32, FileError> {
        let work = |tree: &mut Tree| {
            let path = beneath(tree, place)?;
            Ok(tree.placed(&path).ok_or(ErrorKind::NotFound)?.group)
        };
        self.at(Operation::Group, place, work).await
    }

    async fn check_host_path(&self, path: &Path, kind: HostPathKind) -> Result<(), HostPathError> {
        let is_device = kind == HostPathKind::BlockDevice && self.is_device(path);
        let work = |tree: &mut Tree| if is_device { Ok(None) } else { host_path(tree, path, kind) };
        match self.run(Operation::CheckHostPath, path, work).await? {
            Some(expected) => Err(HostPathError::WrongKind { path: path.to_owned(), expected }),
            None => Ok(()),
        }
    }

    async fn bind_subpath(&self, subpath: &Subpath) -> Result<(), SubpathError> {
        let work = |tree: &mut Tree| Ok(subpath::bind(tree, subpath));
        let done = self.at(Operation::BindSubpath, &subpath.target, work).await;
        done.unwrap_or_else(|error| {
            Err(SubpathError::Prepare { path: subpath.path.clone(), source: error.source })
        })
    }

    async fn clean_subpaths(&self, subpaths: &Place, volume: &str) -> Result<(), FileError> {
        let work = |tree: &mut Tree| subpath::clean(tree, subpaths, volume);
        self.at(Operation::CleanSubpaths, &subpaths.join(volume), work)
            .await
            .map_err(|error| FileError { path: subpaths.path(), ..error })
    }

    async fn read_in_volume(
        &self,
        volume: &Path,
        path: &Path,
        limit: u64,
    ) -> Result<Vec<u8>, FileError> {
        let work = |tree: &mut Tree| {
            subpath::refuse_parents(path)?;
            let found = tree.resolve_within(volume, path)?;
            Ok(tree.read(&found, limit)?)
        };
        self.run(Operation::ReadInVolume, &volume.join(path), work).await
    }

    async fn share_mounts(&self, directory: &Path) -> Result<(), FileError> {
        let work = |tree: &mut Tree| Ok(tree.resolve(directory).map(drop)?);
        self.run(Operation::ShareMounts, directory, work).await
    }
}

/// The expected kind of a host path if it does not match. Devices are not in the tree.
fn host_path(tree: &mut Tree, path: &Path, kind: HostPathKind) -> io::Result<Option<&'static str>> {
    subpath::refuse_parents(path.strip_prefix("/").unwrap_or(path))?;
    if kind == HostPathKind::Any {
        return Ok(None);
    }
    if matches!(tree.resolve(path), Err(ErrorKind::NotFound)) {
        match kind {
            HostPathKind::DirectoryOrCreate => {
                tree.make_directories(Start::Root, path, 0o755)?;
            }
            HostPathKind::FileOrCreate => {
                let parent = tree.resolve(path.parent().ok_or(ErrorKind::InvalidInput)?)?;
                let name = path.file_name().ok_or(ErrorKind::InvalidInput)?;
                tree.insert(&parent.join(name), Node::File { content: Vec::new(), mode: 0o644 });
            }
            _ => {}
        }
    }
    let node = match tree.node(path) {
        Err(ErrorKind::NotFound) => None,
        found => Some(found?.1),
    };
    let (expected, is_expected) = match kind {
        HostPathKind::Any => return Ok(None),
        HostPathKind::Directory | HostPathKind::DirectoryOrCreate => {
            ("directory", matches!(node, Some(Node::Directory { .. })))
        }
        HostPathKind::File | HostPathKind::FileOrCreate => {
            ("file", matches!(node, Some(Node::File { .. })))
        }
        HostPathKind::Socket => ("socket file", matches!(node, Some(Node::Special))),
        HostPathKind::CharDevice => ("character device", false),
        HostPathKind::BlockDevice => ("block device", false),
    };
    Ok((!is_expected).then_some(expected))
}
