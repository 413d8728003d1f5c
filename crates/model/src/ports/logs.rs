//! Logs of containers.

use std::fmt::Debug;
use std::path::Path;

use async_trait::async_trait;
use futures_core::future::BoxFuture;
use futures_core::stream::BoxStream;
use jiff::Timestamp;

use super::files::FileError;

/// Which of the streams of a container are wanted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum LogStream {
    /// Both.
    #[default]
    All,
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// Which part of a log is wanted, and how it is shown. Nothing set shows all of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LogRequest {
    /// Only this many lines from the end. Lines are those of the file: what a container wrote as one
    /// may have been split by the runtime.
    pub tail_lines: Option<u64>,
    /// Nothing that was written before.
    pub since: Option<Timestamp>,
    /// Whether each line begins with the time at which it was written.
    pub timestamps: bool,
    /// No more than this many bytes.
    pub limit_bytes: Option<u64>,
    /// Which streams.
    pub stream: LogStream,
}

/// Resolves when the container has ended, so that nothing will be written any more.
pub type Ended = BoxFuture<'static, ()>;

/// The text of a log in pieces, none of them empty. An error is the last item.
pub type LogText = BoxStream<'static, Result<Vec<u8>, FileError>>;

/// Reads the logs that the runtime writes for containers.
#[async_trait]
pub trait ContainerLogs: Debug + Send + Sync {
    /// Opens the log at a path as the runtime names it, with its rotated files before it. With `follow`, what is still to be written
    /// comes too, across rotations of the file, until the container has ended or the file was removed, and all is
    /// read.
    async fn open(
        &self,
        path: &Path,
        request: &LogRequest,
        follow: Option<Ended>,
    ) -> Result<LogText, FileError>;
}
