//! Replaces the files of a directory atomically.
//!
//! The files are in a directory with a timestamp as its name, to which the link `..data` points. Each name that
//! readers use is a link through `..data`, so one rename of that link replaces all files. Everything is reached
//! by its name in the open directory of the volume: links that a container may have created there are not
//! followed.

mod staged;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{CString, OsStr, OsString};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Component, Path, PathBuf};

use model::ports::volumes::Written;
use model::volume::{Ownership, Payload, PayloadFile, Place};
use rustix::fs::{
    AtFlags, FileType, RawDir, SeekFrom, Uid, chownat, readlinkat, renameat, seek, statat,
    symlinkat, unlinkat,
};
use rustix::io::Errno;
use tracing::warn;

use super::ownership;
use super::place::{self, LISTED, naming, refused};
use crate::tree::remove_tree;

const DATA: &str = "..data";
const NEW_DATA: &str = "..data_tmp";
/// The old link, while links for new files are created: restoring it needs no disk space.
const OLD_DATA: &str = "..data_old";

const LONGEST_PATH: usize = 4096;
const LONGEST_NAME: usize = 255;

/// Files by their cleaned paths.
type Files<'a> = BTreeMap<PathBuf, &'a PayloadFile>;

/// Makes these files the content of a volume.
pub(super) fn write(
    place: &Place,
    payload: &Payload,
    ownership: Option<Ownership>,
) -> io::Result<Written> {
    let files = cleaned(payload)?;
    let volume = Volume { directory: place::open_place(place, LISTED)?, place };
    let names = top_names(&files);
    let old = volume.current()?;
    volume.remove_leftovers(old.as_deref())?;
    volume.check_names(&names)?;
    if let Some(old) = &old
        && staged::has_content(&volume.directory, old, &files)?
    {
        volume.make_links(&names, &mut Vec::new())?;
        volume.remove_stale_links(&names);
        return Ok(Written::Same);
    }
    let new = staged::make_directory(&volume.directory)?;
    let done = staged::write(&volume.directory, &new, &files).and_then(|()| {
        if let Some(ownership) = ownership {
            ownership::apply(place::open_place(place, LISTED)?, ownership, &|_| {})?;
        }
        volume.exchange(old.as_deref(), &new, &names)
    });
    if let Err(error) = done {
        volume.remove_leftovers(old.as_deref())?;
        return Err(error);
    }
    volume.remove_stale_links(&names);
    volume.remove_leftovers(Some(&new))?;
    Ok(Written::New)
}

/// A volume whose content is being replaced.
#[derive(Debug)]
struct Volume<'a> {
    directory: OwnedFd,
    place: &'a Place,
}

/// The names that readers see, each with the owner of its link.
type Names<'a> = BTreeMap<&'a OsStr, Option<u32>>;

impl Volume<'_> {
    /// The name of the directory with the current content.
    fn current(&self) -> io::Result<Option<OsString>> {
        match readlinkat(&self.directory, DATA, Vec::new()) {
            Ok(target) => {
                let target = OsString::from_vec(target.into_bytes());
                Ok(Some(target).filter(|target| is_timestamp(target)))
            }
            Err(Errno::NOENT) => Ok(None),
            Err(Errno::INVAL) => Err(naming(Path::new(DATA), refused("it is not a link"))),
            Err(error) => Err(error.into()),
        }
    }

    /// Refuses names that exist and are not links: they may be mount points, or files of the
    /// container.
    fn check_names(&self, names: &Names<'_>) -> io::Result<()> {
        for name in names.keys() {
            match self.link_target(name) {
                Err(Errno::INVAL) => {
                    let error = io::Error::new(io::ErrorKind::AlreadyExists, "it is not a link");
                    return Err(naming(Path::new(name), error));
                }
                Ok(_) | Err(Errno::NOENT) => {}
                Err(error) => return Err(naming(Path::new(name), error)),
            }
        }
        Ok(())
    }

    fn link_target(&self, name: &OsStr) -> Result<OsString, Errno> {
        let target = readlinkat(&self.directory, name, Vec::new())?;
        Ok(OsString::from_vec(target.into_bytes()))
    }

    fn has_link(&self, name: &OsStr) -> bool {
        self.link_target(name).is_ok_and(|target| target == target_of(name))
    }

    /// Replaces the content. On an error the old content is restored.
    fn exchange(&self, old: Option<&OsStr>, new: &OsStr, names: &Names<'_>) -> io::Result<()> {
        let directory = &self.directory;
        symlinkat(new, directory, NEW_DATA)?;
        let is_complete = names.keys().all(|name| self.has_link(name));
        if let Some(old) = old.filter(|_| !is_complete) {
            symlinkat(old, directory, OLD_DATA)?;
        }
        renameat(directory, NEW_DATA, directory, DATA)?;
        let mut made = Vec::new();
        let Err(error) = self.make_links(names, &mut made) else { return Ok(()) };
        if old.is_some() {
            renameat(directory, OLD_DATA, directory, DATA)?;
        } else {
            unlinkat(directory, DATA, AtFlags::empty())?;
        }
        for name in made {
            unlinkat(directory, name, AtFlags::empty())?;
        }
        Err(error)
    }

    /// Creates links that are missing or have another target, and records them.
    fn make_links<'a>(&self, names: &Names<'a>, made: &mut Vec<&'a OsStr>) -> io::Result<()> {
        for (name, owner) in names {
            if self.has_link(name) {
                continue;
            }
            match unlinkat(&self.directory, *name, AtFlags::empty()) {
                Ok(()) | Err(Errno::NOENT) => {}
                Err(error) => return Err(naming(Path::new(name), error)),
            }
            symlinkat(target_of(name), &self.directory, *name)
                .map_err(|error| naming(Path::new(name), error))?;
            made.push(name);
            if let Some(owner) = owner {
                let (owner, flags) = (Uid::from_raw(*owner), AtFlags::SYMLINK_NOFOLLOW);
                chownat(&self.directory, *name, Some(owner), None, flags)?;
            }
        }
        Ok(())
    }

    /// Removes links of removed files. A link that cannot be removed is dangling.
    fn remove_stale_links(&self, names: &Names<'_>) {
        let listed = self.names().unwrap_or_default();
        for name in listed.iter().filter(|name| !names.contains_key(name.as_os_str())) {
            if self.has_link(name) {
                self.log_failure(name, unlinkat(&self.directory, name, AtFlags::empty()));
            }
        }
    }

    /// Removes leftovers of crashes and errors: all timestamped directories but one, and temporary links.
    fn remove_leftovers(&self, current: Option<&OsStr>) -> io::Result<()> {
        for name in self.names()? {
            let is_temporary = name == NEW_DATA || name == OLD_DATA;
            let is_old = is_timestamp(&name) && Some(&*name) != current;
            if is_temporary || is_old {
                self.log_failure(&name, self.remove(&name));
            }
        }
        Ok(())
    }

    fn remove(&self, name: &OsStr) -> io::Result<()> {
        let found = statat(&self.directory, name, AtFlags::SYMLINK_NOFOLLOW)?;
        if FileType::from_raw_mode(found.st_mode) == FileType::Directory {
            return remove_tree(&self.directory, name);
        }
        Ok(unlinkat(&self.directory, name, AtFlags::empty())?)
    }

    /// A later write removes files that cannot be removed now.
    fn log_failure(&self, name: &OsStr, removed: Result<(), impl Into<io::Error>>) {
        if let Err(error) = removed.map_err(Into::into) {
            let name = Path::new(name).display();
            warn!(volume = %self.place, %name, %error, "Cannot remove old content of a volume");
        }
    }

    fn names(&self) -> io::Result<Vec<OsString>> {
        seek(&self.directory, SeekFrom::Start(0))?;
        let mut buffer = Vec::with_capacity(8192);
        let mut entries = RawDir::new(&self.directory, buffer.spare_capacity_mut());
        let mut names = Vec::new();
        while let Some(entry) = entries.next() {
            let name = CString::from(entry?.file_name()).into_bytes();
            if name != b"." && name != b".." {
                names.push(OsString::from_vec(name));
            }
        }
        Ok(names)
    }
}

/// The target of the link of a name.
fn target_of(name: &OsStr) -> OsString {
    Path::new(DATA).join(name).into_os_string()
}

/// The first components of the paths.
fn top_names<'a>(files: &'a Files<'_>) -> Names<'a> {
    let mut names = Names::new();
    for (path, file) in files {
        if let Some(Component::Normal(name)) = path.components().next() {
            names.insert(name, file.owner);
        }
    }
    names
}

/// `..2026_01_31_23_59_59.123`.
fn is_timestamp(name: &OsStr) -> bool {
    let Some((time, random)) =
        name.to_str().and_then(|name| name.strip_prefix("..")?.split_once('.'))
    else {
        return false;
    };
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    time.split('_').count() == 6 && time.split('_').all(is_number) && is_number(random)
}

/// The cleaned paths of files; a path that leaves the volume is an error.
fn cleaned(payload: &Payload) -> io::Result<Files<'_>> {
    let mut files = Files::new();
    for (path, file) in &payload.files {
        files.insert(clean(path).map_err(|error| naming(Path::new(path), error))?, file);
    }
    let names: BTreeSet<&Path> = files.keys().map(PathBuf::as_path).collect();
    let is_directory = |path: &&&Path| path.ancestors().skip(1).any(|above| names.contains(above));
    match names.iter().find(is_directory) {
        Some(path) => Err(naming(path, refused("a directory on its path is a file"))),
        None => Ok(files),
    }
}

fn clean(path: &str) -> io::Result<PathBuf> {
    if path.len() > LONGEST_PATH {
        return Err(refused("it is longer than 4096 bytes"));
    }
    let mut clean = PathBuf::new();
    for part in Path::new(path).components() {
        match part {
            Component::Normal(name) if name.len() > LONGEST_NAME => {
                return Err(refused("a part of it is longer than 255 bytes"));
            }
            Component::Normal(name) => clean.push(name),
            Component::CurDir => {}
            _ => return Err(refused("it must be relative and must not contain '..'")),
        }
    }
    match clean.as_os_str().as_bytes() {
        [] => Err(refused("it must not be empty")),
        [b'.', b'.', ..] => Err(refused("it must not start with '..'")),
        _ => Ok(clean),
    }
}

#[cfg(test)]
#[path = "payload_tests.rs"]
mod tests;
