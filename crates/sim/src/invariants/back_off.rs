//! Back-off.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use model::ids::{ContainerId, PodUid, SandboxId};
use model::observed::ContainerState;

use super::Invariant;
use crate::history::{Event, Instance, Record};

/// The first and the longest back-off.
const FIRST_DELAY: Duration = Duration::from_secs(10);
const LONGEST_DELAY: Duration = Duration::from_mins(5);
/// How much shorter the back-off may be, because timers are coarse.
const COARSENESS: Duration = Duration::from_millis(100);
/// A container that ran longer than this before it failed starts with the first back-off again; a back-off is
/// not remembered longer either.
const RESET_AFTER: Duration = Duration::from_mins(10);

/// How long it may take until a pod has its requested resources.
const RESIZED_AFTER: Duration = Duration::from_mins(3);

/// An agent that has restarted a failed container once delays the next restart, with a back-off that doubles
/// each time. A resize resets it.
#[derive(Debug, Default)]
pub(super) struct BackOff {
    /// Containers that this agent restarted after a failure.
    restarted: BTreeMap<(PodUid, Arc<str>), Restarted>,
    /// The requested resources of pods, and since when if they changed.
    sizes: BTreeMap<PodUid, ((i64, i64), Option<Duration>)>,
    /// When back-offs were last lost: they are not persisted, and use the node's clock.
    forgotten: Duration,
    /// The last instance that ended by itself.
    ended: BTreeMap<(PodUid, Arc<str>), Arc<Instance>>,
    stop_requested: BTreeSet<ContainerId>,
    stop_requested_sandboxes: BTreeSet<SandboxId>,
}

/// A restart after a failure.
#[derive(Debug)]
struct Restarted {
    id: ContainerId,
    /// The time of that failure: the restart was allowed after it.
    after: Duration,
    /// The minimum back-off.
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
        // A replaced instance did not fail, even if it ended by itself just before.
        let replaced =
            self.stop_requested.contains(&before.id) || before.definition != one.definition;
        // The restart may have been allowed earlier, and started late.
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
        "a container that keeps failing is restarted with a back-off"
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
                    // A failure without a remaining record is unknown.
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
