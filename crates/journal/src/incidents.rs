//! The record of incidents: why containers were killed and restarted, and why pods were rejected.
//!
//! It has its own segments and bound: a container in a crash loop must not displace removals. A kill, an OOM
//! kill and a rejection are recorded once: a kill is retried, and an agent that starts observes dead containers again.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use model::ports::clock::WallClock;
use model::ports::files::FileError;
use model::ports::incidents::{Incident, IncidentKind, IncidentRecord};
use model::ports::segments::Segments;
use tokio_util::sync::CancellationToken;

use crate::decode;
use crate::disk::SMALLEST;
use crate::entry::Entry;
use crate::find::{SearchResult, find};
use crate::journal_thread::DiskJournal;
use crate::query::Query;

/// The directory of the segments, next to the segments of removals.
const PLACE: &str = "incidents";

/// Incidents may use one quarter of the bound for removals, in addition to it.
const PART: u64 = 4;

/// The kinds without deduplication.
const REPEATED: [IncidentKind; 2] = [IncidentKind::Restart, IncidentKind::Pull];

/// How many incidents are remembered as recorded.
const MOST_REMEMBERED: usize = 1024;

/// Keeps incidents on disk.
#[derive(Debug)]
pub struct IncidentJournal(Arc<DiskJournal>);

impl IncidentJournal {
    /// Creates the record next to the journal of removals in these segments, which has this bound.
    pub fn new(
        removals: &dyn Segments,
        clock: Arc<dyn WallClock>,
        version: &str,
        max_bytes: u64,
    ) -> Self {
        let most = (max_bytes / PART).max(SMALLEST);
        Self(Arc::new(DiskJournal::new(removals.beside(PLACE), clock, version, most)))
    }

    /// The incidents of a pod or container, the newest first. Blocks while it reads.
    pub fn find(&self, query: &Query, limit: usize) -> Result<SearchResult, FileError> {
        self.0.find(query, limit)
    }

    /// Writes incidents to disk until it is stopped.
    pub fn keep(&self, stop: CancellationToken) -> impl Future<Output = ()> + use<> {
        Arc::clone(&self.0).keep_synced(stop)
    }
}

impl IncidentRecord for IncidentJournal {
    fn record_incident(&self, incident: Incident) {
        self.0.record_incident(incident);
    }
}

/// Looks for incidents that a process recorded next to the removals in these segments. Blocks while it
/// reads.
pub fn find_incidents(
    removals: &dyn Segments,
    query: &Query,
    limit: usize,
) -> Result<SearchResult, FileError> {
    find(&*removals.beside(PLACE), query, limit)
}

/// Kind, ID and rule: two incidents with the same are one.
type Key = (String, String, String);

/// The newest incidents that are not recorded again.
#[derive(Debug, Default)]
pub(crate) struct RecordedIncidents {
    keys: BTreeSet<Key>,
    /// The same keys, the oldest first.
    order: VecDeque<Key>,
}

impl RecordedIncidents {
    /// Loads those of earlier agents. Unreadable entries are skipped. Blocks while it reads.
    pub(crate) fn load(segments: &dyn Segments) -> Self {
        let mut recorded = Self::default();
        for existing in segments.list().unwrap_or_default() {
            if let Ok(reader) = segments.read(existing.number) {
                let add = |entry: Entry| {
                    if !REPEATED.iter().any(|kind| entry.kind == kind.as_str()) {
                        recorded.add_key((entry.kind, entry.id, entry.rule));
                    }
                };
                // A search of the segments reports their problems.
                drop(decode::read(reader, add));
            }
        }
        recorded
    }

    /// Adds an incident and returns whether it is new. Restarts and pulls are always new.
    pub(crate) fn add(&mut self, incident: &Incident) -> bool {
        let Incident { kind, id, rule, .. } = incident;
        REPEATED.contains(kind)
            || self.add_key((kind.as_str().to_owned(), id.clone(), rule.clone().into_owned()))
    }

    fn add_key(&mut self, key: Key) -> bool {
        if !self.keys.insert(key.clone()) {
            return false;
        }
        self.order.push_back(key);
        if self.order.len() > MOST_REMEMBERED
            && let Some(oldest) = self.order.pop_front()
        {
            self.keys.remove(&oldest);
        }
        true
    }
}

#[cfg(test)]
#[path = "incidents_tests.rs"]
mod tests;
