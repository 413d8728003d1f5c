//! Removes a directory with all its content, and nothing outside.
//!
//! Every entry is reached by its name in an open directory, never by a path. The kernel refuses names that pass
//! a symbolic link or mount, so neither is entered, even if it was created a moment ago. For any depth of the
//! tree, at most two directories are open.

use std::ffi::{CStr, CString, OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::PathBuf;

use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, RawDir, ResolveFlags, SeekFrom, fstat, openat2, seek, statat,
    unlinkat,
};
use rustix::io::Errno;

/// How many subdirectory names of one directory are kept in memory.
const MOST_NAMES: usize = 1024;

/// How often a directory is listed again because entries appeared meanwhile.
const MOST_LISTS: u32 = 16;

/// How many bytes of a path an error contains: the path of a deep tree may have millions.
const LONGEST_NAMED: usize = 512;

const DIRECTORY: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Neither links nor mounts are entered.
const INSIDE: ResolveFlags = ResolveFlags::NO_XDEV.union(ResolveFlags::NO_SYMLINKS);

/// Removes the directory with this name from an open directory. Stops at the first entry that cannot be
/// removed, and names it; a mount stays with all its content.
pub(crate) fn remove_tree(parent: impl AsFd, name: &OsStr) -> io::Result<()> {
    let name = CString::new(name.as_bytes())?;
    let open = openat2(&parent, &name, DIRECTORY, Mode::empty(), INSIDE | ResolveFlags::BENEATH);
    let here = open.map_err(plain)?;
    let id = id(&here).map_err(plain)?;
    let top = Level { name: name.clone(), id, below: Vec::new(), lists: 0 };
    let mut walk = Walk { here, levels: vec![top] };
    walk.empty()?;
    unlinkat(&parent, &name, AtFlags::REMOVEDIR).map_err(plain)
}

/// A directory that is being emptied.
#[derive(Debug)]
struct Level {
    name: CString,
    /// Device and inode.
    id: (u64, u64),
    /// Its subdirectories that are not removed yet.
    below: Vec<CString>,
    lists: u32,
}

fn id(directory: &OwnedFd) -> Result<(u64, u64), Errno> {
    let found = fstat(directory)?;
    Ok((found.st_dev, found.st_ino))
}

#[derive(Debug)]
struct Walk {
    /// The directory of the last level.
    here: OwnedFd,
    /// The levels from the top to the open directory; never empty.
    levels: Vec<Level>,
}

impl Walk {
    /// Removes everything below the top.
    fn empty(&mut self) -> io::Result<()> {
        while let Some(level) = self.levels.last_mut() {
            if let Some(name) = level.below.pop() {
                self.enter(name)?;
                continue;
            }
            let is_empty = self.list()?;
            if is_empty && self.levels.len() == 1 {
                break;
            }
            if is_empty {
                self.leave()?;
            }
        }
        Ok(())
    }

    fn enter(&mut self, name: CString) -> io::Result<()> {
        let resolve = INSIDE | ResolveFlags::BENEATH;
        let opened = openat2(&self.here, &name, DIRECTORY, Mode::empty(), resolve)
            .and_then(|directory| Ok((id(&directory)?, directory)));
        let (id, directory) = match opened {
            // It was removed meanwhile.
            Err(Errno::NOENT) => return Ok(()),
            opened => opened.map_err(|error| self.naming(Some(&name), error))?,
        };
        self.here = directory;
        self.levels.push(Level { name, id, below: Vec::new(), lists: 0 });
        Ok(())
    }

    /// Returns to the parent directory and removes this one from it.
    fn leave(&mut self) -> io::Result<()> {
        let parent = openat2(&self.here, c"..", DIRECTORY, Mode::empty(), INSIDE)
            .and_then(|parent| Ok((id(&parent)?, parent)));
        let (found, parent) = parent.map_err(|error| self.naming(None, error))?;
        let above = self.levels.iter().rev().nth(1).map(|level| level.id);
        if above != Some(found) {
            // It was moved, perhaps out of the tree.
            return Err(self.naming(None, Errno::STALE));
        }
        let removed = self
            .levels
            .last()
            .map_or(Ok(()), |level| unlinkat(&parent, &level.name, AtFlags::REMOVEDIR));
        match removed {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(error) => return Err(self.naming(None, error)),
        }
        self.levels.pop();
        self.here = parent;
        Ok(())
    }

    /// Removes files from the open directory and records its subdirectories. Returns whether it was empty.
    fn list(&mut self) -> io::Result<bool> {
        let (mut below, mut found) = (Vec::new(), 0_usize);
        let mut failed = None;
        let listed = seek(&self.here, SeekFrom::Start(0)).map(drop).and_then(|()| {
            let mut buffer = Vec::with_capacity(8192);
            let mut entries = RawDir::new(&self.here, buffer.spare_capacity_mut());
            while let Some(entry) = entries.next() {
                let entry = entry?;
                let name = entry.file_name();
                if matches!(name.to_bytes(), b"." | b"..") {
                    continue;
                }
                found += 1;
                let removed = match self.kind(entry.file_type(), name) {
                    Ok(FileType::Directory) if below.len() < MOST_NAMES => {
                        below.push(name.to_owned());
                        Ok(())
                    }
                    // The next list handles it.
                    Ok(FileType::Directory) => Ok(()),
                    Ok(_) => unlinkat(&self.here, name, AtFlags::empty()),
                    Err(error) => Err(error),
                };
                match removed {
                    Ok(()) | Err(Errno::NOENT) => {}
                    Err(error) => {
                        failed = Some(name.to_owned());
                        return Err(error);
                    }
                }
            }
            Ok(())
        });
        listed.map_err(|error| self.naming(failed.as_deref(), error))?;
        self.note(below, found)
    }

    fn note(&mut self, below: Vec<CString>, found: usize) -> io::Result<bool> {
        let is_partial = below.len() >= MOST_NAMES;
        let Some(level) = self.levels.last_mut() else { return Ok(true) };
        level.below = below;
        // A large directory is listed often, but one that fills as fast as it is emptied must have a limit.
        level.lists += u32::from(!is_partial);
        if found > 0 && level.lists > MOST_LISTS {
            return Err(self.naming(None, Errno::NOTEMPTY));
        }
        Ok(found == 0)
    }

    fn kind(&self, listed: FileType, name: &CStr) -> Result<FileType, Errno> {
        if listed != FileType::Unknown {
            return Ok(listed);
        }
        // Some file systems do not report the file type.
        let found = statat(&self.here, name, AtFlags::SYMLINK_NOFOLLOW)?;
        Ok(FileType::from_raw_mode(found.st_mode))
    }

    /// An error with the path of its entry, relative to the top.
    fn naming(&self, entry: Option<&CStr>, error: Errno) -> io::Error {
        let names = self.levels.iter().skip(1).map(|level| level.name.as_c_str()).chain(entry);
        let mut path = PathBuf::new();
        for name in names {
            if path.as_os_str().len() > LONGEST_NAMED {
                path.push("...");
                break;
            }
            path.push(OsString::from_vec(name.to_bytes().to_vec()));
        }
        let error = plain(error);
        if path.as_os_str().is_empty() {
            return error;
        }
        io::Error::new(error.kind(), format!("{}: {error}", path.display()))
    }
}

/// A readable error for the kernel's refusal of a mount.
fn plain(error: Errno) -> io::Error {
    let busy = |problem: &str| io::Error::new(io::ErrorKind::ResourceBusy, problem);
    match error {
        Errno::XDEV => busy("something is mounted there"),
        Errno::BUSY => busy("it is mounted or in use"),
        error => error.into(),
    }
}

#[cfg(test)]
#[path = "tree_tests.rs"]
mod tests;
