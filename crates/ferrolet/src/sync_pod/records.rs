//! State that is kept for a pod from one sync to the next.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use model::ids::PodUid;
use runtime::SyncError;
use status::decide::Waiting;

/// State of one pod.
#[derive(Debug, Default)]
struct SyncRecord {
    /// Whether this agent has completed the unfinished steps of an earlier agent.
    adopted: bool,
    /// Why containers did not start at the last attempt, by container name; `None` if all did.
    start_failures: Option<BTreeMap<String, Waiting>>,
}

/// State of all pods.
#[derive(Debug, Default)]
pub(crate) struct SyncRecords {
    /// Never held across an await.
    records: Mutex<BTreeMap<PodUid, SyncRecord>>,
}

impl SyncRecords {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<PodUid, SyncRecord>> {
        self.records.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Marks a pod as adopted. Returns whether it was not before.
    pub(super) fn adopt(&self, uid: &PodUid) -> bool {
        let mut records = self.lock();
        let record = records.entry(uid.clone()).or_default();
        !std::mem::replace(&mut record.adopted, true)
    }

    /// Why containers of a pod did not start at the last attempt.
    pub(super) fn start_failures(&self, uid: &PodUid) -> BTreeMap<String, Waiting> {
        let records = self.lock();
        records.get(uid).and_then(|record| record.start_failures.clone()).unwrap_or_default()
    }

    /// Stores the result of a sync. Returns whether containers had failed to start before.
    pub(super) fn set_result(&self, uid: &PodUid, error: Option<&SyncError>) -> bool {
        let mut records = self.lock();
        let failed = match error {
            // A resize follows the start of all containers.
            None | Some(SyncError::Resize(_)) => {
                let record = records.get_mut(uid);
                return record.is_some_and(|record| record.start_failures.take().is_some());
            }
            Some(SyncError::StartContainers(failed)) => failed,
            // No start was attempted: the last attempt still counts.
            Some(_) => {
                return records.get(uid).is_some_and(|record| record.start_failures.is_some());
            }
        };
        let waiting = failed.iter().map(|(name, error)| {
            (name.clone(), Waiting { reason: error.label(), message: error.message() })
        });
        let record = records.entry(uid.clone()).or_default();
        record.start_failures.replace(waiting.collect()).is_some()
    }

    /// Removes the state of a pod that has ended.
    pub(super) fn forget(&self, uid: &PodUid) {
        self.lock().remove(uid);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pod_is_adopted_once_until_it_is_forgotten() {
        let (records, uid) = (SyncRecords::default(), PodUid::from("uid"));
        assert!(!records.set_result(&uid, None), "a success creates no record");
        assert!(records.lock().is_empty());
        assert!(records.adopt(&uid) && !records.adopt(&uid));
        assert!(!records.set_result(&uid, None) && !records.adopt(&uid));
        records.forget(&uid);
        assert!(records.adopt(&uid));
    }

    #[test]
    fn start_failures_stay_until_containers_start() {
        let (records, uid) = (SyncRecords::default(), PodUid::from("uid"));
        let failed = SyncError::StartContainers(Vec::default());
        assert!(!records.set_result(&uid, Some(&failed)));
        assert!(records.set_result(&uid, Some(&failed)));
        assert!(records.adopt(&uid), "a failure is not an adoption");
        assert!(records.set_result(&uid, None) && !records.set_result(&uid, None));
        assert_eq!(records.start_failures(&uid), BTreeMap::new());
    }
}
