//! Creates and removes cgroup directories. A trait, so that tests can imitate the kernel's control files in a
//! plain directory.

use std::fmt::Debug;
use std::io;
use std::os::fd::OwnedFd;

use rustix::fs::{AtFlags, Mode, chmodat, mkdirat, unlinkat};

/// Creates and removes single cgroups of one hierarchy.
pub(crate) trait Kernel: Debug + Send + Sync {
    /// Creates a cgroup; an error if it exists.
    fn make(&self, parent: &OwnedFd, name: &str) -> io::Result<()>;
    /// Removes a cgroup without processes and children.
    fn remove(&self, parent: &OwnedFd, name: &str) -> io::Result<()>;
}

/// The kernel of this machine.
#[derive(Debug)]
pub(crate) struct ThisKernel;

impl Kernel for ThisKernel {
    fn make(&self, parent: &OwnedFd, name: &str) -> io::Result<()> {
        let mode = Mode::from_raw_mode(0o755);
        mkdirat(parent, name, mode)?;
        // Independent of the umask: metrics exporters without root privileges read it.
        Ok(chmodat(parent, name, mode, AtFlags::empty())?)
    }

    fn remove(&self, parent: &OwnedFd, name: &str) -> io::Result<()> {
        Ok(unlinkat(parent, name, AtFlags::REMOVEDIR)?)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn cgroup_is_readable_to_others_whatever_the_umask_is() {
        let root = tempfile::tempdir().unwrap();
        let parent = OwnedFd::from(std::fs::File::open(root.path()).unwrap());
        // For the whole process: other tests create private files only.
        let before = rustix::process::umask(Mode::from_raw_mode(0o077));
        let made = ThisKernel.make(&parent, "pods");
        rustix::process::umask(before);
        made.unwrap();
        let made = std::fs::metadata(root.path().join("pods")).unwrap();
        assert_eq!(made.permissions().mode() & 0o777, 0o755);
    }
}
