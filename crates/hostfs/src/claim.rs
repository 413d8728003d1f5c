//! One agent for each root directory.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

/// Makes a directory for the agent alone and takes it: a second agent with the same directory would
/// fight the first over every pod. Held until the answer is dropped, or the process ends.
pub fn claim(directory: &Path) -> io::Result<Claim> {
    DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    let path = directory.join("lock");
    let file =
        OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(path)?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(Claim { _file: file }),
        Err(Errno::WOULDBLOCK) => {
            Err(io::Error::new(io::ErrorKind::ResourceBusy, "another agent uses it"))
        }
        Err(error) => Err(error.into()),
    }
}

/// A directory that is taken.
#[derive(Debug)]
pub struct Claim {
    _file: File,
}

#[cfg(test)]
mod tests {
    use super::claim;

    #[test]
    fn a_directory_is_taken_once_and_again_when_it_was_let_go() {
        let root = tempfile::tempdir().unwrap();
        let directory = root.path().join("a/ferrolet");
        let held = claim(&directory).unwrap();
        let error = claim(&directory).unwrap_err();
        assert_eq!(error.to_string(), "another agent uses it");
        drop(held);
        claim(&directory).unwrap();
    }
}
