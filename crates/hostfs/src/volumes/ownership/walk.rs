//! The walk of one thread over a part of a tree.

use std::ffi::{CStr, CString, OsStr};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use rustix::fs::{AtFlags, FileType, Mode, RawDir, SeekFrom, openat2, seek, statat};
use rustix::io::Errno;

use super::crew::OwnershipJob;
use super::set;
use crate::volumes::place::{INSIDE, LISTED, NAMED_OR_LINK, identity};

/// How many subdirectory names of one directory are kept in memory.
const MOST_NAMES: usize = 1024;

/// A directory on the current path.
#[derive(Debug)]
struct Level {
    /// Device and inode.
    id: (u64, u64),
    /// Its subdirectories that are not visited yet.
    below: Vec<CString>,
    /// The position where its list continues; `None` at its end.
    next: Option<u64>,
}

struct Walk<'a, 'b> {
    /// The directory of the last level.
    here: OwnedFd,
    levels: Vec<Level>,
    crew: &'a OwnershipJob<'b>,
    count: &'a dyn Fn(),
}

/// Changes the content of a directory, but not the directory.
pub(super) fn below(directory: OwnedFd, crew: &OwnershipJob<'_>, count: &dyn Fn()) {
    let top = match identity(&directory) {
        Ok(id) => Level { id, below: Vec::new(), next: Some(0) },
        Err(error) => return crew.failed(Path::new("."), &error),
    };
    let mut walk = Walk { here: directory, levels: vec![top], crew, count };
    if let Err(error) = walk.run() {
        crew.failed(Path::new("."), &error);
    }
}

impl Walk<'_, '_> {
    fn run(&mut self) -> io::Result<()> {
        while let Some(level) = self.levels.last_mut() {
            if let Some(name) = level.below.pop() {
                self.enter(&name);
            } else if let Some(position) = level.next.take() {
                self.list(position)?;
            } else if self.levels.len() == 1 {
                break;
            } else {
                self.leave()?;
            }
        }
        Ok(())
    }

    fn enter(&mut self, name: &CStr) {
        let entered = openat2(&self.here, name, LISTED, Mode::empty(), INSIDE);
        let entered = entered.map_err(io::Error::from).and_then(|directory| {
            set(&directory, self.crew.ownership)?;
            (self.count)();
            Ok((identity(&directory)?, directory))
        });
        match entered {
            Ok((id, directory)) => {
                if let Err(directory) = self.crew.offer(directory) {
                    self.here = directory;
                    self.levels.push(Level { id, below: Vec::new(), next: Some(0) });
                }
            }
            Err(error) => self.failed(name, &error),
        }
    }

    fn leave(&mut self) -> io::Result<()> {
        let resolve = INSIDE.difference(rustix::fs::ResolveFlags::BENEATH);
        let parent = openat2(&self.here, c"..", LISTED, Mode::empty(), resolve)?;
        self.levels.pop();
        let above = self.levels.last().map(|level| level.id);
        if above != Some(identity(&parent)?) {
            // It was moved, perhaps out of the volume.
            return Err(Errno::STALE.into());
        }
        self.here = parent;
        Ok(())
    }

    /// Changes files and records subdirectories.
    fn list(&mut self, position: u64) -> io::Result<()> {
        seek(&self.here, SeekFrom::Start(position))?;
        let (mut below, mut next) = (Vec::new(), None);
        let mut buffer = Vec::with_capacity(32 << 10);
        let mut entries = RawDir::new(&self.here, buffer.spare_capacity_mut());
        while let Some(entry) = entries.next() {
            let entry = entry?;
            let name = entry.file_name();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            if self.is_directory(entry.file_type(), name) {
                below.push(name.to_owned());
            } else {
                self.change(name);
            }
            if below.len() >= MOST_NAMES {
                next = Some(entry.next_entry_cookie());
                break;
            }
        }
        if let Some(level) = self.levels.last_mut() {
            (level.below, level.next) = (below, next);
        }
        Ok(())
    }

    fn is_directory(&self, listed: FileType, name: &CStr) -> bool {
        if listed != FileType::Unknown {
            return listed == FileType::Directory;
        }
        // Some file systems do not report the file type.
        let found = statat(&self.here, name, AtFlags::SYMLINK_NOFOLLOW);
        found.is_ok_and(|found| FileType::from_raw_mode(found.st_mode) == FileType::Directory)
    }

    fn change(&self, name: &CStr) {
        let opened = openat2(&self.here, name, NAMED_OR_LINK, Mode::empty(), INSIDE);
        match opened.map_err(Into::into).and_then(|file| set(&file, self.crew.ownership)) {
            Ok(()) => (self.count)(),
            Err(error) => self.failed(name, &error),
        }
    }

    fn failed(&self, name: &CStr, error: &io::Error) {
        // A mount inside belongs to another volume, and a removed file needs no group.
        if !matches!(error.kind(), io::ErrorKind::CrossesDevices | io::ErrorKind::NotFound) {
            self.crew.failed(Path::new(OsStr::from_bytes(name.to_bytes())), error);
        }
    }
}
