//! Asking the journal.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::ControlFlow;

use jiff::{SignedDuration, Timestamp};
use model::log_layout::LogLayout;
use model::ports::files::FileError;
use model::ports::segments::Segments;
use serde::{Deserialize, Serialize};

use crate::decode;
use crate::entry::{Became, Entry};
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
    /// When the oldest entry of all is from; nothing if there are none.
    #[serde(default)]
    pub since: Option<Timestamp>,
    /// How many entries could not be read.
    pub damaged: u64,
    /// What is wrong with segments that could not be read.
    #[serde(default)]
    pub problems: Vec<String>,
}

impl Found {
    /// With the entries of another record among these, by their time.
    #[must_use]
    pub fn merged_with(mut self, other: Self) -> Self {
        self.entries.extend(other.entries);
        // Stable: removals of one moment stay in their order.
        self.entries.sort_by_key(|entry| Reverse(entry.time));
        self.more |= other.more;
        self.since = self.since.or(other.since);
        self.damaged += other.damaged;
        self.problems.extend(other.problems);
        self
    }
}

/// How many entries are kept for each that is asked for: logs go along with their container.
const ALONG: usize = 4;

/// How long, at most, the log of a container went before it.
const BEFORE: SignedDuration = SignedDuration::from_secs(60);

/// Where an entry lies: its segment, and its place in that. The newest are greatest.
type Position = (u64, usize);

/// The segment of entries that are newer than all segments.
const NEWEST: u64 = u64::MAX;

/// Whoever reads the journal, from the newest segment to the oldest, and each from its beginning.
trait Reading {
    fn entry(&mut self, position: Position, entry: Entry);
    /// Whether older segments are of use.
    fn end_of_segment(&mut self) -> ControlFlow<()>;
}

/// The newest of the entries that are meant, the newest first. What goes along with a container does
/// not count.
#[derive(Debug)]
struct Newest {
    limit: usize,
    before: Vec<(Position, Entry)>,
    /// Those of the segment that is being read, the oldest first.
    segment: VecDeque<(Position, Entry)>,
    /// How many of both count.
    counted: usize,
    more: bool,
}

impl Newest {
    fn new(limit: usize) -> Self {
        let (before, segment) = (Vec::new(), VecDeque::new());
        Self { limit, before, segment, counted: 0, more: false }
    }

    fn take(&mut self, position: Position, entry: Entry) {
        self.counted += usize::from(!goes_along(&entry));
        self.segment.push_back((position, entry));
        while self.counted > self.limit
            || self.before.len() + self.segment.len() > self.limit.saturating_mul(ALONG)
        {
            let Some((_, oldest)) = self.segment.pop_front() else { break };
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

/// Whether a log or link may have gone because that container did: before it, and by the same rule. Of several
/// that are named alike it is the first one after it.
pub fn went_along(log: &Entry, container: &Entry) -> bool {
    let file = log.id.rsplit('/').next().unwrap_or_default();
    goes_along(log)
        && container.kind == "container"
        && !matches!(log.outcome, Became::Failed | Became::Unknown)
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
    let mut scan = Scan::of(segments, newest, query, limit)?;
    let of_pod = scan.entries.iter().map(|(_, entry)| entry);
    let of_pod = of_pod.filter(|entry| query.means_pod_of(entry));
    let pods: BTreeSet<String> = of_pod.filter_map(|entry| entry.pod_uid.clone()).collect();
    if !pods.is_empty() {
        // Some things know their pod by its uid alone; who they belong to is known by now.
        scan = Scan::of(segments, newest, &query.and_of_pods(pods, scan.by), limit)?;
    }
    let Scan { mut entries, found, .. } = scan;
    let along = Along::with(segments, newest, &entries)?;
    entries.extend(along);
    entries.sort_by_key(|(position, _)| Reverse(*position));
    entries.dedup_by_key(|(position, _)| *position);
    let entries = entries.into_iter().map(|(_, entry)| entry).collect();
    Ok(Found { entries, since: oldest(segments, newest)?, ..found })
}

/// When the oldest entry is from that can be read.
fn oldest(segments: &dyn Segments, newest: &[Entry]) -> Result<Option<Timestamp>, FileError> {
    for lying in segments.list()? {
        let mut first = None;
        if let Ok(reader) = segments.read(lying.number) {
            // What is wrong with it is told by who looked for entries.
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

/// What is meant, the newest first, and how.
#[derive(Debug)]
struct Scan {
    entries: Vec<(Position, Entry)>,
    by: Match,
    /// The same without entries.
    found: Found,
}

impl Scan {
    /// Looks for what is meant.
    fn of(
        segments: &dyn Segments,
        newest: &[Entry],
        query: &Query,
        limit: usize,
    ) -> Result<Self, FileError> {
        let (exact, prefix) = (Newest::new(limit), Newest::new(limit));
        let mut meant = Meant { query, exact, prefix };
        let found = read(segments, newest, &mut meant)?;
        let Meant { exact, prefix, .. } = meant;
        let (meant, by) =
            if exact.before.is_empty() { (prefix, Match::Prefix) } else { (exact, Match::Exact) };
        Ok(Self { entries: meant.before, by, found: Found { more: meant.more, ..found } })
    }
}

/// Reads what is meant.
#[derive(Debug)]
struct Meant<'a> {
    query: &'a Query,
    exact: Newest,
    prefix: Newest,
}

impl Reading for Meant<'_> {
    fn entry(&mut self, position: Position, entry: Entry) {
        match self.query.means(&entry) {
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

/// Reads what went along with containers. Several go at a time, so it lies among what is of others; and
/// neither need it be meant by what means them.
#[derive(Debug)]
struct Along<'a> {
    containers: BTreeMap<Position, &'a Entry>,
    /// No log of theirs is older.
    since: Timestamp,
    /// Logs of the segment that is being read, whose container has not come yet.
    waiting: Vec<(Position, Entry)>,
    found: Vec<(Position, Entry)>,
    /// Whether the segment that is being read began before.
    is_before: bool,
}

impl<'a> Along<'a> {
    /// What went along with those of the entries that are containers.
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
        let mut along = Along { containers, since, waiting, found, is_before };
        read(segments, newest, &mut along)?;
        Ok(along.found)
    }
}

impl Reading for Along<'_> {
    fn entry(&mut self, position: Position, entry: Entry) {
        self.is_before |= entry.time < self.since;
        if entry.kind == "container" {
            let own = self.waiting.extract_if(.., |(_, log)| went_along(log, &entry));
            // What belongs to one that is not asked for is taken out all the same.
            let is_meant = self.containers.contains_key(&position);
            self.found.extend(own.filter(|_| is_meant));
        } else if self.containers.range(position..).any(|(_, later)| went_along(&entry, later)) {
            self.waiting.push((position, entry));
        }
    }

    fn end_of_segment(&mut self) -> ControlFlow<()> {
        // Their container is in a newer one.
        self.found.append(&mut self.waiting);
        if self.is_before { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

/// Reads a journal, and before it what is newer; tells what cannot be read.
fn read(
    segments: &dyn Segments,
    newest: &[Entry],
    reading: &mut dyn Reading,
) -> Result<Found, FileError> {
    let mut found = Found::default();
    for (index, entry) in newest.iter().enumerate() {
        reading.entry((NEWEST, index), entry.clone());
    }
    let mut goes_on = reading.end_of_segment();
    for lying in segments.list()?.iter().rev() {
        if goes_on.is_break() {
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
        let mut index = 0;
        let read = decode::read(reader, |entry: Entry| {
            reading.entry((lying.number, index), entry);
            index += 1;
        });
        goes_on = reading.end_of_segment();
        match read {
            Ok(passed) => found.damaged += passed.damaged,
            Err(error) => found.problems.push(format!("read segment {}: {error}", lying.number)),
        }
    }
    Ok(found)
}
