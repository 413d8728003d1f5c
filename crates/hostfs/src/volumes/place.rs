//! Directories and files of volumes, reached below their root without following links.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, AsRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};

use model::volume::Place;
use rustix::fs::{
    AtFlags, Mode, OFlags, ResolveFlags, StatxAttributes, StatxFlags, chmod, fchmod, fstat,
    mkdirat, open, openat2, statx,
};
use rustix::io::Errno;

use crate::beneath::plain_names;

/// The mode of parent directories of a place.
const PARENT_MODE: u32 = 0o750;

/// The mode of a file that is a mount point.
const FILE_MODE: u32 = 0o640;

/// A descriptor that only identifies a file or directory. A link is an error, with [`BENEATH`].
pub(super) const NAMED: OFlags = OFlags::PATH.union(OFlags::CLOEXEC);

/// Like `NAMED`, but for a link it identifies the link itself: mounting one would follow it.
pub(super) const NAMED_OR_LINK: OFlags = NAMED.union(OFlags::NOFOLLOW);

/// A directory that can be listed.
pub(super) const LISTED: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// No link is followed, and no name leaves the root.
pub(super) const BENEATH: ResolveFlags = ResolveFlags::BENEATH.union(ResolveFlags::NO_SYMLINKS);

/// Like `BENEATH`, and no mount is entered.
pub(super) const INSIDE: ResolveFlags = BENEATH.union(ResolveFlags::NO_XDEV);

pub(super) fn refused(problem: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, problem)
}

/// An error with the name of its entry.
pub(super) fn naming(name: &Path, error: impl Into<io::Error>) -> io::Error {
    let error = error.into();
    io::Error::new(error.kind(), format!("{}: {error}", name.display()))
}

/// The `/proc` path of an open descriptor.
pub(super) fn path_of(descriptor: &OwnedFd) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", descriptor.as_raw_fd()))
}

/// The root directory of a place.
pub(super) fn open_root(root: &Path) -> io::Result<OwnedFd> {
    Ok(open(root, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?)
}

/// Opens a place.
pub(super) fn open_place(place: &Place, flags: OFlags) -> io::Result<OwnedFd> {
    plain_names(&place.below)?;
    let root = open_root(&place.root)?;
    let below = if place.below.as_os_str().is_empty() { Path::new(".") } else { &place.below };
    Ok(openat2(&root, below, flags, Mode::empty(), BENEATH)?)
}

/// The parent directory of a place, and its name there.
pub(super) fn open_parent(place: &Place) -> io::Result<(OwnedFd, &OsStr)> {
    plain_names(&place.below)?;
    let name = place.below.file_name().ok_or_else(|| refused("it is the root itself"))?;
    let parent = place.below.parent().unwrap_or(Path::new(""));
    let parent = Place { root: place.root.clone(), below: parent.to_owned() };
    Ok((open_place(&parent, NAMED | OFlags::DIRECTORY)?, name))
}

/// The path of a place as in the mount table: without links.
pub(super) fn real_path(place: &Place) -> io::Result<PathBuf> {
    plain_names(&place.below)?;
    Ok(place.root.canonicalize()?.join(&place.below))
}

/// Creates a directory with exactly this mode, and its parents with theirs. Existing special bits stay, such
/// as the set-group-ID bit of a volume with a group.
pub(super) fn make_directory(place: &Place, mode: u32) -> io::Result<OwnedFd> {
    let (parent, name) = make_parent(place)?;
    let directory = child(&parent, name, mode)?;
    if fstat(&directory)?.st_mode & 0o777 != mode & 0o777 {
        chmod(path_of(&directory), Mode::from_raw_mode(mode))?;
    }
    Ok(directory)
}

/// Creates a mount point: a directory, or an empty file.
pub(super) fn make_target(place: &Place, is_directory: bool) -> io::Result<OwnedFd> {
    let (parent, name) = make_parent(place)?;
    if is_directory {
        return child(&parent, name, PARENT_MODE);
    }
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mode = Mode::from_raw_mode(FILE_MODE);
    match openat2(&parent, name, flags, mode, BENEATH) {
        Ok(file) => fchmod(&file, mode)?,
        Err(Errno::EXIST) => {}
        Err(error) => return Err(error.into()),
    }
    Ok(openat2(&parent, name, NAMED, Mode::empty(), BENEATH)?)
}

pub(super) fn make_parent(place: &Place) -> io::Result<(OwnedFd, &OsStr)> {
    let names = plain_names(&place.below)?;
    let Some((last, parents)) = names.split_last() else {
        return Err(refused("it is the root itself"));
    };
    std::fs::create_dir_all(&place.root)?;
    let mut directory = open_root(&place.root)?;
    for name in parents {
        directory = child(&directory, name, PARENT_MODE)?;
    }
    Ok((directory, last))
}

/// Opens a subdirectory, which is created with exactly this mode if it is missing.
pub(super) fn child(parent: impl AsFd, name: &OsStr, mode: u32) -> io::Result<OwnedFd> {
    let is_new = match mkdirat(&parent, name, Mode::from_raw_mode(mode)) {
        Ok(()) => true,
        Err(Errno::EXIST) => false,
        Err(error) => return Err(error.into()),
    };
    let flags = NAMED | OFlags::DIRECTORY;
    let directory = openat2(&parent, name, flags, Mode::empty(), BENEATH)?;
    if is_new {
        // Regardless of the umask of the process.
        chmod(path_of(&directory), Mode::from_raw_mode(mode))?;
    }
    Ok(directory)
}

/// Whether a descriptor is the root of a mount.
pub(super) fn is_mount_root(descriptor: &OwnedFd) -> io::Result<bool> {
    let found = statx(descriptor, "", AtFlags::EMPTY_PATH, StatxFlags::TYPE)?;
    if !found.stx_attributes_mask.contains(StatxAttributes::MOUNT_ROOT) {
        return Err(io::Error::new(io::ErrorKind::Unsupported, "the kernel is older than 5.8"));
    }
    Ok(found.stx_attributes.contains(StatxAttributes::MOUNT_ROOT))
}

/// Device and inode of a descriptor.
pub(super) fn identity(descriptor: &OwnedFd) -> io::Result<(u64, u64)> {
    let found = fstat(descriptor)?;
    Ok((found.st_dev, found.st_ino))
}
