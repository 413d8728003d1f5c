//! Subpaths of volumes, which containers may change at any moment.
//!
//! Links are resolved first; the result must be in the volume. It is then opened below the volume's root
//! without following links, and mounted through its descriptor: a link created in between is an error.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Component, Path, PathBuf};

use model::ports::volumes::{Subpath, SubpathError};
use model::volume::Place;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, fstat, openat2, statat, unlinkat};
use rustix::io::Errno;
use rustix::mount::UnmountFlags;

use super::bind::{Bound, bind_opened, is_directory};
use super::place::{self, BENEATH, NAMED, child, naming, refused};
use super::{listing, unmount};
use crate::inspect;

/// Mounts a subpath of a volume at a place.
pub(super) fn bind(subpath: &Subpath) -> Result<(), SubpathError> {
    let path = &subpath.path;
    let prepare = |source| SubpathError::Prepare { path: path.clone(), source };
    let create = |source| SubpathError::Create { path: path.clone(), source };
    let volume = Volume::open(&subpath.volume).map_err(prepare)?;
    let resolved = volume.resolve(path).map_err(prepare)?;
    if !resolved.missing.is_empty() {
        volume.make(&resolved).map_err(create)?;
    }
    let source = volume.open_at(&resolved.whole(), NAMED).map_err(prepare)?;
    mount(&source, &subpath.target).map_err(prepare)
}

fn mount(source: &OwnedFd, target: &Place) -> io::Result<()> {
    if bind_over(source, target)? != Bound::Other {
        return Ok(());
    }
    // The path is another file or directory now.
    unmount::end(target, UnmountFlags::empty())?;
    match bind_over(source, target)? {
        Bound::Other => Err(super::memory_mount::other_mount()),
        Bound::New | Bound::Same => Ok(()),
    }
}

/// Mounts at a place that may have been created for a file and must now be a directory, or the reverse.
fn bind_over(source: &OwnedFd, target: &Place) -> io::Result<Bound> {
    let found = match place::open_place(target, NAMED) {
        Ok(found) => Some(found),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(error),
    };
    if let Some(found) = found
        && is_directory(&found)? != is_directory(source)?
    {
        drop(found);
        unmount::end(target, UnmountFlags::empty())?;
        let (parent, name) = place::open_parent(target)?;
        remove_empty(&parent, name.as_ref())?;
    }
    bind_opened(source, target)
}

/// The content of a file in a volume.
pub(super) fn read(volume: &Path, path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let volume = Volume::open(volume)?;
    let resolved = volume.resolve(path)?;
    if !resolved.missing.is_empty() {
        return Err(io::ErrorKind::NotFound.into());
    }
    // Opening a pipe would wait for its writer.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = File::from(volume.open_at(&resolved.existing, flags)?);
    if !file.metadata()?.is_file() {
        return Err(refused("it is not a file"));
    }
    inspect::read(&file, limit)
}

/// A volume with subpaths.
#[derive(Debug)]
struct Volume {
    root: OwnedFd,
    /// Its path without links.
    path: PathBuf,
    mode: u32,
}

/// A path inside a volume without links.
#[derive(Debug)]
struct Resolved {
    existing: PathBuf,
    missing: Vec<OsString>,
}

impl Resolved {
    fn whole(&self) -> PathBuf {
        self.existing.iter().chain(self.missing.iter().map(OsString::as_os_str)).collect()
    }
}

impl Volume {
    fn open(path: &Path) -> io::Result<Self> {
        let path = path.canonicalize()?;
        let root = place::open_root(&path)?;
        let mode = fstat(&root)?.st_mode & 0o7777;
        Ok(Self { root, path, mode })
    }

    /// Resolves the links of a path as far as it exists.
    fn resolve(&self, path: &Path) -> io::Result<Resolved> {
        if path.components().any(|part| !matches!(part, Component::Normal(_) | Component::CurDir)) {
            return Err(refused("it must be relative and must not contain '..'"));
        }
        let mut missing = Vec::new();
        for existing in path.ancestors() {
            match self.path.join(existing).canonicalize() {
                Ok(found) => {
                    let existing = found.strip_prefix(&self.path);
                    let existing = existing.map_err(|_| refused("it leads out of the volume"))?;
                    missing.reverse();
                    return Ok(Resolved { existing: existing.to_owned(), missing });
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    missing.extend(existing.file_name().map(ToOwned::to_owned));
                }
                Err(error) => return Err(error),
            }
        }
        Err(io::ErrorKind::NotFound.into())
    }

    fn open_at(&self, path: &Path, flags: OFlags) -> io::Result<OwnedFd> {
        let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        Ok(openat2(&self.root, path, flags, Mode::empty(), BENEATH)?)
    }

    /// Creates missing nested directories, with the mode of the root.
    fn make(&self, resolved: &Resolved) -> io::Result<()> {
        let mut here = self.open_at(&resolved.existing, NAMED | OFlags::DIRECTORY)?;
        for name in &resolved.missing {
            here = child(&here, name, self.mode)?;
        }
        Ok(())
    }
}

/// Unmounts the subpaths of a volume and removes their mount points.
pub(super) fn clean(subpaths: &Place, volume: &str) -> io::Result<()> {
    let place = subpaths.join(volume);
    unmount::end(&place, UnmountFlags::empty())?;
    for container in listing::entries(&place)? {
        let container = place.join(&container);
        for index in listing::entries(&container)? {
            remove_at(&container.join(&index))?;
        }
        remove_at(&container)?;
    }
    remove_at(&place)?;
    match remove_at(subpaths) {
        // It has mount points of other volumes.
        Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => Ok(()),
        removed => removed,
    }
}

/// Removes an empty file or directory, if it exists.
fn remove_at(place: &Place) -> io::Result<()> {
    let removed =
        place::open_parent(place).and_then(|(parent, name)| remove_empty(&parent, name.as_ref()));
    match removed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed.map_err(|error| naming(&place.below, error)),
    }
}

/// Removes an empty file or an empty directory, and nothing else.
fn remove_empty(parent: &OwnedFd, name: &Path) -> io::Result<()> {
    let found = match statat(parent, name, AtFlags::SYMLINK_NOFOLLOW) {
        Err(Errno::NOENT) => return Ok(()),
        found => found?,
    };
    match FileType::from_raw_mode(found.st_mode) {
        FileType::Directory => Ok(unlinkat(parent, name, AtFlags::REMOVEDIR)?),
        FileType::RegularFile if found.st_size == 0 => {
            Ok(unlinkat(parent, name, AtFlags::empty())?)
        }
        _ => Err(refused("it is neither an empty file nor a directory")),
    }
}
