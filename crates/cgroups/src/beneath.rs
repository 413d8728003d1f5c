//! Access to directories and control files below the root of a hierarchy, safe for any names.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{Dir, FileType, Mode, OFlags, ResolveFlags, open, openat2};

/// The largest control file.
const LONGEST_FILE: u64 = 4 << 20;

const DIRECTORY: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// Links are followed only on the way to the root: hierarchies may be mounted anywhere.
fn resolve() -> ResolveFlags {
    ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS
}

/// Opens a directory below a root.
pub(crate) fn directory(root: &Path, names: &[String]) -> io::Result<OwnedFd> {
    let root = open(root, DIRECTORY, Mode::empty())?;
    if names.is_empty() {
        return Ok(root);
    }
    Ok(openat2(&root, names.join("/"), DIRECTORY, Mode::empty(), resolve())?)
}

/// Opens a subdirectory.
pub(crate) fn child(parent: &OwnedFd, name: &str) -> io::Result<OwnedFd> {
    Ok(openat2(parent, name, DIRECTORY, Mode::empty(), resolve())?)
}

/// The content of a control file.
pub(crate) fn read(directory: &OwnedFd, file: &str) -> io::Result<String> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let file = File::from(openat2(directory, file, flags, Mode::empty(), resolve())?);
    let mut text = String::new();
    file.take(LONGEST_FILE).read_to_string(&mut text)?;
    Ok(text)
}

/// Writes to an existing control file. The kernel accepts a value completely or not at all.
pub(crate) fn write(directory: &OwnedFd, file: &str, content: &str) -> io::Result<()> {
    let flags = OFlags::WRONLY | OFlags::TRUNC | OFlags::CLOEXEC;
    let file = openat2(directory, file, flags, Mode::empty(), resolve())?;
    rustix::io::retry_on_intr(|| rustix::io::write(&file, content.as_bytes()))?;
    Ok(())
}

/// The names of subdirectories.
pub(crate) fn directories(directory: &OwnedFd) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in Dir::read_from(directory)? {
        let entry = entry?;
        // The agent's cgroups have UTF-8 names.
        let Ok(name) = entry.file_name().to_str() else { continue };
        if entry.file_type() == FileType::Directory && !matches!(name, "." | "..") {
            names.push(name.to_owned());
        }
    }
    Ok(names)
}
