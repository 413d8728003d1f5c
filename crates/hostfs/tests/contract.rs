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
struct Directory(TempDir);

impl World for Directory {
    fn files(&self) -> Arc<dyn HostFiles> {
        Arc::new(Host)
    }

    fn directory(&self) -> PathBuf {
        self.0.path().to_owned()
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

    fn mode(&self, path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode()
    }
}

#[tokio::test]
async fn the_files_of_the_host_keep_the_contract() {
    let reports = contract::files::run(|| Directory(tempfile::tempdir().unwrap())).await;
    assert_eq!(assert_kept(&reports), [], "these cases were skipped");
}
