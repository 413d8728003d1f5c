//! Back-off.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use model::ids::{ContainerId, PodUid, SandboxId};
use model::observed::ContainerState;

use super::Invariant;
use crate::history::{Event, Instance, Record};

/// The first delay, a little less for the coarseness of timers.
const FIRST_DELAY: Duration = Duration::from_millis(9900);
/// Whoever ran longer than this before it failed starts over.
const RESET_AFTER: Duration = Duration::from_mins(10);

/// How long it may take until a pod has the resources that it asks for.
const RESIZED_AFTER: Duration = Duration::from_mins(3);

/// An agent that has restarted a failed container once lets it wait before the next time. With other resources
/// it is another try.
#[derive(Debug, Default)]
pub(super) struct BackOff {
    /// What this agent started after a failure, and when that was: it was let through since.
    restarted: BTreeMap<(PodUid, Arc<str>), (ContainerId, Duration)>,
    /// What pods ask for, and since when if that has changed.
    sizes: BTreeMap<PodUid, ((i64, i64), Option<Duration>)>,
    /// When delays were last forgotten: they are not kept on disk, and go by the node's clock.
    forgotten: Duration,
    /// The last instance that ended by itself.
    ended: BTreeMap<(PodUid, Arc<str>), Arc<Instance>>,
    asked: BTreeSet<ContainerId>,
    asked_sandboxes: BTreeSet<SandboxId>,
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
        // What is replaced did not fail, even if it ended by itself just before.
        let replaced = self.asked.contains(&before.id) || before.definition != one.definition;
        // Whoever let it through may have done so before, and started it late.
        if finished > self.forgotten && !replaced {
            self.restarted.insert(key, (one.id.clone(), finished));
        }
        let Some((id, let_through)) = restarted else { return Ok(()) };
        let counts = id == before.id
            && before.definition == one.definition
            && before.sandbox == one.sandbox
            && finished.saturating_sub(let_through) < RESET_AFTER;
        let waited = at.saturating_sub(finished);
        let changed = self.sizes.get(&one.uid).and_then(|(_, since)| *since);
        let is_resized = changed.is_some_and(|since| let_through <= since + RESIZED_AFTER);
        if counts && !is_resized && waited < FIRST_DELAY {
            return Err(format!("{} starts {waited:?} after {} failed again", one.id, before.id));
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
            Event::StopAsked(id, _) => {
                self.asked.insert(id.clone());
            }
            Event::StopSandboxAsked(id) => {
                self.asked_sandboxes.insert(id.clone());
            }
            Event::Container(one, was) => {
                let is_new = matches!(was, None | Some(ContainerState::Created));
                if let Some(started) = one.started.filter(|_| is_new) {
                    self.started(one, started)?;
                }
                let by_itself = !self.asked.contains(&one.id)
                    && !self.asked_sandboxes.contains(&one.sandbox)
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
