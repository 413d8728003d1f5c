//! Directories of removed pods.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use model::chain::Chain;
use model::ids::PodUid;
use model::ports::clock::WallClock;
use model::ports::files::{FileError, HostFiles};
use model::verdict::{Detail, Input, Owner, Subject, Verdict};

/// The directories in which pods have their own files.
#[derive(Debug, Clone)]
pub struct PodDirectories {
    files: Arc<dyn HostFiles>,
    clock: Arc<dyn WallClock>,
    /// The root of the pods' directories.
    pods: PathBuf,
    /// The errors of failed removals.
    failed: Arc<Mutex<BTreeMap<PodUid, String>>>,
}

impl PodDirectories {
    /// The directories below this one.
    pub fn new(files: Arc<dyn HostFiles>, clock: Arc<dyn WallClock>, pods: PathBuf) -> Self {
        Self { files, clock, pods, failed: Arc::default() }
    }

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
            Err(error) if error.is_not_found() => self.ended(uid, Ok(())),
            Err(error) => self.ended(uid, Err(error)),
            Ok(_) => self.remove_again(uid).await,
        }
    }

    /// Retries a failed removal. The first one may have succeeded after its deadline: then the journal records the
    /// directory as gone instead of the failure.
    pub async fn remove_again(&self, uid: &PodUid) -> Result<(), FileError> {
        let removed = self.files.remove(&self.pods, &self.verdict(uid)).await;
        self.ended(uid, removed.map(drop))
    }

    /// Keeps the error of a failed removal.
    fn ended(&self, uid: &PodUid, removed: Result<(), FileError>) -> Result<(), FileError> {
        match &removed {
            Ok(()) => self.failed().remove(uid),
            Err(error) => self.failed().insert(uid.clone(), Chain(error).to_string()),
        };
        removed
    }

    /// The removals that failed and are retried, each with its error.
    pub fn failed_removals(&self) -> Vec<Verdict> {
        let failed = self.failed();
        let verdicts = failed.iter().map(|(uid, error)| {
            let verdict = self.verdict(uid);
            let detail = verdict.detail.with("error", Input::Text(error.clone()));
            Verdict { detail, ..verdict }
        });
        verdicts.collect()
    }

    /// Drops the failures of pods that came back.
    pub fn retain_failed(&self, is_gone: impl Fn(&PodUid) -> bool) {
        self.failed().retain(|uid, _| is_gone(uid));
    }

    fn verdict(&self, uid: &PodUid) -> Verdict {
        Verdict {
            subject: Subject::PodDirectory(self.pods.join(uid.as_str())),
            name: "".into(),
            owner: Some(Owner { uid: uid.clone(), pod: None }),
            rule: "pod-is-gone",
            detail: Detail::default(),
            at: self.clock.now(),
        }
    }

    fn failed(&self) -> MutexGuard<'_, BTreeMap<PodUid, String>> {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
