//! The plain files of a directory and of its subdirectories.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use model::ports::disk::{FileUsage, ListedUsage};
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, ResolveFlags, openat2, statat};
use rustix::io::Errno;

use super::taken;
use crate::beneath;

/// More subdirectories than a pod has containers.
const MOST_DIRECTORIES: usize = 10_000;

/// The name of the directory may come from a pod; its parent does not.
pub(super) fn usage(directory: &Path) -> io::Result<ListedUsage> {
    let (Some(root), Some(name)) = (directory.parent(), directory.file_name()) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    let directory = beneath::open_directory(root, Path::new(name))?;
    let (files, names) = of_directory(&directory)?;
    let mut found = ListedUsage { files, ..ListedUsage::default() };
    for name in names {
        match inside(&directory, &name).and_then(|opened| of_directory(&opened)) {
            Ok((files, _)) => drop(found.directories.insert(name, files)),
            // It was removed meanwhile.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(found)
}

fn inside(directory: &OwnedFd, name: &str) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
    Ok(openat2(directory, name, flags, Mode::empty(), resolve)?)
}

/// The files directly in a directory, and the names of its subdirectories.
fn of_directory(directory: &OwnedFd) -> io::Result<(FileUsage, Vec<String>)> {
    let (mut files, mut names) = (FileUsage::default(), Vec::new());
    for entry in Dir::read_from(directory)? {
        let entry = entry?;
        if matches!(entry.file_name().to_bytes(), b"." | b"..") {
            continue;
        }
        let found = match statat(directory, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) => continue,
            found => found?,
        };
        match FileType::from_raw_mode(found.st_mode) {
            FileType::RegularFile => files = files.and(taken(&found)),
            FileType::Directory if names.len() < MOST_DIRECTORIES => {
                names.extend(entry.file_name().to_str().map(str::to_owned));
            }
            _ => {}
        }
    }
    Ok((files, names))
}
