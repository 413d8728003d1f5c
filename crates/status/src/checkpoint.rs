//! Saves statuses for the next agent where no API server stores them: restart counts, last states, start times and
//! the transition times of conditions.
//!
//! A change is written within a second, together with all others of that second. The pods are spread over several
//! files, so that a change writes the statuses of a few pods, not of the whole node.

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

/// The directory of the files.
const DIRECTORY: &str = "pod-statuses";
/// The number of files.
const FILES: usize = 16;
/// The only file of earlier agents, which is read once and removed when the files above have its pods.
const EARLIER_FILE: &str = "pod-statuses.json";
const FORMAT: Format = Format { version: 1, limit: 32 << 20 };

/// How long a change waits for others.
const GATHER: Duration = Duration::from_secs(1);

/// The wait after a write that failed.
const RETRY: Duration = Duration::from_secs(10);

/// Statuses by the UIDs of pods.
pub(crate) type Saved = BTreeMap<PodUid, Arc<PodStatus>>;

/// A file with the statuses of some pods.
type StatusFile = Checkpoint<BTreeMap<String, PodStatus>>;

/// The files, and which pods they have.
#[derive(Debug)]
pub struct StatusCheckpoint {
    files: Vec<StatusFile>,
    earlier: StatusFile,
    pods: SavedPods,
    /// The content of the files, once it is in the store.
    loaded: watch::Sender<Option<Loaded>>,
}

/// The content of the files.
#[derive(Debug, Clone)]
pub(crate) struct Loaded {
    /// The statuses of each file.
    files: Vec<Saved>,
    /// The statuses of the file of an earlier agent, if it exists.
    earlier: Option<Saved>,
}

impl Loaded {
    /// The statuses of all pods.
    pub(crate) fn statuses(&self) -> Saved {
        let mut all = self.earlier.clone().unwrap_or_default();
        all.extend(self.files.iter().flatten().map(|(uid, status)| (uid.clone(), status.clone())));
        all
    }
}

impl StatusCheckpoint {
    /// Files below this directory. Nothing is read or written yet.
    pub fn new(files: Arc<dyn HostFiles>, state: &Path, pods: SavedPods) -> Self {
        let file = |path| Checkpoint::new(Arc::clone(&files), path, FORMAT);
        let directory = state.join(DIRECTORY);
        Self {
            files: (0..FILES).map(|at| file(directory.join(format!("{at}.json")))).collect(),
            earlier: file(state.join(EARLIER_FILE)),
            pods,
            loaded: watch::Sender::new(None),
        }
    }

    /// Reads what an earlier agent saved. A file that cannot be read is an error: it may be intact, and would be
    /// overwritten.
    pub(crate) async fn load(&self) -> Result<Loaded, FileError> {
        let earlier = take_over(&self.earlier).await?;
        let mut files = Vec::new();
        for file in &self.files {
            files.push(take_over(file).await?.unwrap_or_default());
        }
        Ok(Loaded { files, earlier })
    }

    /// Called when the loaded statuses are in the store: from now on changes are written.
    pub(crate) fn set_loaded(&self, loaded: Loaded) {
        self.loaded.send_replace(Some(loaded));
    }

    /// Writes changes until `stop` is cancelled, and then the last ones.
    pub(crate) async fn run(&self, statuses: &StatusReader, stop: CancellationToken) {
        stop.run_until_cancelled(self.loaded()).await;
        let Some(mut written) = self.loaded.send_replace(None) else { return };
        let mut changes = statuses.subscribe();
        loop {
            // Before the statuses are read: later changes wake the next turn.
            changes.mark_unchanged();
            let is_written = self.write(&mut written, statuses.saved(self.pods)).await;
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
        self.write(&mut written, statuses.saved(self.pods)).await;
    }

    /// Waits until the files were loaded.
    async fn loaded(&self) {
        self.loaded.subscribe().wait_for(Option::is_some).await.ok();
    }

    /// Writes the files that differ. Returns whether all files have these statuses now.
    async fn write(&self, written: &mut Loaded, statuses: Saved) -> bool {
        let mut all_written = true;
        let wanted = by_file(statuses);
        for ((file, saved), wanted) in self.files.iter().zip(&mut written.files).zip(wanted) {
            if is_same(saved, &wanted) {
                continue;
            }
            if write_file(file, &wanted).await {
                *saved = wanted;
            } else {
                all_written = false;
            }
        }
        if all_written && written.earlier.is_some() {
            all_written = succeeded(&self.earlier, self.earlier.remove().await);
            if all_written {
                written.earlier = None;
            }
        }
        all_written
    }
}

/// Reads a file that this agent writes from now on; `None` if it does not exist.
async fn take_over(file: &StatusFile) -> Result<Option<Saved>, FileError> {
    let TakenOver { value, aside } = file.take_over().await?;
    let exists = value.is_some() || aside.is_some();
    if let Some(MovedAside { path, why }) = aside {
        warn!(path = %path.display(), error = %Chain(&why), "Pod status checkpoint is corrupt, moved aside");
    }
    let saved = value.unwrap_or_default().into_iter();
    let saved = saved.map(|(uid, status)| (PodUid::from(uid.as_str()), Arc::new(restored(status))));
    Ok(exists.then(|| saved.collect()))
}

/// Spreads statuses over the files.
fn by_file(statuses: Saved) -> Vec<Saved> {
    let mut files = vec![Saved::new(); FILES];
    for (uid, status) in statuses {
        let add = |sum: usize, byte| sum.wrapping_mul(31).wrapping_add(usize::from(byte));
        let at = uid.as_str().bytes().fold(0, add) % FILES;
        files[at].insert(uid, status);
    }
    files
}

async fn write_file(file: &StatusFile, saved: &Saved) -> bool {
    let saved: BTreeMap<&str, &PodStatus> =
        saved.iter().map(|(uid, status)| (uid.as_str(), &**status)).collect();
    succeeded(file, file.write_borrowed(&saved).await)
}

fn succeeded(file: &StatusFile, result: Result<(), FileError>) -> bool {
    if let Err(error) = &result {
        let path = file.path().display();
        warn!(%path, error = %Chain(error), "Cannot write pod status checkpoint, retrying later");
    }
    result.is_ok()
}

/// Whether both have the same statuses. An equal status is the same object, as the store keeps it.
fn is_same(written: &Saved, saved: &Saved) -> bool {
    let is_same = |((uid, one), (other_uid, other)): ((&PodUid, &Arc<PodStatus>), _)| {
        uid == other_uid && Arc::ptr_eq(one, other)
    };
    written.len() == saved.len() && written.iter().zip(saved).all(is_same)
}
