//! Saves statuses for the next agent where no API server stores them: restart counts, last states, start times and
//! the transition times of conditions.
//!
//! A change is written within a second, together with all others of that second.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::PodStatus;
use model::chain::Chain;
use model::checkpoint::{Checkpoint, Format, MovedAside, TakenOver};
use model::ids::PodUid;
use model::ports::files::{FileError, HostFiles};
use tokio::sync::watch;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tracing::warn;

use crate::decide::{SavedPods, restored};
use crate::store::StatusReader;

const FILE: &str = "pod-statuses.json";
const FORMAT: Format = Format { version: 1, limit: 32 << 20 };

/// How long a change waits for others.
const GATHER: Duration = Duration::from_secs(1);

/// The wait after a write that failed.
const RETRY: Duration = Duration::from_secs(10);

/// Statuses by the UIDs of pods.
pub(crate) type Saved = BTreeMap<PodUid, Arc<PodStatus>>;

/// The file, and which pods it has.
#[derive(Debug)]
pub struct StatusCheckpoint {
    file: Checkpoint<BTreeMap<String, PodStatus>>,
    pods: SavedPods,
    /// The content of the file, once it was loaded.
    loaded: watch::Sender<Option<Saved>>,
}

impl StatusCheckpoint {
    /// A file of this directory. Nothing is read or written yet.
    pub fn new(files: Arc<dyn HostFiles>, state: &Path, pods: SavedPods) -> Self {
        let file = Checkpoint::new(files, state.join(FILE), FORMAT);
        Self { file, pods, loaded: watch::Sender::new(None) }
    }

    /// Reads what an earlier agent saved. A file that cannot be read is an error: it may be intact, and would be
    /// overwritten.
    pub(crate) async fn load(&self) -> Result<Saved, FileError> {
        let TakenOver { value, aside } = self.file.take_over().await?;
        if let Some(MovedAside { path, why }) = aside {
            warn!(path = %path.display(), error = %Chain(&why), "Pod status checkpoint is corrupt, moved aside");
        }
        let saved = value.unwrap_or_default().into_iter();
        let saved: Saved = saved
            .map(|(uid, status)| (PodUid::from(uid.as_str()), Arc::new(restored(status))))
            .collect();
        Ok(saved)
    }

    /// Called when the saved statuses are in the store: from now on changes are written.
    pub(crate) fn set_loaded(&self, saved: Saved) {
        self.loaded.send_replace(Some(saved));
    }

    /// Writes changes until `stop` is cancelled, and then the last ones.
    pub(crate) async fn run(&self, statuses: &StatusReader, stop: CancellationToken) {
        stop.run_until_cancelled(self.loaded()).await;
        let mut written = self.loaded.borrow().clone();
        if written.is_none() {
            return;
        }
        let mut changes = statuses.subscribe();
        loop {
            // Before the statuses are read: later changes wake the next turn.
            changes.mark_unchanged();
            let saved = statuses.saved(self.pods);
            let is_written = is_same(written.as_ref(), &saved) || self.write(&saved).await;
            if is_written {
                written = Some(saved);
            }
            let due = async {
                if !is_written {
                    sleep(RETRY).await;
                } else if changes.changed().await.is_err() {
                    std::future::pending::<()>().await;
                }
                sleep(GATHER).await;
            };
            if stop.run_until_cancelled(due).await.is_none() {
                break;
            }
        }
        let saved = statuses.saved(self.pods);
        if !is_same(written.as_ref(), &saved) {
            self.write(&saved).await;
        }
    }

    /// Waits until the file was loaded.
    async fn loaded(&self) {
        self.loaded.subscribe().wait_for(Option::is_some).await.ok();
    }

    async fn write(&self, saved: &Saved) -> bool {
        let saved: BTreeMap<&str, &PodStatus> =
            saved.iter().map(|(uid, status)| (uid.as_str(), &**status)).collect();
        match self.file.write_borrowed(&saved).await {
            Ok(()) => true,
            Err(error) => {
                let path = self.file.path().display();
                warn!(%path, error = %Chain(&error), "Cannot write pod status checkpoint, retrying later");
                false
            }
        }
    }
}

/// Whether both have the same statuses. An equal status is the same object, as the store keeps it.
fn is_same(written: Option<&Saved>, saved: &Saved) -> bool {
    let is_same = |((uid, one), (other_uid, other)): ((&PodUid, &Arc<PodStatus>), _)| {
        uid == other_uid && Arc::ptr_eq(one, other)
    };
    written.is_some_and(|written| {
        written.len() == saved.len() && written.iter().zip(saved).all(is_same)
    })
}
