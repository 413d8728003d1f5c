//! The last events of each pod and of the node, in memory.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use model::ids::{PodName, PodUid};
use model::ports::clock::WallClock;
use model::ports::events::{EventType, Events, NodeEvent, NodeEvents, PodEvent, STILL_PULLING};
use tokio::sync::watch;

use crate::wire::{EventItem, LastEvent};

/// The longest stored message in bytes, as in the API.
const LONGEST_MESSAGE: usize = 1024;

/// The limits of stored events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EventLimits {
    /// Per pod.
    pub per_pod: usize,
    /// In total.
    pub in_all: usize,
}

impl Default for EventLimits {
    fn default() -> Self {
        Self { per_pod: 50, in_all: 2000 }
    }
}

/// Stores events and passes them on. A repeated event is counted, not stored again. When the book is full, the
/// least recent event is removed.
#[derive(Debug)]
pub struct EventBook {
    clock: Arc<dyn WallClock>,
    limits: EventLimits,
    /// Receives every event as well.
    next: Arc<dyn Events>,
    /// The name of the node, and the receiver of its events.
    node: Option<(Arc<str>, Arc<dyn NodeEvents>)>,
    /// Written only by [`Events::record`]. Never held across an await.
    pages: Mutex<Pages>,
    /// The number of recorded events. Closed with the book.
    changes: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct Pages {
    /// By the order of their last occurrence. Boxed: a map allocates more entries than it holds.
    entries: BTreeMap<u64, Box<Entry>>,
    /// The keys of each pod's entries, in order.
    by_pod: BTreeMap<PodUid, Vec<u64>>,
    recorded: u64,
}

#[derive(Debug)]
struct Entry {
    event: PodEvent,
    count: u64,
    first: Timestamp,
    last: Timestamp,
}

impl EventBook {
    /// An empty book.
    pub fn new(clock: Arc<dyn WallClock>, limits: EventLimits, next: Arc<dyn Events>) -> Self {
        let (changes, _) = watch::channel(0);
        Self { clock, limits, next, node: None, pages: Mutex::default(), changes }
    }

    /// Stores and forwards events of this node as well.
    #[must_use]
    pub fn of_node(mut self, name: &str, next: Arc<dyn NodeEvents>) -> Self {
        self.node = Some((name.into(), next));
        self
    }

    /// A number that changes with every event.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// The last event of a pod. Reminders of a pull do not count: the event of the pull has its start time.
    pub fn last(&self, pod: &PodUid) -> Option<LastEvent> {
        let pages = self.pages();
        let mut entries = pages.by_pod.get(pod)?.iter().rev().map(|key| &pages.entries[key]);
        let entry = entries.find(|entry| entry.event.reason != STILL_PULLING)?;
        Some(LastEvent {
            kind: kind(entry.event.kind).to_owned(),
            reason: entry.event.reason.to_string(),
            message: entry.event.message.clone(),
            time: entry.last,
        })
    }

    /// The events of a pod by name, with any uid, or of all pods; latest last.
    pub fn items(&self, pod: Option<&PodName>) -> Vec<EventItem> {
        let pages = self.pages();
        let requested =
            pages.entries.values().filter(|entry| pod.is_none_or(|pod| entry.event.pod == *pod));
        requested.map(|entry| entry.item()).collect()
    }

    fn pages(&self) -> MutexGuard<'_, Pages> {
        self.pages.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Events for EventBook {
    fn record(&self, event: PodEvent) {
        let now = self.clock.now();
        self.pages().add(event.clone(), now, self.limits);
        self.changes.send_modify(|count| *count += 1);
        self.next.record(event);
    }
}

/// Events of the node are stored as those of a pod without uid and namespace, which does not exist.
impl NodeEvents for EventBook {
    fn record(&self, event: NodeEvent) {
        let Some((node, next)) = &self.node else { return };
        let as_of_pod = PodEvent {
            pod_uid: "".into(),
            pod: PodName::new("", Arc::clone(node)),
            field_path: "".into(),
            kind: event.kind,
            reason: event.reason.into(),
            message: event.message.clone(),
            annotations: Vec::new(),
        };
        let now = self.clock.now();
        self.pages().add(as_of_pod, now, self.limits);
        self.changes.send_modify(|count| *count += 1);
        next.record(event);
    }
}

impl Pages {
    fn add(&mut self, mut event: PodEvent, now: Timestamp, limits: EventLimits) {
        cut(&mut event.message);
        let uid = event.pod_uid.clone();
        let mut entry = Entry { event, count: 1, first: now, last: now };
        if let Some(before) = self.take_same(&entry.event) {
            (entry.count, entry.first) = (before.count + 1, before.first);
        }
        self.recorded += 1;
        self.entries.insert(self.recorded, Box::new(entry));
        let keys = self.by_pod.entry(uid).or_default();
        keys.push(self.recorded);
        if keys.len() > limits.per_pod {
            let oldest = keys[0];
            self.take(oldest);
        }
        if self.entries.len() > limits.in_all
            && let Some((&oldest, _)) = self.entries.first_key_value()
        {
            self.take(oldest);
        }
    }

    fn take_same(&mut self, event: &PodEvent) -> Option<Box<Entry>> {
        let keys = self.by_pod.get(&event.pod_uid)?;
        let same = keys.iter().copied().find(|key| self.entries[key].event == *event)?;
        self.take(same)
    }

    fn take(&mut self, key: u64) -> Option<Box<Entry>> {
        let entry = self.entries.remove(&key)?;
        let uid = &entry.event.pod_uid;
        if let Some(keys) = self.by_pod.get_mut(uid) {
            keys.retain(|other| *other != key);
            if keys.is_empty() {
                self.by_pod.remove(uid);
            }
        }
        Some(entry)
    }
}

impl Entry {
    fn item(&self) -> EventItem {
        let of_node = self.event.pod_uid.as_str().is_empty();
        let pod = &self.event.pod;
        EventItem {
            involved: if of_node { "Node" } else { "Pod" }.to_owned(),
            pod: if of_node { pod.name.to_string() } else { pod.to_string() },
            pod_uid: self.event.pod_uid.to_string(),
            field_path: self.event.field_path.to_string(),
            kind: kind(self.event.kind).to_owned(),
            reason: self.event.reason.to_string(),
            message: self.event.message.clone(),
            count: self.count,
            first_time: self.first,
            last_time: self.last,
        }
    }
}

fn kind(kind: EventType) -> &'static str {
    match kind {
        EventType::Normal => "Normal",
        EventType::Warning => "Warning",
    }
}

/// Truncates a long message, to limit memory.
fn cut(message: &mut String) {
    const MARK: &str = "…";
    if message.len() > LONGEST_MESSAGE {
        message.truncate(message.floor_char_boundary(LONGEST_MESSAGE - MARK.len()));
        message.push_str(MARK);
    }
}

#[cfg(test)]
#[path = "event_book_tests.rs"]
mod tests;
