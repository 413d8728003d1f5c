//! The record of sessions: who ran commands in containers, attached to them or forwarded ports, when and where.
//!
//! It has its own segments and bound: a client that opens a session every second must not displace removals.

use std::sync::Arc;

use model::ports::clock::WallClock;
use model::ports::files::FileError;
use model::ports::segments::Segments;
use model::ports::streaming::{Session, SessionRecord};
use tokio_util::sync::CancellationToken;
use tracing::info;

use crate::disk::SMALLEST;
use crate::find::{SearchResult, find};
use crate::journal_thread::DiskJournal;
use crate::query::Query;

/// The directory of the segments, next to the segments of removals.
const PLACE: &str = "sessions";

/// Sessions may use one eighth of the bound for removals, in addition to it.
const PART: u64 = 8;

/// Keeps sessions on disk.
#[derive(Debug)]
pub struct SessionJournal(Arc<DiskJournal>);

impl SessionJournal {
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

    /// The sessions in a pod or container, the newest first. Blocks while it reads.
    pub fn find(&self, query: &Query, limit: usize) -> Result<SearchResult, FileError> {
        self.0.find(query, limit)
    }

    /// Writes sessions to disk until it is stopped.
    pub fn keep(&self, stop: CancellationToken) -> impl Future<Output = ()> + use<> {
        Arc::clone(&self.0).keep_synced(stop)
    }
}

impl SessionRecord for SessionJournal {
    fn record_session(&self, session: &Session) {
        let Session { kind, pod, container, user, refusal, .. } = session;
        let (kind, refusal) = (kind.as_str(), refusal.as_deref().unwrap_or_default());
        info!(kind, %pod, container, user, refusal, "Session in a container");
        self.0.record_session(session.clone());
    }
}

/// Looks for sessions that a process recorded next to the removals in these segments. Blocks while it
/// reads.
pub fn find_sessions(
    removals: &dyn Segments,
    query: &Query,
    limit: usize,
) -> Result<SearchResult, FileError> {
    find(&*removals.beside(PLACE), query, limit)
}

#[cfg(test)]
#[path = "sessions_tests.rs"]
mod tests;
