//! What making and removing a directory means where the kernel fills it with control files. Apart, so
//! that tests can do in a plain directory what the kernel does.

use std::fmt::Debug;
use std::io;
use std::os::fd::OwnedFd;

use rustix::fs::{AtFlags, Mode, chmodat, mkdirat, unlinkat};

/// Makes and removes single cgroups of one hierarchy.
pub(crate) trait Kernel: Debug + Send + Sync {
    /// Makes one; it is an error if it is there.
    fn make(&self, parent: &OwnedFd, name: &str) -> io::Result<()>;
    /// Removes one without processes and without others in it.
    fn remove(&self, parent: &OwnedFd, name: &str) -> io::Result<()>;
}

/// The kernel of this machine.
#[derive(Debug)]
pub(crate) struct ThisKernel;

impl Kernel for ThisKernel {
    fn make(&self, parent: &OwnedFd, name: &str) -> io::Result<()> {
        let mode = Mode::from_raw_mode(0o755);
        mkdirat(parent, name, mode)?;
        // Whatever the umask is: exporters of metrics that are not root read there.
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
        // For the whole process: other tests make files for their own user alone.
        let before = rustix::process::umask(Mode::from_raw_mode(0o077));
        let made = ThisKernel.make(&parent, "pods");
        rustix::process::umask(before);
        made.unwrap();
        let made = std::fs::metadata(root.path().join("pods")).unwrap();
        assert_eq!(made.permissions().mode() & 0o777, 0o755);
    }
}
