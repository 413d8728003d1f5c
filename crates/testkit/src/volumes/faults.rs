//! Volume operations that fail or wait on request of a test.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

/// An operation of the port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[expect(missing_docs, reason = "each is a method of the port")]
pub enum Operation {
    Mounts,
    Directories,
    MakeDirectory,
    Exists,
    MakeFile,
    Mount,
    Bind,
    /// By its symlink, as is the next one.
    MapDevice,
    UnmapDevice,
    Unmount,
    WritePayload,
    SetOwnership,
    Group,
    CheckHostPath,
    /// By its mount point.
    BindSubpath,
    /// By the directory of the volume's `subPath` mounts.
    CleanSubpaths,
    ReadInVolume,
    ShareMounts,
}

impl Operation {
    /// The name in errors.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Mounts => "list mounts below",
            Self::Directories => "list",
            Self::MakeDirectory => "create directory",
            Self::MakeFile => "create file",
            Self::Mount => "mount",
            Self::Bind | Self::BindSubpath => "bind mount",
            Self::MapDevice => "map device at",
            Self::UnmapDevice => "unmap device at",
            Self::Unmount => "unmount",
            Self::WritePayload => "write files of",
            Self::SetOwnership => "set the group of",
            Self::Exists | Self::Group | Self::CheckHostPath => "stat",
            Self::CleanSubpaths => "clean",
            Self::ReadInVolume => "read",
            Self::ShareMounts => "share mounts of",
        }
    }
}

type Key = (Operation, PathBuf);

/// The requested faults, and the operations so far.
#[derive(Debug)]
pub(super) struct Faults {
    failures: Mutex<BTreeMap<Key, ErrorKind>>,
    /// Blocked operations, each with the number of blocked calls.
    held: watch::Sender<BTreeMap<Key, usize>>,
    calls: Mutex<Vec<Key>>,
}

impl Default for Faults {
    fn default() -> Self {
        Self {
            failures: Mutex::default(),
            held: watch::Sender::new(BTreeMap::new()),
            calls: Mutex::default(),
        }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Faults {
    pub(super) fn fail(&self, operation: Operation, path: PathBuf, kind: ErrorKind) {
        locked(&self.failures).insert((operation, path), kind);
    }

    pub(super) fn repair(&self, operation: Operation, path: &Path) {
        locked(&self.failures).remove(&(operation, path.to_owned()));
    }

    pub(super) fn hold(&self, operation: Operation, path: PathBuf) {
        self.held.send_modify(|held| held.extend([((operation, path), 0)]));
    }

    pub(super) fn release(&self, operation: Operation, path: &Path) {
        let key = (operation, path.to_owned());
        self.held.send_modify(|held| held.retain(|other, _| *other != key));
    }

    pub(super) fn held(&self, operation: Operation, path: &Path) -> usize {
        self.held.borrow().get(&(operation, path.to_owned())).copied().unwrap_or_default()
    }

    pub(super) fn calls(&self) -> Vec<Key> {
        locked(&self.calls).clone()
    }

    /// Records an operation, waits while it is blocked, and fails if requested.
    pub(super) async fn pass(&self, operation: Operation, path: &Path) -> Result<(), ErrorKind> {
        let key = (operation, path.to_owned());
        locked(&self.calls).push(key.clone());
        let begun = |held: &mut BTreeMap<Key, usize>| match held.get_mut(&key) {
            Some(count) => {
                *count += 1;
                true
            }
            None => false,
        };
        if self.held.send_if_modified(begun) {
            let mut held = self.held.subscribe();
            let released = held.wait_for(|held| !held.contains_key(&key)).await.is_ok();
            debug_assert!(released, "the sender is here");
        }
        locked(&self.failures).get(&key).map_or(Ok(()), |kind| Err(*kind))
    }
}
