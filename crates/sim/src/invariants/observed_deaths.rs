//! Deaths without an event.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use model::ids::ContainerId;
use model::observed::ContainerState;

use super::Invariant;
use crate::history::{Event, Record};

/// A relist, which finds the change of a lost event, begins at most a minute after the last one. The rest is
/// for reading statuses.
const WITHIN: Duration = Duration::from_secs(65);

/// An agent that can read the runtime reads the status of a dead container in time.
#[derive(Debug, Default)]
pub(super) struct DeathsAreObserved {
    /// Dead containers whose status was not read since, and when they died.
    unseen: BTreeMap<ContainerId, Duration>,
    /// Containers whose status showed that they do not run: a change may be recorded after the read.
    seen: BTreeSet<ContainerId>,
    /// When the agent started or a read last failed: time counts from then.
    since: Duration,
    /// How many reads are delayed or have a fault now.
    faulty_reads: u32,
    is_running: bool,
}

impl DeathsAreObserved {
    fn overdue(&self, now: Duration) -> Result<(), String> {
        if !self.is_running || self.faulty_reads > 0 {
            return Ok(());
        }
        let late = self.unseen.iter().find(|(_, died)| now > self.since.max(**died) + WITHIN);
        late.map_or(Ok(()), |(id, died)| Err(format!("{id} died at {died:?}, unseen at {now:?}")))
    }
}

impl Invariant for DeathsAreObserved {
    fn sentence(&self) -> &'static str {
        "a container death is observed within 65 s"
    }

    fn read(&mut self, record: &Record) -> Result<(), String> {
        self.overdue(record.at)?;
        match &record.event {
            Event::AgentStarted(_) => {
                (self.is_running, self.faulty_reads, self.since) = (true, 0, record.at);
            }
            Event::AgentDied => self.is_running = false,
            Event::ReadFaultBegan => self.faulty_reads += 1,
            Event::ReadFaultEnded => {
                self.faulty_reads = self.faulty_reads.saturating_sub(1);
                self.since = record.at;
            }
            Event::ReadFailed => self.since = record.at,
            Event::ContainerObserved(id, false) => {
                self.unseen.remove(id);
                self.seen.insert(id.clone());
            }
            Event::Container(one, was) => {
                let dead = one.state == Some(ContainerState::Exited);
                let died = dead && *was == Some(ContainerState::Running);
                if died && !self.seen.contains(&one.id) {
                    self.unseen.insert(one.id.clone(), record.at);
                } else if !dead {
                    self.unseen.remove(&one.id);
                    self.seen.remove(&one.id);
                }
            }
            _ => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use model::observed::ContainerState::{Created, Exited, Running};

    use super::*;
    use crate::invariants::tests::container;

    fn read(events: Vec<(u64, Event)>) -> Result<(), String> {
        let mut invariant = DeathsAreObserved::default();
        let start = std::iter::once((0, Event::AgentStarted(1)));
        for (second, event) in start.chain(events) {
            invariant.read(&Record { at: Duration::from_secs(second), event })?;
        }
        Ok(())
    }

    #[test]
    fn finds_death_unobserved_for_65_seconds() {
        let death = || (10, container("a", 0, Exited, Running));
        let seen = |second| (second, Event::ContainerObserved("a0".into(), false));
        let any = |second| (second, Event::ClockJumped);
        assert!(read(vec![death(), any(75)]).is_ok());
        assert!(read(vec![death(), any(76)]).is_err());
        assert!(read(vec![death(), seen(70), any(90)]).is_ok());
        assert!(read(vec![seen(10), death(), any(90)]).is_ok(), "recorded after it was read");
        let starts = (5, container("a", 0, Running, Created));
        assert!(read(vec![seen(4), starts, death(), any(90)]).is_err(), "read before it ran");
        let still_running = (20, Event::ContainerObserved("a0".into(), true));
        assert!(read(vec![death(), still_running, any(76)]).is_err());
        assert!(read(vec![death(), (60, Event::ReadFailed), any(125)]).is_ok());
        assert!(read(vec![death(), (60, Event::ReadFailed), any(126)]).is_err());
        let with_fault = || vec![death(), (60, Event::ReadFaultBegan), any(170)];
        assert!(read(with_fault()).is_ok());
        let over = [(180, Event::ReadFaultEnded), any(246)];
        assert!(read(with_fault().into_iter().chain(over).collect()).is_err());
        assert!(read(vec![death(), (20, Event::AgentDied), any(200)]).is_ok());
    }
}
