//! Asking the journal.

use std::collections::{BTreeSet, VecDeque};

use model::ports::files::FileError;
use model::ports::segments::Segments;
use serde::{Deserialize, Serialize};

use crate::decode;
use crate::entry::Entry;
use crate::query::{Match, Query};
use crate::under_way::UnderWay;

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
    #[serde(default)]
    pub problems: Vec<String>,
}

/// How many entries are kept for each that is asked for: logs go along with their container.
const ALONG: usize = 4;

/// The newest of the entries that are meant, the newest first. What goes along with a container does
/// not count.
#[derive(Debug)]
struct Newest {
    limit: usize,
    before: Vec<Entry>,
    /// Those of the segment that is being read, the oldest first.
    segment: VecDeque<Entry>,
    /// How many of both count.
    counted: usize,
    more: bool,
}

impl Newest {
    fn new(limit: usize) -> Self {
        let (before, segment) = (Vec::new(), VecDeque::new());
        Self { limit, before, segment, counted: 0, more: false }
    }

    fn take(&mut self, entry: Entry) {
        self.counted += usize::from(!goes_along(&entry));
        self.segment.push_back(entry);
        while self.counted > self.limit
            || self.before.len() + self.segment.len() > self.limit.saturating_mul(ALONG)
        {
            let Some(oldest) = self.segment.pop_front() else { break };
            self.counted -= usize::from(!goes_along(&oldest));
            self.more = true;
        }
    }

    fn end_of_segment(&mut self) {
        self.before.extend(self.segment.drain(..).rev());
    }
}

/// Whether something went because its container did: of logs, only those bear a name.
fn goes_along(entry: &Entry) -> bool {
    entry.kind == "log" && !entry.name.is_empty()
}

/// Looks for what is meant in the journal that a process left, and at most so many that went by themselves;
/// also for what it was just removing. Blocks while it reads.
pub fn find(segments: &dyn Segments, query: &Query, limit: usize) -> Result<Found, FileError> {
    find_with(segments, &UnderWay::new(segments).all()?, query, limit)
}

/// The same, in a journal and in entries that are newer than all of it.
pub(crate) fn find_with(
    segments: &dyn Segments,
    newest: &[Entry],
    query: &Query,
    limit: usize,
) -> Result<Found, FileError> {
    let (found, by) = scan(segments, newest, query, limit)?;
    let of_pod = found.entries.iter().filter(|entry| query.means_pod_of(entry));
    let pods: BTreeSet<String> = of_pod.filter_map(|entry| entry.pod_uid.clone()).collect();
    if pods.is_empty() {
        return Ok(found);
    }
    // Some things know their pod by its uid alone; who they belong to is known by now.
    Ok(scan(segments, newest, &query.and_of_pods(pods, by), limit)?.0)
}

/// Looks for what is meant, from the newest segment to the oldest, and tells how it is meant.
fn scan(
    segments: &dyn Segments,
    newest: &[Entry],
    query: &Query,
    limit: usize,
) -> Result<(Found, Match), FileError> {
    let mut found = Found::default();
    let (mut exact, mut prefix) = (Newest::new(limit), Newest::new(limit));
    for entry in newest {
        match query.means(entry) {
            Some(Match::Exact) => exact.take(entry.clone()),
            Some(Match::Prefix) => prefix.take(entry.clone()),
            None => {}
        }
    }
    exact.end_of_segment();
    prefix.end_of_segment();
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
        let read = decode::read(reader, |entry: Entry| match query.means(&entry) {
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
    let (meant, by) =
        if exact.before.is_empty() { (prefix, Match::Prefix) } else { (exact, Match::Exact) };
    Ok((Found { entries: meant.before, more: meant.more, ..found }, by))
}
