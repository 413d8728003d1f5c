//! Changes the group of a volume (fsGroup).
//!
//! Every file is opened by its name in an open directory, never by a path, and then changed through its
//! descriptor: a link that replaces it is never followed. For any depth of the tree, each thread has few open
//! directories.

mod crew;
mod walk;

use std::io;
use std::os::fd::OwnedFd;

use model::volume::Ownership;
use rustix::fs::{AtFlags, FileType, Gid, Mode, Stat, chmod, chownat, fstat};

use super::place;

/// The permissions of the group.
const READ: u32 = 0o440;
const READ_WRITE: u32 = 0o660;

/// Directories can be entered, and new files in them belong to the group.
const DIRECTORY: u32 = 0o2110;

/// Sets the group of a volume and all its content. The root comes last: for `OnRootMismatch`, a matching
/// root means that the volume is done.
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

/// The change of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Change {
    group: bool,
    /// The new mode; `None` for a link, which has none.
    mode: Option<u32>,
}

impl Change {
    /// `None` if nothing has to change.
    fn to(found: &Stat, ownership: Ownership) -> Option<Self> {
        let kind = FileType::from_raw_mode(found.st_mode);
        let mut bits = if ownership.read_only { READ } else { READ_WRITE };
        if kind == FileType::Directory {
            bits |= DIRECTORY;
        }
        let before = found.st_mode & 0o7777;
        let group = found.st_gid != ownership.group;
        // Changing the group clears bits of the mode.
        let is_changed = before | bits != before || (group && before & 0o6000 != 0);
        let mode = (kind != FileType::Symlink && is_changed).then_some(before | bits);
        (group || mode.is_some()).then_some(Self { group, mode })
    }
}

/// Sets group and mode of the object of a descriptor.
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
