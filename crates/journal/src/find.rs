//! Searches the journal.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::ControlFlow;

use jiff::{SignedDuration, Timestamp};
use model::log_layout::LogLayout;
use model::ports::files::FileError;
use model::ports::segments::Segments;
use serde::{Deserialize, Serialize};

use crate::decode;
use crate::entry::{Entry, EntryOutcome};
use crate::in_progress::InProgress;
use crate::query::{Match, Query};

/// The result of a search.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SearchResult {
    /// The matching entries, the newest first. If some match by name or whole ID, only
    /// those.
    pub entries: Vec<Entry>,
    /// Whether there are older matches beyond the limit.
    pub more: bool,
    /// The time of the oldest entry of all; `None` without entries.
    #[serde(default)]
    pub since: Option<Timestamp>,
    /// The number of damaged entries.
    pub damaged: u64,
    /// The errors of segments that could not be read.
    #[serde(default)]
    pub problems: Vec<String>,
}

impl SearchResult {
    /// Merges the entries of another record by time.
    #[must_use]
    pub fn merged_with(mut self, other: Self) -> Self {
        self.entries.extend(other.entries);
        // Stable: entries with the same time keep their order.
        self.entries.sort_by_key(|entry| Reverse(entry.time));
        self.more |= other.more;
        self.since = self.since.or(other.since);
        self.damaged += other.damaged;
        self.problems.extend(other.problems);
        self
    }
}

/// How many entries are read for each entry of the limit: logs are shown with their container.
const ALONG: usize = 4;

/// The longest time between the removal of a log and of its container.
const BEFORE: SignedDuration = SignedDuration::from_secs(60);

/// The position of an entry: its segment, and the position in the segment. Newer entries are
/// greater.
type Position = (u64, usize);

/// The segment of entries that are newer than all segments.
const NEWEST: u64 = u64::MAX;

/// Reads the journal, from the newest segment to the oldest, and each from its beginning.
trait Reading {
    fn entry(&mut self, position: Position, entry: Entry);
    /// Whether older segments are needed.
    fn end_of_segment(&mut self) -> ControlFlow<()>;
}

/// The newest matching entries, the newest first. Logs that were removed with a container do
/// not count.
#[derive(Debug)]
struct Newest {
    limit: usize,
    before: Vec<(Position, Entry)>,
    /// The entries of the current segment, oldest first.
    segment: VecDeque<(Position, Entry)>,
    /// How many of both count towards the limit.
    counted: usize,
    more: bool,
}

impl Newest {
    fn new(limit: usize) -> Self {
        let (before, segment) = (Vec::new(), VecDeque::new());
        Self { limit, before, segment, counted: 0, more: false }
    }

    fn take(&mut self, position: Position, entry: Entry) {
        self.counted += usize::from(!is_removed_with_container(&entry));
        self.segment.push_back((position, entry));
        while self.counted > self.limit
            || self.before.len() + self.segment.len() > self.limit.saturating_mul(ALONG)
        {
            let Some((_, oldest)) = self.segment.pop_front() else { break };
            self.counted -= usize::from(!is_removed_with_container(&oldest));
            self.more = true;
        }
    }

    fn end_of_segment(&mut self) {
        self.before.extend(self.segment.drain(..).rev());
    }
}

/// Whether the entry is a log that was removed with its container: only those have a name.
fn is_removed_with_container(entry: &Entry) -> bool {
    entry.kind == "log" && !entry.name.is_empty()
}

/// Whether a log or link may have been removed with that container: before it, and by the same rule. Of several
/// containers with the name it is the first one after the log.
pub fn was_removed_with(log: &Entry, container: &Entry) -> bool {
    let file = log.id.rsplit('/').next().unwrap_or_default();
    is_removed_with_container(log)
        && container.kind == "container"
        && !matches!(log.outcome, EntryOutcome::Failed | EntryOutcome::Unknown)
        && container.time.duration_since(log.time) <= BEFORE
        && LogLayout::container_of_link(file).is_none_or(|of| container.id.starts_with(of.as_str()))
        && (&log.name, &log.pod_uid, &log.rule, log.detail.get("created"))
            == (
                &container.name,
                &container.pod_uid,
                &container.rule,
                container.detail.get("created"),
            )
}

/// Searches the journal of a process, also its removals in progress. The limit does not count logs that were
/// removed with a container. Blocks while it reads.
pub fn find(
    segments: &dyn Segments,
    query: &Query,
    limit: usize,
) -> Result<SearchResult, FileError> {
    find_with(segments, &InProgress::new(segments).all()?, query, limit)
}

/// Searches a journal, and entries that are newer than the journal.
pub(crate) fn find_with(
    segments: &dyn Segments,
    newest: &[Entry],
    query: &Query,
    limit: usize,
) -> Result<SearchResult, FileError> {
    let mut scan = Scan::of(segments, newest, query, limit)?;
    let of_pod = scan.entries.iter().map(|(_, entry)| entry);
    let of_pod = of_pod.filter(|entry| query.matches_pod_of(entry));
    let pods: BTreeSet<String> = of_pod.filter_map(|entry| entry.pod_uid.clone()).collect();
    if !pods.is_empty() {
        // Some entries have only the UID of their pod; its name is known from other entries by now.
        scan = Scan::of(segments, newest, &query.and_of_pods(pods, scan.by), limit)?;
    }
    let Scan { mut entries, found, .. } = scan;
    let removed_with = RemovedWith::with(segments, newest, &entries)?;
    entries.extend(removed_with);
    entries.sort_by_key(|(position, _)| Reverse(*position));
    entries.dedup_by_key(|(position, _)| *position);
    let entries = entries.into_iter().map(|(_, entry)| entry).collect();
    Ok(SearchResult { entries, since: oldest(segments, newest)?, ..found })
}

/// The time of the oldest readable entry.
fn oldest(segments: &dyn Segments, newest: &[Entry]) -> Result<Option<Timestamp>, FileError> {
    for existing in segments.list()? {
        let mut first = None;
        if let Ok(reader) = segments.read(existing.number) {
            // The search for entries reports its error.
            drop(decode::read(reader, |entry: Entry| {
                first.get_or_insert(entry.time);
            }));
        }
        if first.is_some() {
            return Ok(first);
        }
    }
    Ok(newest.first().map(|entry| entry.time))
}

/// The matching entries, the newest first, and how they match.
#[derive(Debug)]
struct Scan {
    entries: Vec<(Position, Entry)>,
    by: Match,
    /// The result, still without entries.
    found: SearchResult,
}

impl Scan {
    /// Runs the search.
    fn of(
        segments: &dyn Segments,
        newest: &[Entry],
        query: &Query,
        limit: usize,
    ) -> Result<Self, FileError> {
        let (exact, prefix) = (Newest::new(limit), Newest::new(limit));
        let mut matching = Matching { query, exact, prefix };
        let found = read(segments, newest, &mut matching)?;
        let Matching { exact, prefix, .. } = matching;
        let (matching, by) =
            if exact.before.is_empty() { (prefix, Match::Prefix) } else { (exact, Match::Exact) };
        Ok(Self {
            entries: matching.before,
            by,
            found: SearchResult { more: matching.more, ..found },
        })
    }
}

/// Collects the matches.
#[derive(Debug)]
struct Matching<'a> {
    query: &'a Query,
    exact: Newest,
    prefix: Newest,
}

impl Reading for Matching<'_> {
    fn entry(&mut self, position: Position, entry: Entry) {
        match self.query.matches(&entry) {
            Some(Match::Exact) => self.exact.take(position, entry),
            Some(Match::Prefix) => self.prefix.take(position, entry),
            None => {}
        }
    }

    fn end_of_segment(&mut self) -> ControlFlow<()> {
        self.exact.end_of_segment();
        self.prefix.end_of_segment();
        if self.exact.more { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

/// Collects logs and links that were removed with containers. Several containers are removed at a time, so these
/// entries are interleaved with those of others; and they need not match the query themselves.
#[derive(Debug)]
struct RemovedWith<'a> {
    containers: BTreeMap<Position, &'a Entry>,
    /// No log of theirs is older.
    since: Timestamp,
    /// Logs of the current segment whose container was not read yet.
    waiting: Vec<(Position, Entry)>,
    found: Vec<(Position, Entry)>,
    /// Whether the current segment began before that time.
    is_before: bool,
}

impl<'a> RemovedWith<'a> {
    /// The logs and links by container entry.
    fn with(
        segments: &dyn Segments,
        newest: &[Entry],
        entries: &'a [(Position, Entry)],
    ) -> Result<Vec<(Position, Entry)>, FileError> {
        let containers = entries.iter().filter(|(_, entry)| entry.kind == "container");
        let containers: BTreeMap<Position, &Entry> =
            containers.map(|(position, entry)| (*position, entry)).collect();
        let Some(first) = containers.values().map(|entry| entry.time).min() else {
            return Ok(Vec::new());
        };
        let since = first.saturating_sub(BEFORE).unwrap_or(first);
        let (waiting, found, is_before) = (Vec::new(), Vec::new(), false);
        let mut removed_with = RemovedWith { containers, since, waiting, found, is_before };
        read(segments, newest, &mut removed_with)?;
        Ok(removed_with.found)
    }
}

impl Reading for RemovedWith<'_> {
    fn entry(&mut self, position: Position, entry: Entry) {
        self.is_before |= entry.time < self.since;
        if entry.kind == "container" {
            let own = self.waiting.extract_if(.., |(_, log)| was_removed_with(log, &entry));
            // Logs of a container that does not match are dropped as well.
            let is_meant = self.containers.contains_key(&position);
            self.found.extend(own.filter(|_| is_meant));
        } else if self
            .containers
            .range(position..)
            .any(|(_, later)| was_removed_with(&entry, later))
        {
            self.waiting.push((position, entry));
        }
    }

    fn end_of_segment(&mut self) -> ControlFlow<()> {
        // Their container is in a newer segment.
        self.found.append(&mut self.waiting);
        if self.is_before { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

/// Reads newer entries and then a journal, and reports unreadable entries.
fn read(
    segments: &dyn Segments,
    newest: &[Entry],
    reading: &mut dyn Reading,
) -> Result<SearchResult, FileError> {
    let mut found = SearchResult::default();
    for (index, entry) in newest.iter().enumerate() {
        reading.entry((NEWEST, index), entry.clone());
    }
    let mut goes_on = reading.end_of_segment();
    for existing in segments.list()?.iter().rev() {
        if goes_on.is_break() {
            break;
        }
        let reader = match segments.read(existing.number) {
            Ok(reader) => reader,
            // It was removed since the list: it was the oldest.
            Err(error) if error.is_not_found() => continue,
            Err(error) => {
                found.problems.push(format!("{error}: {}", error.source));
                continue;
            }
        };
        let mut index = 0;
        let read = decode::read(reader, |entry: Entry| {
            reading.entry((existing.number, index), entry);
            index += 1;
        });
        goes_on = reading.end_of_segment();
        match read {
            Ok(passed) => found.damaged += passed.damaged,
            Err(error) => found.problems.push(format!("read segment {}: {error}", existing.number)),
        }
    }
    Ok(found)
}
