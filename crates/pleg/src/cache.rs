//! The last known status of every pod, and waiting for a fresh one.
//!
//! [`Writer`] has one owner, the relist task; [`Reader`] is for everybody else. A relist of
//! everything says nothing about a pod that it *passed over* because the pod was just being looked at
//! on its own: that look may have begun long before.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use model::ids::{PodName, PodUid};
use model::observed::PodStatus;
use model::ports::runtime::RuntimeError;
use model::seq::Seq;
use tokio::sync::oneshot;

/// What looking at a pod gave: its status, or why that could not be read.
pub type Observation = Result<Arc<PodStatus>, RuntimeError>;

/// An empty cache. Nothing is fresh in it until the first relist.
pub fn cache() -> (Writer, Reader) {
    let shared = Arc::new(Mutex::new(Shared::default()));
    (Writer { shared: Arc::clone(&shared) }, Reader { shared })
}

#[derive(Debug, Default)]
struct Shared {
    entries: BTreeMap<PodUid, Entry>,
    /// The pods whose entries say that the runtime has nothing of them.
    absent: BTreeSet<PodUid>,
    /// Counts changes of entries, and of which pods may live.
    version: u64,
    /// When the last relist of everything began.
    relisted: Option<Seq>,
    /// Pods about which it says nothing.
    passed_over: BTreeSet<PodUid>,
    /// Pods of which something may live, as the lists show them: known even of a pod whose status
    /// cannot be read.
    live: Arc<BTreeMap<PodUid, PodName>>,
    /// Who waits for which pod. A waiter that gave up is found by its closed channel.
    waiters: BTreeMap<PodUid, Vec<Waiter>>,
}

#[derive(Debug)]
struct Entry {
    observation: Observation,
    /// When the look began that gave the observation, or that found it unchanged.
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
    /// The pod's observation, if it was made after `after`. A pod that was never seen is known to be
    /// absent once everything was listed.
    fn fresh(&self, uid: &PodUid, after: Seq) -> Option<Observation> {
        let entry = self.entries.get(uid);
        let by_entry = entry.is_some_and(|entry| entry.observed > after);
        let by_relist =
            !self.passed_over.contains(uid) && self.relisted.is_some_and(|at| at > after);
        (by_entry || by_relist).then(|| self.observation(uid))
    }

    fn observation(&self, uid: &PodUid) -> Observation {
        match self.entries.get(uid) {
            Some(entry) => entry.observation.clone(),
            None => Ok(Arc::new(PodStatus::empty(uid.clone()))),
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

    /// Forgets pods that are absent, but for some. Whether there were any.
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
                // Nobody listens any more: the worker was cancelled.
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
    /// Written by [`Writer`] alone; waiters are added here. Never held across an await.
    shared: Arc<Mutex<Shared>>,
}

impl Reader {
    /// What is known of a pod now, however old.
    pub fn get(&self, uid: &PodUid) -> Observation {
        lock(&self.shared).observation(uid)
    }

    /// The name of a pod of which something may live.
    pub fn live(&self, uid: &PodUid) -> Option<PodName> {
        lock(&self.shared).live.get(uid).cloned()
    }

    /// All pods of which something may live.
    pub fn all_live(&self) -> Arc<BTreeMap<PodUid, PodName>> {
        Arc::clone(&lock(&self.shared).live)
    }

    /// A number that changes whenever what is known of any pod does.
    pub fn version(&self) -> u64 {
        lock(&self.shared).version
    }

    /// What a look at the pod showed that began after `after`, if there was one.
    pub fn known_since(&self, uid: &PodUid, after: Seq) -> Option<Observation> {
        lock(&self.shared).fresh(uid, after)
    }

    /// What a look at the pod showed that began after `after`; waits for one if need be.
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
            // The writer went away while we waited, so the agent is shutting down and this task is
            // about to be cancelled.
            Err(_) => std::future::pending().await,
        }
    }
}

/// Writes the cache: the relist task alone.
#[derive(Debug)]
pub struct Writer {
    /// Shared with readers; waiters are answered here.
    shared: Arc<Mutex<Shared>>,
}

impl Writer {
    /// A list shows that something of the pod may live, under this name, or that nothing does. What is
    /// nobody's is no pod's life: who ends pods that nobody wants must not find it.
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

    /// What a look at the pod showed that began at `at`.
    pub(crate) fn store(&self, uid: &PodUid, observation: Observation, at: Seq) {
        let mut shared = lock(&self.shared);
        shared.version += 1;
        shared.set(uid, Entry { observation, observed: at });
        shared.answer_waiters_of(uid);
    }

    /// The runtime has nothing of the pod any more, at `at`. That is kept until a relist says the same:
    /// somebody may wait for just this news, or ask for it in a while, and the relist that would tell
    /// them may be far away.
    pub(crate) fn forget(&self, uid: &PodUid, at: Seq) {
        self.store(uid, Ok(Arc::new(PodStatus::empty(uid.clone()))), at);
    }

    /// A look at this pod alone, begun at `at`, showed nothing new.
    pub(crate) fn unchanged(&self, uid: &PodUid, at: Seq) {
        let mut shared = lock(&self.shared);
        let observation = shared.observation(uid);
        shared.set(uid, Entry { observation, observed: at });
        shared.answer_waiters_of(uid);
    }

    /// Everything was listed, begun at `at`; pods that were not passed over are as the cache says.
    pub(crate) fn relisted(&self, at: Seq, passed_over: BTreeSet<PodUid>) {
        let mut shared = lock(&self.shared);
        let forgot =
            shared.forget_absent(|uid, entry| passed_over.contains(uid) || entry.observed > at);
        // Who had it has another one now that says the same.
        shared.version += u64::from(forgot);
        shared.relisted = Some(at);
        shared.passed_over = passed_over;
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
