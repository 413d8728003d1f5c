//! Directories of removed pods.

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
    /// The wall clock.
    pub clock: Arc<dyn WallClock>,
    /// The root of the pods' directories.
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

    /// Removes the directory of a removed pod, if it exists.
    pub async fn remove(&self, uid: &PodUid) -> Result<(), FileError> {
        match self.files.look(&self.pods.join(uid.as_str())).await {
            Err(error) if error.is_not_found() => Ok(()),
            Err(error) => Err(error),
            Ok(_) => self.remove_again(uid).await,
        }
    }

    /// Retries a failed removal. The first one may have succeeded after its deadline: then the journal records the
    /// directory as gone instead of the failure.
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
