//! Directories that stay below a root, whatever their names say.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Component, Path};

use rustix::fs::{Mode, OFlags, ResolveFlags, fchmod, mkdirat, open, openat2};
use rustix::io::Errno;

/// Makes `below` and its parents under `root` with the given mode, following no link below the root.
/// What is already there is left as it is.
pub(crate) fn create(root: &Path, below: &Path, mode: u32) -> io::Result<()> {
    let names: Vec<&std::ffi::OsStr> = below
        .components()
        .map(|component| match component {
            Component::Normal(name) => Ok(name),
            _ => Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("{} must be made of plain names", below.display()),
            )),
        })
        .collect::<io::Result<_>>()?;
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

/// The mode asked for, whatever the process's umask made of it.
fn set_mode(directory: &OwnedFd, mode: u32) -> io::Result<()> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let opened = openat2(directory, ".", flags, Mode::empty(), ResolveFlags::BENEATH)?;
    fchmod(&opened, Mode::from_raw_mode(mode))?;
    Ok(())
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
    fn directories_are_made_with_the_mode_asked_for_and_left_when_there() {
        let (_guard, root) = root();
        create(&root, "a/b".as_ref(), 0o755).unwrap();
        create(&root, "a/b".as_ref(), 0o700).unwrap();
        for path in ["a", "a/b"] {
            let mode = std::fs::metadata(root.join(path)).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o755, "{path}");
        }
    }

    #[test]
    fn names_that_lead_out_of_the_root_are_refused() {
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
