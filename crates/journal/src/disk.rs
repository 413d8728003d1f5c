//! The journal on disk.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use model::chain::Chain;
use model::ports::clock::WallClock;
use model::ports::files::FileError;
use model::ports::journal::{Journal, Outcome};
use model::ports::segments::{Lying, Segment, Segments};
use model::trouble::Trouble;
use model::verdict::Verdict;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::decode;
use crate::entry::Entry;
use crate::find::{Found, find};
use crate::query::Query;

/// The smallest bound that a journal can keep.
pub const SMALLEST: u64 = 1 << 20;

/// How many segments there are at most.
const SEGMENTS: u64 = 8;

/// How many full segments wait to be on disk; beyond these, the oldest are about to be removed.
const MOST_UNSYNCED: usize = 8;

/// How long what was written may wait to be on disk.
const SYNC_AFTER: Duration = Duration::from_secs(5);

/// Appends entries to segments, and keeps their size in bounds.
#[derive(Debug)]
pub struct DiskJournal {
    segments: Arc<dyn Segments>,
    clock: Arc<dyn WallClock>,
    version: String,
    max_bytes: u64,
    /// Who records writes, one at a time; never held over an await or a sync.
    state: Mutex<State>,
    /// Told when there is something to sync.
    dirty: Notify,
}

#[derive(Debug, Default)]
struct State {
    current: Option<Current>,
    /// Full segments that may not be on disk yet.
    unsynced: Vec<Arc<dyn Segment>>,
    trouble: Trouble,
}

#[derive(Debug)]
struct Current {
    number: u64,
    size: u64,
    segment: Arc<dyn Segment>,
    /// Whether its last line has no end: what follows would be damaged with it.
    ragged: bool,
    synced: bool,
}

/// Why an entry is not kept.
#[derive(Debug)]
enum Unkept {
    File(FileError),
    Append(io::Error),
}

impl DiskJournal {
    /// A journal of at most so many bytes. Nothing is read or made before the first entry.
    pub fn new(
        segments: Arc<dyn Segments>,
        clock: Arc<dyn WallClock>,
        version: &str,
        max_bytes: u64,
    ) -> Self {
        Self {
            segments,
            clock,
            version: version.to_owned(),
            max_bytes: max_bytes.max(SMALLEST),
            state: Mutex::default(),
            dirty: Notify::new(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn segment_bytes(&self) -> u64 {
        self.max_bytes / SEGMENTS
    }

    /// Asks for entries. Blocks while it reads.
    pub fn find(&self, query: &Query, limit: usize) -> Result<Found, FileError> {
        find(&*self.segments, query, limit)
    }

    /// Sees to it that all entries so far are on disk. Blocks until they are.
    pub fn sync(&self) {
        let mut waiting;
        {
            let mut state = self.state();
            waiting = std::mem::take(&mut state.unsynced);
            if let Some(current) = state.current.as_mut().filter(|current| !current.synced) {
                current.synced = true;
                waiting.push(Arc::clone(&current.segment));
            }
        }
        for segment in waiting {
            if let Err(error) = segment.sync() {
                warn!(%error, "the journal of removals may not be on disk");
            }
        }
    }

    /// Syncs a while after something was written, until told to stop, and then once more.
    pub async fn keep_synced(self: Arc<Self>, stop: CancellationToken) {
        let mut going = true;
        while going {
            // Biased: a stop comes once.
            going = tokio::select! {
                biased;
                () = stop.cancelled() => false,
                () = async { self.dirty.notified().await; sleep(SYNC_AFTER).await } => true,
            };
            let journal = Arc::clone(&self);
            if let Err(error) = tokio::task::spawn_blocking(move || journal.sync()).await {
                warn!(%error, "the journal of removals may not be on disk");
            }
        }
    }

    fn append(&self, state: &mut State, line: &[u8]) -> Result<(), Unkept> {
        // With the end of a line that was cut off.
        let length = line.len() as u64 + 1;
        let current = match state.current.take() {
            Some(current) => current,
            None => self.begin()?,
        };
        let current = if current.size > 0 && current.size + length > self.segment_bytes() {
            if state.unsynced.len() == MOST_UNSYNCED {
                state.unsynced.remove(0);
            }
            state.unsynced.push(current.segment);
            self.open(current.number + 1, 0, false)?
        } else {
            current
        };
        let current = state.current.insert(current);
        let lead: &[u8] = if current.ragged { b"\n" } else { b"" };
        // In one call, so that nothing comes between.
        let written = current.segment.append(&[lead, line].concat());
        current.size += length;
        current.ragged = written.is_err();
        if std::mem::replace(&mut current.synced, false) {
            self.dirty.notify_one();
        }
        written.map_err(Unkept::Append)
    }

    /// Goes on where an earlier agent ended.
    fn begin(&self) -> Result<Current, Unkept> {
        let lying = self.segments.list().map_err(Unkept::File)?;
        let Some(last) = lying.last() else { return self.open(1, 0, false) };
        let read = self.segments.read(last.number).map(|reader| decode::read(reader, drop));
        match read {
            Ok(Ok(passed)) => {
                let damaged = passed.damaged;
                if damaged > 0 {
                    info!(damaged, "the journal has entries that a crash cut off; passed over");
                }
                self.open(last.number, last.size, passed.ragged)
            }
            Ok(Err(error)) => {
                warn!(%error, "a segment of the journal cannot be read; starting another");
                self.open(last.number + 1, 0, false)
            }
            Err(error) => {
                warn!(error = %Chain(&error), "a segment of the journal cannot be read; starting another");
                self.open(last.number + 1, 0, false)
            }
        }
    }

    /// Opens a segment, and makes room for it to become as long as it may.
    fn open(&self, number: u64, size: u64, ragged: bool) -> Result<Current, Unkept> {
        let lying = self.segments.list().map_err(Unkept::File)?;
        let most = self.max_bytes.saturating_sub(size.max(self.segment_bytes()));
        for Lying { number, .. } in surplus(&lying, number, most) {
            if let Err(error) = self.segments.remove(number) {
                warn!(error = %Chain(&error), "an old segment of the journal cannot be removed");
            }
        }
        let segment = self.segments.append_to(number).map_err(Unkept::File)?;
        Ok(Current { number, size, segment, ragged, synced: true })
    }
}

/// The oldest of the other segments, so that without them those take at most so many bytes.
fn surplus(lying: &[Lying], kept: u64, most: u64) -> Vec<Lying> {
    let mut others: Vec<Lying> = lying.iter().filter(|one| one.number != kept).copied().collect();
    let mut bytes: u64 = others.iter().map(|one| one.size).sum();
    let too_many = others.iter().take_while(|one| {
        let too_much = bytes > most;
        bytes -= one.size;
        too_much
    });
    let too_many = too_many.count();
    others.truncate(too_many);
    others
}

impl Journal for DiskJournal {
    fn record(&self, verdict: &Verdict, outcome: Outcome<'_>) {
        let entry = Entry::new(verdict, outcome, self.clock.now(), &self.version);
        let line = decode::line(&entry);
        let now = Instant::now().into_std();
        let mut state = self.state();
        match self.append(&mut state, &line) {
            Ok(()) => {
                if let Some(after) = state.trouble.over(now) {
                    info!(?after, "the journal of removals is kept again");
                }
            }
            Err(why) => {
                if state.trouble.failed(now) {
                    let error = match &why {
                        Unkept::File(error) => Chain(error).to_string(),
                        Unkept::Append(error) => error.to_string(),
                    };
                    warn!(%error, "a removal cannot be put into the journal; it is in this log alone");
                }
            }
        }
    }
}

#[cfg(test)]
#[path = "disk_tests.rs"]
mod tests;
