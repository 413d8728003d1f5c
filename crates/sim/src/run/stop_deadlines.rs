//! The deadlines of stopped containers.

use std::collections::BTreeMap;
use std::time::Duration;

use model::ids::ContainerId;

use crate::history::{Event, Record};
use crate::settled::Snapshot;

/// The deadlines of containers that the current agent requested to stop.
#[derive(Debug, Default)]
pub(super) struct StopDeadlines(BTreeMap<ContainerId, Duration>);

impl StopDeadlines {
    /// Processes the next records.
    pub(super) fn read(&mut self, records: &[Record]) {
        for Record { at, event } in records {
            match event {
                Event::StopRequested(id, grace) => {
                    // A repeated request does not extend the deadline.
                    let until = self.0.entry(id.clone()).or_insert(Duration::MAX);
                    *until = (*until).min(at.saturating_add(*grace));
                }
                // The stop failed: the deadline counts from the next request.
                Event::StopFailed(id) => {
                    self.0.remove(&ContainerId::from(id.as_str()));
                }
                // A new agent does not know the request: it repeats it, or keeps the container.
                Event::AgentStarted(_) => self.0.clear(),
                _ => {}
            }
        }
    }

    /// A stopped container that still lives: it may have been stopped for an earlier version although it
    /// matches now.
    pub(super) fn live(&self, snapshot: &Snapshot) -> Option<ContainerId> {
        let mut live = snapshot.containers.iter().filter(|one| one.may_live());
        live.find(|one| self.0.contains_key(&one.id)).map(|one| one.id.clone())
    }

    /// All stopped containers, including those that have ended since.
    pub(super) fn all(&self) -> BTreeMap<ContainerId, Duration> {
        self.0.clone()
    }
}

#[cfg(test)]
mod tests {
    use model::observed::ContainerState::{Exited, Running};

    use super::*;
    use crate::settled::tests::instance;

    #[test]
    fn container_has_the_grace_of_the_first_stop() {
        let record = |at, event| Record { at: Duration::from_secs(at), event };
        let stop_requested =
            |at, grace| record(at, Event::StopRequested("c".into(), Duration::from_secs(grace)));
        let failed = |at| record(at, Event::StopFailed("c".to_owned()));
        let restart = |at| record(at, Event::AgentStarted(2));
        let rows = [
            (vec![], None),
            (vec![stop_requested(10, 60)], Some(70)),
            (vec![stop_requested(10, 60), stop_requested(50, 60)], Some(70)),
            (vec![stop_requested(10, 60), stop_requested(20, 2)], Some(22)),
            (vec![stop_requested(10, 60), failed(20), stop_requested(50, 60)], Some(110)),
            (vec![stop_requested(10, 60), restart(30)], None),
            (vec![stop_requested(10, 60), restart(30), stop_requested(50, 60)], Some(110)),
        ];
        for (records, expected) in rows {
            let mut stop_deadlines = StopDeadlines::default();
            stop_deadlines.read(&records);
            let until = stop_deadlines.all().get(&ContainerId::from("c")).map(Duration::as_secs);
            assert_eq!(until, expected, "{records:?}");
        }
    }

    #[test]
    fn live_container_that_was_stopped_is_ending() {
        let mut stop_deadlines = StopDeadlines::default();
        let event = Event::StopRequested("x0".into(), Duration::from_mins(1));
        stop_deadlines.read(&[Record { at: Duration::ZERO, event }]);
        let rows = [
            (vec![instance("x", 0, Running)], Some("x0")),
            (vec![instance("x", 0, Exited)], None),
            (vec![instance("x", 1, Running), instance("y", 0, Running)], None),
        ];
        for (containers, expected) in rows {
            let snapshot = Snapshot { containers, ..Snapshot::default() };
            assert_eq!(
                stop_deadlines.live(&snapshot),
                expected.map(ContainerId::from),
                "{snapshot:?}"
            );
        }
    }
}
