//! Removals in progress, on disk, so that the next process knows them if this one is killed.
//!
//! A file next to the journal has lines: one when a removal begins, with its entry, and a short one
//! when it has ended. A long file is replaced by one with the removals still in progress, so it stays
//! small.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use model::chain::Chain;
use model::log_throttle::LogThrottle;
use model::ports::files::FileError;
use model::ports::segments::{Segment, Segments};
use serde::{Deserialize, Serialize};
use tokio::time::Instant;
use tracing::{debug, warn};

use crate::decode;
use crate::entry::Entry;

/// The name of the directory next to the journal.
pub(crate) const PLACE: &str = "under-way";

/// A file of more bytes is replaced, if most of its removals have ended.
const LONG: u64 = 128 * 1024;

/// A line.
#[derive(Debug, Serialize, Deserialize)]
struct Line {
    /// The number of the removal in its process.
    number: u64,
    /// The entry, when it begins; `None` when it has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    began: Option<Entry>,
}

/// A removal of an earlier process whose end is unknown.
#[derive(Debug)]
pub struct UnfinishedRemoval {
    /// Its entry.
    pub entry: Entry,
    /// Its number in this process.
    pub(crate) number: u64,
}

/// The removals in progress.
#[derive(Debug)]
pub(crate) struct InProgress {
    segments: Arc<dyn Segments>,
    /// The number of the last removal.
    begun: AtomicU64,
    /// Held while a line is written; never over an await.
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The lines of those in progress.
    open: BTreeMap<u64, Vec<u8>>,
    file: Option<Current>,
    throttle: LogThrottle,
}

#[derive(Debug)]
struct Current {
    number: u64,
    size: u64,
    segment: Arc<dyn Segment>,
    /// Throttles the log message about failed writes.
    lacks_lines: bool,
}

/// Why a line is not written.
#[derive(Debug, thiserror::Error)]
enum WriteError {
    #[error(transparent)]
    File(#[from] FileError),
    #[error("write to the file of removals in progress")]
    Append(#[from] io::Error),
}

impl State {
    /// Adds one to those in progress.
    fn add(&mut self, number: u64, entry: Entry) {
        let line = Line { number, began: Some(entry) };
        let mut written = decode::written(&line);
        if written.len() > decode::LONGEST_LINE {
            let began = line.began.as_ref().map(decode::without_inputs);
            written = decode::written(&Line { number, began });
        }
        self.open.insert(number, written);
    }
}

impl InProgress {
    /// The removals in progress of a journal in these segments.
    pub(crate) fn new(journal: &dyn Segments) -> Self {
        Self {
            segments: journal.beside(PLACE),
            begun: AtomicU64::default(),
            state: Mutex::default(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number of the next removal.
    pub(crate) fn next_number(&self) -> u64 {
        self.begun.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Records that a removal begins.
    pub(crate) fn begin_as(&self, number: u64, entry: Entry) {
        let mut state = self.state();
        state.add(number, entry);
        self.write(&mut state, number);
    }

    /// Records that a removal has ended.
    pub(crate) fn end(&self, number: u64) {
        let mut state = self.state();
        if state.open.remove(&number).is_some() {
            self.write(&mut state, number);
        }
    }

    /// Writes the state of a removal: in progress or ended.
    fn write(&self, state: &mut State, number: u64) {
        let now = Instant::now().into_std();
        match self.append(state, number) {
            Ok(()) => drop(state.throttle.recovered(now)),
            Err(error) => {
                if state.throttle.failed(now) {
                    let error = Chain(&error);
                    warn!(%error, "Cannot record a removal before it starts");
                }
            }
        }
    }

    fn append(&self, state: &mut State, number: u64) -> Result<(), WriteError> {
        let State { open, file, .. } = state;
        let Some(current) = file else { return self.renew(state) };
        let needed: usize = open.values().map(Vec::len).sum();
        if current.lacks_lines || current.size > LONG.max(needed as u64 * 2) {
            return self.renew(state);
        }
        let ended = || decode::written(&Line { number, began: None });
        let line = open.get(&number).cloned().unwrap_or_else(ended);
        current.size += line.len() as u64;
        let written = current.segment.append(&line);
        current.lacks_lines = written.is_err();
        Ok(written?)
    }

    /// Begins a new file, with all removals in progress.
    fn renew(&self, state: &mut State) -> Result<(), WriteError> {
        let existing = self.segments.list()?;
        let number = existing.last().map_or(1, |last| last.number + 1);
        let segment = self.segments.append_to(number)?;
        for line in state.open.values() {
            if let Err(error) = segment.append(line) {
                self.remove(number);
                return Err(error.into());
            }
        }
        let size = state.open.values().map(|line| line.len() as u64).sum();
        let before = state.file.replace(Current { number, size, segment, lacks_lines: false });
        if let Some(before) = before {
            self.remove(before.number);
        }
        Ok(())
    }

    fn remove(&self, number: u64) {
        if let Err(error) = self.segments.remove(number) {
            debug!(error = %Chain(&error), "Cannot remove a file of removals in progress");
        }
    }

    /// Takes over the removals of earlier processes that have not ended. They belong to this process until they have
    /// [ended](Self::end).
    pub(crate) fn take_unfinished(&self) -> Result<Vec<UnfinishedRemoval>, FileError> {
        let mut state = self.state();
        let ours = state.file.as_ref().map(|current| current.number);
        let existing = self.segments.list()?;
        let theirs = existing.iter().map(|file| file.number).filter(|number| Some(*number) != ours);
        let theirs: Vec<u64> = theirs.collect();
        let mut left: Vec<UnfinishedRemoval> = Vec::new();
        for entry in theirs.iter().flat_map(|number| self.open_in(*number).into_values()) {
            // A process killed during a replacement may have left both files.
            if left.iter().any(|known| known.entry == entry) {
                continue;
            }
            let number = self.next_number();
            state.add(number, entry.clone());
            left.push(UnfinishedRemoval { entry, number });
        }
        // Entries that cannot be written stay in their file.
        if left.is_empty() || self.renew(&mut state).is_ok() {
            for number in theirs {
                self.remove(number);
            }
        }
        Ok(left)
    }

    /// The removals in progress of a file. Unreadable ones are lost.
    fn open_in(&self, number: u64) -> BTreeMap<u64, Entry> {
        let mut open = BTreeMap::new();
        let read = self.segments.read(number).map(|reader| {
            decode::read(reader, |Line { number, began }| match began {
                Some(entry) => drop(open.insert(number, entry)),
                None => drop(open.remove(&number)),
            })
        });
        let error = match read {
            Ok(Ok(_)) => return open,
            Ok(Err(error)) => error.to_string(),
            Err(error) if error.is_not_found() => return open,
            Err(error) => Chain(&error).to_string(),
        };
        warn!(%error, "Cannot read a file of removals in progress");
        open
    }

    /// The removals in progress of all processes, the oldest first.
    pub(crate) fn all(&self) -> Result<Vec<Entry>, FileError> {
        let existing = self.segments.list()?;
        Ok(existing.iter().flat_map(|file| self.open_in(file.number).into_values()).collect())
    }
}

impl Drop for InProgress {
    /// Removes the file if nothing is in progress.
    fn drop(&mut self) {
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Some(current) = state.file.take().filter(|_| state.open.is_empty()) {
            drop(self.segments.remove(current.number));
        }
    }
}

#[cfg(test)]
#[path = "in_progress_tests.rs"]
mod tests;
