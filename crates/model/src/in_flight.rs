//! Pods that a worker acts on right now. The PLEG need not inspect such a pod before the action is done.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::ids::PodUid;

/// Pods with an action in flight. Clones share the set. Workers write it, the PLEG reads it.
#[derive(Debug, Clone, Default)]
pub struct InFlight {
    /// The number of actions per pod. Never held across an await.
    pods: Arc<Mutex<BTreeMap<PodUid, usize>>>,
}

impl InFlight {
    /// Marks a pod until the guard is dropped. The caller inspects the pod afterwards.
    pub fn begin(&self, uid: &PodUid) -> InFlightGuard {
        *self.lock().entry(uid.clone()).or_default() += 1;
        InFlightGuard { in_flight: self.clone(), uid: uid.clone() }
    }

    /// Whether an action on the pod is in flight.
    pub fn contains(&self, uid: &PodUid) -> bool {
        self.lock().contains_key(uid)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<PodUid, usize>> {
        self.pods.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Keeps a pod in the set of [`InFlight`].
#[derive(Debug)]
#[must_use = "the action is over when this is dropped"]
pub struct InFlightGuard {
    in_flight: InFlight,
    uid: PodUid,
}

impl Drop for InFlightGuard {
    fn drop(&mut self) {
        let mut pods = self.in_flight.lock();
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
    fn pod_is_in_flight_until_all_guards_are_dropped() {
        let in_flight = InFlight::default();
        let (web, other) = (PodUid::from("web"), PodUid::from("other"));
        let (first, second) = (in_flight.begin(&web), in_flight.clone().begin(&web));
        assert!(in_flight.contains(&web) && !in_flight.contains(&other));
        drop(first);
        assert!(in_flight.contains(&web));
        drop(second);
        assert!(!in_flight.contains(&web));
    }
}
