//! The text of containers' logs, from the files that the runtime writes.
//!
//! ```text
//!  file ──chunks──> text::Text (pure: lines, times, partial lines) ──> text
//!    ^ tail: where to begin, found from the end
//!    ^ notice: something was written, or a second passed
//! ```

mod line;
mod notice;
mod reader;
mod tail;
mod text;

use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use futures_util::StreamExt as _;
use futures_util::stream;
use model::ports::files::FileError;
use model::ports::logs::{ContainerLogs, Ended, LogRequest, LogText};
use tokio::sync::Semaphore;

use reader::Reader;

/// How many readers at a time are told of changes by the kernel, which has few such channels for
/// all processes together. Further ones look once a second.
const MOST_NOTIFIED: usize = 16;

/// The logs on this host.
#[derive(Debug, Clone)]
pub struct HostLogs {
    notified: Arc<Semaphore>,
}

impl HostLogs {
    /// Nobody reads yet.
    pub fn new() -> Self {
        Self { notified: Arc::new(Semaphore::new(MOST_NOTIFIED)) }
    }
}

impl Default for HostLogs {
    fn default() -> Self {
        Self::new()
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
        let permit =
            follow.as_ref().and_then(|_| Arc::clone(&self.notified).try_acquire_owned().ok());
        let reader = Reader::open(path, request, follow, permit).await?;
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
