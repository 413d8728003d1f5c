//! The text of container logs, from the files of the runtime.
//!
//! ```text
//!  file ──chunks──> text::Text (pure: lines, times, partial lines) ──> text
//!    ^ tail: the start position, searched from the end
//!    ^ rotated: older files of the log, compressed or not, which are read first
//!    ^ notice: the log was written, or a second has passed
//! ```

mod line;
mod notice;
mod reader;
mod rotated;
mod rotation;
mod tail;
mod text;

use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use futures_util::StreamExt as _;
use futures_util::stream;
use model::ports::files::FileError;
use model::ports::logs::{ContainerLogs, Ended, LogRequest, LogText};

use crate::watch::Watches;
use reader::Reader;

/// The logs of this host.
#[derive(Debug, Clone, Default)]
pub struct HostLogs {
    watches: Arc<Watches>,
}

impl HostLogs {
    /// Logs without readers. All readers share the watches: inotify instances are limited.
    pub(crate) fn new(watches: Arc<Watches>) -> Self {
        Self { watches }
    }
}

#[async_trait]
impl ContainerLogs for HostLogs {
    async fn open(
        &self,
        path: &Path,
        request: &LogRequest,
        follow: Option<Ended>,
    ) -> Result<LogText, FileError> {
        let reader = Reader::open(path, request, follow, &self.watches).await?;
        let pieces = stream::unfold(Some(reader), |reader| async move {
            let mut reader = reader?;
            match reader.next().await {
                Ok(Some(text)) => Some((Ok(text), Some(reader))),
                Ok(None) => None,
                Err(error) => Some((Err(error), None)),
            }
        });
        Ok(pieces.boxed())
    }
}

#[cfg(test)]
#[path = "logs_tests.rs"]
mod tests;
