//! Bind mounts, and mount propagation to containers.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use model::volume::Place;
use rustix::fs::{FileType, Mode, OFlags, StatVfsMountFlags, fstat, fstatvfs, open};
use rustix::mount::{
    MountFlags, MountPropagationFlags, MoveMountFlags, mount_bind, mount_change, mount_remount,
    move_mount,
};

use super::memory_mount::other_mount;
use super::mount_table::MountTable;
use super::place;

/// Mounts a directory or file of the host at a place.
pub(super) fn bind(source: &Path, place: &Place, read_only: bool) -> io::Result<()> {
    let source = open(source, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
    let target = match bind_opened(&source, place)? {
        Bound::New | Bound::Same => place::open_place(place, place::NAMED)?,
        Bound::Other => return Err(other_mount()),
    };
    if read_only { make_read_only(&target) } else { Ok(()) }
}

/// What was at the mount point before a bind mount.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Bound {
    /// Nothing.
    New,
    /// A mount of the same file or directory, which stays.
    Same,
    /// Another mount, which stays.
    Other,
}

/// Mounts the object of a descriptor at a place, unless the place has a mount.
pub(super) fn bind_opened(source: &OwnedFd, place: &Place) -> io::Result<Bound> {
    let target = place::make_target(place, is_directory(source)?)?;
    if place::is_mount_root(&target)? {
        let is_same = place::identity(&target)? == place::identity(source)?;
        return Ok(if is_same { Bound::Same } else { Bound::Other });
    }
    mount_bind(place::path_of(source), place::path_of(&target))?;
    Ok(Bound::New)
}

pub(super) fn is_directory(descriptor: &OwnedFd) -> io::Result<bool> {
    Ok(FileType::from_raw_mode(fstat(descriptor)?.st_mode) == FileType::Directory)
}

/// A bind mount has the options of its source until it is remounted.
fn make_read_only(target: &OwnedFd) -> io::Result<()> {
    let found = fstatvfs(target)?.f_flag;
    if found.contains(StatVfsMountFlags::RDONLY) {
        return Ok(());
    }
    let mut flags = MountFlags::BIND | MountFlags::RDONLY;
    for (is, keep) in [
        (StatVfsMountFlags::NOSUID, MountFlags::NOSUID),
        (StatVfsMountFlags::NODEV, MountFlags::NODEV),
        (StatVfsMountFlags::NOEXEC, MountFlags::NOEXEC),
        (StatVfsMountFlags::NOATIME, MountFlags::NOATIME),
        (StatVfsMountFlags::NODIRATIME, MountFlags::NODIRATIME),
        (StatVfsMountFlags::RELATIME, MountFlags::RELATIME),
    ] {
        flags.set(keep, found.contains(is));
    }
    Ok(mount_remount(place::path_of(target), flags, "")?)
}

/// Makes mounts below a directory propagate to containers and back. A shared mount stays unchanged. A directory
/// that is not a mount is bind-mounted on itself; the mounts below it move there.
pub(super) fn share(directory: &Path) -> io::Result<()> {
    let path = directory.canonicalize()?;
    let table = MountTable::read()?;
    let outer = table.containing(&path).ok_or_else(|| place::refused("no mount contains it"))?;
    if outer.is_shared {
        return Ok(());
    }
    if outer.mount.path != path {
        let within = table.within(&path);
        let moved = within.into_iter().filter(|line| MountTable::is_child(line, outer));
        let named = |path: &Path| open(path, place::NAMED_OR_LINK, Mode::empty());
        let moved = moved.map(|line| Ok((&line.mount.path, named(&line.mount.path)?)));
        let moved: Vec<_> = moved.collect::<io::Result<_>>()?;
        mount_bind(&path, &path)?;
        for (path, mount) in moved {
            let target = named(path)?;
            let flags =
                MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
            move_mount(&mount, "", &target, "", flags)
                .map_err(|error| place::naming(path, error))?;
        }
    }
    Ok(mount_change(&path, MountPropagationFlags::SHARED | MountPropagationFlags::REC)?)
}
