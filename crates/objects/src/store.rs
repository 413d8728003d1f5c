//! Keeps the secrets and config maps that pods refer to.

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

use crate::decide::{Known, References, is_fresh};

/// How long one who asks waits for what nothing was heard of yet.
const PATIENCE: Duration = Duration::from_secs(1);
/// The shortest time after which what nobody asks for is not followed any more.
const LEAST_IDLE: Duration = Duration::from_mins(1);

/// How the store works.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// How changes are noticed: by a watch of every object, by reading it again after a while, or by
    /// reading it whenever somebody asks.
    pub strategy: Strategy,
    /// What nobody asked for in so long is not followed; upstream's is five times `syncFrequency`.
    pub idle: Duration,
    /// After how long an object is read again.
    pub time_to_live: Duration,
}

impl Settings {
    /// As a node is configured.
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

/// The objects of the node's pods. Clones are the same one.
#[derive(Debug, Clone)]
pub struct ObjectStore {
    pub(crate) shared: Arc<Shared>,
}

#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) reads: Arc<dyn ObjectReads>,
    pub(crate) settings: Settings,
    /// When the store began.
    begun: Instant,
    /// Written by whoever registers pods or asks, and by the watches.
    state: Mutex<State>,
    /// Something is dirty. Waited for by the task alone.
    pub(crate) changed: Notify,
    /// Pods with an object that changed. Waited for by one reader.
    pub(crate) pods_changed: Notify,
}

#[derive(Debug)]
pub(crate) struct State {
    references: References,
    pub(crate) entries: BTreeMap<ObjectKey, Entry>,
    /// Of which the watch may have to begin or end.
    pub(crate) dirty: BTreeSet<ObjectKey>,
    generations: u64,
    time_to_live: Duration,
    /// Pods with an object that changed since they were last taken.
    changed_pods: BTreeSet<PodUid>,
}

/// An object that pods refer to.
#[derive(Debug)]
pub(crate) struct Entry {
    /// Written by its watch, or by those who read it.
    pub(crate) known: Arc<watch::Sender<Known>>,
    pub(crate) watching: Watching,
    /// Changes whenever what is known before is not good enough any more.
    pub(crate) generation: u64,
    /// When somebody last asked, since the store began.
    pub(crate) asked: Duration,
    /// When it was last read, where it is not followed.
    read: Option<Duration>,
    /// What it was when it was last known, for when nothing newer can be.
    last: Option<Arc<DataObject>>,
}

impl Entry {
    /// What is known is not good enough any more.
    pub(crate) fn set_aside(&mut self) {
        match self.known.send_replace(Known::NotYet) {
            Known::There(object) => self.last = Some(object),
            Known::Missing => self.last = None,
            Known::NotYet => {}
        }
    }
}

/// Whether an object is followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Watching {
    Yes,
    /// Nobody asked for it in a long time.
    Idle,
    /// It never changes, or changes are noticed otherwise.
    NotNeeded,
}

impl ObjectStore {
    /// A store of nothing.
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

    /// After how long an object is read again, if the node says so.
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
            entry.asked = self.shared.now();
            entry.known.subscribe()
        };
        let heard = async {
            known.wait_for(|known| *known != Known::NotYet).await.map(|known| known.clone())
        };
        match timeout(PATIENCE, heard).await {
            Ok(Ok(Known::There(object))) => Ok(object),
            Ok(Ok(_)) => Err(not_found(key.kind.singular(), key)),
            // Its last pod went meanwhile.
            Ok(Err(_)) => Err(not_registered(key)),
            Err(_) => self.unheard(key).await,
        }
    }

    /// Nothing is heard of an object. What it was before it was not followed for a while does, if the server does
    /// not answer either: a container that ran with it must not stay down for as long as the server is away.
    async fn unheard(&self, key: &ObjectKey) -> Result<Arc<DataObject>, ObjectError> {
        let not_yet = ObjectError::NotYet { resource: key.kind.singular() };
        let last = self.shared.state().entries.get(key).and_then(|entry| entry.last.clone());
        let Some(last) = last else { return Err(not_yet) };
        match timeout(PATIENCE, self.shared.reads.object(key, Freshness::Newest)).await {
            Ok(Ok(Some(read))) => Ok(Arc::new(read)),
            Ok(Ok(None)) => Err(not_found(key.kind.singular(), key)),
            Ok(Err(error)) if !error.is_away() => Err(not_yet),
            Ok(Err(_)) | Err(_) => {
                info!(%key, "the API server is away; an object is taken as it was known last");
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
                Known::There(object) if is_fresh => return Ok(Arc::clone(object)),
                Known::There(object) => (entry.generation, Some(Arc::clone(object))),
                _ => (entry.generation, None),
            }
        };
        let freshness = if known.is_some() { Freshness::Any } else { Freshness::Newest };
        match (self.shared.reads.object(key, freshness).await, known) {
            (Ok(Some(read)), Some(known)) if read.version < known.version => Ok(known),
            (Ok(Some(read)), _) => {
                let read = Arc::new(read);
                self.remember(key, generation, Known::There(Arc::clone(&read)));
                Ok(read)
            }
            (Ok(None), _) => {
                self.remember(key, generation, Known::Missing);
                Err(not_found(key.kind.resource(), key))
            }
            (Err(_), Some(known)) => Ok(known),
            (Err(error), None) => Err(ObjectError::NotRead(Chain(&error).to_string())),
        }
    }

    /// What was read is what is known, unless a pod was registered after the question.
    fn remember(&self, key: &ObjectKey, generation: u64, known: Known) {
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
    /// How long ago the store began.
    pub(crate) fn now(&self) -> Duration {
        self.begun.elapsed()
    }

    pub(crate) fn at(&self, time: Duration) -> Instant {
        self.begun + time
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An object that was known has changed, appeared or gone.
    pub(crate) fn object_changed(&self, key: &ObjectKey) {
        let mut state = self.state();
        let State { references, changed_pods, .. } = &mut *state;
        changed_pods.extend(references.pods(key).cloned());
        drop(state);
        self.pods_changed.notify_one();
    }
}

impl State {
    /// What is known of an object is not good enough any more.
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
            // A watch tells of itself what changes. What is read must be read after this.
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
            known: Arc::new(watch::Sender::new(Known::NotYet)),
            watching,
            generation: self.generations,
            asked: now,
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
