//! Waits for reports of the kernel that memory is short.

use std::io;
use std::os::fd::{AsFd, AsRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};

use async_trait::async_trait;
use model::machine::Cgroups as Version;
use model::ports::cgroups::CgroupError;
use model::ports::memory_alarm::MemoryAlarm;
use rustix::event::{EventfdFlags, eventfd};
use rustix::fs::{Mode, OFlags, open};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use crate::beneath;
use crate::tree::{Tree, failed};

/// The pressure of the whole machine.
const MACHINE: &str = "/proc/pressure/memory";

/// Some process was delayed for 150 ms in 2 s: the shortest window without privileges.
const STALL: &[u8] = b"some 150000 2000000\0";

/// The reports of this machine's kernel.
#[derive(Debug, Clone)]
pub struct MemoryAlarms {
    tree: Tree,
}

impl MemoryAlarms {
    /// Of the cgroups in these hierarchies.
    pub fn new(tree: Tree) -> Self {
        Self { tree }
    }

    /// The directory of a cgroup with memory accounting.
    fn directory(&self, cgroup: &str) -> Option<PathBuf> {
        let hierarchy = match self.tree.version {
            Version::V1 => self.tree.with("memory"),
            Version::V2 => self.tree.hierarchies.first(),
        };
        Some(hierarchy?.root.join(cgroup.trim_start_matches('/')))
    }

    fn pressure_file(&self, cgroup: &str) -> Option<PathBuf> {
        match (cgroup, self.tree.version) {
            ("/", _) => Some(MACHINE.into()),
            (_, Version::V1) => None,
            (_, Version::V2) => Some(self.directory(cgroup)?.join("memory.pressure")),
        }
    }
}

fn absent(operation: &str, cgroup: &str) -> CgroupError {
    failed(operation, cgroup.into(), io::ErrorKind::Unsupported.into())
}

#[async_trait]
impl MemoryAlarm for MemoryAlarms {
    async fn stalled(&self, cgroup: &str) -> Result<(), CgroupError> {
        const OPERATION: &str = "wait for memory pressure of";
        let path = self.pressure_file(cgroup).ok_or_else(|| absent(OPERATION, cgroup))?;
        wait_for_stall(&path).await.map_err(|source| failed(OPERATION, path, source))
    }

    async fn crossed(&self, cgroup: &str, bytes: u64) -> Result<(), CgroupError> {
        const OPERATION: &str = "wait for memory usage of";
        let directory = self.directory(cgroup).filter(|_| self.tree.version == Version::V1);
        let path = directory.ok_or_else(|| absent(OPERATION, cgroup))?;
        wait_for_usage(&path, bytes).await.map_err(|source| failed(OPERATION, path, source))
    }
}

async fn wait_for_stall(path: &Path) -> io::Result<()> {
    let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = open(path, flags, Mode::empty()).map_err(|error| without_pressure(error.into()))?;
    rustix::io::write(&file, STALL)?;
    let ready = registered(file, Interest::PRIORITY)?;
    let guard = ready.ready(Interest::PRIORITY).await?;
    // The cgroup was removed, or the trigger fired.
    if guard.ready().is_error() { Err(io::ErrorKind::NotFound.into()) } else { Ok(()) }
}

/// The error of a missing file. The kernel may have no pressure information at all, or the cgroup is not there now.
fn without_pressure(error: io::Error) -> io::Error {
    let is_absent = error.kind() == io::ErrorKind::NotFound && rustix::fs::stat(MACHINE).is_err();
    if is_absent { io::ErrorKind::Unsupported.into() } else { error }
}

/// The owner keeps its descriptor open and the same, which the other constructor requires.
#[expect(deprecated, reason = "the other constructor is unsafe")]
fn registered(file: OwnedFd, interest: Interest) -> io::Result<AsyncFd<OwnedFd>> {
    AsyncFd::with_interest(file, interest)
}

async fn wait_for_usage(directory: &Path, bytes: u64) -> io::Result<()> {
    let directory = beneath::directory(directory, &[])?;
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let usage = rustix::fs::openat(&directory, "memory.usage_in_bytes", flags, Mode::empty())?;
    let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
    let number = |file: &OwnedFd| file.as_fd().as_raw_fd();
    let registration = format!("{} {} {bytes}", number(&event), number(&usage));
    beneath::write(&directory, "cgroup.event_control", &registration)?;
    let ready = registered(event, Interest::READABLE)?;
    ready.readable().await?.retain_ready();
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use super::*;
    use crate::kernel::ThisKernel;

    fn v1(root: &Path) -> MemoryAlarms {
        let memory = (root.to_owned(), vec!["memory".to_owned()]);
        MemoryAlarms::new(Tree::v1(vec![memory], Arc::new(ThisKernel)))
    }

    // behaviour: EVI-44
    #[tokio::test]
    async fn alarm_without_its_file_is_an_error() {
        let directory = tempfile::tempdir().unwrap();
        let alarms = v1(directory.path());
        let error = alarms.stalled("/kubepods").await.unwrap_err();
        assert!(error.is_unsupported());
        let error = error.to_string();
        assert!(error.contains("wait for memory pressure of"), "{error}");
        let error = alarms.crossed("/kubepods", 1).await.unwrap_err().to_string();
        assert!(error.contains("kubepods"), "{error}");
    }

    #[tokio::test]
    async fn machine_without_a_shortage_is_silent() {
        let directory = tempfile::tempdir().unwrap();
        let alarms = v1(directory.path());
        let wait = tokio::time::timeout(Duration::from_millis(50), alarms.stalled("/")).await;
        // Either nothing happens, or the kernel has no such information.
        assert!(!matches!(wait, Ok(Ok(()))), "{wait:?}");
    }
}
