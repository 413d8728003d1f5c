//! Removals under way, on disk: what a process that is killed was just removing is known of to the next.
//!
//! Beside the journal lies a file of lines: one when a removal begins, with its entry, and a short one when
//! it has ended. A file that has become long is replaced by one with those that are still under way, so all
//! of it stays small however much is removed.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use model::chain::Chain;
use model::ports::files::FileError;
use model::ports::segments::{Segment, Segments};
use model::log_throttle::LogThrottle;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;
use tracing::{debug, warn};

use crate::decode;
use crate::entry::Entry;

/// The name of the place beside the journal.
pub(crate) const PLACE: &str = "under-way";

/// A file of more bytes is replaced, if most of it is over.
const LONG: u64 = 128 * 1024;

/// A line.
#[derive(Debug, Serialize, Deserialize)]
struct Line {
    /// Which removal of its process.
    number: u64,
    /// What is removed, if it begins; nothing if it has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    began: Option<Entry>,
}

/// A removal that an earlier process had begun, and of whose end nothing is known.
#[derive(Debug)]
pub struct Left {
    /// What it was about.
    pub entry: Entry,
    /// As which removal of this process it is noted down.
    pub(crate) number: u64,
}

/// The removals under way.
#[derive(Debug)]
pub(crate) struct UnderWay {
    segments: Arc<dyn Segments>,
    /// How many have begun.
    begun: AtomicU64,
    /// Held while a line is written; never over an await.
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The lines of those that have not ended.
    open: BTreeMap<u64, Vec<u8>>,
    file: Option<Current>,
    throttle: LogThrottle,
}

#[derive(Debug)]
struct Current {
    number: u64,
    size: u64,
    segment: Arc<dyn Segment>,
    /// Whether a line could not be written.
    lacks_lines: bool,
}

/// Why a line is not kept.
#[derive(Debug, thiserror::Error)]
enum Unkept {
    #[error(transparent)]
    File(#[from] FileError),
    #[error("write to the file of removals under way")]
    Append(#[from] io::Error),
}

impl State {
    /// Adds one to those under way.
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

impl UnderWay {
    /// Those of the journal in these segments.
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

    /// A removal of this number begins.
    pub(crate) fn begin_as(&self, number: u64, entry: Entry) {
        let mut state = self.state();
        state.add(number, entry);
        self.write(&mut state, number);
    }

    /// A removal has ended.
    pub(crate) fn end(&self, number: u64) {
        let mut state = self.state();
        if state.open.remove(&number).is_some() {
            self.write(&mut state, number);
        }
    }

    /// Writes what has become of a removal: it is open, or not any more.
    fn write(&self, state: &mut State, number: u64) {
        let now = Instant::now().into_std();
        match self.append(state, number) {
            Ok(()) => drop(state.throttle.recovered(now)),
            Err(error) => {
                if state.throttle.failed(now) {
                    let error = Chain(&error);
                    warn!(%error, "a removal cannot be noted down before it is made");
                }
            }
        }
    }

    fn append(&self, state: &mut State, number: u64) -> Result<(), Unkept> {
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

    /// Begins another file, with all that is under way.
    fn renew(&self, state: &mut State) -> Result<(), Unkept> {
        let lying = self.segments.list()?;
        let number = lying.last().map_or(1, |last| last.number + 1);
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
            debug!(error = %Chain(&error), "a file of removals under way cannot be removed");
        }
    }

    /// What earlier processes had begun and not ended. From now on it is this one's, until it has
    /// [ended](Self::end).
    pub(crate) fn take_left(&self) -> Result<Vec<Left>, FileError> {
        let mut state = self.state();
        let ours = state.file.as_ref().map(|current| current.number);
        let lying = self.segments.list()?;
        let theirs = lying.iter().map(|file| file.number).filter(|number| Some(*number) != ours);
        let theirs: Vec<u64> = theirs.collect();
        let mut left: Vec<Left> = Vec::new();
        for entry in theirs.iter().flat_map(|number| self.open_in(*number).into_values()) {
            // One that was about to replace a file may have left both.
            if left.iter().any(|known| known.entry == entry) {
                continue;
            }
            let number = self.next_number();
            state.add(number, entry.clone());
            left.push(Left { entry, number });
        }
        // What cannot be noted down stays where it is.
        if left.is_empty() || self.renew(&mut state).is_ok() {
            for number in theirs {
                self.remove(number);
            }
        }
        Ok(left)
    }

    /// What a file says to be under way. What cannot be read of it is lost.
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
        warn!(%error, "a file of removals under way cannot be read");
        open
    }

    /// What is said to be under way, by whichever process, the oldest first.
    pub(crate) fn all(&self) -> Result<Vec<Entry>, FileError> {
        let lying = self.segments.list()?;
        Ok(lying.iter().flat_map(|file| self.open_in(file.number).into_values()).collect())
    }
}

impl Drop for UnderWay {
    /// Who leaves nothing behind needs no file.
    fn drop(&mut self) {
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Some(current) = state.file.take().filter(|_| state.open.is_empty()) {
            drop(self.segments.remove(current.number));
        }
    }
}

#[cfg(test)]
#[path = "under_way_tests.rs"]
mod tests;
