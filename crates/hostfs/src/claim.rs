//! A lock that allows one agent per root directory.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use rustix::io::{Errno, retry_on_intr};

/// Creates a private directory and locks it: a second agent with the same directory would conflict over every
/// pod. The lock is held until the result is dropped, or the process exits.
pub fn claim(directory: &Path) -> io::Result<Claim> {
    let file = lock_file(directory)?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(Claim { _file: file }),
        Err(Errno::WOULDBLOCK) => Err(in_use()),
        Err(error) => Err(error.into()),
    }
}

/// Like [`claim`], and waits for another process to release it. A killed process keeps its lock until the kernel
/// has cleaned up.
pub fn claim_within(directory: &Path, patience: Duration) -> io::Result<Claim> {
    match claim(directory) {
        Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {}
        answer => return answer,
    }
    let file = lock_file(directory)?;
    let (free, when_free) = mpsc::channel();
    // Waiting for the lock blocks a thread. If the caller has timed out, the thread releases the lock again.
    thread::spawn(move || {
        let locked = retry_on_intr(|| flock(&file, FlockOperation::LockExclusive));
        drop(free.send(locked.map(|()| Claim { _file: file })));
    });
    let claimed = when_free.recv_timeout(patience).map_err(|_| in_use())?;
    Ok(claimed?)
}

fn lock_file(directory: &Path) -> io::Result<File> {
    DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    let path = directory.join("lock");
    OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(path)
}

fn in_use() -> io::Error {
    io::Error::new(io::ErrorKind::ResourceBusy, "another agent uses it")
}

/// A locked directory.
#[derive(Debug)]
pub struct Claim {
    _file: File,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directory_lock_is_exclusive_until_released() {
        let root = tempfile::tempdir().unwrap();
        let directory = root.path().join("a/ferrolet");
        let held = claim(&directory).unwrap();
        let error = claim(&directory).unwrap_err();
        assert_eq!(error.to_string(), "another agent uses it");
        drop(held);
        claim(&directory).unwrap();
    }

    #[test]
    fn waiter_locks_the_directory_when_it_is_released() {
        let root = tempfile::tempdir().unwrap();
        let held = claim(root.path()).unwrap();
        let error = claim_within(root.path(), Duration::from_millis(10)).unwrap_err();
        assert_eq!(error.to_string(), "another agent uses it");
        thread::scope(|scope| {
            let waits = scope.spawn(|| claim_within(root.path(), Duration::from_mins(1)));
            drop(held);
            waits.join().unwrap().unwrap();
        });
        // The waiter that timed out has released the lock too.
        claim_within(root.path(), Duration::from_mins(1)).unwrap();
    }
}
