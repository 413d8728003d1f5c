//! The host's files keep the contract of the port.
#![allow(clippy::disallowed_methods, reason = "a test on real files")]
#![allow(clippy::unwrap_used, reason = "a test, helpers included")]

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hostfs::Host;
use model::ports::files::HostFiles;
use tempfile::TempDir;
use testkit::contract::files::World;
use testkit::contract::{self, assert_kept};

/// A directory of the host, removed after its case.
#[derive(Debug)]
struct Directory {
    place: TempDir,
    files: Arc<Host>,
}

impl World for Directory {
    fn files(&self) -> Arc<dyn HostFiles> {
        Arc::clone(&self.files) as _
    }

    fn directory(&self) -> PathBuf {
        self.place.path().to_owned()
    }

    fn write(&self, path: &Path, content: &[u8]) {
        fs::write(path, content).unwrap();
    }

    fn put_link(&self, path: &Path, target: &Path) {
        symlink(target, path).unwrap();
    }

    fn special(&self, path: &Path) -> bool {
        // The socket's file stays when nobody listens any more.
        UnixListener::bind(path).unwrap();
        true
    }

    fn remove(&self, path: &Path) {
        if path.is_dir() {
            fs::remove_dir_all(path).unwrap();
        } else {
            fs::remove_file(path).unwrap();
        }
    }

    fn rename(&self, from: &Path, to: &Path) {
        fs::rename(from, to).unwrap();
    }

    fn mode(&self, path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode()
    }
}

#[tokio::test]
async fn the_files_of_the_host_keep_the_contract() {
    let new_world =
        || Directory { place: tempfile::tempdir().unwrap(), files: Arc::new(Host::default()) };
    let reports = contract::files::run(new_world).await;
    assert_eq!(assert_kept(&reports), [], "these cases were skipped");
}

#[test]
fn segments_on_the_host_keep_the_contract() {
    let place = tempfile::tempdir().unwrap();
    let segments = hostfs::HostSegments::new(place.path().join("ferrolet/journal"));
    contract::segments::check(&(Arc::new(segments) as _)).unwrap();
}
