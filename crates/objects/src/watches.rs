//! Watches each object that pods refer to.

use std::collections::BTreeMap;
use std::mem;
use std::sync::{Arc, Mutex, PoisonError};

use model::objects::{DataObject, ObjectKey};
use model::ports::cluster::{Change, Sink};
use model::watched_object::WatchedObject;
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinError, JoinSet};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;
use tracing::{debug, error};

use crate::decide::{Idle, KnownObject, idle};
use crate::store::{ObjectStore, Shared, Watching};

impl ObjectStore {
    /// Watches the objects that pods refer to, until it is stopped.
    pub async fn run(self, stop: CancellationToken) {
        let mut watches = Watches::default();
        loop {
            for (key, wanted) in self.shared.take_dirty() {
                watches.settle(&self.shared, key, wanted);
            }
            // Biased: a stop comes once, and watches end rarely.
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                Some(ended) = watches.tasks.join_next() => watches.ended(&self.shared, ended),
                () = self.shared.changed.notified() => {}
            }
        }
    }
}

/// A desired watch.
struct Wanted {
    generation: u64,
    known: Arc<watch::Sender<KnownObject>>,
}

/// The running watches.
#[derive(Debug, Default)]
struct Watches {
    tasks: JoinSet<()>,
    by_key: BTreeMap<ObjectKey, (u64, AbortHandle)>,
}

impl Watches {
    /// Starts or stops the watch of an object.
    fn settle(&mut self, shared: &Arc<Shared>, key: ObjectKey, wanted: Option<Wanted>) {
        let there = self.by_key.get(&key).map(|(generation, _)| *generation);
        if there == wanted.as_ref().map(|wanted| wanted.generation) {
            return;
        }
        if let Some((_, task)) = self.by_key.remove(&key) {
            task.abort();
        }
        if let Some(wanted) = wanted {
            let generation = wanted.generation;
            let task = self.tasks.spawn(follow(Arc::clone(shared), key.clone(), wanted));
            self.by_key.insert(key, (generation, task));
        }
    }

    /// Restarts a watch that panicked.
    fn ended(&mut self, shared: &Shared, ended: Result<(), JoinError>) {
        let broke = ended.err().filter(JoinError::is_panic);
        let Some(error) = broke else { return };
        error!(%error, "Watch of an object panicked, restarting it");
        let broken = self.by_key.iter().filter(|(_, (_, task))| task.is_finished());
        let broken: Vec<ObjectKey> = broken.map(|(key, _)| key.clone()).collect();
        let mut state = shared.state();
        for key in broken {
            self.by_key.remove(&key);
            state.begin_anew(&key);
        }
        drop(state);
        shared.changed.notify_one();
    }
}

/// Watches one object until it is immutable or idle.
async fn follow(shared: Arc<Shared>, key: ObjectKey, wanted: Wanted) {
    let Wanted { generation, known } = wanted;
    let sink = ObjectSink {
        shared: Arc::clone(&shared),
        key: key.clone(),
        known: Arc::clone(&known),
        watched: Mutex::default(),
    };
    let mut seen = known.subscribe();
    let is_immutable = async {
        drop(seen.wait_for(KnownObject::is_immutable).await);
    };
    // Biased: changes come first, the others happen once.
    tokio::select! {
        biased;
        () = shared.reads.follow_object(&key, &sink) => {}
        () = is_immutable => {
            debug!(%key, "Object is immutable, stopping its watch");
            shared.not_needed(&key, generation);
        }
        () = shared.idle(&key, generation) => {
            debug!(%key, "Object is idle, stopping its watch");
        }
    }
}

/// Stores the versions of an object.
#[derive(Debug)]
struct ObjectSink {
    shared: Arc<Shared>,
    key: ObjectKey,
    known: Arc<watch::Sender<KnownObject>>,
    watched: Mutex<WatchedObject<DataObject>>,
}

impl Sink<DataObject, ()> for ObjectSink {
    fn receive(&self, change: Change<DataObject, ()>) {
        let version = self.watched.lock().unwrap_or_else(PoisonError::into_inner).apply(change);
        if let Some(version) = version {
            let new: KnownObject = version.into();
            let before = self.known.send_replace(new.clone());
            // The first version is not a change: its readers wait for it.
            if before != KnownObject::NotYet && before != new {
                self.shared.object_changed(&self.key);
            }
        }
    }
}

impl Shared {
    /// The objects whose watch may have to start or stop, with their desired watch.
    fn take_dirty(&self) -> Vec<(ObjectKey, Option<Wanted>)> {
        let mut state = self.state();
        let dirty = mem::take(&mut state.dirty);
        let wanted = |key: &ObjectKey| {
            let entry = state.entries.get(key)?;
            (entry.watching == Watching::Yes)
                .then(|| Wanted { generation: entry.generation, known: Arc::clone(&entry.known) })
        };
        dirty.into_iter().map(|key| (key.clone(), wanted(&key))).collect()
    }

    fn not_needed(&self, key: &ObjectKey, generation: u64) {
        let mut state = self.state();
        let entry = state.entries.get_mut(key);
        if let Some(entry) = entry.filter(|entry| entry.generation == generation) {
            entry.watching = Watching::NotNeeded;
            state.dirty.insert(key.clone());
        }
        drop(state);
        self.changed.notify_one();
    }

    /// Returns when an object is idle, and is marked as not watched.
    async fn idle(&self, key: &ObjectKey, generation: u64) {
        while let Some(at) = self.idle_at(key, generation) {
            sleep_until(at).await;
        }
        self.changed.notify_one();
    }

    /// When to check again whether an object is idle; `None` if it is.
    fn idle_at(&self, key: &ObjectKey, generation: u64) -> Option<Instant> {
        let now = self.now();
        let mut state = self.state();
        let entry = state.entries.get_mut(key)?;
        if entry.generation != generation {
            return None;
        }
        let is_known = *entry.known.borrow() != KnownObject::NotYet;
        if let Idle::LookAt(time) = idle(entry.requested, is_known, self.settings.idle, now) {
            return Some(self.at(time));
        }
        entry.watching = Watching::Idle;
        entry.set_aside();
        state.dirty.insert(key.clone());
        None
    }
}
