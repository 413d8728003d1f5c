//! Rotating a log: rename, reopen, delete the oldest.

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

/// How long the runtime may take to open a log again. Afterwards the log gets its name back.
const REOPEN_LIMIT: Duration = Duration::from_secs(10);

/// Opens the log of a running container again after it was renamed.
#[async_trait]
pub trait ReopenLog: Debug + Send + Sync {
    /// Opens it.
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
    #[error("the runtime did not open the log again: {0}")]
    Reopen(String),
}

impl Shared {
    /// Makes the runtime open a log again.
    pub(crate) async fn reopen(&self, log: &Log) -> Result<(), RotationError> {
        match timeout(REOPEN_LIMIT, self.parts.runtime.reopen(&log.id)).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(RotationError::Reopen(Chain(&error).to_string())),
            Err(_) => Err(RotationError::Reopen(format!("no answer in {REOPEN_LIMIT:?}"))),
        }
    }

    /// Rotates a log. What goes is deleted afterwards, so that a rotation that fails loses nothing.
    pub(crate) async fn rotate(&self, log: &Arc<Log>) -> Result<(), RotationError> {
        // With files that cannot be deleted there is no rotation: it would only make more of them.
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
                    // The runtime opened a new file after all.
                    debug!(container = %log.id, file = name, "Container log was rotated in spite of the error");
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

    /// After a rotation, deletes and compresses what is due.
    pub(crate) async fn after_rotation(&self, log: &Arc<Log>) -> Result<u64, FileError> {
        let directory = self.tidy(log).await?;
        self.keep_pod_limit(log).await;
        if self.settings.max_size.is_some() && directory.compressible().is_some() {
            self.queue.push(log);
        }
        Ok(directory.live.unwrap_or(0))
    }
}
