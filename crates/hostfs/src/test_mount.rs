//! Mounts for tests, removed with their holder.

use std::path::{Path, PathBuf};
use std::process::Command;

/// A mount.
#[derive(Debug)]
pub(crate) struct Mount {
    place: PathBuf,
}

impl Mount {
    /// A tmpfs of this size. `None` without root.
    pub(crate) fn tmpfs(place: &Path, size: &str) -> Option<Self> {
        let options = format!("size={size}");
        Self::with(&["-t", "tmpfs", "-o", &options, "tmpfs"], place)
    }

    /// A bind mount. `None` without root.
    pub(crate) fn bind(what: &Path, place: &Path) -> Option<Self> {
        Self::with(&["--bind", what.to_str().unwrap()], place)
    }

    fn with(arguments: &[&str], place: &Path) -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            return None;
        }
        let mounted = Command::new("mount").args(arguments).arg(place).status().unwrap();
        assert!(mounted.success(), "root cannot mount on {}", place.display());
        Some(Self { place: place.to_owned() })
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let ended = Command::new("umount").arg("--lazy").arg(&self.place).status();
        assert!(ended.is_ok_and(|status| status.success()), "umount {}", self.place.display());
    }
}
