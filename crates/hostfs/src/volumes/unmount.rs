//! Unmounts.

use std::io;
use std::path::Path;

use model::volume::Place;
use rustix::mount::{UnmountFlags, unmount};

use super::mount_table::MountTable;
use super::place;

/// Unmounts everything on a place and below it, latest first.
pub(super) fn end(place: &Place, flags: UnmountFlags) -> io::Result<()> {
    match place::open_parent(place) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        opened => drop(opened?),
    }
    let root = place.root.canonicalize()?;
    let path = root.join(&place.below);
    loop {
        let table = MountTable::read()?;
        let mounts = table.within(&path);
        if mounts.is_empty() {
            return Ok(());
        }
        let (mut ended, mut failed) = (false, None);
        // Latest first: a mount may hide earlier ones.
        for mount in mounts.iter().rev() {
            let below = mount.mount.path.strip_prefix(&root).map_err(io::Error::other)?;
            match end_one(&root, below, flags) {
                Ok(()) => ended = true,
                Err(error) => _ = failed.get_or_insert(place::naming(below, error)),
            }
        }
        if let Some(error) = failed.filter(|_| !ended) {
            return Err(error);
        }
    }
}

/// By its name in its directory: a descriptor of the mount itself would keep it busy.
fn end_one(root: &Path, below: &Path, flags: UnmountFlags) -> io::Result<()> {
    let place = Place { root: root.to_owned(), below: below.to_owned() };
    let (parent, name) = place::open_parent(&place)?;
    Ok(unmount(place::path_of(&parent).join(name), flags | UnmountFlags::NOFOLLOW)?)
}
