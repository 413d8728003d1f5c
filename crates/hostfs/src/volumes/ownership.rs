//! Giving a volume to a group.
//!
//! Every file is opened by its name in an open directory, never by a path, and then changed through its descriptor: a
//! link that takes its place is never followed. Whatever the depth of the tree, each thread has a few directories open.

mod crew;
mod walk;

use std::io;
use std::os::fd::OwnedFd;

use model::volume::Ownership;
use rustix::fs::{AtFlags, FileType, Gid, Mode, Stat, chmod, chownat, fstat};

use super::place;

/// What members of the group may do.
const READ: u32 = 0o440;
const READ_WRITE: u32 = 0o660;

/// Directories can be entered, and what is made in them belongs to the group.
const DIRECTORY: u32 = 0o2110;

/// Gives a volume and all that is in it to a group. Its root comes last: `OnRootMismatch` takes a root that fits for a
/// volume that was done.
pub(super) fn apply(
    volume: OwnedFd,
    ownership: Ownership,
    progress: &(dyn Fn(u64) + Send + Sync),
) -> io::Result<()> {
    let found = fstat(&volume)?;
    if ownership.only_on_root_mismatch && Change::to(&found, ownership).is_none() {
        return Ok(());
    }
    let root = rustix::io::fcntl_dupfd_cloexec(&volume, 0)?;
    crew::walk(volume, ownership, progress);
    set(&root, ownership)
}

/// What is to change in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Change {
    group: bool,
    /// The mode it gets; nothing for a link, which has none.
    mode: Option<u32>,
}

impl Change {
    /// Nothing if all is right.
    fn to(found: &Stat, ownership: Ownership) -> Option<Self> {
        let kind = FileType::from_raw_mode(found.st_mode);
        let mut bits = if ownership.read_only { READ } else { READ_WRITE };
        if kind == FileType::Directory {
            bits |= DIRECTORY;
        }
        let before = found.st_mode & 0o7777;
        let group = found.st_gid != ownership.group;
        // The change of the group takes bits of the mode away.
        let is_changed = before | bits != before || (group && before & 0o6000 != 0);
        let mode = (kind != FileType::Symlink && is_changed).then_some(before | bits);
        (group || mode.is_some()).then_some(Self { group, mode })
    }
}

/// Sets group and mode of what a descriptor names.
fn set(file: &OwnedFd, ownership: Ownership) -> io::Result<()> {
    let Some(change) = Change::to(&fstat(file)?, ownership) else { return Ok(()) };
    if change.group {
        chownat(file, "", None, Some(Gid::from_raw(ownership.group)), AtFlags::EMPTY_PATH)?;
    }
    if let Some(mode) = change.mode {
        chmod(place::path_of(file), Mode::from_raw_mode(mode))?;
    }
    Ok(())
}

#[cfg(test)]
#[path = "ownership_tests.rs"]
mod tests;
