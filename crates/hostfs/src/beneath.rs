//! Access to directories and files below a root, safe for any names.

use std::ffi::OsStr;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::os::fd::OwnedFd;
use std::path::{Component, Path};

use rustix::fs::{Mode, OFlags, ResolveFlags, fchmod, mkdirat, open, openat2};
use rustix::io::Errno;

/// Creates `below` and its parents under `root` with this mode, without following links below the root.
/// Existing directories stay unchanged.
pub(crate) fn create(root: &Path, below: &Path, mode: u32) -> io::Result<()> {
    let names = plain_names(below)?;
    std::fs::create_dir_all(root)?;
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let mut directory: OwnedFd = open(root, flags, Mode::empty())?;
    for name in names {
        let is_new = match mkdirat(&directory, name, Mode::from_raw_mode(mode)) {
            Ok(()) => true,
            Err(Errno::EXIST) => false,
            Err(error) => return Err(error.into()),
        };
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
        directory = openat2(&directory, name, flags, Mode::empty(), resolve)?;
        if is_new {
            set_mode(&directory, mode)?;
        }
    }
    Ok(())
}

/// Sets the mode independently of the umask.
fn set_mode(directory: &OwnedFd, mode: u32) -> io::Result<()> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let opened = openat2(directory, ".", flags, Mode::empty(), ResolveFlags::BENEATH)?;
    fchmod(&opened, Mode::from_raw_mode(mode))?;
    Ok(())
}

/// How many path components of a log come from a pod: its directory, its container and its file.
pub(crate) const NAMES_OF_A_LOG: usize = 3;

/// Opens a container log for reading. A pod with write access to the log directory could create a link to any
/// host file, so links in path components that come from pods are not followed.
pub(crate) fn open_log(path: &Path) -> io::Result<std::fs::File> {
    let refuse = |problem: &str| Err(io::Error::new(io::ErrorKind::InvalidInput, problem));
    let Some(root) = path.ancestors().nth(NAMES_OF_A_LOG).filter(|root| root.is_absolute()) else {
        return refuse("it is not the path of a container's log");
    };
    let below = path.strip_prefix(root).expect("an ancestor is a prefix");
    if below.components().any(|part| !matches!(part, Component::Normal(_))) {
        return refuse("it must be made of plain names");
    }
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = open(root, flags, Mode::empty())?;
    // Opening a pipe would wait for its writer.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
    let file = std::fs::File::from(openat2(&root, below, flags, Mode::empty(), resolve)?);
    if !file.metadata()?.is_file() {
        return refuse("it is not a file");
    }
    Ok(file)
}

/// The components of a path below a root; anything but plain names is refused.
pub(crate) fn plain_names(below: &Path) -> io::Result<Vec<&OsStr>> {
    let name = |component| match component {
        Component::Normal(name) => Ok(name),
        _ => Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("{} must be made of plain names", below.display()),
        )),
    };
    below.components().map(name).collect()
}

/// Opens a directory below a root, without following links below the root.
pub(crate) fn open_directory(root: &Path, below: &Path) -> io::Result<OwnedFd> {
    plain_names(below)?;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = open(root, flags, Mode::empty())?;
    if below.as_os_str().is_empty() {
        return Ok(root);
    }
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
    Ok(openat2(&root, below, flags, Mode::empty(), resolve)?)
}

/// Creates an empty file below a root with exactly this mode.
pub(crate) fn create_file(root: &Path, below: &Path, mode: u32) -> io::Result<()> {
    let name = below.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    plain_names(below)?;
    let directory = open_directory(root, below.parent().unwrap_or(Path::new("")))?;
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
    let mode = Mode::from_raw_mode(mode);
    let file = openat2(&directory, name, flags, mode, resolve)?;
    // Sets the mode independently of the umask.
    fchmod(&file, mode)?;
    Ok(())
}

/// Reads up to `limit` bytes at the end of a file below a root.
pub(crate) fn read_end(root: &Path, below: &Path, limit: u64) -> io::Result<Vec<u8>> {
    plain_names(below)?;
    let root = open(root, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    // Opening a pipe would wait for its writer.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
    let mut file = std::fs::File::from(openat2(&root, below, flags, Mode::empty(), resolve)?);
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a file"));
    }
    file.seek(SeekFrom::Start(metadata.len().saturating_sub(limit)))?;
    let mut end = Vec::new();
    // It may grow while it is read.
    file.take(limit).read_to_end(&mut end)?;
    Ok(end)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    use std::path::PathBuf;

    use super::create;

    fn root() -> (tempfile::TempDir, PathBuf) {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().join("pods");
        (directory, root)
    }

    #[test]
    fn directories_are_created_with_a_mode_and_existing_ones_are_kept() {
        let (_guard, root) = root();
        create(&root, "a/b".as_ref(), 0o755).unwrap();
        create(&root, "a/b".as_ref(), 0o700).unwrap();
        for path in ["a", "a/b"] {
            let mode = std::fs::metadata(root.join(path)).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o755, "{path}");
        }
    }

    #[test]
    fn names_that_leave_the_root_are_refused() {
        let (guard, root) = root();
        for below in ["..", "../x", "a/../../x", "/x"] {
            assert!(create(&root, below.as_ref(), 0o755).is_err(), "{below}");
        }
        assert!(!guard.path().join("x").exists());
    }

    #[test]
    fn links_below_the_root_are_not_followed() {
        let (guard, root) = root();
        let outside = guard.path().join("outside");
        std::fs::create_dir_all(&outside).unwrap();
        std::fs::create_dir_all(&root).unwrap();
        symlink(&outside, root.join("link")).unwrap();
        assert!(create(&root, "link/x".as_ref(), 0o755).is_err());
        assert!(!outside.join("x").exists());
    }
}
