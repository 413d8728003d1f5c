//! Settles removals whose process was killed.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use model::cgroup::CgroupName;
use model::chain::Chain;
use model::ports::cgroups::{CgroupError, Cgroups};
use model::ports::files::HostFiles;
use model::ports::runtime::Runtime;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::entry::{Entry, EntryOutcome};
use crate::journal_thread::DiskJournal;

/// How long a check for an object may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// The ports that check whether an object still exists.
#[derive(Debug, Default)]
pub struct ExistenceChecks {
    /// For containers, sandboxes and images.
    pub runtime: Option<Runtime>,
    /// For logs and directories.
    pub files: Option<Arc<dyn HostFiles>>,
    /// For cgroups.
    pub cgroups: Option<Arc<dyn Cgroups>>,
}

impl ExistenceChecks {
    /// Records the removals that were in progress when an earlier process was killed, and syncs the journal until it is
    /// stopped.
    pub async fn keep(self: Arc<Self>, journal: Arc<DiskJournal>, stop: CancellationToken) {
        let settled = stop.run_until_cancelled(self.settle(&journal));
        tokio::join!(settled, Arc::clone(&journal).keep_synced(stop.clone()));
    }

    /// Records the removals in progress of earlier processes that were killed: an object that is gone counts as
    /// removed; otherwise the outcome is recorded as unknown.
    pub async fn settle(&self, journal: &DiskJournal) {
        for left in journal.left().await {
            let there = match timeout(PATIENCE, self.is_there(&left.entry)).await {
                Ok(there) => there,
                Err(_) => Err("no response in time".to_owned()),
            };
            let (outcome, more) = match there {
                // The caller does not check before, and most pods have none.
                Ok(Some(false)) if left.entry.kind == "cgroup" => {
                    (EntryOutcome::Gone, String::new())
                }
                Ok(Some(false)) => (EntryOutcome::Removed, String::new()),
                Ok(Some(true)) => {
                    (EntryOutcome::Unknown, "; it was there after a restart".to_owned())
                }
                Ok(None) => (EntryOutcome::Unknown, String::new()),
                Err(why) => {
                    (EntryOutcome::Unknown, format!("; cannot check whether it is there: {why}"))
                }
            };
            journal.settle(left, outcome, &more);
        }
    }

    /// Whether an object exists, if that can be checked.
    async fn is_there(&self, entry: &Entry) -> Result<Option<bool>, String> {
        let id = entry.id.as_str();
        match (entry.kind.as_str(), &self.runtime, &self.files, &self.cgroups) {
            ("container", Some(runtime), ..) => {
                found(runtime.containers.container_status(&id.into()).await.map(drop))
            }
            ("sandbox", Some(runtime), ..) => {
                found(runtime.sandboxes.pod_sandbox_status(&id.into()).await.map(drop))
            }
            ("image", Some(runtime), ..) => match runtime.images.image_status(id).await {
                Ok(image) => Ok(Some(image.is_some())),
                Err(error) => Err(error.to_string()),
            },
            ("log" | "pod-directory" | "volume", _, Some(files), _) => {
                listed(&**files, Path::new(id)).await
            }
            ("cgroup", _, _, Some(cgroups)) => {
                let name = CgroupName::parse(id).map_err(|error| error.to_string())?;
                match cgroups.check(&name).await {
                    Ok(()) => Ok(Some(true)),
                    Err(CgroupError::Missing { .. }) => Ok(Some(false)),
                    Err(error) => Err(Chain(&error).to_string()),
                }
            }
            _ => Ok(None),
        }
    }
}

/// Checks the parent directory: the path may be a dangling link.
async fn listed(files: &dyn HostFiles, path: &Path) -> Result<Option<bool>, String> {
    let (Some(directory), Some(name)) = (path.parent(), path.file_name()) else { return Ok(None) };
    match files.list(directory).await {
        Ok(names) => Ok(Some(names.iter().any(|one| name == one.as_str()))),
        Err(error) if error.is_not_found() => Ok(Some(false)),
        Err(error) => Err(Chain(&error).to_string()),
    }
}

fn found(status: Result<(), model::ports::runtime::RuntimeError>) -> Result<Option<bool>, String> {
    match status {
        Ok(()) => Ok(Some(true)),
        Err(error) if error.is_not_found() => Ok(Some(false)),
        Err(error) => Err(error.to_string()),
    }
}

#[cfg(test)]
#[path = "settle_tests.rs"]
mod tests;
