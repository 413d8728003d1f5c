//! The journal on disk.

use std::collections::{BTreeSet, VecDeque};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use model::chain::Chain;
use model::log_throttle::LogThrottle;
use model::ports::clock::WallClock;
use model::ports::files::FileError;
use model::ports::incidents::Incident;
use model::ports::journal::Outcome;
use model::ports::segments::{Segment, SegmentInfo, Segments};
use model::ports::streaming::Session;
use model::verdict::Verdict;
use tokio::sync::Notify;
use tokio::time::Instant;
use tracing::{info, warn};

use crate::decode;
use crate::entry::{Entry, EntryOutcome, NO_ANSWER};
use crate::find::{SearchResult, find_with};
use crate::in_progress::{InProgress, UnfinishedRemoval};
use crate::incidents::RecordedIncidents;
use crate::query::Query;
use crate::repeated::Repeated;

/// The smallest supported bound of a journal.
pub const SMALLEST: u64 = 1 << 20;

/// The maximum number of segments.
const SEGMENTS: u64 = 8;

/// The part of a segment that is reserved at its end for a full disk.
const SPARE: u64 = 4;

/// The maximum number of full segments that wait for a sync; older ones are about to be removed.
const MOST_UNSYNCED: usize = 8;

/// The longest time before a written entry is synced, and before a failed write is retried.
pub(crate) const SYNC_AFTER: Duration = Duration::from_secs(5);

/// The maximum number of entries that wait for disk space; beyond these, the oldest are lost.
const MOST_WAITING: usize = 256;

/// Appends entries to segments, and bounds their size. Blocks on the disk.
#[derive(Debug)]
pub(crate) struct Disk {
    segments: Arc<dyn Segments>,
    clock: Arc<dyn WallClock>,
    version: String,
    max_bytes: u64,
    /// The removals in progress, recorded before they start.
    in_progress: InProgress,
    /// Held while an entry is written; never over an await or a sync.
    state: Mutex<State>,
    /// Notified when there is something to sync, or a failed write to retry.
    dirty: Notify,
}

#[derive(Debug, Default)]
struct State {
    current: Option<Current>,
    /// Full segments that may not be on disk yet.
    unsynced: Vec<Arc<dyn Segment>>,
    /// Entries that wait for disk space, the oldest first.
    waiting: VecDeque<Entry>,
    /// How many of them were lost.
    lost: u64,
    /// Removals in progress of an earlier process, by kind and ID, until their outcome is known.
    left: BTreeSet<(String, String)>,
    repeated: Repeated,
    /// Recorded incidents, to drop duplicates; loaded with the first incident.
    recorded: Option<RecordedIncidents>,
    throttle: LogThrottle,
}

#[derive(Debug)]
struct Current {
    number: u64,
    size: u64,
    segment: Arc<dyn Segment>,
    /// Its reserved size, for a full disk; 0 if space cannot be reserved.
    reserved: u64,
    /// Whether its last line has no end: the next line would be damaged too.
    ragged: bool,
    synced: bool,
}

/// Why an entry is not written.
#[derive(Debug)]
enum WriteError {
    File(FileError),
    Append(io::Error),
}

impl Disk {
    /// A journal of at most `bound` bytes. Nothing is read or created before the first entry.
    pub(crate) fn new(
        segments: Arc<dyn Segments>,
        clock: Arc<dyn WallClock>,
        version: &str,
        max_bytes: u64,
    ) -> Self {
        Self {
            in_progress: InProgress::new(&*segments),
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

    /// The largest size of a segment while there is no space for the next.
    fn longest(&self) -> u64 {
        self.segment_bytes() + self.segment_bytes() / SPARE
    }

    /// Finds entries, including those that wait for disk space. Blocks while it reads.
    pub(crate) fn find(&self, query: &Query, limit: usize) -> Result<SearchResult, FileError> {
        let waiting: Vec<Entry> = self.state().waiting.iter().cloned().collect();
        find_with(&*self.segments, &waiting, query, limit)
    }

    /// Removals in progress of earlier processes that were killed. The caller must
    /// [settle](Self::settle) each; until then, the next process gets it too.
    pub(crate) fn take_unfinished(&self) -> Vec<UnfinishedRemoval> {
        let left = self.in_progress.take_unfinished().unwrap_or_else(|error| {
            warn!(error = %Chain(&error), "Cannot read the removals in progress of an earlier process");
            Vec::new()
        });
        let things = left.iter().map(|left| thing(&left.entry));
        self.state().left.extend(things);
        left
    }

    /// Records the outcome of such a removal, unless this process has removed the same object since.
    pub(crate) fn settle(&self, left: UnfinishedRemoval, outcome: EntryOutcome, more: &str) {
        let UnfinishedRemoval { mut entry, number } = left;
        let mut state = self.state();
        if state.left.remove(&thing(&entry)) {
            entry.outcome = outcome;
            entry.error = match outcome {
                EntryOutcome::Unknown | EntryOutcome::Failed => Some(format!("{NO_ANSWER}{more}")),
                EntryOutcome::Removed
                | EntryOutcome::Gone
                | EntryOutcome::Held
                | EntryOutcome::Opened
                | EntryOutcome::Refused
                | EntryOutcome::Killed
                | EntryOutcome::Restarted
                | EntryOutcome::Rejected
                | EntryOutcome::Evicted
                | EntryOutcome::Pulled => {
                    entry.detail.0.push(("foundGone".to_owned(), "after a restart".into()));
                    None
                }
            };
            let Entry { kind, id, rule, .. } = &entry;
            let outcome = outcome.as_str();
            info!(kind, id, rule, outcome, "Removal of an earlier process settled");
            self.keep(&mut state, entry);
        }
        drop(state);
        self.in_progress.end(number);
    }

    /// Retries failed writes.
    pub(crate) fn retry(&self) {
        self.write(&mut self.state());
    }

    /// Syncs all entries so far to disk. Blocks.
    pub(crate) fn sync(&self) {
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
                warn!(%error, "Cannot sync the journal of removals");
            }
        }
    }

    /// Waits until there is something to sync, or a failed write to retry.
    pub(crate) async fn dirtied(&self) {
        self.dirty.notified().await;
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// The number of the next removal.
    pub(crate) fn next_number(&self) -> u64 {
        self.in_progress.next_number()
    }

    /// Records a verdict that was carried out, or could not be.
    pub(crate) fn record(
        &self,
        verdict: &Verdict,
        outcome: Outcome<'_>,
        at: Timestamp,
        now: std::time::Instant,
    ) {
        let mut state = self.state();
        if state.repeated.is_new(verdict, outcome, now) {
            let entry = Entry::new(verdict, outcome, at, &self.version);
            if !state.left.is_empty() {
                state.left.remove(&thing(&entry));
            }
            self.keep(&mut state, entry);
        }
    }

    /// Records a session that was opened or refused.
    pub(crate) fn record_session(&self, session: &Session, at: Timestamp) {
        self.keep(&mut self.state(), Entry::of_session(session, at, &self.version));
    }

    /// Records an incident, unless it was recorded before.
    pub(crate) fn record_incident(&self, incident: &Incident, now: Timestamp) {
        let mut state = self.state();
        if self.is_recorded(&mut state, incident) {
            return;
        }
        self.keep(&mut state, Entry::of_incident(incident, now, &self.version));
    }

    /// Whether an incident was recorded before, also by an earlier agent. Adds it to the recorded ones.
    fn is_recorded(&self, state: &mut State, incident: &Incident) -> bool {
        let recorded =
            state.recorded.get_or_insert_with(|| RecordedIncidents::load(&*self.segments));
        !recorded.add(incident)
    }

    /// Records a removal before it starts.
    pub(crate) fn begun(&self, number: u64, verdict: &Verdict, at: Timestamp) {
        self.in_progress.begin_as(number, Entry::of_begun(verdict, at, &self.version));
    }

    /// Drops the record of a removal that has ended.
    pub(crate) fn ended(&self, number: u64) {
        self.in_progress.end(number);
    }

    /// Writes an entry, or queues it until there is disk space.
    fn keep(&self, state: &mut State, entry: Entry) {
        state.waiting.push_back(entry);
        self.write(state);
    }

    /// Writes queued entries while there is disk space.
    fn write(&self, state: &mut State) {
        let now = Instant::now().into_std();
        while let Some(entry) = state.waiting.pop_front() {
            let Err(why) = self.append(state, &decode::line(&entry)) else { continue };
            state.waiting.push_front(entry);
            while state.waiting.len() > MOST_WAITING {
                state.waiting.pop_front();
                state.lost += 1;
            }
            self.dirty.notify_one();
            if state.throttle.failed(now) {
                let error = match &why {
                    WriteError::File(error) => Chain(error).to_string(),
                    WriteError::Append(error) => error.to_string(),
                };
                let (waiting, lost) = (state.waiting.len(), state.lost);
                warn!(%error, waiting, lost, "Cannot write the journal of removals, retrying");
            }
            return;
        }
        if let Some(after) = state.throttle.recovered(now) {
            let lost = std::mem::take(&mut state.lost);
            info!(?after, lost, "Journal of removals is written again");
        }
    }

    fn append(&self, state: &mut State, line: &[u8]) -> Result<(), WriteError> {
        // First ends a line that was cut off.
        let length = line.len() as u64 + 1;
        let current = match state.current.take() {
            Some(current) => current,
            None => self.begin()?,
        };
        let current = if current.size > 0 && current.size + length > self.segment_bytes() {
            self.next(state, current, length)?
        } else {
            current
        };
        let current = state.current.insert(current);
        let lead: &[u8] = if current.ragged { b"\n" } else { b"" };
        // One write call, so that nothing is interleaved.
        let written = current.segment.append(&[lead, line].concat());
        current.ragged = written.is_err();
        current.size = match &written {
            Ok(()) => current.size + length,
            // A part of it may be written.
            Err(_) => self.size_of(current.number).unwrap_or(current.size + length),
        };
        if std::mem::replace(&mut current.synced, false) {
            self.dirty.notify_one();
        }
        written.map_err(WriteError::Append)
    }

    /// The segment after a full one; or the full one, while the disk is full and it has reserved space left.
    fn next(&self, state: &mut State, full: Current, length: u64) -> Result<Current, WriteError> {
        let lasts = full.size + length <= full.reserved;
        let next = match self.open(full.number + 1, 0, false) {
            Ok(next) if next.reserved == 0 && lasts => {
                // A failure leaves only an empty file.
                drop(self.segments.remove(next.number));
                return Ok(full);
            }
            Err(_) if lasts => return Ok(full),
            opened => opened,
        };
        if full.reserved > 0 {
            // If this fails, the space is released with the segment.
            drop(full.segment.reserve(0));
        }
        if state.unsynced.len() == MOST_UNSYNCED {
            state.unsynced.remove(0);
        }
        state.unsynced.push(full.segment);
        next
    }

    fn size_of(&self, number: u64) -> Option<u64> {
        let existing = self.segments.list().ok()?;
        existing.iter().find(|one| one.number == number).map(|one| one.size)
    }

    /// Continues the segments of an earlier agent.
    fn begin(&self) -> Result<Current, WriteError> {
        let existing = self.segments.list().map_err(WriteError::File)?;
        let Some(last) = existing.last() else { return self.open(1, 0, false) };
        let read =
            self.segments.read(last.number).map(|reader| decode::read(reader, drop::<Entry>));
        match read {
            Ok(Ok(passed)) => {
                let damaged = passed.damaged;
                if damaged > 0 {
                    info!(damaged, "Skipping damaged entries of the journal");
                }
                self.open(last.number, last.size, passed.ragged)
            }
            Ok(Err(error)) => {
                warn!(%error, "Cannot read a segment of the journal, starting a new one");
                self.open(last.number + 1, 0, false)
            }
            Err(error) => {
                warn!(error = %Chain(&error), "Cannot read a segment of the journal, starting a new one");
                self.open(last.number + 1, 0, false)
            }
        }
    }

    /// Opens a segment, and reserves disk space for its full size.
    fn open(&self, number: u64, size: u64, ragged: bool) -> Result<Current, WriteError> {
        let existing = self.segments.list().map_err(WriteError::File)?;
        let most = self.max_bytes.saturating_sub(size.max(self.longest()));
        for SegmentInfo { number, .. } in surplus(&existing, number, most) {
            if let Err(error) = self.segments.remove(number) {
                warn!(error = %Chain(&error), "Cannot remove an old segment of the journal");
            }
        }
        let segment = self.segments.append_to(number).map_err(WriteError::File)?;
        let reserved = segment.reserve(self.longest()).map_or(0, |()| self.longest());
        Ok(Current { number, size, segment, reserved, ragged, synced: true })
    }
}

fn thing(entry: &Entry) -> (String, String) {
    (entry.kind.clone(), entry.id.clone())
}

/// The oldest segments, so that the others take at most `bytes` without them.
fn surplus(existing: &[SegmentInfo], kept: u64, most: u64) -> Vec<SegmentInfo> {
    let mut others: Vec<SegmentInfo> =
        existing.iter().filter(|one| one.number != kept).copied().collect();
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

#[cfg(test)]
#[path = "disk_tests.rs"]
mod tests;
