//! Devices of block volumes.

use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use model::volume::{DevicePlaces, Place};
use rustix::fs::{AtFlags, FileType, readlinkat, statat, symlinkat, unlinkat};
use rustix::io::Errno;
use rustix::mount::UnmountFlags;

use super::{bind, place, unmount};

/// The directory of block devices.
const BLOCK_DEVICES: &str = "/sys/block";

/// Binds a device at the map, and points the link to it.
pub(super) fn map(device: &Path, places: &DevicePlaces) -> io::Result<()> {
    bind::bind(device, &places.map, false)?;
    let (parent, name) = place::make_parent(&places.link)?;
    match readlinkat(&parent, name, Vec::new()) {
        Ok(target) if target.as_bytes() == device.as_os_str().as_bytes() => return Ok(()),
        Ok(_) => unlinkat(&parent, name, AtFlags::empty())?,
        Err(Errno::NOENT) => {}
        Err(Errno::INVAL) => return Err(place::refused("it is not a link")),
        Err(error) => return Err(error.into()),
    }
    Ok(symlinkat(device, &parent, name)?)
}

/// Unmounts the map, and removes it and the link. The directory of the map is removed with the last pod.
pub(super) fn unmap(places: &DevicePlaces) -> io::Result<()> {
    unmount::end(&places.map, UnmountFlags::empty())?;
    remove(&places.map, FileType::RegularFile)?;
    remove_directory(&places.map)?;
    remove(&places.link, FileType::Symlink)
}

/// The loop devices attached to the device at a place.
pub(super) fn attached_loops(place: &Place) -> io::Result<Vec<PathBuf>> {
    let path = place::real_path(place)?;
    let mut found = Vec::new();
    for entry in std::fs::read_dir(BLOCK_DEVICES)? {
        let entry = entry?;
        // Only attached loop devices have this file.
        let Ok(backing) = std::fs::read(entry.path().join("loop/backing_file")) else { continue };
        if backing.strip_suffix(b"\n").unwrap_or(&backing) == path.as_os_str().as_bytes() {
            found.push(Path::new("/dev").join(entry.file_name()));
        }
    }
    Ok(found)
}

/// Removes an empty file or a link.
fn remove(place: &Place, kind: FileType) -> io::Result<()> {
    let (parent, name) = match place::open_parent(place) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        opened => opened?,
    };
    let found = match statat(&parent, name, AtFlags::SYMLINK_NOFOLLOW) {
        Err(Errno::NOENT) => return Ok(()),
        found => found?,
    };
    let is_kind = FileType::from_raw_mode(found.st_mode) == kind;
    if !is_kind || (kind == FileType::RegularFile && found.st_size != 0) {
        return Err(place::naming(&place.below, place::refused("it is not the agent's")));
    }
    Ok(unlinkat(&parent, name, AtFlags::empty())?)
}

/// Removes the directory of a place unless it has other entries.
fn remove_directory(place: &Place) -> io::Result<()> {
    let Some(directory) = place.below.parent() else { return Ok(()) };
    let directory = Place { root: place.root.clone(), below: directory.to_owned() };
    let (parent, name) = match place::open_parent(&directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        opened => opened?,
    };
    match unlinkat(&parent, name, AtFlags::REMOVEDIR) {
        Ok(()) | Err(Errno::NOENT | Errno::NOTEMPTY | Errno::EXIST) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
