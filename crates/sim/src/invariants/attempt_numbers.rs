//! Attempt numbers.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use model::ids::{ContainerId, PodUid};
use model::observed::ContainerState;

use super::Invariant;
use crate::history::{Event, Instance, Record, Removed, ReservedName};

/// When the agent removes an instance with its log, it may reuse its number; while another started instance
/// exists, every new number is higher than that. If no instance is left, the logs give the number, if they can
/// be read.
#[derive(Debug, Default)]
pub(super) struct AttemptNumbersAdvance {
    /// The numbers of existing instances, if they have started.
    there: BTreeMap<(PodUid, Arc<str>), BTreeMap<ContainerId, Option<u32>>>,
    /// The numbers of instances that started and may have left a log: the log of an instance that never started
    /// is empty, and the agent removes logs with their instances.
    started: BTreeMap<(PodUid, Arc<str>), BTreeSet<u32>>,
    removal_requested: BTreeSet<ContainerId>,
    /// The log directory of the next created container, and its highest number.
    logs: Option<(PathBuf, Option<u32>)>,
    /// Directories whose last read failed.
    unread: BTreeSet<PathBuf>,
}

impl AttemptNumbersAdvance {
    fn creation_requested(&mut self, reserved: &ReservedName) -> Result<(), String> {
        let logs = self.logs.take();
        let Some(name) = &reserved.name else { return Ok(()) };
        let key = (reserved.uid.clone(), Arc::clone(name));
        let is_alone = self.there.get(&key).is_none_or(BTreeMap::is_empty);
        if is_alone && logs.as_ref().is_none_or(|(_, logged)| logged.is_none()) {
            // No instance is left, so numbers start at zero again.
            self.started.remove(&key);
        }
        let Some((directory, logged)) = logs else { return Ok(()) };
        let is_read = !self.unread.remove(&directory);
        let started = self.started.get(&key);
        let used = logged.and_then(|logged| started?.range(..=logged).next_back().copied());
        match used {
            Some(used) if is_alone && is_read && used >= reserved.attempt => {
                Err(format!("{name} of {} gets number {} again", reserved.uid, reserved.attempt))
            }
            _ => Ok(()),
        }
    }

    fn changed(&mut self, one: &Instance, was: Option<ContainerState>) -> Result<(), String> {
        let key = (one.uid.clone(), Arc::clone(&one.name));
        let there = self.there.entry(key.clone()).or_default();
        if one.state.is_none() {
            there.remove(&one.id);
            if self.removal_requested.contains(&one.id) {
                self.started.entry(key).or_default().remove(&one.attempt);
            }
            return Ok(());
        }
        let starts = one.started.is_some() && matches!(was, None | Some(ContainerState::Created));
        if !starts {
            there.entry(one.id.clone()).or_default();
            return Ok(());
        }
        let before = there.values().flatten().max().copied();
        there.insert(one.id.clone(), Some(one.attempt));
        self.started.entry(key).or_default().insert(one.attempt);
        match before {
            Some(before) if before >= one.attempt => {
                Err(format!("{} has number {} beside number {before}", one.id, one.attempt))
            }
            _ => Ok(()),
        }
    }
}

impl Invariant for AttemptNumbersAdvance {
    fn sentence(&self) -> &'static str {
        "every started instance of a container has a higher number than the existing ones"
    }

    fn read(&mut self, record: &Record) -> Result<(), String> {
        match &record.event {
            Event::Container(one, was) => return self.changed(one, *was),
            Event::LogsLeft(directory, highest) => {
                self.logs = Some((directory.clone(), *highest));
            }
            Event::DirectoryUnreadable(directory) => {
                self.unread.insert(directory.clone());
            }
            // Its logs are removed with it: when it comes back with the same UID, later logs are of another
            // life.
            Event::Unwanted(uid) => self.started.retain(|(of, _), _| of != uid),
            Event::RemovalRequested(Removed::Container(id), _) => {
                self.removal_requested.insert(id.clone());
            }
            Event::CreationRequested(reserved) => return self.creation_requested(reserved),
            _ => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use model::observed::ContainerState::{Created, Exited, Running};

    use super::*;
    use crate::invariants::tests::{broken, container, seconds, with};

    const SENTENCE: Option<&str> =
        Some("every started instance of a container has a higher number than the existing ones");

    fn gone(number: u32) -> Event {
        with(container("a", number, Exited, Exited), |one| one.state = None)
    }

    /// Two instances of a container have run.
    fn ended() -> impl Iterator<Item = Event> {
        let ran = |number| {
            [container("a", number, Running, Created), container("a", number, Exited, Running)]
        };
        [2, 3].into_iter().flat_map(ran)
    }

    #[test]
    fn finds_attempt_number_that_does_not_advance() {
        let again = |number| {
            let again = container("a", number, Running, Created);
            with(again, |one| (one.id, one.started) = ("again".into(), Some(seconds(99))))
        };
        let rows = [
            (vec![again(4)], None),
            (vec![again(3)], SENTENCE),
            // The number of a removed instance may be reused, an existing number may not.
            (vec![gone(3), again(3)], None),
            (vec![gone(2), again(3)], SENTENCE),
            (vec![gone(3), again(2)], SENTENCE),
            (vec![gone(3), gone(2), again(0)], None),
        ];
        for (events, expected) in rows {
            assert_eq!(broken(ended().chain(events.clone())), expected, "{events:?}");
        }
    }

    #[test]
    fn finds_attempt_number_of_an_existing_log_without_instances() {
        let logs = |highest| Event::LogsLeft("/logs/a".into(), highest);
        let unread = |path: &str| Event::DirectoryUnreadable(path.into());
        let make = |attempt| {
            Event::CreationRequested(ReservedName {
                uid: "u".into(),
                name: Some("a".into()),
                attempt,
            })
        };
        let none = || [gone(2), gone(3)].into_iter();
        let rows = [
            (vec![logs(None), make(0)], None),
            (vec![logs(Some(3)), make(4)], None),
            (vec![logs(Some(3)), make(3)], SENTENCE),
            (vec![logs(Some(3)), make(0)], SENTENCE),
            (vec![unread("/logs/a"), logs(Some(3)), make(0)], None),
            (vec![unread("/logs/b"), logs(Some(3)), make(0)], SENTENCE),
        ];
        for (events, expected) in rows {
            assert_eq!(broken(ended().chain(none()).chain(events.clone())), expected, "{events:?}");
        }
        let unused = [container("a", 4, Created, Created), gone(4), logs(Some(4)), make(4)];
        assert_eq!(broken(ended().chain(none()).chain(unused)), None, "it never started");
        let anew = [logs(None), make(0), container("a", 0, Created, Created), gone(0)];
        let anew = || anew.clone().into_iter();
        let again = [logs(Some(0)), make(0)];
        let begun = broken(ended().chain(none()).chain(anew()).chain(again.clone()));
        assert_eq!(begun, None, "numbers began at zero again");
        let ran = [container("a", 0, Running, Created), gone(0)].into_iter().chain(again);
        assert_eq!(broken(ended().chain(none()).chain(anew()).chain(ran)), SENTENCE);
        // The pod was removed with its logs, and is back.
        let back = [Event::Unwanted("u".into()), container("a", 0, Created, Created), gone(0)];
        let back = || back.clone().into_iter();
        let next = [logs(Some(0)), make(0)];
        assert_eq!(broken(ended().chain(none()).chain(back()).chain(next)), None);
        let ran = || [container("a", 0, Running, Created), gone(0), logs(Some(0)), make(0)];
        assert_eq!(broken(ended().chain(none()).chain(back()).chain(ran())), SENTENCE);
        // An earlier instance of that number was removed with its log; the late one has not started.
        let removal_requested =
            Event::RemovalRequested(Removed::Container("a3".into()), "pod-is-gone");
        let late = with(container("a", 3, Created, Created), |one| one.id = "late".into());
        let late_goes = with(late.clone(), |one| one.state = None);
        let late = [gone(3), late, late_goes, logs(Some(3)), make(3)];
        let with_log = ended().chain([gone(2), removal_requested]).chain(late.clone());
        assert_eq!(broken(with_log), None);
        assert_eq!(broken(ended().chain([gone(2)]).chain(late)), SENTENCE);
        // The instance has a higher number than its log.
        assert_eq!(broken(ended().chain([gone(3), logs(Some(3)), make(3)])), None);
    }
}
