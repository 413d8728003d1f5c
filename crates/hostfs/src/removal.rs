//! Removing what a verdict names, where such things lie and nowhere else.

use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

use model::mountinfo::unescaped;
use model::ports::files::Removed;
use rustix::fs::{AtFlags, FileType, RawDir, statat, unlinkat};
use rustix::io::Errno;

use crate::beneath::open_directory;
use crate::tree::remove_tree;

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
    let name = path.file_name().filter(|_| path.parent() == Some(root));
    let Some(name) = name else { return refuse("it does not lie where such things lie") };
    let found = std::fs::symlink_metadata(path)?.file_type();
    match kind {
        Removal::Directory if found.is_dir() => {
            // A pod whose volumes are still mounted keeps all of its directory.
            let mounts = std::fs::read("/proc/self/mountinfo")?;
            if let Some(mount) = mounted_within(&mounts, &path.canonicalize()?) {
                let problem = format!("{} is mounted there", mount.display());
                return Err(io::Error::new(io::ErrorKind::ResourceBusy, problem));
            }
            remove_tree(open_directory(root, Path::new(""))?, name)
        }
        Removal::Link if found.is_symlink() => std::fs::remove_file(path),
        Removal::Link => refuse("it is not a link"),
        Removal::Directory | Removal::Log => refuse("it is not a directory"),
    }
}

/// What is mounted on a directory or below it: to remove that would be to remove what it leads to.
fn mounted_within(mounts: &[u8], directory: &Path) -> Option<PathBuf> {
    let lines = mounts.split(|byte| *byte == b'\n');
    let places = lines.filter_map(|line| line.split(|byte| *byte == b' ').nth(4)).map(unescaped);
    places
        .map(|place| PathBuf::from(OsString::from_vec(place)))
        .find(|place| place.starts_with(directory))
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
    use std::ffi::OsStr;
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
    fn directory_with_a_mounted_volume_is_kept_whole() {
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
    fn what_is_mounted_on_a_directory_or_below_it_is_seen() {
        let mounts = "21 1 0:1 / / rw - ext4 /dev/sda rw\n\
                      22 21 0:2 / /pods/uid/volumes/a\\040b rw - tmpfs tmpfs rw\n\
                      23 21 0:3 / /pods/uid2 rw - tmpfs tmpfs rw\n";
        let within = |path: &str| mounted_within(mounts.as_bytes(), Path::new(path));
        assert_eq!(within("/pods/uid"), Some(PathBuf::from("/pods/uid/volumes/a b")));
        assert_eq!(within("/pods/uid2"), Some(PathBuf::from("/pods/uid2")));
        assert_eq!(within("/pods/uid3"), None);
    }
}
