//! Removes the object of a verdict, only in its configured directory.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

use model::mountinfo::unescaped;
use model::ports::files::Removed;
use model::rotated_log::is_rotated_name;
use rustix::fs::{AtFlags, FileType, RawDir, statat, unlinkat};
use rustix::io::Errno;

use crate::beneath::open_directory;
use crate::pod_directory;
use crate::tree::remove_tree;

/// How many path components of a log come from a pod: its directory, its container and its file.
const NAMES_OF_A_LOG: usize = 3;

/// How many path components lead from the pods directory to a volume: the pod, `volumes`, the plugin, the
/// volume.
const NAMES_OF_A_VOLUME: usize = 4;

/// The kind of object to remove.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Removal {
    /// A directory with all its content.
    Directory,
    /// The directory of a pod, if all its content is known.
    Pod,
    /// A volume of a pod with all its content.
    Volume,
    /// A symbolic link.
    Link,
    /// A container log with its rotated files.
    Log,
    /// One rotated file of a container log.
    RotatedLog,
}

fn refuse<T>(problem: &str) -> io::Result<T> {
    Err(io::Error::new(io::ErrorKind::InvalidInput, problem))
}

/// Removes a directory or link directly in `root`, a log two levels below it, or a volume three levels below
/// it. Links below the root are never followed.
pub(crate) fn remove(root: &Path, path: &Path, kind: Removal) -> io::Result<Removed> {
    let removed = match kind {
        Removal::Log => remove_log(root, path),
        Removal::RotatedLog => remove_rotated_log(root, path).map(|()| Removed::Now),
        Removal::Volume => remove_volume(root, path).map(|()| Removed::Now),
        Removal::Directory | Removal::Pod | Removal::Link => {
            remove_entry(root, path, kind).map(|()| Removed::Now)
        }
    };
    match removed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Removed::Before),
        result => result,
    }
}

fn remove_entry(root: &Path, path: &Path, kind: Removal) -> io::Result<()> {
    let name = path.file_name().filter(|_| path.parent() == Some(root));
    let Some(name) = name else { return refuse("it does not lie where such things lie") };
    let found = std::fs::symlink_metadata(path)?.file_type();
    match kind {
        Removal::Directory | Removal::Pod if found.is_dir() => {
            // A pod with mounted volumes keeps its whole directory.
            refuse_mounts(path)?;
            let root = open_directory(root, Path::new(""))?;
            if matches!(kind, Removal::Pod) {
                return pod_directory::remove(&root, name);
            }
            remove_tree(root, name)
        }
        Removal::Link if found.is_symlink() => std::fs::remove_file(path),
        Removal::Link => refuse("it is not a link"),
        _ => refuse("it is not a directory"),
    }
}

fn remove_volume(root: &Path, path: &Path) -> io::Result<()> {
    let below = path.strip_prefix(root).unwrap_or(Path::new(""));
    let is_volume = below.iter().count() == NAMES_OF_A_VOLUME
        && below.iter().nth(1) == Some(OsStr::new("volumes"));
    let (true, Some(parent), Some(name)) = (is_volume, below.parent(), below.file_name()) else {
        return refuse("it does not lie where such things lie");
    };
    let parent = open_directory(root, parent)?;
    let found = statat(&parent, name, AtFlags::SYMLINK_NOFOLLOW)?;
    if FileType::from_raw_mode(found.st_mode) != FileType::Directory {
        return refuse("it is not a directory");
    }
    refuse_mounts(path)?;
    remove_tree(parent, name)
}

fn refuse_mounts(directory: &Path) -> io::Result<()> {
    let mounts = std::fs::read("/proc/self/mountinfo")?;
    let Some(mount) = mounted_within(&mounts, &directory.canonicalize()?) else { return Ok(()) };
    let problem = format!("{} is mounted there", mount.display());
    Err(io::Error::new(io::ErrorKind::ResourceBusy, problem))
}

/// A mount on a directory or below it: removing the directory would remove the content of the mount.
fn mounted_within(mounts: &[u8], directory: &Path) -> Option<PathBuf> {
    let lines = mounts.split(|byte| *byte == b'\n');
    let places = lines.filter_map(|line| line.split(|byte| *byte == b' ').nth(4)).map(unescaped);
    places
        .map(|place| PathBuf::from(OsString::from_vec(place)))
        .find(|place| place.starts_with(directory))
}

/// The directory of a log file, and the file name.
fn place_of_log<'a>(root: &Path, path: &'a Path) -> io::Result<(OwnedFd, &'a OsStr)> {
    let below = path.strip_prefix(root).unwrap_or(Path::new(""));
    match (below.parent(), below.file_name()) {
        (Some(directory), Some(name)) if below.components().count() == NAMES_OF_A_LOG => {
            Ok((open_directory(root, directory)?, name))
        }
        _ => refuse("it does not lie where such things lie"),
    }
}

fn remove_rotated_log(root: &Path, path: &Path) -> io::Result<()> {
    let (directory, name) = place_of_log(root, path)?;
    if !name.to_str().is_some_and(is_rotated_name) {
        return refuse("it is not named as a rotated log");
    }
    let stat = statat(&directory, name, AtFlags::SYMLINK_NOFOLLOW)?;
    if FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
        return refuse("it is not a file");
    }
    Ok(unlinkat(&directory, name, AtFlags::empty())?)
}

fn remove_log(root: &Path, path: &Path) -> io::Result<Removed> {
    let (directory, name) = place_of_log(root, path)?;
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
    use std::os::unix::ffi::OsStrExt as _;

    use super::*;
    use crate::test_mount::Mount;

    #[test]
    fn mount_point_that_is_not_utf8_is_seen_and_hides_no_other() {
        let mounts = b"21 1 0:1 / / rw - ext4 /dev/sda rw\n\
                       22 21 0:2 / /mnt/\xff\\134x rw - tmpfs tmpfs rw\n\
                       23 21 0:3 / /pods/uid/a rw - tmpfs tmpfs rw\n";
        let within = |path: &[u8]| mounted_within(mounts, Path::new(OsStr::from_bytes(path)));
        let strange = PathBuf::from(OsStr::from_bytes(b"/mnt/\xff\\x"));
        assert_eq!(within(b"/mnt"), Some(strange.clone()));
        assert_eq!(within(strange.as_os_str().as_bytes()), Some(strange));
        assert_eq!(within(b"/pods/uid"), Some(PathBuf::from("/pods/uid/a")));
    }

    #[test]
    fn directory_is_removed_while_a_mount_point_elsewhere_is_not_utf8() {
        let place = tempfile::tempdir().unwrap();
        let (pods, strange) =
            (place.path().join("pods"), place.path().join(OsStr::from_bytes(b"\xff")));
        std::fs::create_dir_all(pods.join("uid/volumes")).unwrap();
        std::fs::create_dir(&strange).unwrap();
        let Some(_mount) = Mount::tmpfs(&strange, "64k") else { return };
        let removed = remove(&pods, &pods.join("uid"), Removal::Directory);
        assert_eq!(removed.unwrap(), Removed::Now);
    }

    #[test]
    fn directory_with_a_mounted_volume_is_kept_completely() {
        let place = tempfile::tempdir().unwrap();
        let (pods, uid) = (place.path().join("pods"), place.path().join("pods/uid"));
        std::fs::create_dir_all(uid.join("volumes/data")).unwrap();
        std::fs::write(uid.join("etc-hosts"), "hosts").unwrap();
        let Some(_mount) = Mount::tmpfs(&uid.join("volumes/data"), "64k") else { return };
        let error = remove(&pods, &uid, Removal::Directory).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ResourceBusy);
        assert!(uid.join("etc-hosts").exists());
    }

    #[test]
    fn mounts_on_or_below_a_directory_are_found() {
        let mounts = "21 1 0:1 / / rw - ext4 /dev/sda rw\n\
                      22 21 0:2 / /pods/uid/volumes/a\\040b rw - tmpfs tmpfs rw\n\
                      23 21 0:3 / /pods/uid2 rw - tmpfs tmpfs rw\n";
        let within = |path: &str| mounted_within(mounts.as_bytes(), Path::new(path));
        assert_eq!(within("/pods/uid"), Some(PathBuf::from("/pods/uid/volumes/a b")));
        assert_eq!(within("/pods/uid2"), Some(PathBuf::from("/pods/uid2")));
        assert_eq!(within("/pods/uid3"), None);
    }
}
