//! A walk through a directory that counts what its content takes.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use model::ports::disk::{FileUsage, WalkBudget};
use model::volume::Place;
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, ResolveFlags, fstat, openat2, statat};
use rustix::io::Errno;

use super::taken;
use crate::beneath;

/// The bytes of a path that are opened at once; the kernel takes up to 4095.
const STEP: usize = 3000;

/// The longest pause.
const LONGEST_PAUSE: Duration = Duration::from_millis(200);

/// The bytes that a kept inode number takes.
const INODE: usize = 32;

/// Counts a directory with all its content. A walk that exceeds its time, or keeps more than `most_kept` bytes, returns
/// what it has counted: a pod that makes walks slow or large must not look empty.
pub(super) fn usage(place: &Place, budget: WalkBudget, most_kept: usize) -> io::Result<FileUsage> {
    let top = beneath::open_directory(&place.root, &place.below)?;
    let found = fstat(&top)?;
    let started = Instant::now();
    let mut walk = Walk {
        top,
        device: found.st_dev,
        below: PathBuf::new(),
        unlisted: Vec::new(),
        kept: 0,
        most_kept,
        linked: BTreeSet::new(),
        usage: taken(&found),
        pace: Pace { budget, started, turn: started, entries: 0 },
    };
    walk.run()?;
    Ok(walk.usage)
}

struct Walk {
    top: OwnedFd,
    device: u64,
    /// The path of the current directory below the top.
    below: PathBuf,
    /// For the top and each directory on that path: the names of its subdirectories that were not visited yet.
    unlisted: Vec<Vec<OsString>>,
    /// About how many bytes the names and inode numbers take, and how many they may take.
    kept: usize,
    most_kept: usize,
    /// Counted files with several links.
    linked: BTreeSet<u64>,
    usage: FileUsage,
    pace: Pace,
}

impl Walk {
    fn run(&mut self) -> io::Result<()> {
        let mut goes_on = self.visit()?;
        while goes_on && let Some(names) = self.unlisted.last_mut() {
            match names.pop() {
                Some(name) => {
                    self.below.push(name);
                    goes_on = self.visit()?;
                }
                None => self.leave(),
            }
        }
        Ok(())
    }

    /// Counts the entries of the current directory. Returns false at the end of the walk.
    fn visit(&mut self) -> io::Result<bool> {
        self.unlisted.push(Vec::new());
        match self.open(&self.below).and_then(|directory| self.list(&directory)) {
            // Content changes while it is counted, and a mount is another file system.
            Err(error) if is_skipped(&error) && !self.below.as_os_str().is_empty() => Ok(true),
            result => result,
        }
    }

    /// Goes back to the parent of the current directory.
    fn leave(&mut self) {
        self.unlisted.pop();
        self.kept -= self.below.file_name().map_or(0, taken_by_name);
        self.below.pop();
    }

    /// Opens a directory, in several steps if its path is too long for one.
    fn open(&self, below: &Path) -> io::Result<OwnedFd> {
        let mut directory = self.top.try_clone()?;
        let mut step = PathBuf::new();
        for name in below.components() {
            step.push(name);
            if step.as_os_str().len() > STEP {
                directory = inside(&directory, &std::mem::take(&mut step))?;
            }
        }
        if step.as_os_str().is_empty() && !below.as_os_str().is_empty() {
            return Ok(directory);
        }
        inside(&directory, if step.as_os_str().is_empty() { Path::new(".") } else { &step })
    }

    /// Counts the entries of the opened current directory. Returns false at the end of the walk.
    fn list(&mut self, directory: &OwnedFd) -> io::Result<bool> {
        for entry in Dir::read_from(directory)? {
            let entry = entry?;
            let name = entry.file_name();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            if self.kept > self.most_kept || !self.pace.next() {
                return Ok(false);
            }
            let found = match statat(directory.as_fd(), name, AtFlags::SYMLINK_NOFOLLOW) {
                Err(Errno::NOENT) => continue,
                found => found?,
            };
            if found.st_dev != self.device {
                continue;
            }
            let is_directory = FileType::from_raw_mode(found.st_mode) == FileType::Directory;
            if is_directory {
                self.keep(OsStr::from_bytes(name.to_bytes()));
            } else if found.st_nlink > 1 {
                if !self.linked.insert(found.st_ino) {
                    continue;
                }
                self.kept += INODE;
            }
            self.usage = self.usage.and(taken(&found));
        }
        Ok(true)
    }

    /// Keeps the name of a subdirectory of the current directory until its content is counted.
    fn keep(&mut self, name: &OsStr) {
        self.kept += taken_by_name(name);
        if let Some(names) = self.unlisted.last_mut() {
            names.push(name.to_owned());
        }
    }
}

/// The bytes that the name of a directory takes: alone, in the path, and with the list of its subdirectories.
fn taken_by_name(name: &OsStr) -> usize {
    2 * (name.len() + size_of::<OsString>())
}

fn inside(directory: &OwnedFd, below: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
    Ok(openat2(directory, below, flags, Mode::empty(), resolve)?)
}

fn is_skipped(error: &io::Error) -> bool {
    let skipped = [Errno::NOENT, Errno::NOTDIR, Errno::LOOP, Errno::XDEV];
    skipped.iter().any(|errno| error.raw_os_error() == Some(errno.raw_os_error()))
}

/// Spreads the work of a walk over time.
struct Pace {
    budget: WalkBudget,
    started: Instant,
    /// When the current turn began, and its entries so far.
    turn: Instant,
    entries: u32,
}

impl Pace {
    /// Counts an entry, and pauses if it is the last of its turn. Returns false once the time is over.
    fn next(&mut self) -> bool {
        self.entries += 1;
        if self.entries < self.budget.entries {
            return true;
        }
        std::thread::sleep(self.turn.elapsed().min(LONGEST_PAUSE));
        (self.entries, self.turn) = (0, Instant::now());
        self.started.elapsed() < self.budget.time
    }
}
