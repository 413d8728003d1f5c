//! The running calls of a pool, and which of them are overdue. Pure: `now` is an argument.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::time::Instant;

use crate::error::StuckCall;
use crate::pool::Call;

/// After this time another thread may replace a hanging one.
pub(crate) const LEND_AFTER: Duration = Duration::from_secs(5);

/// A directory with one subdirectory per pod: the root of pod directories, or the root of pod logs.
const PODS: &str = "pods";

/// The running calls.
#[derive(Debug, Default)]
pub(crate) struct Table {
    running: BTreeMap<u64, Running>,
    next: u64,
    /// How many of them were replaced by another thread.
    lent: usize,
}

#[derive(Debug)]
struct Running {
    operation: &'static str,
    subject: PathBuf,
    since: Instant,
    limit: Duration,
    is_lent: bool,
}

impl Running {
    fn at(&self, now: Instant) -> StuckCall {
        let (operation, subject) = (self.operation, self.subject.clone());
        StuckCall { operation, subject, running: now.saturating_duration_since(self.since) }
    }

    fn is_overdue(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.since) >= self.limit
    }
}

impl Table {
    /// Records the start of a call; returns its number.
    pub(crate) fn begin(&mut self, call: Call<'_>, now: Instant) -> u64 {
        let Call { operation, subject, limit } = call;
        self.next += 1;
        let subject = subject.to_owned();
        let running = Running { operation, subject, since: now, limit, is_lent: false };
        self.running.insert(self.next, running);
        self.next
    }

    /// Records the end of a call; returns whether another thread has replaced its own.
    pub(crate) fn end(&mut self, number: u64) -> bool {
        let is_lent = self.running.remove(&number).is_some_and(|call| call.is_lent);
        self.lent -= usize::from(is_lent);
        is_lent
    }

    /// How many threads may start now to replace hanging ones, up to `spare` in all; and when the next one may.
    pub(crate) fn lend(&mut self, spare: usize, now: Instant) -> (usize, Option<Instant>) {
        let (mut more, mut next) = (0, None::<Instant>);
        for call in self.running.values_mut().filter(|call| !call.is_lent) {
            let due = call.since + LEND_AFTER;
            if self.lent == spare {
                break;
            }
            if due <= now {
                call.is_lent = true;
                self.lent += 1;
                more += 1;
            } else {
                next = Some(next.map_or(due, |next| next.min(due)));
            }
        }
        (more, next)
    }

    /// The overdue calls, oldest first.
    pub(crate) fn overdue(&self, now: Instant) -> Vec<StuckCall> {
        let overdue = self.running.values().filter(|call| call.is_overdue(now));
        overdue.map(|call| call.at(now)).collect()
    }

    /// An overdue call of a group.
    pub(crate) fn overdue_in(&self, group: &Path, now: Instant) -> Option<StuckCall> {
        let mut overdue = self.running.values().filter(|call| call.is_overdue(now));
        overdue.find(|call| group_of(&call.subject) == group).map(|call| call.at(now))
    }

    /// The call that has run for longest.
    pub(crate) fn oldest(&self, now: Instant) -> Option<StuckCall> {
        self.running.values().next().map(|call| call.at(now))
    }

    /// The call of a group that has run for longest.
    pub(crate) fn oldest_in(&self, group: &Path, now: Instant) -> Option<StuckCall> {
        let mut running = self.running.values();
        running.find(|call| group_of(&call.subject) == group).map(|call| call.at(now))
    }

    /// Whether all threads are occupied by overdue calls.
    pub(crate) fn is_exhausted(&self, threads: usize, now: Instant) -> bool {
        self.running.len() >= threads && self.running.values().all(|call| call.is_overdue(now))
    }
}

/// The group of a file: the directory of its pod, or the file itself.
pub(crate) fn group_of(subject: &Path) -> &Path {
    let mut above = subject;
    while let Some(parent) = above.parent() {
        if parent.file_name() == Some(OsStr::new(PODS)) {
            return above;
        }
        above = parent;
    }
    subject
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(30);

    fn begin(table: &mut Table, subject: &str, now: Instant) -> u64 {
        let call = Call { operation: "read", subject: Path::new(subject), limit: LIMIT };
        table.begin(call, now)
    }

    #[test]
    fn files_of_one_pod_are_one_group() {
        let rows = [
            ("/var/lib/kubelet/pods/uid/etc-hosts", "/var/lib/kubelet/pods/uid"),
            ("/srv/pods/kubelet/pods/uid/etc-hosts", "/srv/pods/kubelet/pods/uid"),
            ("/var/lib/kubelet/pods/uid", "/var/lib/kubelet/pods/uid"),
            ("/var/log/pods/ns_a_uid/main/0.log", "/var/log/pods/ns_a_uid"),
            ("/var/lib/kubelet/pods", "/var/lib/kubelet/pods"),
            ("/etc/manifests/a.yaml", "/etc/manifests/a.yaml"),
            ("example.com", "example.com"),
        ];
        for (subject, group) in rows {
            assert_eq!(group_of(Path::new(subject)), Path::new(group), "{subject}");
        }
    }

    #[test]
    fn calls_are_overdue_at_their_limit() {
        let (mut table, start) = (Table::default(), Instant::now());
        let first = begin(&mut table, "/pods/a/x", start);
        begin(&mut table, "/state", start + Duration::from_secs(1));
        let group = Path::new("/pods/a");
        let before = start + Duration::from_secs(29);
        assert_eq!((table.overdue(before), table.overdue_in(group, before)), (vec![], None));
        let stuck = table.overdue(start + LIMIT);
        assert_eq!(stuck[0].to_string(), "read /pods/a/x has not returned for 30 s");
        assert_eq!(stuck.len(), 1);
        assert_eq!(table.overdue_in(group, start + LIMIT).as_ref(), stuck.first());
        assert_eq!(table.overdue_in(Path::new("/pods/b"), start + LIMIT), None);
        assert!(!table.is_exhausted(2, start + LIMIT));
        assert!(table.is_exhausted(2, start + LIMIT * 2));
        assert!(!table.is_exhausted(3, start + LIMIT * 2));
        assert!(!table.end(first));
        assert_eq!(table.overdue(start + LIMIT), []);
    }

    #[test]
    fn slow_calls_get_replacement_threads_up_to_a_limit() {
        let (mut table, start) = (Table::default(), Instant::now());
        let slow: Vec<u64> = (0..3).map(|_| begin(&mut table, "/a", start)).collect();
        let (now, late) = (start + LEND_AFTER, start + Duration::from_secs(1));
        begin(&mut table, "/b", late);
        assert_eq!(table.lend(2, start), (0, Some(now)));
        assert_eq!(table.lend(2, now), (2, None), "no more than two");
        assert_eq!(table.lend(2, now), (0, None));
        assert!(table.end(slow[0]), "its thread is taken back");
        assert_eq!(table.lend(2, now), (1, None));
        assert!(!table.end(99), "there is no such call");
        assert_eq!(table.lend(4, now), (0, Some(late + LEND_AFTER)));
    }
}
