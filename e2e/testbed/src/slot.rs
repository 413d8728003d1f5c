//! A slot: the number that separates an instance from all others.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::{Path, PathBuf};

use crate::error::{AtPath, PathError};

/// How many instances can live at the same time: as many as there are link addresses.
pub(crate) const SLOTS: u8 = 64;

/// A slot in use. It is free again when its process ends, however it ends.
#[derive(Debug)]
pub(crate) struct Slot {
    number: u8,
    path: PathBuf,
    /// Locked: no other process works in the slot's directory.
    _lock: File,
    /// Bound to a name that is unique on the host: no other process, even with another cache
    /// directory, uses the slot's cgroup name, link and addresses.
    _name: UnixListener,
}

impl Slot {
    /// Takes slot `number`, or returns `None` when another process has it.
    pub(crate) fn try_take(instances: &Path, number: u8) -> Result<Option<Self>, PathError> {
        let path = instances.join(lock_name(number));
        let Some(name) = bind(number).at("reserve the name of", &path)? else { return Ok(None) };
        loop {
            let lock = OpenOptions::new()
                .create(true)
                .truncate(false)
                .write(true)
                .open(&path)
                .at("open", &path)?;
            match lock.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => return Ok(None),
                Err(TryLockError::Error(source)) => return Err(source).at("lock", &path),
            }
            // The former holder may have removed the file between our opening and locking it: then
            // our lock is on a file that no other process will ever find.
            let ours = lock.metadata().at("inspect", &path)?.ino();
            if fs::metadata(&path).is_ok_and(|there| there.ino() == ours) {
                return Ok(Some(Self { number, path, _lock: lock, _name: name }));
            }
        }
    }

    pub(crate) fn number(&self) -> u8 {
        self.number
    }

    /// Releases the slot, without leaving a file.
    pub(crate) fn release(self) -> Result<(), PathError> {
        fs::remove_file(&self.path).at("remove", &self.path)
    }
}

fn lock_name(number: u8) -> String {
    format!("slot-{number}.lock")
}

/// The slot that a file in the instances directory belongs to: its lock or its directory.
pub(crate) fn slot_of(file_name: &str) -> Option<u8> {
    let number = file_name
        .strip_prefix("slot-")
        .and_then(|rest| rest.strip_suffix(".lock"))
        .unwrap_or(file_name);
    number.parse().ok().filter(|number| *number < SLOTS)
}

/// An abstract address vanishes with the socket, so there is nothing to clean up.
fn bind(number: u8) -> io::Result<Option<UnixListener>> {
    let address = SocketAddr::from_abstract_name(format!("ferrolet-testbed-{number}"))?;
    match UnixListener::bind_addr(&address) {
        Ok(listener) => Ok(Some(listener)),
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lock_files_and_directories_name_their_slot() {
        assert_eq!(slot_of("slot-7.lock"), Some(7));
        assert_eq!(slot_of("7"), Some(7));
        assert_eq!(slot_of("kept-7-1234"), None);
        assert_eq!(slot_of("64"), None);
    }
}
