//! Logs of containers.

use std::fmt::Debug;
use std::path::Path;

use async_trait::async_trait;
use futures_core::future::BoxFuture;
use futures_core::stream::BoxStream;
use jiff::Timestamp;

use super::files::FileError;

/// The requested streams of a container.
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

/// The requested part of a log, and its format. The default is all of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LogRequest {
    /// Only this many lines from the end. Lines are those of the file: the runtime may have split
    /// long lines of the container.
    pub tail_lines: Option<u64>,
    /// Only lines written since this time.
    pub since: Option<Timestamp>,
    /// Whether each line begins with the time at which it was written.
    pub timestamps: bool,
    /// The maximum number of bytes.
    pub limit_bytes: Option<u64>,
    /// The streams.
    pub stream: LogStream,
}

/// Resolves when the container has exited, so that nothing more will be written.
pub type Ended = BoxFuture<'static, ()>;

/// The text of a log in pieces, none of them empty. An error is the last item.
pub type LogText = BoxStream<'static, Result<Vec<u8>, FileError>>;

/// Reads the logs that the runtime writes for containers.
#[async_trait]
pub trait ContainerLogs: Debug + Send + Sync {
    /// Opens the log at the path that the runtime reports, with its rotated files before it. With `follow`, new lines
    /// are included, across rotations of the file, until the container has exited or the file was removed, and all is
    /// read.
    async fn open(
        &self,
        path: &Path,
        request: &LogRequest,
        follow: Option<Ended>,
    ) -> Result<LogText, FileError>;
}
