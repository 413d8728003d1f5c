//! The pods reported by the watch, without indexes: a complete list and later changes. The controller may act
//! on nothing else.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use model::cluster::{PodPhase, PodRecord, Uid};
use model::ports::cluster::{Change, Sink};
use podgc::cache::SharedCache;

type Pods = BTreeMap<Uid, PodRecord>;

#[derive(Debug, Default)]
struct State {
    pods: Pods,
    /// The unfinished list.
    list: Option<Pods>,
}

/// The reported pods.
#[derive(Debug, Default)]
pub(crate) struct Reported(Mutex<State>);

/// Stands between a watch and the cache.
#[derive(Debug)]
pub(crate) struct Tee {
    pub(crate) cache: Arc<SharedCache>,
    pub(crate) reported: Arc<Reported>,
}

impl Sink<PodRecord, Uid> for Tee {
    fn receive(&self, change: Change<PodRecord, Uid>) {
        self.reported.take(change.clone());
        Sink::<PodRecord, Uid>::receive(&*self.cache, change);
    }
}

/// Stores a pod unless a newer version is stored.
fn put(pods: &mut Pods, pod: PodRecord) {
    if pods.get(&pod.uid).is_none_or(|known| known.version <= pod.version) {
        pods.insert(pod.uid.clone(), pod);
    }
}

impl Reported {
    fn take(&self, change: Change<PodRecord, Uid>) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let State { pods, list } = &mut *state;
        match change {
            Change::Restarted => *list = Some(Pods::new()),
            Change::Applied(pod) => put(list.as_mut().unwrap_or(pods), pod),
            Change::Gone(uid) => drop(list.as_mut().unwrap_or(pods).remove(&uid)),
            Change::Unread(uid) => {
                if let (Some(list), Some(pod)) = (list, pods.get(&uid)) {
                    put(list, pod.clone());
                }
            }
            Change::Complete => {
                let earlier = std::mem::replace(pods, list.take().unwrap_or_default());
                for pod in earlier.into_values() {
                    if pods.contains_key(&pod.uid) {
                        put(pods, pod);
                    }
                }
            }
        }
    }

    /// Terminated pods, in the order of deletions.
    pub(crate) fn terminated(&self) -> Vec<Uid> {
        let state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut terminated: Vec<&PodRecord> =
            state.pods.values().filter(|pod| pod.phase.is_terminated()).collect();
        terminated.sort_by_key(|pod| {
            let is_evicted = pod.is_evicted && pod.phase == PodPhase::Failed;
            (!is_evicted, pod.created, &pod.name, &pod.uid)
        });
        terminated.into_iter().map(|pod| pod.uid.clone()).collect()
    }
}
