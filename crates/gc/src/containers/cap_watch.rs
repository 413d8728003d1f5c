//! Passes before their time, for containers beyond a cap.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;
use model::ids::PodUid;
use model::observed::RuntimePodStatus;
use model::pod_state::{PodState, WorkerState};

use super::{ContainerGc, ContainerGcParts};
use crate::decide::schedule::{ExitedContainers, GATHERING, dead_of, over_cap_since};

/// The exited containers of the node, counted without a list. Empty if no cap needs them.
#[derive(Debug, Default)]
pub(super) struct CapWatch {
    /// Terminated pods that keep no container because of a cap of 0.
    pods: BTreeSet<PodUid>,
    /// The exited containers of each pod, for the cap of the node.
    dead: BTreeMap<PodUid, ExitedContainers>,
}

impl CapWatch {
    /// How long until a container beyond a cap may be removed, of a pod or of the node.
    pub(super) fn due(&self, parts: &ContainerGcParts, now: Timestamp) -> Option<Duration> {
        let of_pods = (!self.pods.is_empty()).then_some(GATHERING);
        let of_node = self.node_due(parts, now);
        [of_pods, of_node].into_iter().flatten().min()
    }

    /// Like `due`, for the cap of the node only.
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
    /// Reports the runtime status of a pod, so that containers beyond a cap are removed before the next pass.
    pub fn observe_pod(&self, uid: &PodUid, status: &RuntimePodStatus) {
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

/// Whether no container of the pod will start again.
fn is_over(state: PodState) -> bool {
    matches!(state, PodState::Known(WorkerState { terminated: true, .. }) | PodState::Gone)
}
