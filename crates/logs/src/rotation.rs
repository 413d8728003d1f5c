//! Rotates a log: rename, reopen, delete the oldest.

use std::fmt::Debug;
use std::io::ErrorKind;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use model::chain::Chain;
use model::ids::ContainerId;
use model::ports::files::FileError;
use model::ports::runtime::{Runtime, RuntimeError};
use tokio::time::timeout;
use tracing::{debug, warn};

use crate::shared::Shared;
use crate::table::Log;

/// How long the runtime may take to reopen a log. After that the log gets its name back.
const REOPEN_LIMIT: Duration = Duration::from_secs(10);

/// Reopens the log of a running container after it was renamed.
#[async_trait]
pub trait ReopenLog: Debug + Send + Sync {
    /// Reopens the log.
    async fn reopen(&self, id: &ContainerId) -> Result<(), RuntimeError>;
}

#[async_trait]
impl ReopenLog for Runtime {
    async fn reopen(&self, id: &ContainerId) -> Result<(), RuntimeError> {
        self.containers.reopen_container_log(id).await
    }
}

/// Why a log was not rotated.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RotationError {
    #[error("failed to prepare the rotation")]
    Prepare(#[source] FileError),
    #[error("failed to rename the live file")]
    Rename(#[source] FileError),
    #[error("the runtime did not reopen the log: {0}")]
    Reopen(String),
}

impl Shared {
    /// Makes the runtime reopen a log.
    pub(crate) async fn reopen(&self, log: &Log) -> Result<(), RotationError> {
        match timeout(REOPEN_LIMIT, self.parts.runtime.reopen(&log.id)).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(RotationError::Reopen(Chain(&error).to_string())),
            Err(_) => Err(RotationError::Reopen(format!("no answer in {REOPEN_LIMIT:?}"))),
        }
    }

    /// Rotates a log. Files are deleted afterwards, so that a failed rotation loses nothing.
    pub(crate) async fn rotate(&self, log: &Arc<Log>) -> Result<(), RotationError> {
        // If files cannot be deleted, the log is not rotated: that would only add files.
        let directory = self.tidy(log).await.map_err(RotationError::Prepare)?;
        let now = self.parts.files.local_time(self.parts.clock.now());
        let name = directory.next_name(now).file_name(&log.name);
        let rotated = log.path.with_file_name(&name);
        let renamed = self.parts.files.rename(&log.path, &rotated).await;
        renamed.map_err(RotationError::Rename)?;
        if let Err(error) = self.reopen(log).await {
            match self.parts.files.rename(&rotated, &log.path).await {
                Ok(()) => {}
                Err(back) if back.source.kind() == ErrorKind::AlreadyExists => {
                    // The runtime opened a new file despite its error.
                    debug!(container = %log.id, file = name, "Container log was rotated despite the error");
                }
                Err(back) => {
                    warn!(container = %log.id, file = name, error = %Chain(&back),
                        "Cannot rename container log back");
                }
            }
            return Err(error);
        }
        debug!(container = %log.id, file = name, "Rotated container log");
        Ok(())
    }

    /// Deletes and compresses files after a rotation.
    pub(crate) async fn after_rotation(&self, log: &Arc<Log>) -> Result<u64, FileError> {
        let directory = self.tidy(log).await?;
        self.keep_pod_limit(log).await;
        if self.settings.max_size.is_some() && directory.compressible().is_some() {
            self.queue.push(log);
        }
        Ok(directory.live.unwrap_or(0))
    }
}
