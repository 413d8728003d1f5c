//! Lists directories of volumes.

use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStringExt as _;

use model::volume::Place;
use rustix::fs::{AtFlags, FileType, RawDir, statat};
use rustix::io::Errno;

use super::place::{self, LISTED};

/// The sorted names of subdirectories; empty if the directory is missing.
pub(super) fn directories(place: &Place) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    list(place, |name, kind| {
        if kind == FileType::Directory {
            names.push(name.to_string_lossy().into_owned());
        }
    })?;
    names.sort_unstable();
    Ok(names)
}

/// All names in a directory; empty if it is missing.
pub(super) fn entries(place: &Place) -> io::Result<Vec<OsString>> {
    let mut names = Vec::new();
    list(place, |name, _| names.push(name))?;
    Ok(names)
}

fn list(place: &Place, mut found: impl FnMut(OsString, FileType)) -> io::Result<()> {
    let directory = match place::open_place(place, LISTED) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        opened => opened?,
    };
    let mut buffer = Vec::with_capacity(8192);
    let mut entries = RawDir::new(&directory, buffer.spare_capacity_mut());
    while let Some(entry) = entries.next() {
        let entry = entry?;
        let name = entry.file_name();
        if matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        let mut kind = entry.file_type();
        if kind == FileType::Unknown {
            kind = match statat(&directory, name, AtFlags::SYMLINK_NOFOLLOW) {
                Err(Errno::NOENT) => continue,
                stat => FileType::from_raw_mode(stat?.st_mode),
            };
        }
        found(OsString::from_vec(name.to_bytes().to_vec()), kind);
    }
    Ok(())
}
