//! The files of container logs, for their rotation. [`super::logs`] reads them.

use std::fmt::Debug;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use futures_core::future::BoxFuture;
use jiff::Timestamp;
use jiff::civil::DateTime;

use super::files::FileError;

/// A file in the directory of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogFile {
    /// Its name.
    pub name: String,
    /// Its size in bytes.
    pub size: u64,
}

/// Resolves once a log was written to, or the kernel no longer watches it. Dropping it ends the watch.
pub type Written = BoxFuture<'static, ()>;

/// Stops the compression of a file. Clones share the state.
#[derive(Debug, Clone, Default)]
pub struct Cancel(Arc<AtomicBool>);

impl Cancel {
    /// Stops it, unless it is past its last step.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether to stop.
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Measures, renames and compresses the files of containers' logs. Paths are `ROOT/POD/CONTAINER/FILE`; the last three
/// names come from pods, so no link among them is followed. Removals are calls of
/// [`HostFiles`](super::files::HostFiles::remove), with a verdict.
#[async_trait]
pub trait LogFiles: Debug + Send + Sync {
    /// The size of a regular file; anything else is an error.
    async fn size(&self, file: &Path) -> Result<u64, FileError>;

    /// The regular files in the directory of a log, in the order of their names.
    async fn list(&self, log: &Path) -> Result<Vec<LogFile>, FileError>;

    /// Renames a file in its directory. An existing file with that name is an error (`AlreadyExists`), and stays.
    async fn rename(&self, from: &Path, to: &Path) -> Result<(), FileError>;

    /// Replaces a rotated file by its gzip with this [name](crate::rotated_log::compressed_name), the same mode and
    /// modification time; returns the size of the gzip. After a failure or a crash, the file
    /// or its whole gzip exists, or both. A crash may leave an [unfinished](crate::rotated_log::unfinished_name) file
    /// beside it; a failure leaves none.
    async fn compress(&self, file: &Path, cancel: &Cancel) -> Result<u64, FileError>;

    /// Watches a log for the next write, without cost until then. A hint: a write may be missed.
    async fn watch(&self, log: &Path) -> Result<Written, FileError>;

    /// Converts a time to the node's time zone.
    fn local_time(&self, at: Timestamp) -> DateTime;
}
