//! Caches the secrets and config maps that pods refer to.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use config::{ChangeDetectionStrategy as Strategy, KubeletConfiguration};
use model::chain::Chain;
use model::ids::PodUid;
use model::objects::{DataObject, ObjectKey};
use model::ports::objects::{Freshness, ObjectError, ObjectReads, PodObjects};
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, timeout};
use tracing::info;

use crate::decide::{KnownObject, References, is_fresh};

/// How long a lookup waits for the first version of an object.
const PATIENCE: Duration = Duration::from_secs(1);
/// The shortest idle time after which an object is no longer watched.
const LEAST_IDLE: Duration = Duration::from_mins(1);

/// Settings of the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// How changes are detected: by a watch of every object, by reading it again after its TTL, or by
    /// reading it at every lookup.
    pub strategy: Strategy,
    /// The idle time after which an object is no longer watched; upstream's is five times `syncFrequency`.
    pub idle: Duration,
    /// The TTL after which an object is read again.
    pub time_to_live: Duration,
}

impl Settings {
    /// The settings of a configuration.
    pub fn of(config: &KubeletConfiguration) -> Self {
        Self {
            strategy: config.config_map_and_secret_change_detection_strategy,
            idle: config.sync_frequency.to_std().saturating_mul(5),
            ..Self::default()
        }
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            strategy: Strategy::Watch,
            idle: Duration::from_mins(5),
            time_to_live: Duration::from_mins(1),
        }
    }
}

/// The objects of the node's pods. Clones share the store.
#[derive(Debug, Clone)]
pub struct ObjectStore {
    pub(crate) shared: Arc<Shared>,
}

#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) reads: Arc<dyn ObjectReads>,
    pub(crate) settings: Settings,
    /// When the store was created.
    begun: Instant,
    /// Written by registrations, lookups and watches.
    state: Mutex<State>,
    /// Wakes the task: an object is dirty.
    pub(crate) changed: Notify,
    /// Wakes the reader: objects of pods changed.
    pub(crate) pods_changed: Notify,
}

#[derive(Debug)]
pub(crate) struct State {
    references: References,
    pub(crate) entries: BTreeMap<ObjectKey, Entry>,
    /// Objects whose watch may have to start or stop.
    pub(crate) dirty: BTreeSet<ObjectKey>,
    generations: u64,
    time_to_live: Duration,
    /// Pods with an object that changed since the last read.
    changed_pods: BTreeSet<PodUid>,
}

/// An object with references.
#[derive(Debug)]
pub(crate) struct Entry {
    /// Written by its watch, or by reads.
    pub(crate) known: Arc<watch::Sender<KnownObject>>,
    pub(crate) watching: Watching,
    /// Increases whenever the known version becomes stale.
    pub(crate) generation: u64,
    /// The last lookup, as time since the creation of the store.
    pub(crate) requested: Duration,
    /// When it was last read, if it is not watched.
    read: Option<Duration>,
    /// Its last known version, in case no newer one is available.
    last: Option<Arc<DataObject>>,
}

impl Entry {
    /// Marks the known version as stale, and keeps it for an outage.
    pub(crate) fn set_aside(&mut self) {
        match self.known.send_replace(KnownObject::NotYet) {
            KnownObject::There(object) => self.last = Some(object),
            KnownObject::Missing => self.last = None,
            KnownObject::NotYet => {}
        }
    }
}

/// Whether an object is watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Watching {
    Yes,
    /// The object was not used for a long time.
    Idle,
    /// The object is immutable, or changes are detected without a watch.
    NotNeeded,
}

impl ObjectStore {
    /// An empty store.
    pub fn new(reads: Arc<dyn ObjectReads>, settings: Settings) -> Self {
        let settings = Settings { idle: settings.idle.max(LEAST_IDLE), ..settings };
        let state = State {
            references: References::default(),
            entries: BTreeMap::new(),
            dirty: BTreeSet::new(),
            generations: 0,
            time_to_live: settings.time_to_live,
            changed_pods: BTreeSet::new(),
        };
        let (begun, state) = (Instant::now(), Mutex::new(state));
        let (changed, pods_changed) = (Notify::new(), Notify::new());
        Self { shared: Arc::new(Shared { reads, settings, begun, state, changed, pods_changed }) }
    }

    /// Waits until objects have changed, and returns the pods that refer to them. For one reader.
    pub async fn changed_pods(&self) -> BTreeSet<PodUid> {
        loop {
            let changed = std::mem::take(&mut self.shared.state().changed_pods);
            if !changed.is_empty() {
                return changed;
            }
            self.shared.pods_changed.notified().await;
        }
    }

    /// Sets the TTL after which an object is read again, if the node has one.
    pub fn set_time_to_live(&self, time: Option<Duration>) {
        self.shared.state().time_to_live = time.unwrap_or(self.shared.settings.time_to_live);
    }

    async fn followed(&self, key: &ObjectKey) -> Result<Arc<DataObject>, ObjectError> {
        let mut known = {
            let mut state = self.shared.state();
            if state.entries.get(key).is_some_and(|entry| entry.watching == Watching::Idle) {
                state.begin_anew(key);
                self.shared.changed.notify_one();
            }
            let entry = state.entries.get_mut(key).ok_or_else(|| not_registered(key))?;
            entry.requested = self.shared.now();
            entry.known.subscribe()
        };
        let delivered = async {
            known.wait_for(|known| *known != KnownObject::NotYet).await.map(|known| known.clone())
        };
        match timeout(PATIENCE, delivered).await {
            Ok(Ok(KnownObject::There(object))) => Ok(object),
            Ok(Ok(_)) => Err(not_found(key.kind.singular(), key)),
            // Its last pod was unregistered meanwhile.
            Ok(Err(_)) => Err(not_registered(key)),
            Err(_) => self.not_delivered(key).await,
        }
    }

    /// Handles a lookup whose watch delivered nothing. If the server does not respond to a read either, the version
    /// from before the idle time is used: a container that ran with it must not stay down while the server is
    /// unavailable.
    async fn not_delivered(&self, key: &ObjectKey) -> Result<Arc<DataObject>, ObjectError> {
        let not_yet = ObjectError::NotYet { resource: key.kind.singular() };
        let last = self.shared.state().entries.get(key).and_then(|entry| entry.last.clone());
        let Some(last) = last else { return Err(not_yet) };
        match timeout(PATIENCE, self.shared.reads.object(key, Freshness::Newest)).await {
            Ok(Ok(Some(read))) => Ok(Arc::new(read)),
            Ok(Ok(None)) => Err(not_found(key.kind.singular(), key)),
            Ok(Err(error)) if !error.is_away() => Err(not_yet),
            Ok(Err(_)) | Err(_) => {
                info!(%key, "API server is unavailable, using the last known version of an object");
                Ok(last)
            }
        }
    }

    async fn cached(&self, key: &ObjectKey) -> Result<Arc<DataObject>, ObjectError> {
        let (generation, known) = {
            let state = self.shared.state();
            let entry = state.entries.get(key).ok_or_else(|| not_registered(key))?;
            let is_fresh = is_fresh(entry.read, state.time_to_live, self.shared.now());
            match &*entry.known.borrow() {
                KnownObject::There(object) if is_fresh => return Ok(Arc::clone(object)),
                KnownObject::There(object) => (entry.generation, Some(Arc::clone(object))),
                _ => (entry.generation, None),
            }
        };
        let freshness = if known.is_some() { Freshness::Any } else { Freshness::Newest };
        match (self.shared.reads.object(key, freshness).await, known) {
            (Ok(Some(read)), Some(known)) if read.version < known.version => Ok(known),
            (Ok(Some(read)), _) => {
                let read = Arc::new(read);
                self.remember(key, generation, KnownObject::There(Arc::clone(&read)));
                Ok(read)
            }
            (Ok(None), _) => {
                self.remember(key, generation, KnownObject::Missing);
                Err(not_found(key.kind.resource(), key))
            }
            (Err(_), Some(known)) => Ok(known),
            (Err(error), None) => Err(ObjectError::NotRead(Chain(&error).to_string())),
        }
    }

    /// Stores a version that was read, unless a pod was registered after the request.
    fn remember(&self, key: &ObjectKey, generation: u64, known: KnownObject) {
        let mut state = self.shared.state();
        let entry = state.entries.get_mut(key);
        if let Some(entry) = entry.filter(|entry| entry.generation == generation) {
            entry.read = Some(self.shared.now());
            entry.known.send_replace(known);
        }
    }

    async fn read(&self, key: &ObjectKey) -> Result<Arc<DataObject>, ObjectError> {
        match self.shared.reads.object(key, Freshness::Newest).await {
            Ok(Some(object)) => Ok(Arc::new(object)),
            Ok(None) => Err(not_found(key.kind.resource(), key)),
            Err(error) => Err(ObjectError::NotRead(Chain(&error).to_string())),
        }
    }
}

fn not_registered(key: &ObjectKey) -> ObjectError {
    ObjectError::NotRegistered { namespace: key.namespace.clone(), name: key.name.clone() }
}

fn not_found(resource: &'static str, key: &ObjectKey) -> ObjectError {
    ObjectError::NotFound { resource, name: key.name.clone() }
}

impl Shared {
    /// The time since the store was created.
    pub(crate) fn now(&self) -> Duration {
        self.begun.elapsed()
    }

    pub(crate) fn at(&self, time: Duration) -> Instant {
        self.begun + time
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Marks the pods of a known object that has changed, appeared or disappeared.
    pub(crate) fn object_changed(&self, key: &ObjectKey) {
        let mut state = self.state();
        let State { references, changed_pods, .. } = &mut *state;
        changed_pods.extend(references.pods(key).cloned());
        drop(state);
        self.pods_changed.notify_one();
    }
}

impl State {
    /// Marks the known version of an object as stale.
    pub(crate) fn begin_anew(&mut self, key: &ObjectKey) {
        let Some(entry) = self.entries.get_mut(key) else { return };
        self.generations += 1;
        entry.generation = self.generations;
        entry.read = None;
        entry.set_aside();
        if entry.watching == Watching::Idle {
            entry.watching = Watching::Yes;
        }
        self.dirty.insert(key.clone());
    }

    fn refer(&mut self, key: &ObjectKey, strategy: Strategy, now: Duration) {
        if self.entries.contains_key(key) {
            // A watch delivers changes by itself. Without one, the object must be read after this.
            if strategy == Strategy::Cache {
                self.begin_anew(key);
            }
            return;
        }
        self.generations += 1;
        let watching = match strategy {
            Strategy::Watch => Watching::Yes,
            Strategy::Cache | Strategy::Get => Watching::NotNeeded,
        };
        let entry = Entry {
            known: Arc::new(watch::Sender::new(KnownObject::NotYet)),
            watching,
            generation: self.generations,
            requested: now,
            read: None,
            last: None,
        };
        self.entries.insert(key.clone(), entry);
        self.dirty.insert(key.clone());
    }
}

#[async_trait]
impl PodObjects for ObjectStore {
    fn register(&self, pod: &PodUid, objects: BTreeSet<ObjectKey>) {
        let strategy = self.shared.settings.strategy;
        if strategy == Strategy::Get {
            return;
        }
        let now = self.shared.now();
        let mut state = self.shared.state();
        let difference = state.references.set(pod, objects);
        for key in &difference.added {
            state.refer(key, strategy, now);
        }
        for key in difference.unused {
            state.entries.remove(&key);
            state.dirty.insert(key);
        }
        let is_dirty = !state.dirty.is_empty();
        drop(state);
        if is_dirty {
            self.shared.changed.notify_one();
        }
    }

    fn unregister(&self, pod: &PodUid) {
        self.register(pod, BTreeSet::new());
    }

    async fn get(&self, key: &ObjectKey) -> Result<Arc<DataObject>, ObjectError> {
        match self.shared.settings.strategy {
            Strategy::Watch => self.followed(key).await,
            Strategy::Cache => self.cached(key).await,
            Strategy::Get => self.read(key).await,
        }
    }
}
