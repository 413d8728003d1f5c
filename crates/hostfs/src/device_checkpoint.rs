//! The device checkpoint of the upstream kubelet.

use std::io;
use std::path::Path;

use crate::inspect;

/// Its path, which does not depend on the root directory.
const CHECKPOINT: &str = "/var/lib/kubelet/device-plugins/kubelet_internal_checkpoint";

/// The largest size: more than any node needs.
const LIMIT: u64 = 16 << 20;

/// The checkpoint; `None` if there is none.
pub fn device_checkpoint() -> io::Result<Option<Vec<u8>>> {
    read(Path::new(CHECKPOINT))
}

fn read(path: &Path) -> io::Result<Option<Vec<u8>>> {
    match inspect::open(path).and_then(|file| inspect::read(&file, LIMIT)) {
        Ok(content) => Ok(Some(content)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn device_checkpoint_exists_or_not() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("checkpoint");
        assert_eq!(read(&path).unwrap(), None);
        std::fs::write(&path, "{}").unwrap();
        assert_eq!(read(&path).unwrap(), Some(b"{}".to_vec()));
        assert!(read(place.path()).is_err(), "a directory is no note");
    }
}
