//! The directory in which new content is staged.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use model::volume::PayloadFile;
use rustix::fs::{FileType, Mode, OFlags, RawDir, Uid, fchmod, fchown, mkdirat, openat2};
use rustix::io::Errno;

use super::Files;
use crate::volumes::place::{INSIDE, LISTED, child, naming};

const DIRECTORY_MODE: u32 = 0o755;

/// How many names are tried.
const MOST_TRIES: u32 = 8;

/// Creates a directory with a timestamp as its name.
pub(super) fn make_directory(volume: &OwnedFd) -> io::Result<OsString> {
    let time = Timestamp::now().strftime("..%Y_%m_%d_%H_%M_%S").to_string();
    for _ in 0..MOST_TRIES {
        let random = RandomState::new().build_hasher().finish() % 10_000_000_000;
        let name = OsString::from(format!("{time}.{random}"));
        match mkdirat(volume, &name, Mode::from_raw_mode(0o700)) {
            Ok(()) => return Ok(name),
            Err(Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(Errno::EXIST.into())
}

/// Writes files into the directory.
pub(super) fn write(volume: &OwnedFd, name: &OsStr, files: &Files<'_>) -> io::Result<()> {
    let directory = openat2(volume, name, LISTED, Mode::empty(), INSIDE)?;
    fchmod(&directory, Mode::from_raw_mode(DIRECTORY_MODE))?;
    for (path, file) in files {
        write_file(&directory, path, file).map_err(|error| naming(path, error))?;
    }
    Ok(())
}

fn write_file(directory: &OwnedFd, path: &Path, file: &PayloadFile) -> io::Result<()> {
    let mut parent: Option<OwnedFd> = None;
    for name in path.parent().into_iter().flat_map(Path::iter) {
        let above = parent.as_ref().map_or(directory.as_fd(), OwnedFd::as_fd);
        parent = Some(child(above, name, DIRECTORY_MODE)?);
    }
    let parent = parent.as_ref().map_or(directory.as_fd(), OwnedFd::as_fd);
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut written = File::from(openat2(parent, name, flags, Mode::from_raw_mode(0o600), INSIDE)?);
    written.write_all(&file.content)?;
    if let Some(owner) = file.owner {
        fchown(&written, Some(Uid::from_raw(owner)), None)?;
    }
    // After the change of the owner, which clears bits; independent of the umask.
    fchmod(&written, Mode::from_raw_mode(file.mode))?;
    Ok(())
}

/// Whether a directory of a volume has exactly these files with this content.
pub(super) fn has_content(volume: &OwnedFd, name: &OsStr, files: &Files<'_>) -> io::Result<bool> {
    let Ok(directory) = openat2(volume, name, LISTED, Mode::empty(), INSIDE) else {
        return Ok(false);
    };
    for (path, file) in files {
        if !is_same(&directory, path, &file.content) {
            return Ok(false);
        }
    }
    has_only(directory, files)
}

fn is_same(directory: &OwnedFd, path: &Path, content: &[u8]) -> bool {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let Ok(file) = openat2(directory, path, flags, Mode::empty(), INSIDE).map(File::from) else {
        return false;
    };
    let length = content.len() as u64;
    if !file.metadata().is_ok_and(|found| found.is_file() && found.len() == length) {
        return false;
    }
    let mut found = Vec::with_capacity(content.len());
    file.take(length).read_to_end(&mut found).is_ok() && found == content
}

/// Whether a directory has only these files and the directories on their paths.
fn has_only(directory: OwnedFd, files: &Files<'_>) -> io::Result<bool> {
    let mut ahead = vec![(PathBuf::new(), directory)];
    while let Some((path, directory)) = ahead.pop() {
        let mut buffer = Vec::with_capacity(8192);
        let mut entries = RawDir::new(&directory, buffer.spare_capacity_mut());
        while let Some(entry) = entries.next() {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if name == b"." || name == b".." {
                continue;
            }
            let path = path.join(OsStr::from_bytes(name));
            if files.contains_key(&path) {
                continue;
            }
            let is_directory = entry.file_type() != FileType::RegularFile
                && files.keys().any(|file| file.starts_with(&path));
            if !is_directory {
                return Ok(false);
            }
            let below = openat2(&directory, entry.file_name(), LISTED, Mode::empty(), INSIDE)?;
            ahead.push((path, below));
        }
    }
    Ok(true)
}
