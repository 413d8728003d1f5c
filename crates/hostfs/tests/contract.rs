//! The host's files pass the contract of the port.
#![allow(clippy::disallowed_methods, reason = "a test on real files")]
#![allow(clippy::unwrap_used, reason = "a test, helpers included")]

use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use flate2::read::MultiGzDecoder;
use hostfs::Host;
use model::ports::files::HostFiles;
use model::ports::log_files::LogFiles;
use model::ports::volumes::VolumeHost;
use tempfile::TempDir;
use testkit::contract::files::Harness;
use testkit::contract::{self, assert_kept};

/// A directory of the host, removed after its case.
#[derive(Debug)]
struct Directory {
    place: TempDir,
    files: Arc<Host>,
}

impl Harness for Directory {
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
        // The socket's file stays when the listener is closed.
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
async fn host_files_pass_the_contract() {
    let new_harness =
        || Directory { place: tempfile::tempdir().unwrap(), files: Arc::new(Host::default()) };
    let reports = contract::files::run(new_harness).await;
    assert_eq!(assert_kept(&reports), [], "these cases were skipped");
}

/// A directory of the host, unmounted after its case.
#[derive(Debug)]
struct Volumes {
    place: TempDir,
    host: Arc<Host>,
}

impl Drop for Volumes {
    fn drop(&mut self) {
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
        let places = mounts.lines().filter_map(|line| line.split(' ').nth(4));
        let places = places.map(|place| place.replace("\\040", " "));
        let ours: Vec<_> =
            places.filter(|place| Path::new(place).starts_with(self.place.path())).collect();
        for place in ours.iter().rev() {
            let ended = Command::new("umount").arg("--lazy").arg(place).status();
            assert!(ended.is_ok_and(|status| status.success()), "umount {place}");
        }
    }
}

impl contract::volumes::Harness for Volumes {
    fn volumes(&self) -> Arc<dyn VolumeHost> {
        Arc::new(self.host.volumes())
    }

    fn files(&self) -> Arc<dyn HostFiles> {
        Arc::clone(&self.host) as _
    }

    fn directory(&self) -> PathBuf {
        self.place.path().to_owned()
    }

    fn write(&self, path: &Path, content: &[u8]) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    fn put_link(&self, path: &Path, target: &Path) {
        symlink(target, path).unwrap();
    }

    fn put_socket(&self, path: &Path) {
        UnixListener::bind(path).unwrap();
    }

    fn remove(&self, path: &Path) {
        fs::remove_file(path).unwrap();
    }

    fn mode(&self, path: &Path) -> u32 {
        fs::symlink_metadata(path).unwrap().permissions().mode()
    }

    fn group(&self, path: &Path) -> u32 {
        fs::symlink_metadata(path).unwrap().gid()
    }
}

// behaviour: ACT-312
#[tokio::test]
async fn host_volumes_pass_the_contract() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let new_harness =
        || Volumes { place: tempfile::tempdir().unwrap(), host: Arc::new(Host::default()) };
    let reports = contract::volumes::run(new_harness).await;
    let skipped = assert_kept(&reports);
    // Not every kernel has huge pages.
    let needs_huge_pages = |case: &str| case.starts_with("huge_pages");
    assert!(skipped.iter().all(|(case, _)| needs_huge_pages(case)), "{skipped:?}");
}

#[test]
fn host_segments_pass_the_contract() {
    let place = tempfile::tempdir().unwrap();
    let segments = hostfs::HostSegments::new(place.path().join("ferrolet/journal"));
    contract::segments::check(&(Arc::new(segments) as _)).unwrap();
}

/// A directory of the host with logs.
#[derive(Debug)]
struct Logs {
    place: TempDir,
    host: Arc<Host>,
}

impl contract::log_files::Harness for Logs {
    fn files(&self) -> Arc<dyn LogFiles> {
        Arc::new(self.host.logs())
    }

    fn directory(&self) -> PathBuf {
        self.place.path().to_owned()
    }

    fn write(&self, path: &Path, content: &[u8]) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    fn append(&self, path: &Path, content: &[u8]) {
        let mut file = fs::OpenOptions::new().append(true).open(path).unwrap();
        file.write_all(content).unwrap();
    }

    fn put_link(&self, path: &Path, target: &Path) {
        symlink(target, path).unwrap();
    }

    fn content(&self, path: &Path) -> Option<Vec<u8>> {
        fs::read(path).ok()
    }

    fn unzipped(&self, path: &Path) -> anyhow::Result<Vec<u8>> {
        let mut text = Vec::new();
        MultiGzDecoder::new(fs::File::open(path)?).read_to_end(&mut text)?;
        Ok(text)
    }

    fn mode(&self, path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode()
    }
}

#[tokio::test]
async fn host_log_files_pass_the_contract() {
    let new_harness = || Logs { place: tempfile::tempdir().unwrap(), host: Arc::default() };
    let reports = contract::log_files::run(new_harness).await;
    assert_eq!(assert_kept(&reports), [], "these cases were skipped");
}
