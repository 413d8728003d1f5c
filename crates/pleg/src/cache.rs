//! The last known status of every pod, with waiting for a fresh one.
//!
//! [`Writer`] has one owner, the relist task; all others use [`Reader`]. A full relist
//! does not refresh a pod that it *skipped* because the pod was being relisted on its own: that list
//! may have begun long before.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use model::ids::{PodName, PodUid};
use model::observed::RuntimePodStatus;
use model::ports::runtime::RuntimeError;
use model::seq::Seq;
use tokio::sync::oneshot;

/// The status of a pod, or the error of reading it.
pub type Observation = Result<Arc<RuntimePodStatus>, RuntimeError>;

/// An empty cache. Nothing is fresh in it until the first relist.
pub fn cache() -> (Writer, Reader) {
    let shared = Arc::new(Mutex::new(Shared::default()));
    (Writer { shared: Arc::clone(&shared) }, Reader { shared })
}

#[derive(Debug, Default)]
struct Shared {
    entries: BTreeMap<PodUid, Entry>,
    /// The pods without objects in the runtime according to their entries.
    absent: BTreeSet<PodUid>,
    /// Counts changes of `entries` and `live`.
    version: u64,
    /// When the last full relist began.
    relisted: Option<Seq>,
    /// Pods that it skipped.
    skipped: BTreeSet<PodUid>,
    /// Pods with live sandboxes or containers according to the lists: known even for a pod whose status
    /// cannot be read.
    live: Arc<BTreeMap<PodUid, PodName>>,
    /// Waiters by pod. A cancelled waiter is found by its closed channel.
    waiters: BTreeMap<PodUid, Vec<Waiter>>,
}

#[derive(Debug)]
struct Entry {
    observation: Observation,
    /// The start of the list that caused or confirmed the observation.
    observed: Seq,
}

impl Entry {
    fn says_absent(&self) -> bool {
        let status = self.observation.as_ref();
        status.is_ok_and(|status| {
            status.sandboxes.is_empty()
                && status.instances().next().is_none()
                && status.ips.is_empty()
        })
    }
}

#[derive(Debug)]
struct Waiter {
    after: Seq,
    answer: oneshot::Sender<Observation>,
}

impl Shared {
    /// The pod's observation, if it was made after `after`. A pod that was never listed is known to be
    /// absent after a full relist.
    fn fresh(&self, uid: &PodUid, after: Seq) -> Option<Observation> {
        let entry = self.entries.get(uid);
        let by_entry = entry.is_some_and(|entry| entry.observed > after);
        let by_relist = !self.skipped.contains(uid) && self.relisted.is_some_and(|at| at > after);
        (by_entry || by_relist).then(|| self.observation(uid))
    }

    fn observation(&self, uid: &PodUid) -> Observation {
        match self.entries.get(uid) {
            Some(entry) => entry.observation.clone(),
            None => Ok(Arc::new(RuntimePodStatus::empty(uid.clone()))),
        }
    }

    fn set(&mut self, uid: &PodUid, entry: Entry) {
        if entry.says_absent() {
            self.absent.insert(uid.clone());
        } else {
            self.absent.remove(uid);
        }
        self.entries.insert(uid.clone(), entry);
    }

    /// Removes absent pods except those that `stays` keeps. Returns whether any were removed.
    fn forget_absent(&mut self, stays: impl Fn(&PodUid, &Entry) -> bool) -> bool {
        let before = self.absent.len();
        let entries = &mut self.entries;
        self.absent.retain(|uid| {
            let is_kept = entries.get(uid).is_some_and(|entry| stays(uid, entry));
            if !is_kept {
                entries.remove(uid);
            }
            is_kept
        });
        self.absent.len() < before
    }

    fn answer_waiters_of(&mut self, uid: &PodUid) {
        let Some(waiters) = self.waiters.remove(uid) else {
            return;
        };
        let mut left = Vec::new();
        for waiter in waiters {
            match self.fresh(uid, waiter.after) {
                // The receiver is closed when the worker was cancelled.
                Some(observation) => drop(waiter.answer.send(observation)),
                None if waiter.answer.is_closed() => {}
                None => left.push(waiter),
            }
        }
        if !left.is_empty() {
            self.waiters.insert(uid.clone(), left);
        }
    }
}

/// Reads the cache.
#[derive(Debug, Clone)]
pub struct Reader {
    /// Written only by [`Writer`]; waiters are added here. Never held across an await.
    shared: Arc<Mutex<Shared>>,
}

impl Reader {
    /// The last observation of a pod, however old.
    pub fn get(&self, uid: &PodUid) -> Observation {
        lock(&self.shared).observation(uid)
    }

    /// The name of a pod if one of its sandboxes or containers may be alive.
    pub fn live(&self, uid: &PodUid) -> Option<PodName> {
        lock(&self.shared).live.get(uid).cloned()
    }

    /// All pods with a sandbox or container that may be alive.
    pub fn all_live(&self) -> Arc<BTreeMap<PodUid, PodName>> {
        Arc::clone(&lock(&self.shared).live)
    }

    /// A number that changes with every observation of any pod.
    pub fn version(&self) -> u64 {
        lock(&self.shared).version
    }

    /// The observation of a list that began after `after`, if there was one.
    pub fn known_since(&self, uid: &PodUid, after: Seq) -> Option<Observation> {
        lock(&self.shared).fresh(uid, after)
    }

    /// The observation of a list that began after `after`; waits for one if necessary.
    pub async fn newer_than(&self, uid: &PodUid, after: Seq) -> Observation {
        let receiver = {
            let mut shared = lock(&self.shared);
            if let Some(observation) = shared.fresh(uid, after) {
                return observation;
            }
            let (answer, receiver) = oneshot::channel();
            shared.waiters.entry(uid.clone()).or_default().push(Waiter { after, answer });
            receiver
        };
        match receiver.await {
            Ok(observation) => observation,
            // The writer was dropped meanwhile, so the agent is shutting down and this task is about
            // to be cancelled.
            Err(_) => std::future::pending().await,
        }
    }
}

/// Writes the cache. Only the relist task has it.
#[derive(Debug)]
pub struct Writer {
    /// Shared with readers; waiters are answered here.
    shared: Arc<Mutex<Shared>>,
}

impl Writer {
    /// Sets or clears the name of a live pod. Containers without a pod UID are ignored: the cleanup of
    /// orphaned pods must not find them.
    pub(crate) fn listed(&self, uid: &PodUid, live: Option<&PodName>) {
        let live = live.filter(|_| !uid.is_empty());
        let mut shared = lock(&self.shared);
        if shared.live.get(uid) == live {
            return;
        }
        shared.version += 1;
        let all = Arc::make_mut(&mut shared.live);
        match live {
            Some(name) => drop(all.insert(uid.clone(), name.clone())),
            None => drop(all.remove(uid)),
        }
    }

    /// Stores the observation of a list that began at `at`.
    pub(crate) fn store(&self, uid: &PodUid, observation: Observation, at: Seq) {
        let mut shared = lock(&self.shared);
        shared.version += 1;
        shared.set(uid, Entry { observation, observed: at });
        shared.answer_waiters_of(uid);
    }

    /// The runtime has no object of the pod any more at `at`. The entry is kept until a relist confirms it:
    /// a consumer may wait for it now or later, and the next relist may be far away.
    pub(crate) fn forget(&self, uid: &PodUid, at: Seq) {
        self.store(uid, Ok(Arc::new(RuntimePodStatus::empty(uid.clone()))), at);
    }

    /// A single-pod relist that began at `at` found no change.
    pub(crate) fn unchanged(&self, uid: &PodUid, at: Seq) {
        let mut shared = lock(&self.shared);
        let observation = shared.observation(uid);
        shared.set(uid, Entry { observation, observed: at });
        shared.answer_waiters_of(uid);
    }

    /// A full relist that began at `at` confirmed the cache for all pods that it did not skip.
    pub(crate) fn relisted(&self, at: Seq, skipped: BTreeSet<PodUid>) {
        let mut shared = lock(&self.shared);
        let forgot =
            shared.forget_absent(|uid, entry| skipped.contains(uid) || entry.observed > at);
        // Readers get an equal, new observation.
        shared.version += u64::from(forgot);
        shared.relisted = Some(at);
        shared.skipped = skipped;
        let waiting: Vec<PodUid> = shared.waiters.keys().cloned().collect();
        for uid in waiting {
            shared.answer_waiters_of(&uid);
        }
    }
}

/// The data stays consistent even if a holder panicked: every method finishes its writes before it
/// calls anything that could.
fn lock(shared: &Mutex<Shared>) -> std::sync::MutexGuard<'_, Shared> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
#[path = "cache_tests.rs"]
mod tests;
