//! Removals of rotated files of one log, one after the other: the first of a series has its own
//! entry, and those that follow within [`WINDOW`] share one.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use model::verdict::{Detail, Input, Subject, Verdict};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

/// How long removals are counted together.
pub(crate) const WINDOW: Duration = Duration::from_hours(1);

/// The maximum number of series. Beyond these, the oldest is recorded early.
const MOST: usize = 4096;

/// The name of the input with the size of a file.
const BYTES: &str = "bytes";

/// The key of a series: a log and a rule.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SeriesKey {
    log: String,
    rule: &'static str,
}

impl SeriesKey {
    /// None for objects without series.
    pub(crate) fn of(verdict: &Verdict) -> Option<Self> {
        let Subject::RotatedLog(path) = &verdict.subject else { return None };
        let path = path.to_string_lossy();
        let log = path.rsplit_once(".log.").map_or(&*path, |(log, _)| log);
        Some(Self { log: log.to_owned(), rule: verdict.rule })
    }
}

/// Removals that have no entry yet.
#[derive(Debug)]
pub(crate) struct Pending {
    /// The note about them on disk; none before the first.
    pub(crate) note: Option<u64>,
    began: Instant,
    since: Timestamp,
    files: i64,
    bytes: i64,
    last: Option<Verdict>,
}

impl Pending {
    fn new(since: Timestamp) -> Self {
        Self { note: None, began: Instant::now(), since, files: 0, bytes: 0, last: None }
    }

    /// Their shared entry; `None` if there were none.
    pub(crate) fn verdict(&self) -> Option<Verdict> {
        let last = self.last.clone()?;
        let others = last.detail.0.into_iter().filter(|(name, _)| *name != BYTES);
        let detail = Detail(others.collect())
            .with("files", Input::Number(self.files))
            .with(BYTES, Input::Number(self.bytes))
            .with("since", Input::Time(self.since));
        Some(Verdict { detail, ..last })
    }
}

/// All series.
#[derive(Debug, Default)]
pub(crate) struct AllSeries {
    /// Never held across an await.
    pending: Mutex<BTreeMap<SeriesKey, Pending>>,
    began: Notify,
}

impl AllSeries {
    fn pending(&self) -> MutexGuard<'_, BTreeMap<SeriesKey, Pending>> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether a removal continues a series; otherwise it begins one. Also returns the series that
    /// are over.
    pub(crate) fn continues(&self, key: &SeriesKey, at: Timestamp) -> (bool, Vec<Pending>) {
        let mut pending = self.pending();
        let mut over: Vec<Pending> = Self::take_over(&mut pending, Instant::now());
        if pending.contains_key(key) {
            return (true, over);
        }
        if pending.len() >= MOST {
            let oldest = pending.iter().min_by_key(|(_, one)| one.began);
            let oldest = oldest.map(|(key, _)| key.clone());
            over.extend(oldest.and_then(|key| pending.remove(&key)));
        }
        pending.insert(key.clone(), Pending::new(at));
        self.began.notify_one();
        (false, over)
    }

    fn take_over(pending: &mut BTreeMap<SeriesKey, Pending>, now: Instant) -> Vec<Pending> {
        pending.extract_if(.., |_, one| now >= one.began + WINDOW).map(|(_, one)| one).collect()
    }

    /// Whether a series has a note on disk.
    pub(crate) fn is_noted(&self, key: &SeriesKey) -> bool {
        self.pending().get(key).is_none_or(|one| one.note.is_some())
    }

    /// Stores the note of a series. Returns it if the series is over meanwhile.
    pub(crate) fn noted(&self, key: &SeriesKey, note: u64) -> Option<u64> {
        match self.pending().get_mut(key) {
            Some(one) => one.note.replace(note),
            None => Some(note),
        }
    }

    /// Counts a removed file.
    pub(crate) fn add(&self, verdict: &Verdict, key: SeriesKey) {
        let bytes = verdict.detail.0.iter().find(|(name, _)| *name == BYTES);
        let bytes = match bytes {
            Some((_, Input::Number(bytes))) => *bytes,
            _ => 0,
        };
        let mut pending = self.pending();
        let one = pending.entry(key).or_insert_with(|| Pending::new(verdict.at));
        one.files += 1;
        one.bytes = one.bytes.saturating_add(bytes);
        one.last = Some(verdict.clone());
    }

    /// Waits until a series is over, and returns all that are over.
    pub(crate) async fn next_over(&self) -> Vec<Pending> {
        loop {
            let first = self.pending().values().map(|one| one.began + WINDOW).min();
            let due = async {
                match first {
                    Some(due) => sleep_until(due).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = self.began.notified() => {}
                () = due => return Self::take_over(&mut self.pending(), Instant::now()),
            }
        }
    }

    /// Ends all series.
    pub(crate) fn take_all(&self) -> Vec<Pending> {
        std::mem::take(&mut *self.pending()).into_values().collect()
    }
}
