//! What making and removing a directory means where the kernel fills it with control files. Apart, so
//! that tests can do in a plain directory what the kernel does.

use std::fmt::Debug;
use std::io;
use std::os::fd::OwnedFd;

use rustix::fs::{AtFlags, Mode, mkdirat, unlinkat};

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
        Ok(mkdirat(parent, name, Mode::from_raw_mode(0o755))?)
    }

    fn remove(&self, parent: &OwnedFd, name: &str) -> io::Result<()> {
        Ok(unlinkat(parent, name, AtFlags::REMOVEDIR)?)
    }
}
