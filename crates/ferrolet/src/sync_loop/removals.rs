//! Removes directories of pods that no longer exist. This happens in separate tasks: the loop never
//! waits for a disk.

use std::collections::BTreeSet;

use allocation::Trigger;
use model::chain::Chain;
use model::ids::PodUid;
use model::panics::{PanicStep, PanicSubject};
use runtime::decide::orphaned_directories;
use tokio::task::JoinSet;
use tracing::{error, warn};

use super::SyncLoop;
use super::guarded::LoopStep;
use crate::decide::directory_removals::RemovalQueue;

/// The removals; their tasks end with the loop.
#[derive(Debug, Default)]
pub(super) struct DirectoryRemovals {
    queue: RemovalQueue,
    tasks: JoinSet<RemovalEvent>,
}

/// The result of a task.
#[derive(Debug)]
pub(super) enum RemovalEvent {
    /// The pods that have a directory, or the error of the list.
    Listed(Result<Vec<PodUid>, String>),
    /// The directory of a pod is gone, or why it is not.
    Removed(PodUid, Result<(), String>),
}

impl DirectoryRemovals {
    /// A pod is gone.
    pub(super) fn request(&mut self, uid: PodUid) {
        self.queue.request(uid);
    }

    /// Pods whose directory is being removed: they do not start meanwhile.
    pub(super) fn running(&self) -> &BTreeSet<PodUid> {
        self.queue.running()
    }

    /// Waits until a task has ended; never returns while there is none.
    pub(super) async fn ended(&mut self) -> RemovalEvent {
        loop {
            match self.tasks.join_next().await {
                Some(Ok(event)) => return event,
                Some(Err(error)) => error!(%error, "Removal of a pod's directory was lost"),
                None => std::future::pending().await,
            }
        }
    }

    /// Cancels the removals that are running.
    pub(super) async fn stop(&mut self) {
        self.tasks.shutdown().await;
    }

    fn spawn(&mut self, work: impl Future<Output = RemovalEvent> + Send + 'static) {
        self.tasks.spawn(work);
    }
}

impl SyncLoop {
    /// The pods that are listed, have a worker or run.
    fn known(&self) -> BTreeSet<PodUid> {
        let mut known = self.intake.known();
        known.extend(self.parts.cache.all_live().keys().cloned());
        known
    }

    /// Starts the removals that are due.
    pub(super) fn remove_directories(&mut self) {
        let Self { parts, intake, removals, .. } = self;
        let begin = removals.queue.start(|uid| {
            !intake.is_listed(uid) && !intake.has_worker(uid) && parts.cache.live(uid).is_none()
        });
        for uid in begin {
            let (directories, panics) = (parts.directories.clone(), parts.panics.clone());
            let volumes = parts.volumes.clone();
            let has_failed = removals.queue.has_failed(&uid);
            removals.spawn(async move {
                let of = PanicSubject::Pod(&uid, None);
                let work = async {
                    volumes.release(&uid, None).await.map_err(|error| error.to_string())?;
                    let removed = if has_failed {
                        directories.remove_again(&uid).await
                    } else {
                        directories.remove(&uid).await
                    };
                    removed.map_err(|error| Chain(&error).to_string())
                };
                // Without it, the pod of a finished removal would be unknown.
                let removed = panics.catch_async(PanicStep::SyncLoop, of, work).await;
                let result = match removed {
                    Ok(removed) => removed,
                    Err(panic) => Err(panic.to_string()),
                };
                RemovalEvent::Removed(uid, result)
            });
        }
    }

    /// Retries failed removals.
    pub(super) fn retry_removals(&mut self) {
        self.removals.queue.retry();
        let intake = &self.intake;
        self.parts.directories.retain_failed(|uid| intake.pod(uid).is_none());
        self.remove_directories();
    }

    /// Lists directories, and removes records, of pods that are not desired, have no worker and do not run.
    pub(super) async fn sweep_directories(&mut self) {
        let directories = self.parts.directories.clone();
        let panics = self.parts.panics.clone();
        self.removals.spawn(async move {
            let of = PanicSubject::Object("directories of pods");
            let listed = panics.catch_async(PanicStep::SyncLoop, of, directories.list()).await;
            RemovalEvent::Listed(match listed {
                Ok(listed) => listed.map_err(|error| Chain(&error).to_string()),
                Err(panic) => Err(panic.to_string()),
            })
        });
        let known = self.known();
        self.parts.allocation.keep_only(&known);
        if let Some(pod_runtime) = &self.parts.pod_runtime {
            pod_runtime.keep_sizes_of(&known).await;
        }
    }

    pub(super) async fn removal_ended(&mut self, event: RemovalEvent) {
        match event {
            RemovalEvent::Listed(Ok(uids)) => {
                for uid in orphaned_directories(uids, &self.known()) {
                    self.removals.request(uid);
                }
            }
            RemovalEvent::Listed(Err(error)) => {
                warn!(error, "Cannot list pod directories");
                // Retried by the next housekeeping.
                self.swept = false;
            }
            RemovalEvent::Removed(uid, result) => self.directory_removed(uid, result).await,
        }
        self.remove_directories();
    }

    async fn directory_removed(&mut self, uid: PodUid, result: Result<(), String>) {
        let is_new_failure = self.removals.queue.ended(&uid, result.is_ok());
        if let Err(error) = result.as_ref()
            && is_new_failure
        {
            warn!(%uid, error, "Cannot remove directory of orphaned pod");
        }
        if self.intake.pod(&uid).is_none() {
            return;
        }
        // The pod may have come back, and can start now.
        if self.intake.awaits_restart(&uid) {
            self.step(&uid, LoopStep::Changed).await;
        }
        self.reconcile_all(Trigger::PodsAdded).await;
    }
}
