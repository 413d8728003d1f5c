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

/// An agent that has restarted a failed container once lets it wait before the next time.
#[derive(Debug, Default)]
pub(super) struct BackOff {
    /// What this agent started after a failure, and when that was: it was let through since.
    restarted: BTreeMap<(PodUid, Arc<str>), (ContainerId, Duration)>,
    /// When delays were last forgotten: they are not kept on disk, and go by the node's clock.
    forgotten: Duration,
    /// The last instance that ended by itself.
    ended: BTreeMap<(PodUid, Arc<str>), Arc<Instance>>,
    asked: BTreeSet<ContainerId>,
    asked_sandboxes: BTreeSet<SandboxId>,
    /// The last version of each pod, and which of its containers have started over since it came: a container that
    /// may use more, or less, did not fail as such. When it gets that depends on the room there is.
    versions: BTreeMap<PodUid, (u64, BTreeSet<Arc<str>>)>,
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
        if counts && waited < FIRST_DELAY && !self.starts_over(one) {
            return Err(format!("{} starts {waited:?} after {} failed again", one.id, before.id));
        }
        Ok(())
    }
}

impl BackOff {
    /// Whether it is the first time in another version of its pod.
    fn starts_over(&mut self, one: &Instance) -> bool {
        let version = self.versions.get_mut(&one.uid).filter(|(revision, _)| *revision > 0);
        version.is_some_and(|(_, started)| started.insert(Arc::clone(&one.name)))
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
            Event::Wanted(uid, plan) => {
                let last = self.versions.get(uid).map(|(revision, _)| *revision);
                if last != Some(plan.revision) {
                    self.versions.insert(uid.clone(), (plan.revision, BTreeSet::new()));
                }
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
