//! Asking the journal.

use std::collections::VecDeque;

use model::ports::files::FileError;
use model::ports::segments::Segments;
use serde::{Deserialize, Serialize};

use crate::decode;
use crate::entry::Entry;
use crate::query::{Match, Query};

/// What the journal knows.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Found {
    /// The entries that are meant, the newest first. Where some are meant by their name or whole id,
    /// those alone.
    pub entries: Vec<Entry>,
    /// Whether there are older ones beyond the limit.
    pub more: bool,
    /// How many entries could not be read.
    pub damaged: u64,
    /// What is wrong with segments that could not be read.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<String>,
}

/// The newest of the entries that are meant, the newest first.
#[derive(Debug)]
struct Newest {
    limit: usize,
    before: Vec<Entry>,
    /// Those of the segment that is being read, the oldest first.
    segment: VecDeque<Entry>,
    more: bool,
}

impl Newest {
    fn new(limit: usize) -> Self {
        Self { limit, before: Vec::new(), segment: VecDeque::new(), more: false }
    }

    fn take(&mut self, entry: Entry) {
        self.segment.push_back(entry);
        if self.before.len() + self.segment.len() > self.limit {
            self.segment.pop_front();
            self.more = true;
        }
    }

    fn end_of_segment(&mut self) {
        self.before.extend(self.segment.drain(..).rev());
    }
}

/// Looks for what is meant, from the newest segment to the oldest. Blocks while it reads.
pub fn find(segments: &dyn Segments, query: &Query, limit: usize) -> Result<Found, FileError> {
    let mut found = Found::default();
    let (mut exact, mut prefix) = (Newest::new(limit), Newest::new(limit));
    for lying in segments.list()?.iter().rev() {
        if exact.more {
            break;
        }
        let reader = match segments.read(lying.number) {
            Ok(reader) => reader,
            // It was the oldest when it was listed.
            Err(error) if error.is_not_found() => continue,
            Err(error) => {
                found.problems.push(format!("{error}: {}", error.source));
                continue;
            }
        };
        let read = decode::read(reader, |entry| match query.means(&entry) {
            Some(Match::Exact) => exact.take(entry),
            Some(Match::Prefix) => prefix.take(entry),
            None => {}
        });
        exact.end_of_segment();
        prefix.end_of_segment();
        match read {
            Ok(passed) => found.damaged += passed.damaged,
            Err(error) => found.problems.push(format!("read segment {}: {error}", lying.number)),
        }
    }
    let meant = if exact.before.is_empty() { prefix } else { exact };
    Ok(Found { entries: meant.before, more: meant.more, ..found })
}
