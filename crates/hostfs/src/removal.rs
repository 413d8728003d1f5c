//! Removing what a verdict names, where such things lie and nowhere else.

use std::io;
use std::path::{Path, PathBuf};

use model::ports::files::Removed;
use rustix::fs::{AtFlags, FileType, RawDir, statat, unlinkat};
use rustix::io::Errno;

use crate::beneath::open_directory;

/// How many names of a log's path come from a pod: those of its directory, its container and its
/// file.
const NAMES_OF_A_LOG: usize = 3;

/// What is to be removed.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Removal {
    /// A directory with all that is in it.
    Directory,
    /// A symbolic link.
    Link,
    /// A container's log with its rotated parts.
    Log,
}

fn refuse<T>(problem: &str) -> io::Result<T> {
    Err(io::Error::new(io::ErrorKind::InvalidInput, problem))
}

/// Removes a directory or a link that lies in `root` itself, or a log two directories below it. Links
/// are never followed below the root.
pub(crate) fn remove(root: &Path, path: &Path, kind: Removal) -> io::Result<Removed> {
    let removed = match kind {
        Removal::Log => remove_log(root, path),
        Removal::Directory | Removal::Link => remove_entry(root, path, kind).map(|()| Removed::Now),
    };
    match removed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Removed::Before),
        result => result,
    }
}

fn remove_entry(root: &Path, path: &Path, kind: Removal) -> io::Result<()> {
    if path.parent() != Some(root) || path.file_name().is_none() {
        return refuse("it does not lie where such things lie");
    }
    let found = std::fs::symlink_metadata(path)?.file_type();
    match kind {
        Removal::Directory if found.is_dir() => {
            let mounts = std::fs::read_to_string("/proc/self/mountinfo")?;
            if let Some(mount) = mounted_within(&mounts, &path.canonicalize()?) {
                let problem = format!("{} is mounted there", mount.display());
                return Err(io::Error::new(io::ErrorKind::ResourceBusy, problem));
            }
            // The standard library opens directory by directory and follows no link, whoever swaps them.
            std::fs::remove_dir_all(path).map_err(|error| naming(path, error))
        }
        Removal::Link if found.is_symlink() => std::fs::remove_file(path),
        Removal::Link => refuse("it is not a link"),
        Removal::Directory | Removal::Log => refuse("it is not a directory"),
    }
}

/// An error with the first thing that is still there: what was removed in that order stopped at it.
fn naming(directory: &Path, error: io::Error) -> io::Error {
    let mut left = directory.to_owned();
    while let Some(Ok(entry)) = std::fs::read_dir(&left).ok().and_then(|mut all| all.next()) {
        left = entry.path();
        if !entry.file_type().is_ok_and(|found| found.is_dir()) {
            break;
        }
    }
    match left.strip_prefix(directory) {
        Ok(below) if !below.as_os_str().is_empty() => {
            io::Error::new(error.kind(), format!("{}: {error}", below.display()))
        }
        _ => error,
    }
}

/// What is mounted on a directory or below it: to remove that would be to remove what it leads to.
fn mounted_within(mounts: &str, directory: &Path) -> Option<PathBuf> {
    let places = mounts.lines().filter_map(|line| line.split(' ').nth(4)).map(unescape);
    places.map(PathBuf::from).find(|place| place.starts_with(directory))
}

/// The kernel writes spaces, tabs, line feeds and backslashes of paths as three octal digits.
fn unescape(path: &str) -> String {
    [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")]
        .iter()
        .fold(path.to_owned(), |path, (code, character)| path.replace(code, character))
}

fn remove_log(root: &Path, path: &Path) -> io::Result<Removed> {
    let Ok(below) = path.strip_prefix(root) else {
        return refuse("it does not lie where such things lie");
    };
    let (Some(directory), Some(name)) = (below.parent(), below.file_name()) else {
        return refuse("it does not lie where such things lie");
    };
    if below.components().count() != NAMES_OF_A_LOG {
        return refuse("it does not lie where such things lie");
    }
    let directory = open_directory(root, directory)?;
    let (name, rotated) = (name.as_encoded_bytes(), [name.as_encoded_bytes(), b"."].concat());
    let mut logs = Vec::new();
    let mut buffer = Vec::with_capacity(8192);
    let mut entries = RawDir::new(&directory, buffer.spare_capacity_mut());
    while let Some(entry) = entries.next() {
        let entry = entry?;
        let bytes = entry.file_name().to_bytes();
        if bytes == name || bytes.starts_with(&rotated) {
            logs.push(entry.file_name().to_owned());
        }
    }
    let removed = if logs.is_empty() { Removed::Before } else { Removed::Now };
    for log in logs {
        let stat = statat(&directory, &log, AtFlags::SYMLINK_NOFOLLOW)?;
        if FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
            return refuse("it is not a file");
        }
        match unlinkat(&directory, &log, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(removed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_removed_is_named_with_why() {
        let place = tempfile::tempdir().unwrap();
        let error = || io::Error::from(Errno::PERM);
        let named = || naming(place.path(), error()).to_string();
        assert_eq!(named(), error().to_string(), "it is the directory itself");
        std::fs::create_dir(place.path().join("main")).unwrap();
        assert_eq!(named(), format!("main: {}", error()));
        std::os::unix::fs::symlink("/", place.path().join("main/0.log")).unwrap();
        assert_eq!(named(), format!("main/0.log: {}", error()), "no link is followed");
    }

    #[test]
    fn what_is_mounted_on_a_directory_or_below_it_is_seen() {
        let mounts = "21 1 0:1 / / rw - ext4 /dev/sda rw\n\
                      22 21 0:2 / /pods/uid/volumes/a\\040b rw - tmpfs tmpfs rw\n\
                      23 21 0:3 / /pods/uid2 rw - tmpfs tmpfs rw\n";
        let within = |path: &str| mounted_within(mounts, Path::new(path));
        assert_eq!(within("/pods/uid"), Some(PathBuf::from("/pods/uid/volumes/a b")));
        assert_eq!(within("/pods/uid2"), Some(PathBuf::from("/pods/uid2")));
        assert_eq!(within("/pods/uid3"), None);
    }
}
