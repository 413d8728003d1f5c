//! Log files in memory.

use std::io::{self, ErrorKind};
use std::path::{Component, Path};

use async_trait::async_trait;
use futures_util::FutureExt as _;
use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use model::ports::files::FileError;
use model::ports::log_files::{Cancel, LogFile, LogFiles, Written};
use model::rotated_log::compressed_name;
use tokio::sync::oneshot;

use super::tree::{Node, Tree};
use super::{MemoryFiles, failed};

/// The prefix of a file that stands for a gzip.
const GZIP: &[u8] = b"gzip:";

/// The number of path components of a log that come from a pod.
const NAMES_OF_A_LOG: usize = 3;

/// A log file that was found.
struct FoundLog {
    content: Vec<u8>,
    mode: u32,
}

impl MemoryFiles {
    /// The inode of a file: a writer that has it open writes there, regardless of its name.
    pub fn inode(&self, path: impl AsRef<Path>) -> Option<u64> {
        self.tree().placed(path.as_ref()).map(|placed| placed.inode)
    }

    /// Appends to the file of an inode; a removed file is ignored. Watches of the file fire.
    pub fn append(&self, inode: u64, text: &[u8]) {
        let mut tree = self.tree();
        let placed = tree.nodes.values_mut().find(|placed| placed.inode == inode);
        if let Some(Node::File { content, .. }) = placed.map(|placed| &mut placed.node) {
            content.extend_from_slice(text);
        }
        drop(tree);
        let watches = &mut *self.log_watches();
        for (_, watch) in watches.extract_if(.., |(watched, _)| *watched == inode) {
            // The receiver may be dropped.
            watch.send(()).ok();
        }
    }

    /// The names in a directory, in order; empty if it does not exist.
    pub fn names(&self, directory: impl AsRef<Path>) -> Vec<String> {
        self.tree().list(directory.as_ref()).unwrap_or_default()
    }

    /// The number of watches for a write.
    pub fn watched_logs(&self) -> usize {
        let mut watches = self.log_watches();
        watches.retain(|(_, watch)| !watch.is_closed());
        watches.len()
    }

    /// The number of size checks of log files.
    pub fn log_looks(&self) -> usize {
        self.tree().log_looks
    }

    /// The text of a compressed file; `None` if it is not compressed.
    pub fn unzipped(&self, path: impl AsRef<Path>) -> Option<Vec<u8>> {
        self.content(path)?.strip_prefix(GZIP).map(<[u8]>::to_vec)
    }

    /// Makes compressions fail, as on a full disk, or work again.
    pub fn fill_disk(&self, is_full: bool) {
        self.tree().is_full = is_full;
    }
}

fn error(operation: &'static str, path: &Path, kind: ErrorKind) -> FileError {
    FileError { operation, path: path.to_owned(), source: io::Error::from(kind) }
}

/// A regular log file, reached without following a link.
fn found(tree: &Tree, file: &Path) -> Result<FoundLog, ErrorKind> {
    if let Some(kind) = tree.broken.get(file) {
        return Err(*kind);
    }
    let root = file.ancestors().nth(NAMES_OF_A_LOG).ok_or(ErrorKind::InvalidInput)?;
    let below = file.strip_prefix(root).map_err(|_| ErrorKind::InvalidInput)?;
    if below.components().any(|part| !matches!(part, Component::Normal(_))) {
        return Err(ErrorKind::InvalidInput);
    }
    match tree.at(&tree.beneath(root, below)?) {
        Some(Node::File { content, mode }) => {
            Ok(FoundLog { content: content.clone(), mode: *mode })
        }
        Some(_) => Err(ErrorKind::InvalidInput),
        None => Err(ErrorKind::NotFound),
    }
}

#[async_trait]
impl LogFiles for MemoryFiles {
    async fn size(&self, file: &Path) -> Result<u64, FileError> {
        let mut tree = self.tree();
        tree.log_looks += 1;
        let found = found(&tree, file).map_err(failed("stat log", file))?;
        Ok(found.content.len() as u64)
    }

    async fn list(&self, log: &Path) -> Result<Vec<LogFile>, FileError> {
        let tree = self.tree();
        let directory = log.parent().ok_or_else(|| error("list", log, ErrorKind::InvalidInput))?;
        let names = tree.list(directory).map_err(failed("list the files of the log", log))?;
        let files = names.into_iter().filter_map(|name| match tree.at(&directory.join(&name)) {
            Some(Node::File { content, .. }) => Some(LogFile { size: content.len() as u64, name }),
            _ => None,
        });
        Ok(files.collect())
    }

    async fn rename(&self, from: &Path, to: &Path) -> Result<(), FileError> {
        let mut tree = self.tree();
        let failed = |kind| error("rename the log", from, kind);
        found(&tree, from).map_err(failed)?;
        if from.parent() != to.parent() {
            return Err(failed(ErrorKind::InvalidInput));
        }
        if tree.at(to).is_some() {
            return Err(failed(ErrorKind::AlreadyExists));
        }
        tree.rename(from, to);
        Ok(())
    }

    async fn compress(&self, file: &Path, cancel: &Cancel) -> Result<u64, FileError> {
        let failed = |kind| error("compress the rotated log", file, kind);
        // A caller can cancel the call here.
        tokio::task::yield_now().await;
        let mut tree = self.tree();
        let FoundLog { content, mode } = found(&tree, file).map_err(failed)?;
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        let gzip = file.with_file_name(compressed_name(&name));
        if cancel.is_cancelled() {
            return Err(failed(ErrorKind::Interrupted));
        }
        if tree.is_full {
            return Err(failed(ErrorKind::StorageFull));
        }
        if tree.at(&gzip).is_some() {
            return Err(failed(ErrorKind::AlreadyExists));
        }
        let content = [GZIP, &content].concat();
        let size = content.len() as u64;
        tree.insert(&gzip, Node::File { content, mode });
        tree.prune(file);
        Ok(size)
    }

    async fn watch(&self, log: &Path) -> Result<Written, FileError> {
        let tree = self.tree();
        found(&tree, log).map_err(failed("watch", log))?;
        if let Some(kind) = tree.no_watches {
            return Err(error("watch", log, kind));
        }
        let inode = tree.placed(log).map(|placed| placed.inode).unwrap_or_default();
        drop(tree);
        let (sender, written) = oneshot::channel();
        self.log_watches().push((inode, sender));
        Ok(written.map(drop).boxed())
    }

    fn local_time(&self, at: Timestamp) -> DateTime {
        at.to_zoned(TimeZone::UTC).datetime()
    }
}
