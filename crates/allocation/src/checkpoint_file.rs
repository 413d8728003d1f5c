//! When the checkpoint of allocations is written.
//!
//! It is written in the background of the sync loop: one write for all pods that were admitted within a moment, or were granted
//! a resize since the last write. A pod starts without waiting for it; a resize takes effect once it is saved.
//! The removal of a pod is written with the next change, or when there is time.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use model::chain::Chain;
use model::checkpoint::{Checkpoint, Format, MovedAside, TakenOver};
use model::ids::PodUid;
use model::ports::files::{FileError, HostFiles};
use podspec::SavedAllocation;
use tokio::task::JoinSet;
use tracing::{error, warn};

const FILE: &str = "allocated-resources.json";
const FORMAT: Format = Format { version: 1, limit: 16 << 20 };

/// How long admitted pods wait for others before they are saved. If the agent is killed meanwhile, their
/// containers show what they were created with.
const GATHER: Duration = Duration::from_secs(1);

/// The content, by the UIDs of pods.
pub(crate) type Record = BTreeMap<String, SavedAllocation>;

/// The file, and what it lacks.
#[derive(Debug)]
pub(crate) struct CheckpointFile {
    file: Arc<Checkpoint<Record>>,
    /// Whether an allocation is not in the file.
    unwritten: bool,
    /// Whether the file has pods that were removed.
    stale: bool,
    /// Whether the next write starts without waiting for further changes.
    urgent: bool,
    /// At most one wait for further changes. Dropped with the loop.
    gathering: JoinSet<()>,
    /// At most one write. Dropped with the loop.
    writing: JoinSet<Result<(), FileError>>,
}

/// A write has ended, or is due.
#[derive(Debug)]
pub struct CheckpointWrite(pub(crate) Option<Result<(), FileError>>);

impl CheckpointFile {
    /// Creates the file in this directory.
    pub(crate) fn new(files: Arc<dyn HostFiles>, state: &Path) -> Self {
        Self {
            file: Arc::new(Checkpoint::new(files, state.join(FILE), FORMAT)),
            unwritten: false,
            stale: false,
            urgent: false,
            gathering: JoinSet::new(),
            writing: JoinSet::new(),
        }
    }

    /// Reads what an earlier agent allocated. A file that cannot be read is an error: it may be intact, and would
    /// be overwritten.
    pub(crate) async fn load(&self) -> Result<Vec<(PodUid, SavedAllocation)>, FileError> {
        let TakenOver { value, aside } = self.file.take_over().await?;
        if let Some(MovedAside { path, why }) = aside {
            warn!(path = %path.display(), error = %Chain(&why), "Allocation checkpoint is corrupt, moved aside; using container state");
        }
        let saved = value.unwrap_or_default().into_iter();
        Ok(saved.map(|(uid, saved)| (PodUid::from(uid.as_str()), saved)).collect())
    }

    /// Records that an allocation is not in the file.
    pub(crate) fn changed(&mut self) {
        self.unwritten = true;
    }

    /// Records that the file has a pod that was removed.
    pub(crate) fn removed(&mut self) {
        self.stale = true;
    }

    /// Makes the next write start immediately.
    pub(crate) fn hurry(&mut self) {
        self.urgent = true;
    }

    /// Writes everything immediately that the file does not have.
    pub(crate) fn tidy(&mut self) {
        self.unwritten |= self.stale;
        self.hurry();
    }

    /// Whether to write now, given whether there are granted resizes; else admitted pods wait for others.
    pub(crate) fn is_due(&mut self, are_granted: bool) -> bool {
        if !self.urgent && !are_granted {
            if self.unwritten && self.gathering.is_empty() {
                self.gathering.spawn(tokio::time::sleep(GATHER));
            }
            return false;
        }
        // The next write follows the one in progress.
        if !self.writing.is_empty() {
            return false;
        }
        self.urgent = false;
        self.unwritten || are_granted
    }

    /// Starts a write.
    pub(crate) fn write(&mut self, record: Record) {
        (self.unwritten, self.stale) = (false, false);
        let file = Arc::clone(&self.file);
        self.writing.spawn(async move { file.write(&record).await });
    }

    /// Whether a write is in progress.
    pub(crate) fn is_writing(&self) -> bool {
        !self.writing.is_empty()
    }

    /// Waits until a write has ended, or is due; never returns while there is none.
    pub(crate) async fn written(&mut self) -> CheckpointWrite {
        let Self { file, gathering, writing, .. } = self;
        let ended = async {
            match writing.join_next().await {
                Some(Ok(written)) => written,
                Some(Err(error)) => {
                    error!(%error, "Write of the allocation checkpoint panicked");
                    let (path, source) = (file.path().to_owned(), std::io::Error::other(error));
                    Err(FileError { operation: "write", path, source })
                }
                None => std::future::pending().await,
            }
        };
        let due = async {
            if gathering.join_next().await.is_none() {
                std::future::pending::<()>().await;
            }
        };
        // Biased: both come at most once for a change.
        tokio::select! {
            biased;
            ended = ended => CheckpointWrite(Some(ended)),
            () = due => CheckpointWrite(None),
        }
    }

    /// Handles a failed write.
    pub(crate) fn failed(&mut self, error: &FileError) {
        let path = self.file.path().display();
        warn!(%path, error = %Chain(error), "Cannot write allocation checkpoint, retrying later");
        self.unwritten = true;
    }
}
