//! The host's files: the implementation of the files and logs ports, and the agent's own lock, socket and
//! state; and the programs that control its packet filter.
//!
//! Inputs: paths from the configuration, with names from pods below them. Outputs: listings and change
//! notifications, machine info, directories and links for the agent, its own crash-safe files, and the text of
//! container logs.
//!
//! Invariants:
//! - a path with names from pods never leaves its configured directory, and no symbolic link below it is
//!   followed: the kernel ensures that (`openat2`);
//! - directories are removed without entering links or mounts below them;
//! - a pod directory is removed only if all its content belongs to the agent: a volume with files in it
//!   stays;
//! - no file is read beyond its limit, regardless of its reported size, and only regular files are
//!   opened for reading;
//! - programs run without a shell and with a timeout;
//! - no caller waits for a file longer than its timeout: an unresponsive file system takes a limited number of
//!   threads, and few of them per pod.
#![allow(
    clippy::disallowed_methods,
    reason = "this crate is where the agent reads and writes files"
)]

mod addresses;
mod beneath;
mod calls;
mod claim;
mod device_checkpoint;
mod disk;
mod identity;
mod inspect;
mod journalctl;
mod kernel_log;
mod kernel_settings;
mod layout;
mod logs;
mod machine;
mod memory;
mod node_usage;
mod oom_score;
mod open_files;
mod output_program;
mod own_cgroup;
mod packet_filter;
mod pod_directory;
mod program;
mod removal;
mod replace;
mod segments;
mod socket;
mod subordinate_ids;
mod system_logs;
#[cfg(test)]
mod test_mount;
mod text;
mod tree;
mod volumes;
mod watch;

use std::io;
use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use model::ports::files::{
    DirectoryWatch, Entry, FileError, FileVersion, FoundFile, HostFiles, Removed, draft_of,
};
use model::verdict::{Subject, Verdict};

pub use addresses::{HostAddresses, by_default_route};
pub use blocking::{Call, CallError, Pool, Size, StuckCall};
pub use claim::{Claim, claim, claim_within};
pub use device_checkpoint::device_checkpoint;
pub use identity::{identity, uptime};
pub use journalctl::{JournalGuard, JournalOutput, Journalctl};
pub use kernel_log::HostKernelLog;
pub use kernel_settings::{KernelSettings, in_user_namespace};
pub use layout::lay_out;
pub use logs::HostLogs;
pub use machine::{disk_bytes, limits_processors, machine};
pub use memory::{return_freed_memory, share_one_heap};
pub use node_usage::HostUsage;
pub use oom_score::set_oom_score_adj;
pub use open_files::set_open_files;
pub use output_program::HostPrograms;
pub use own_cgroup::own_cgroup;
pub use packet_filter::HostPacketFilter;
pub use replace::{replace, replace_with_mode};
pub use segments::HostSegments;
pub use socket::{LONGEST_SOCKET_PATH, Socket, SocketError, listen, listen_with_mode};
pub use subordinate_ids::subordinate_ids;
pub use system_logs::{OpenedLog, open_system_log};
pub use volumes::HostVolumes;

/// The files of this host. All clones share one inotify instance, which is a limited resource.
#[derive(Debug, Clone, Default)]
pub struct Host {
    watches: Arc<watch::Watches>,
    walks: disk::Walks,
    volume_spaces: disk::VolumeSpaces,
}

impl Host {
    /// The logs of this host, with the same inotify instance.
    pub fn logs(&self) -> HostLogs {
        HostLogs::new(Arc::clone(&self.watches))
    }

    /// The volumes of this host, with the same threads.
    pub fn volumes(&self) -> HostVolumes {
        HostVolumes::new(self.clone())
    }

    /// The threads for file operations, including those of logs and watches.
    pub fn pool(&self) -> &Pool {
        self.watches.pool()
    }

    /// The threads for walks through volumes.
    pub fn walk_pool(&self) -> &Pool {
        &self.walks.0
    }

    /// The threads that measure the file systems of volumes.
    pub fn volume_space_pool(&self) -> &Pool {
        &self.volume_spaces.0
    }
}

#[async_trait]
impl HostFiles for Host {
    async fn list(&self, directory: &Path) -> Result<Vec<String>, FileError> {
        self.call("list", directory, |directory| {
            let mut names = Vec::new();
            for entry in std::fs::read_dir(directory)? {
                names.push(entry?.file_name().to_string_lossy().into_owned());
            }
            names.sort();
            Ok(names)
        })
        .await
    }

    async fn read(&self, path: &Path, limit: u64) -> Result<Vec<u8>, FileError> {
        self.call("read", path, move |path| inspect::read(&inspect::open(path)?, limit)).await
    }

    async fn look(&self, path: &Path) -> Result<FoundFile, FileError> {
        self.call("stat", path, inspect::found).await
    }

    async fn entries(&self, directory: &Path) -> Result<Vec<Entry>, FileError> {
        self.call("list", directory, inspect::entries).await
    }

    async fn read_version(
        &self,
        path: &Path,
        limit: u64,
    ) -> Result<(FileVersion, Vec<u8>), FileError> {
        self.call("read", path, move |path| inspect::read_version(path, limit)).await
    }

    async fn watch(&self, directory: &Path) -> Result<Box<dyn DirectoryWatch>, FileError> {
        Ok(Box::new(self.watches.watch(directory).await?))
    }

    async fn write_durably(&self, path: &Path, content: &[u8]) -> Result<(), FileError> {
        let content = content.to_owned();
        self.call("write", path, move |path| replace(path, &content)).await
    }

    async fn overwrite(&self, path: &Path, content: &[u8], mode: u32) -> Result<(), FileError> {
        let content = content.to_owned();
        self.call("write", path, move |path| replace::overwrite(path, &content, mode)).await
    }

    async fn remove_written(&self, path: &Path) -> Result<(), FileError> {
        self.call("remove", path, replace::remove).await
    }

    async fn create_directory(
        &self,
        root: &Path,
        below: &Path,
        mode: u32,
    ) -> Result<(), FileError> {
        let (whole, root, below) = (root.join(below), root.to_owned(), below.to_owned());
        self.call("create directory", &whole, move |_| beneath::create(&root, &below, mode)).await
    }

    async fn create_file(&self, root: &Path, below: &Path, mode: u32) -> Result<(), FileError> {
        let (whole, root, below) = (root.join(below), root.to_owned(), below.to_owned());
        self.call("create file", &whole, move |_| beneath::create_file(&root, &below, mode)).await
    }

    async fn read_end(&self, root: &Path, below: &Path, limit: u64) -> Result<Vec<u8>, FileError> {
        let (whole, root, below) = (root.join(below), root.to_owned(), below.to_owned());
        self.call("read", &whole, move |_| beneath::read_end(&root, &below, limit)).await
    }

    async fn link(&self, target: &Path, link: &Path) -> Result<(), FileError> {
        let target = target.to_owned();
        self.call("make link", link, move |link| {
            if !target.exists() {
                return Ok(());
            }
            if let Some(directory) = link.parent() {
                std::fs::create_dir_all(directory)?;
            }
            match std::os::unix::fs::symlink(&target, link) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    if !std::fs::symlink_metadata(link)?.is_symlink() {
                        return Err(error);
                    }
                    // Renamed over it, so that there is a link at all times.
                    let name = link.file_name().unwrap_or_default().to_string_lossy();
                    let draft = link.with_file_name(draft_of(&name));
                    match std::fs::remove_file(&draft) {
                        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                        _ => {}
                    }
                    std::os::unix::fs::symlink(&target, &draft)?;
                    std::fs::rename(&draft, link)
                }
                result => result,
            }
        })
        .await
    }

    async fn remove(&self, root: &Path, verdict: &Verdict) -> Result<Removed, FileError> {
        let (path, kind) = match &verdict.subject {
            Subject::PodDirectory(path) => (path, removal::Removal::Pod),
            Subject::Volume(path) => (path, removal::Removal::Volume),
            Subject::PodLogs(path) => (path, removal::Removal::Directory),
            Subject::ContainerLog(path) => (path, removal::Removal::Log),
            Subject::RotatedLog(path) => (path, removal::Removal::RotatedLog),
            Subject::LogLink(path) => (path, removal::Removal::Link),
            _ => {
                let source = io::Error::new(io::ErrorKind::InvalidInput, verdict.to_string());
                return Err(FileError { operation: "remove from", path: root.to_owned(), source });
            }
        };
        let root = root.to_owned();
        let work = move |path: &Path| removal::remove(&root, path, kind);
        self.call_within(calls::REMOVAL, "remove", path, work).await
    }
}
