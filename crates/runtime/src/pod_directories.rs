//! Directories of pods that are gone.

use std::path::PathBuf;
use std::sync::Arc;

use model::ids::PodUid;
use model::ports::clock::WallClock;
use model::ports::files::{FileError, HostFiles};
use model::verdict::{Detail, Owner, Subject, Verdict};

/// The directories in which pods have their own files.
#[derive(Debug, Clone)]
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
    pub async fn list(&self) -> Result<Vec<PodUid>, FileError> {
        match self.files.list(&self.pods).await {
            Ok(names) => Ok(names.iter().map(|name| PodUid::from(name.as_str())).collect()),
            Err(error) if error.is_not_found() => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }

    /// Removes the directory of a pod that is gone, if it has one.
    pub async fn remove(&self, uid: &PodUid) -> Result<(), FileError> {
        match self.files.look(&self.pods.join(uid.as_str())).await {
            Err(error) if error.is_not_found() => Ok(()),
            Err(error) => Err(error),
            Ok(_) => self.remove_again(uid).await,
        }
    }

    /// The same after a removal that failed. It may have succeeded after its deadline: then the journal says that the
    /// directory is gone, in place of the failure.
    pub async fn remove_again(&self, uid: &PodUid) -> Result<(), FileError> {
        let directory = self.pods.join(uid.as_str());
        let verdict = Verdict {
            subject: Subject::PodDirectory(directory),
            name: "".into(),
            owner: Some(Owner { uid: uid.clone(), pod: None }),
            rule: "pod-is-gone",
            detail: Detail::default(),
            at: self.clock.now(),
        };
        self.files.remove(&self.pods, &verdict).await.map(drop)
    }
}
