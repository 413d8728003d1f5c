//! Which pods somebody acts on: whoever sees something happen to one of them need not look before it is done.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::ids::PodUid;

/// The pods that are acted on. Clones share them. Workers write, whoever looks at the runtime reads.
#[derive(Debug, Clone, Default)]
pub struct Acts {
    /// How many act on each. Never held across an await.
    pods: Arc<Mutex<BTreeMap<PodUid, usize>>>,
}

impl Acts {
    /// Somebody acts on a pod until the answer is dropped, and looks at it then.
    pub fn begin(&self, uid: &PodUid) -> Act {
        *self.lock().entry(uid.clone()).or_default() += 1;
        Act { acts: self.clone(), uid: uid.clone() }
    }

    /// Whether somebody acts on a pod.
    pub fn are_under_way(&self, uid: &PodUid) -> bool {
        self.lock().contains_key(uid)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<PodUid, usize>> {
        self.pods.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// That somebody acts on a pod.
#[derive(Debug)]
#[must_use = "it is over when this is dropped"]
pub struct Act {
    acts: Acts,
    uid: PodUid,
}

impl Drop for Act {
    fn drop(&mut self) {
        let mut pods = self.acts.lock();
        if let Some(count) = pods.get_mut(&self.uid) {
            *count -= 1;
            if *count == 0 {
                pods.remove(&self.uid);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_is_acted_on_until_all_have_ended() {
        let acts = Acts::default();
        let (web, other) = (PodUid::from("web"), PodUid::from("other"));
        let (first, second) = (acts.begin(&web), acts.clone().begin(&web));
        assert!(acts.are_under_way(&web) && !acts.are_under_way(&other));
        drop(first);
        assert!(acts.are_under_way(&web));
        drop(second);
        assert!(!acts.are_under_way(&web));
    }
}
