//! The volumes of one pod: what is desired, what is mounted, and the operations that make them equal.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use model::volume::VolumeId;

/// The delay after the first failure of an operation; it doubles with each failure in a row.
const FIRST_DELAY: Duration = Duration::from_millis(500);
/// The longest delay.
const LONGEST_DELAY: Duration = Duration::from_secs(122);

/// An operation on a volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operation {
    /// Unmounting it, and removing its directories.
    Unmount,
    /// Mounting it, or writing its content again.
    Mount,
}

/// Whether a volume is mounted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MountState {
    /// The volume has no directory and no mount on the host.
    #[default]
    NotMounted,
    /// It may be mounted: an earlier agent left it, or an operation failed half-way.
    Uncertain,
    /// It is mounted.
    Mounted,
}

/// The last failure of a volume's operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The operation.
    pub operation: Operation,
    /// Why it failed.
    pub message: String,
    /// It is not tried again earlier.
    pub until: Timestamp,
    delay: Duration,
}

/// A volume of a pod.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct VolumeState {
    /// Whether the pod uses it.
    pub desired: bool,
    /// Whether it is mounted.
    pub mount: MountState,
    /// Its content may have changed and must be computed again.
    pub stale: bool,
    /// The operation under way.
    pub running: Option<Operation>,
    /// The failure of the last operation.
    pub failure: Option<Failure>,
}

impl VolumeState {
    /// The operation that the volume needs.
    fn needed(&self, has_ended: bool) -> Option<Operation> {
        match (self.desired, self.mount) {
            (true, MountState::Mounted) => self.stale.then_some(Operation::Mount),
            (true, _) => Some(Operation::Mount),
            (false, MountState::NotMounted) => None,
            // The claim of a volume that containers use may be unreadable for a while.
            (false, _) => has_ended.then_some(Operation::Unmount),
        }
    }

    /// When the needed operation may start.
    fn not_before(&self, operation: Operation) -> Option<Timestamp> {
        // Another operation starts at once: its failures are its own.
        let failure = self.failure.as_ref().filter(|failure| failure.operation == operation)?;
        Some(failure.until)
    }
}

/// The volumes of a pod.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PodVolumes {
    /// Each volume that the pod uses or that is on the host.
    pub volumes: BTreeMap<VolumeId, VolumeState>,
    /// Whether the pod has ended: nothing is unmounted before.
    has_ended: bool,
}

/// The operations that start now, and when to look again.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Steps {
    /// Operations, unmounts first.
    pub start: Vec<(Operation, VolumeId)>,
    /// When the next back-off ends.
    pub wake_at: Option<Timestamp>,
}

/// How an operation ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It succeeded.
    Done,
    /// It failed. The volume may be mounted or not.
    Failed(String),
    /// It was not begun. The volume is as it was.
    Refused(String),
}

impl PodVolumes {
    /// The pod uses these volumes. Others that are mounted stay until it ends.
    pub fn set_desired(&mut self, desired: impl IntoIterator<Item = VolumeId>) {
        self.has_ended = false;
        for state in self.volumes.values_mut() {
            state.desired = false;
        }
        for id in desired {
            self.volumes.entry(id).or_default().desired = true;
        }
        self.forget_unmounted();
    }

    /// The pod has ended and uses no volume any more.
    pub fn end(&mut self) {
        self.set_desired([]);
        self.has_ended = true;
    }

    /// Volumes that an earlier agent left on the host.
    pub fn add_found(&mut self, found: impl IntoIterator<Item = VolumeId>) {
        for id in found {
            let state = self.volumes.entry(id).or_default();
            if state.mount == MountState::NotMounted {
                state.mount = MountState::Uncertain;
            }
        }
    }

    /// The content of the pod's volumes may have changed.
    pub fn mark_stale(&mut self) {
        for (id, state) in &mut self.volumes {
            state.stale |= id.plugin.requires_remount() && state.desired;
        }
    }

    /// The source of the pod's volumes has changed: a write that failed may work now, so it does not wait for its
    /// back-off. The next failure doubles the delay as before.
    pub fn mark_changed(&mut self) {
        self.mark_stale();
        for state in self.volumes.values_mut().filter(|state| state.stale) {
            if let Some(failure) = &mut state.failure {
                failure.until = Timestamp::MIN;
            }
        }
    }

    /// Starts the operations that are needed: one at a time for each volume.
    pub fn start(&mut self, now: Timestamp) -> Steps {
        let mut steps = Steps::default();
        let has_ended = self.has_ended;
        for (id, state) in &mut self.volumes {
            let needed = state.needed(has_ended).filter(|_| state.running.is_none());
            let Some(operation) = needed else { continue };
            if let Some(until) = state.not_before(operation).filter(|until| *until > now) {
                steps.wake_at = Some(steps.wake_at.map_or(until, |at| at.min(until)));
                continue;
            }
            state.running = Some(operation);
            // A change during the operation makes it stale again.
            state.stale = false;
            steps.start.push((operation, id.clone()));
        }
        steps.start.sort();
        steps
    }

    /// An operation has ended.
    pub fn ended(&mut self, id: &VolumeId, outcome: Outcome, now: Timestamp) {
        let Some(state) = self.volumes.get_mut(id) else { return };
        let Some(operation) = state.running.take() else { return };
        match (outcome, operation) {
            (Outcome::Done, Operation::Mount) => {
                state.mount = MountState::Mounted;
                state.failure = None;
            }
            (Outcome::Done, Operation::Unmount) => {
                state.mount = MountState::NotMounted;
                state.failure = None;
            }
            (Outcome::Refused(message), _) => {
                state.failure = Some(next_failure(state.failure.take(), operation, message, now));
            }
            (Outcome::Failed(message), _) => {
                // A mounted volume whose update failed keeps its old content, and containers keep using it.
                let keeps = operation == Operation::Mount && state.mount == MountState::Mounted;
                if keeps {
                    state.stale = true;
                } else {
                    state.mount = MountState::Uncertain;
                }
                state.failure = Some(next_failure(state.failure.take(), operation, message, now));
            }
        }
        self.forget_unmounted();
    }

    /// Whether a volume is mounted, may be, or is about to be.
    pub fn is_in_use(&self, id: &VolumeId) -> bool {
        let state = self.volumes.get(id);
        state.is_some_and(|one| one.running.is_some() || one.mount != MountState::NotMounted)
    }

    /// Whether a volume is mounted.
    pub fn is_mounted(&self, id: &VolumeId) -> bool {
        self.volumes.get(id).is_some_and(|one| one.mount == MountState::Mounted)
    }

    /// Whether every volume that the pod uses is mounted.
    pub fn all_mounted(&self) -> bool {
        self.volumes.values().all(|state| !state.desired || state.mount == MountState::Mounted)
    }

    /// Whether nothing of the pod's volumes is on the host, and no operation runs.
    pub fn is_empty(&self) -> bool {
        self.volumes.is_empty()
    }

    fn forget_unmounted(&mut self) {
        self.volumes.retain(|_, state| {
            state.desired || state.running.is_some() || state.mount != MountState::NotMounted
        });
    }
}

fn next_failure(
    before: Option<Failure>,
    operation: Operation,
    message: String,
    now: Timestamp,
) -> Failure {
    let before = before.filter(|before| before.operation == operation);
    let delay = before.map_or(FIRST_DELAY, |before| (before.delay * 2).min(LONGEST_DELAY));
    Failure { operation, message, until: now + delay, delay }
}

#[cfg(test)]
#[path = "pod_volumes_tests.rs"]
mod tests;
