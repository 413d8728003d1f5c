//! Directories of pods that are gone.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use model::chain::Chain;
use model::ids::PodUid;
use model::ports::clock::WallClock;
use model::ports::files::HostFiles;
use model::verdict::{Detail, Owner, Subject, Verdict};
use tracing::warn;

use crate::decide::orphaned_directories;

/// The directories in which pods have their own files.
#[derive(Debug)]
pub struct PodDirectories {
    /// The host's files.
    pub files: Arc<dyn HostFiles>,
    /// The time of day.
    pub clock: Arc<dyn WallClock>,
    /// Where each pod has a directory of its own.
    pub pods: PathBuf,
}

impl PodDirectories {
    /// The pods that have a directory.
    pub async fn list(&self) -> Vec<PodUid> {
        let names = match self.files.list(&self.pods).await {
            Ok(names) => names,
            Err(error) if error.is_not_found() => Vec::new(),
            Err(error) => {
                warn!(error = %Chain(&error), "cannot list the directories of pods");
                Vec::new()
            }
        };
        names.iter().map(|name| PodUid::from(name.as_str())).collect()
    }

    /// Removes the directories of all but the known pods.
    pub async fn keep_only(&self, known: &BTreeSet<PodUid>) {
        let names = self.list().await.iter().map(ToString::to_string).collect();
        for name in orphaned_directories(names, known) {
            self.remove(&PodUid::from(name)).await;
        }
    }

    /// Removes the directory of a pod that is gone, if it has one.
    pub async fn remove(&self, uid: &PodUid) {
        let verdict = Verdict {
            subject: Subject::PodDirectory(self.pods.join(uid.as_str())),
            name: "".into(),
            owner: Some(Owner { uid: uid.clone(), pod: None }),
            rule: "pod-is-gone",
            detail: Detail::default(),
            at: self.clock.now(),
        };
        if self.files.look(&self.pods.join(uid.as_str())).await.is_err() {
            return;
        }
        if let Err(error) = self.files.remove(&self.pods, &verdict).await {
            warn!(%uid, error = %Chain(&error), "cannot remove the directory of a pod that is gone");
        }
    }
}
