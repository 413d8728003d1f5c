//! Back-off.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use model::ids::{ContainerId, PodUid, SandboxId};
use model::observed::ContainerState;

use super::Invariant;
use crate::history::{Event, Instance, Record};

/// The first delay, and the longest.
const FIRST_DELAY: Duration = Duration::from_secs(10);
const LONGEST_DELAY: Duration = Duration::from_mins(5);
/// How much less it may be, for the coarseness of timers.
const COARSENESS: Duration = Duration::from_millis(100);
/// Whoever ran longer than this before it failed starts over, and nobody remembers a delay for longer.
const RESET_AFTER: Duration = Duration::from_mins(10);

/// How long it may take until a pod has the resources that it asks for.
const RESIZED_AFTER: Duration = Duration::from_mins(3);

/// An agent that has restarted a failed container once lets it wait before the next time, and twice as long each time
/// after that. With other resources it is another try.
#[derive(Debug, Default)]
pub(super) struct BackOff {
    /// What this agent started after a failure.
    restarted: BTreeMap<(PodUid, Arc<str>), Restarted>,
    /// What pods ask for, and since when if that has changed.
    sizes: BTreeMap<PodUid, ((i64, i64), Option<Duration>)>,
    /// When delays were last forgotten: they are not kept on disk, and go by the node's clock.
    forgotten: Duration,
    /// The last instance that ended by itself.
    ended: BTreeMap<(PodUid, Arc<str>), Arc<Instance>>,
    stop_requested: BTreeSet<ContainerId>,
    stop_requested_sandboxes: BTreeSet<SandboxId>,
}

/// What was started after a failure.
#[derive(Debug)]
struct Restarted {
    id: ContainerId,
    /// When that failure was: it was let through since.
    after: Duration,
    /// The delay that is laid on it, at least.
    delay: Duration,
}

impl BackOff {
    fn started(&mut self, one: &Arc<Instance>, at: Duration) -> Result<(), String> {
        let key = (one.uid.clone(), Arc::clone(&one.name));
        let Some(before) = self.ended.remove(&key) else {
            self.restarted.remove(&key);
            return Ok(());
        };
        let restarted = self.restarted.remove(&key);
        let Some(finished) = before.finished else { return Ok(()) };
        let changed = self.sizes.get(&one.uid).and_then(|(_, since)| *since);
        let restarted = restarted.filter(|restarted| {
            let is_resized = changed.is_some_and(|since| restarted.after <= since + RESIZED_AFTER);
            restarted.id == before.id
                && before.definition == one.definition
                && before.sandbox == one.sandbox
                && at.saturating_sub(restarted.after) < RESET_AFTER
                && !is_resized
        });
        // What is replaced did not fail, even if it ended by itself just before.
        let replaced =
            self.stop_requested.contains(&before.id) || before.definition != one.definition;
        // Whoever let it through may have done so before, and started it late.
        if finished > self.forgotten && !replaced {
            let delay = restarted.as_ref().map_or(FIRST_DELAY, |earlier| earlier.delay * 2);
            let (id, delay) = (one.id.clone(), delay.min(LONGEST_DELAY));
            self.restarted.insert(key, Restarted { id, after: finished, delay });
        }
        let Some(Restarted { delay, .. }) = restarted else { return Ok(()) };
        let waited = at.saturating_sub(finished);
        if waited + COARSENESS < delay {
            return Err(format!(
                "{} starts {waited:?} after {} failed again, and not {delay:?}",
                one.id, before.id
            ));
        }
        Ok(())
    }
}

impl Invariant for BackOff {
    fn sentence(&self) -> &'static str {
        "a container that keeps failing waits before it is started again"
    }

    fn read(&mut self, record: &Record) -> Result<(), String> {
        match &record.event {
            Event::AgentStarted(_) | Event::ClockJumped => {
                self.restarted.clear();
                self.forgotten = record.at;
            }
            Event::Wanted(uid, pod) => {
                let size = (pod.milli(), pod.mebibytes());
                let since = match self.sizes.get(uid) {
                    Some((before, since)) if *before == size => *since,
                    before => before.map(|_| record.at),
                };
                self.sizes.insert(uid.clone(), (size, since));
            }
            Event::StopRequested(id, _) => {
                self.stop_requested.insert(id.clone());
            }
            Event::SandboxStopRequested(id) => {
                self.stop_requested_sandboxes.insert(id.clone());
            }
            Event::Container(one, was) => {
                let is_new = matches!(was, None | Some(ContainerState::Created));
                if let Some(started) = one.started.filter(|_| is_new) {
                    self.started(one, started)?;
                }
                let by_itself = !self.stop_requested.contains(&one.id)
                    && !self.stop_requested_sandboxes.contains(&one.sandbox)
                    && *was != Some(ContainerState::Unknown);
                let key = (one.uid.clone(), Arc::clone(&one.name));
                if one.state.is_none() {
                    // Nobody knows of a failure when nothing is left of it.
                    self.ended.remove(&key);
                } else if one.state == Some(ContainerState::Exited) && by_itself {
                    self.ended.insert(key, Arc::clone(one));
                } else if !by_itself {
                    self.ended.remove(&key);
                }
            }
            _ => {}
        }
        Ok(())
    }
}
