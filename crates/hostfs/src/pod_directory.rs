//! Removes the directory of a pod, but nothing that does not belong to the agent.
//!
//! The directory is checked first: if it has an unknown entry, or a volume with files in it, nothing is
//! removed, so that the owner finds it unchanged.

use std::ffi::{CString, OsStr};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use model::pod_directory::PodEntry;
use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, RawDir, ResolveFlags, SeekFrom, openat2, seek, statat,
    unlinkat,
};

use crate::tree::remove_tree;

const LISTED: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

const INSIDE: ResolveFlags =
    ResolveFlags::BENEATH.union(ResolveFlags::NO_SYMLINKS).union(ResolveFlags::NO_XDEV);

/// Removes the directory with this name from the pods directory.
pub(crate) fn remove(pods: &OwnedFd, name: &OsStr) -> io::Result<()> {
    let pod = openat2(pods, name, LISTED, Mode::empty(), INSIDE)?;
    visit(&pod, Path::new(""), Pass::Check)?;
    visit(&pod, Path::new(""), Pass::Remove)?;
    Ok(unlinkat(pods, name, AtFlags::REMOVEDIR)?)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pass {
    Check,
    Remove,
}

fn visit(directory: &OwnedFd, path: &Path, pass: Pass) -> io::Result<()> {
    for name in names(directory)? {
        let path = path.join(OsStr::from_bytes(name.as_bytes()));
        let named =
            |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
        let found = statat(directory, &name, AtFlags::SYMLINK_NOFOLLOW)?;
        let kind = FileType::from_raw_mode(found.st_mode);
        let is_directory = kind == FileType::Directory;
        let entry = PodEntry::at(&path);
        match entry {
            PodEntry::Metadata => {}
            PodEntry::Layout if is_directory => {
                visit(&open(directory, &name).map_err(named)?, &path, pass)?;
            }
            PodEntry::Empty if is_directory => {
                if !names(&open(directory, &name).map_err(named)?)?.is_empty() {
                    return Err(named(foreign("it is not empty")));
                }
            }
            PodEntry::Empty if kind == FileType::RegularFile && found.st_size == 0 => {}
            PodEntry::Link if kind == FileType::Symlink => {}
            _ => return Err(named(foreign("it is not the agent's"))),
        }
        if pass == Pass::Check {
            continue;
        }
        let removed = match entry {
            PodEntry::Metadata if is_directory => {
                remove_tree(directory, OsStr::from_bytes(name.as_bytes()))
            }
            _ if is_directory => unlink(directory, &name, AtFlags::REMOVEDIR),
            _ => unlink(directory, &name, AtFlags::empty()),
        };
        removed.map_err(named)?;
    }
    Ok(())
}

fn foreign(problem: &str) -> io::Error {
    io::Error::new(io::ErrorKind::DirectoryNotEmpty, problem)
}

fn open(directory: &OwnedFd, name: &CString) -> io::Result<OwnedFd> {
    Ok(openat2(directory, name, LISTED, Mode::empty(), INSIDE)?)
}

fn unlink(directory: &OwnedFd, name: &CString, flags: AtFlags) -> io::Result<()> {
    Ok(unlinkat(directory, name, flags)?)
}

fn names(directory: &OwnedFd) -> io::Result<Vec<CString>> {
    seek(directory, SeekFrom::Start(0))?;
    let mut buffer = Vec::with_capacity(8192);
    let mut entries = RawDir::new(directory, buffer.spare_capacity_mut());
    let mut names = Vec::<CString>::new();
    while let Some(entry) = entries.next() {
        let entry = entry?;
        if !matches!(entry.file_name().to_bytes(), b"." | b"..") {
            names.push(entry.file_name().to_owned());
        }
    }
    names.sort();
    Ok(names)
}
