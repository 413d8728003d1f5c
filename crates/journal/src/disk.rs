//! The journal on disk.

use std::collections::{BTreeSet, VecDeque};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use model::chain::Chain;
use model::ports::clock::WallClock;
use model::ports::files::FileError;
use model::ports::incidents::Incident;
use model::ports::journal::Outcome;
use model::ports::segments::{Lying, Segment, Segments};
use model::ports::streaming::Session;
use model::log_throttle::LogThrottle;
use model::verdict::Verdict;
use tokio::sync::Notify;
use tokio::time::Instant;
use tracing::{info, warn};

use crate::decode;
use crate::entry::{Became, Entry, NO_ANSWER};
use crate::find::{Found, find_with};
use crate::incidents::RecordedIncidents;
use crate::query::Query;
use crate::repeated::Repeated;
use crate::under_way::{Left, UnderWay};

/// The smallest bound that a journal can keep.
pub const SMALLEST: u64 = 1 << 20;

/// How many segments there are at most.
const SEGMENTS: u64 = 8;

/// The part of a segment that is kept free at its end for when the disk is full.
const SPARE: u64 = 4;

/// How many full segments wait to be on disk; beyond these, the oldest are about to be removed.
const MOST_UNSYNCED: usize = 8;

/// How long what was written may wait to be on disk, and what could not be written to be tried again.
pub(crate) const SYNC_AFTER: Duration = Duration::from_secs(5);

/// How many entries wait for room on disk; beyond these, the oldest are lost.
const MOST_WAITING: usize = 256;

/// Appends entries to segments, and keeps their size in bounds. Blocks as the disk does.
#[derive(Debug)]
pub(crate) struct Disk {
    segments: Arc<dyn Segments>,
    clock: Arc<dyn WallClock>,
    version: String,
    max_bytes: u64,
    /// What is noted down before it is done.
    under_way: UnderWay,
    /// Who records writes, one at a time; never held over an await or a sync.
    state: Mutex<State>,
    /// Told when there is something to sync, or to write that could not be.
    dirty: Notify,
}

#[derive(Debug, Default)]
struct State {
    current: Option<Current>,
    /// Full segments that may not be on disk yet.
    unsynced: Vec<Arc<dyn Segment>>,
    /// Entries that are not on disk yet because there is no room, the oldest first.
    waiting: VecDeque<Entry>,
    /// How many of those are lost.
    lost: u64,
    /// What an earlier process was removing, by kind and id, as long as nothing else is known of it.
    left: BTreeSet<(String, String)>,
    repeated: Repeated,
    /// Incidents that are not recorded again; loaded with the first one.
    recorded: Option<RecordedIncidents>,
    throttle: LogThrottle,
}

#[derive(Debug)]
struct Current {
    number: u64,
    size: u64,
    segment: Arc<dyn Segment>,
    /// How long it may become though the disk is full; 0 where no room can be kept.
    reserved: u64,
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

impl Disk {
    /// A journal of at most so many bytes. Nothing is read or made before the first entry.
    pub(crate) fn new(
        segments: Arc<dyn Segments>,
        clock: Arc<dyn WallClock>,
        version: &str,
        max_bytes: u64,
    ) -> Self {
        Self {
            under_way: UnderWay::new(&*segments),
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

    /// How long a segment may become while there is no room for the next.
    fn longest(&self) -> u64 {
        self.segment_bytes() + self.segment_bytes() / SPARE
    }

    /// Asks for entries, also those that wait for room on disk. Blocks while it reads.
    pub(crate) fn find(&self, query: &Query, limit: usize) -> Result<Found, FileError> {
        let waiting: Vec<Entry> = self.state().waiting.iter().cloned().collect();
        find_with(&*self.segments, &waiting, query, limit)
    }

    /// What earlier processes had begun to remove when they were killed. Each is to be
    /// [settled](Self::settle); until it is, the next process is told of it.
    pub(crate) fn take_left(&self) -> Vec<Left> {
        let left = self.under_way.take_left().unwrap_or_else(|error| {
            warn!(error = %Chain(&error), "it is not known what was being removed");
            Vec::new()
        });
        let things = left.iter().map(|left| thing(&left.entry));
        self.state().left.extend(things);
        left
    }

    /// Puts on record what became of such a removal, unless this process has removed the same thing since.
    pub(crate) fn settle(&self, left: Left, outcome: Became, more: &str) {
        let Left { mut entry, number } = left;
        let mut state = self.state();
        if state.left.remove(&thing(&entry)) {
            entry.outcome = outcome;
            entry.error = match outcome {
                Became::Unknown | Became::Failed => Some(format!("{NO_ANSWER}{more}")),
                Became::Removed
                | Became::Gone
                | Became::Held
                | Became::Opened
                | Became::Refused
                | Became::Killed
                | Became::Restarted
                | Became::Rejected
                | Became::Pulled => {
                    entry.detail.0.push(("foundGone".to_owned(), "after a restart".into()));
                    None
                }
            };
            let Entry { kind, id, rule, .. } = &entry;
            let outcome = outcome.as_str();
            info!(kind, id, rule, outcome, "was being removed when an earlier process ended");
            self.keep(&mut state, entry);
        }
        drop(state);
        self.under_way.end(number);
    }

    /// Tries again to write what could not be written.
    pub(crate) fn retry(&self) {
        self.write(&mut self.state());
    }

    /// Sees to it that all entries so far are on disk. Blocks until they are.
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
                warn!(%error, "the journal of removals may not be on disk");
            }
        }
    }

    /// Waits until there is something to sync, or to write that could not be.
    pub(crate) async fn dirtied(&self) {
        self.dirty.notified().await;
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// The number of the next removal.
    pub(crate) fn next_number(&self) -> u64 {
        self.under_way.next_number()
    }

    /// Takes a verdict that was carried out, or that could not be, and when.
    pub(crate) fn record(
        &self,
        verdict: &Verdict,
        outcome: Outcome<'_>,
        at: Timestamp,
        now: std::time::Instant,
    ) {
        let mut state = self.state();
        if state.repeated.is_news(verdict, outcome, now) {
            let entry = Entry::new(verdict, outcome, at, &self.version);
            if !state.left.is_empty() {
                state.left.remove(&thing(&entry));
            }
            self.keep(&mut state, entry);
        }
    }

    /// Takes a session, and when it was opened or refused.
    pub(crate) fn record_session(&self, session: &Session, at: Timestamp) {
        self.keep(&mut self.state(), Entry::of_session(session, at, &self.version));
    }

    /// Writes an incident that is not among the recorded ones.
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

    /// Notes down a removal before it is made.
    pub(crate) fn begun(&self, number: u64, verdict: &Verdict, at: Timestamp) {
        self.under_way.begin_as(number, Entry::of_begun(verdict, at, &self.version));
    }

    /// That removal has ended.
    pub(crate) fn ended(&self, number: u64) {
        self.under_way.end(number);
    }

    /// Keeps an entry: on disk, or until there is room for it.
    fn keep(&self, state: &mut State, entry: Entry) {
        state.waiting.push_back(entry);
        self.write(state);
    }

    /// Writes what waits, as far as there is room.
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
                    Unkept::File(error) => Chain(error).to_string(),
                    Unkept::Append(error) => error.to_string(),
                };
                let (waiting, lost) = (state.waiting.len(), state.lost);
                warn!(%error, waiting, lost, "the journal cannot be written; tried again until it can");
            }
            return;
        }
        if let Some(after) = state.throttle.recovered(now) {
            let lost = std::mem::take(&mut state.lost);
            info!(?after, lost, "the journal of removals is kept again");
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
            self.next(state, current, length)?
        } else {
            current
        };
        let current = state.current.insert(current);
        let lead: &[u8] = if current.ragged { b"\n" } else { b"" };
        // In one call, so that nothing comes between.
        let written = current.segment.append(&[lead, line].concat());
        current.ragged = written.is_err();
        current.size = match &written {
            Ok(()) => current.size + length,
            // A part of it may be there.
            Err(_) => self.size_of(current.number).unwrap_or(current.size + length),
        };
        if std::mem::replace(&mut current.synced, false) {
            self.dirty.notify_one();
        }
        written.map_err(Unkept::Append)
    }

    /// The segment after one that is full; or that one, while the disk is full and it has room to spare.
    fn next(&self, state: &mut State, full: Current, length: u64) -> Result<Current, Unkept> {
        let lasts = full.size + length <= full.reserved;
        let next = match self.open(full.number + 1, 0, false) {
            Ok(next) if next.reserved == 0 && lasts => {
                // Nothing but an empty file stays if this fails.
                drop(self.segments.remove(next.number));
                return Ok(full);
            }
            Err(_) if lasts => return Ok(full),
            opened => opened,
        };
        if full.reserved > 0 {
            // What it keeps too much goes with it at last.
            drop(full.segment.reserve(0));
        }
        if state.unsynced.len() == MOST_UNSYNCED {
            state.unsynced.remove(0);
        }
        state.unsynced.push(full.segment);
        next
    }

    fn size_of(&self, number: u64) -> Option<u64> {
        let lying = self.segments.list().ok()?;
        lying.iter().find(|one| one.number == number).map(|one| one.size)
    }

    /// Goes on where an earlier agent ended.
    fn begin(&self) -> Result<Current, Unkept> {
        let lying = self.segments.list().map_err(Unkept::File)?;
        let Some(last) = lying.last() else { return self.open(1, 0, false) };
        let read =
            self.segments.read(last.number).map(|reader| decode::read(reader, drop::<Entry>));
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

    /// Opens a segment, and makes room for it to become as long as it may, on a disk that others fill too.
    fn open(&self, number: u64, size: u64, ragged: bool) -> Result<Current, Unkept> {
        let lying = self.segments.list().map_err(Unkept::File)?;
        let most = self.max_bytes.saturating_sub(size.max(self.longest()));
        for Lying { number, .. } in surplus(&lying, number, most) {
            if let Err(error) = self.segments.remove(number) {
                warn!(error = %Chain(&error), "an old segment of the journal cannot be removed");
            }
        }
        let segment = self.segments.append_to(number).map_err(Unkept::File)?;
        let reserved = segment.reserve(self.longest()).map_or(0, |()| self.longest());
        Ok(Current { number, size, segment, reserved, ragged, synced: true })
    }
}

fn thing(entry: &Entry) -> (String, String) {
    (entry.kind.clone(), entry.id.clone())
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

#[cfg(test)]
#[path = "disk_tests.rs"]
mod tests;
