//! Container checkpoints: the runtime writes the memory and the files of a container into an archive.
//!
//! Archives are as large as the container's memory and stay until someone removes them. Upstream writes any
//! number of them (CVE-2025-0426 was the same without authentication); here one is written at a time, and their
//! number is limited.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use hyper::StatusCode;
use hyper::header::RETRY_AFTER;
use model::chain::Chain;
use model::ids::PodName;
use model::ports::clock::WallClock;
use model::ports::files::{FileError, HostFiles};
use model::ports::streaming::CheckpointRequest;
use serde_json::json;
use tokio::sync::Semaphore;

use super::{Refused, StreamPath, Streams, internal, not_found, refused};
use crate::decide::{checkpoint_name, checkpoint_timeout, has_container};
use crate::respond::{Answer, error_text, json};

/// The directory below the root directory.
const DIRECTORY: &str = "checkpoints";
/// The mode of the directory: archives contain the memory of containers.
const DIRECTORY_MODE: u32 = 0o700;

/// The limit of archives.
const MOST_ARCHIVES: usize = 64;

/// Writes checkpoints.
#[derive(Debug)]
pub struct Checkpoints {
    root: PathBuf,
    directory: PathBuf,
    files: Arc<dyn HostFiles>,
    clock: Arc<dyn WallClock>,
    /// A permit for the current checkpoint.
    turn: Semaphore,
}

impl Checkpoints {
    /// Checkpoints in a directory below the root directory of the agent.
    pub fn new(root: PathBuf, files: Arc<dyn HostFiles>, clock: Arc<dyn WallClock>) -> Self {
        let directory = root.join(DIRECTORY);
        Self { root, directory, files, clock, turn: Semaphore::new(1) }
    }

    /// Creates the directory if it is missing.
    async fn create_directory(&self) -> Result<(), FileError> {
        self.files.create_directory(&self.root, Path::new(DIRECTORY), DIRECTORY_MODE).await
    }

    /// Refuses a checkpoint when there are too many.
    async fn check_room(&self) -> Result<(), Refused> {
        // If the directory cannot be listed, the runtime cannot write there either, and reports that.
        let archives = self.files.list(&self.directory).await.map_or(0, |names| names.len());
        if archives < MOST_ARCHIVES {
            return Ok(());
        }
        let message = format!(
            "{} has {archives} checkpoints and at most {MOST_ARCHIVES} are kept: remove some",
            self.directory.display()
        );
        Err(refused(error_text(StatusCode::INSUFFICIENT_STORAGE, message)))
    }
}

impl Streams {
    /// Writes a checkpoint of a running container; the answer names the archive.
    pub async fn checkpoint(
        &self,
        path: &StreamPath,
        query: Option<&str>,
        checkpoints: &Checkpoints,
    ) -> Answer {
        match self.written_checkpoint(path, query, checkpoints).await {
            Ok(location) => json(StatusCode::OK, &json!({ "items": [location] })),
            Err(refused) => *refused.0,
        }
    }

    async fn written_checkpoint(
        &self,
        path: &StreamPath,
        query: Option<&str>,
        checkpoints: &Checkpoints,
    ) -> Result<String, Refused> {
        let (pod, _) = self.pod(path)?;
        if !has_container(&pod, &path.container) {
            return Err(not_found(&format!("container {} does not exist", path.container)));
        }
        let Some(seconds) = checkpoint_timeout(query) else {
            return Err(not_found("cannot parse value of timeout parameter"));
        };
        let PodName { namespace, name } = &path.pod;
        let failed = |why: &str| {
            let of = format!("{namespace}/{name}/{}", path.container);
            internal(format!("checkpointing of {of} failed ({why})"))
        };
        let Ok(seconds) = u64::try_from(seconds) else {
            return Err(failed("the timeout value must be > 0"));
        };
        let Ok(_turn) = checkpoints.turn.try_acquire() else {
            let mut answer =
                error_text(StatusCode::TOO_MANY_REQUESTS, "another checkpoint is being written");
            answer.headers_mut().insert(RETRY_AFTER, super::RETRY);
            return Err(refused(answer));
        };
        checkpoints.create_directory().await.map_err(|error| failed(&Chain(&error).to_string()))?;
        checkpoints.check_room().await?;
        let missing = format!("container {} not found", path.container);
        let (_, container) = self.container(path, &missing).await.map_err(|_| failed(&missing))?;
        let file = checkpoint_name(&path.pod, &path.container, checkpoints.clock.now());
        let location = checkpoints.directory.join(file);
        let timeout = Some(Duration::from_secs(seconds)).filter(|timeout| !timeout.is_zero());
        let request = CheckpointRequest { container, location: location.clone(), timeout };
        let written = self.runtime.checkpoint_container(&request).await;
        written.map_err(|error| failed(&error.rpc_text()))?;
        Ok(location.display().to_string())
    }
}
