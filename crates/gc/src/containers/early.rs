//! What makes passes before their time: remains that went over a cap.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;
use model::ids::PodUid;
use model::observed::PodStatus;
use model::pod_state::{PodState, WorkerState};

use super::{ContainerGc, ContainerGcParts};
use crate::decide::schedule::{Dead, GATHERING, dead_of, over_cap_since};

/// What is known of the dead of the node without a look at all of it. Nothing, where no cap asks for it.
#[derive(Debug, Default)]
pub(super) struct Early {
    /// Pods that have ended, of which a cap of 0 leaves no container.
    pods: BTreeSet<PodUid>,
    /// What is dead of each pod, for the cap of the node.
    dead: BTreeMap<PodUid, Dead>,
}

impl Early {
    /// How long until something beyond a cap may go: of single pods, or of the node.
    pub(super) fn due(&self, parts: &ContainerGcParts, now: Timestamp) -> Option<Duration> {
        let of_pods = (!self.pods.is_empty()).then_some(GATHERING);
        let of_node = self.node_due(parts, now);
        [of_pods, of_node].into_iter().flatten().min()
    }

    /// The same of the node alone.
    pub(super) fn node_due(&self, parts: &ContainerGcParts, now: Timestamp) -> Option<Duration> {
        let oldest = over_cap_since(parts.policy.in_all?, self.dead.values())?;
        let ripe = oldest.checked_add(parts.policy.min_age).ok()?;
        let left = Duration::try_from(ripe.duration_since(now)).unwrap_or_default();
        Some(left.max(GATHERING))
    }

    pub(super) fn take_pods(&mut self) -> BTreeSet<PodUid> {
        std::mem::take(&mut self.pods)
    }
}

impl ContainerGc {
    /// Tells what the runtime has of a pod by now, so that what is beyond a cap goes without waiting for the
    /// next pass.
    pub fn pod_is_like(&self, uid: &PodUid, status: &PodStatus) {
        let ended = is_over(self.shared.parts.pods.state(uid));
        let dead = dead_of(status, ended);
        if self.shared.parts.policy.in_all.is_some() {
            let mut early = self.shared.early();
            if dead.count == 0 {
                early.dead.remove(uid);
            } else {
                early.dead.insert(uid.clone(), dead);
            }
        }
        self.look_early(uid, ended && dead.count > 0);
    }

    /// Notes that no container of the pod will start again: its dead containers are only kept for their logs.
    pub fn pod_has_ended(&self, uid: &PodUid) {
        if let Some(dead) = self.shared.early().dead.get_mut(uid) {
            dead.spare = dead.count;
        }
        self.look_early(uid, true);
    }

    fn look_early(&self, uid: &PodUid, has_dead_to_spare: bool) {
        let policy = &self.shared.parts.policy;
        if policy.per_container == Some(0) && has_dead_to_spare {
            self.shared.early().pods.insert(uid.clone());
        } else if policy.in_all.is_none() {
            return;
        }
        self.shared.early_bell.notify_one();
    }
}

/// Whether nothing of a pod will be started any more.
fn is_over(state: PodState) -> bool {
    matches!(state, PodState::Known(WorkerState { terminated: true, .. }) | PodState::Gone)
}
