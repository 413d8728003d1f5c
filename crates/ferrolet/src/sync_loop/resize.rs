//! Pods that ask for other resources while they run.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use model::chain::Chain;
use model::ids::PodUid;
use model::ports::events::EventType::{Normal, Warning};
use model::ports::events::{EventType, PodEvent};
use pods::decide::resize::{Resize, Waiting, resize, turn};
use pods::decide::worker::Update;
use podspec::{Allocation, view};
use status::decide::PendingResize;
use tracing::{debug, warn};

use super::SyncLoop;
use crate::resize_message::resize_message;

/// A pod that asks for other resources than it has.
#[derive(Debug)]
pub(super) struct Asking {
    /// Since when, as far as it was looked at, and what it asked for then.
    since: Option<(jiff::Timestamp, Allocation)>,
    /// Whether it will never get it, as it stands.
    infeasible: bool,
}

impl SyncLoop {
    /// The pod with what it was given.
    pub(super) fn allocated(&self, pod: &Arc<Pod>) -> Arc<Pod> {
        self.parts.allocations.allocated(pod)
    }

    /// A pod changed that was let in: what it asks for is looked at with all that wait.
    pub(super) fn asks(&mut self, uid: &PodUid, desired: &Arc<Pod>) {
        let is_same = Arc::ptr_eq(&self.allocated(desired), desired);
        if is_same {
            self.resizing.remove(uid);
            self.parts.resizes.set_pending(uid, None);
            return;
        }
        let asking = Asking { since: None, infeasible: false };
        let asked = self.resizing.entry(uid.clone()).or_insert(asking);
        asked.infeasible = false;
    }

    /// A pod goes: nothing of it waits any more.
    pub(super) async fn forget_resize(&mut self, uid: &PodUid) {
        self.resizing.remove(uid);
        self.parts.resizes.forget(uid);
        self.parts.allocations.forget(uid).await;
    }

    /// Looks again at the pods that ask for other resources: something has changed on the node.
    pub(super) async fn retry_resizes(&mut self) {
        if self.resizing.is_empty() || !self.listed || !self.parts.sources.all_ready() {
            return;
        }
        for (uid, desired) in self.in_turn() {
            if self.arrivals.is_held(&uid) {
                continue;
            }
            self.look_at_resize(&uid, &desired).await;
        }
    }

    /// Those that wait, in their order. Who is gone does not.
    fn in_turn(&mut self) -> Vec<(PodUid, Arc<Pod>)> {
        let sources = &self.parts.sources;
        self.resizing.retain(|uid, _| sources.get(uid).is_some());
        let waiting = self.resizing.iter().filter(|(_, asking)| !asking.infeasible);
        let found = waiting.filter_map(|(uid, asking)| {
            let desired = Arc::clone(sources.get(uid)?);
            let since = asking.since.as_ref().map(|(since, _)| *since);
            let allocated = self.allocated(&desired);
            let waiting = Waiting { desired: &desired, allocated: &allocated, since };
            let turn = turn(&waiting);
            Some((turn, uid.clone(), desired))
        });
        let mut found: Vec<_> = found.collect();
        found.sort_by(|(one, ..), (other, ..)| one.cmp(other));
        found.into_iter().map(|(_, uid, pod)| (uid, pod)).collect()
    }

    async fn look_at_resize(&mut self, uid: &PodUid, desired: &Arc<Pod>) {
        let allocated = self.allocated(desired);
        let before = self.parts.resizes.pending(uid);
        let there = self.occupancy().without(std::slice::from_ref(uid));
        let admission = &self.parts.admission;
        let answer = resize(desired, &allocated, || admission.decide(desired, &there));
        debug!(pod = %view::pod_name(desired), %uid, ?answer, "pod asks for other resources");
        match answer {
            Resize::Same => {
                self.resizing.remove(uid);
                self.parts.resizes.set_pending(uid, None);
            }
            Resize::Allocate => {
                if let Err(error) = self.parts.allocations.give(uid, desired).await {
                    warn!(%uid, error = %Chain(&error), "cannot keep what a pod is given; trying again later");
                    return;
                }
                self.resizing.remove(uid);
                self.parts.resizes.set_pending(uid, None);
                self.parts.resizes.begin(uid, desired, &allocated);
                let message = resize_message("started", desired, None);
                self.tell_resize(desired, Normal, "ResizeStarted", message);
            }
            Resize::Preempt(plan) => self.make_room(desired, plan),
            Resize::Deferred(message) => self.pending(uid, desired, false, message),
            Resize::Infeasible(why) => self.pending(uid, desired, true, why.to_owned()),
        }
        let given = self.allocated(desired);
        // Whoever waits on as before has nothing new to tell.
        if Arc::ptr_eq(&given, desired) || self.parts.resizes.pending(uid) != before {
            self.parts.workers.ask(uid.clone(), Update::Update(given)).await;
        }
    }

    /// A pod does not get what it asks for; people hear of it once for each thing that it asks for.
    fn pending(&mut self, uid: &PodUid, desired: &Arc<Pod>, infeasible: bool, message: String) {
        let Some(asking) = self.resizing.get_mut(uid) else { return };
        asking.infeasible = infeasible;
        let pending = PendingResize { infeasible, message };
        let before = self.parts.resizes.pending(uid);
        let wanted = Allocation::of(desired);
        let is_known = asking.since.as_ref().is_some_and(|(_, asked)| *asked == wanted)
            && before.is_some_and(|before| before.infeasible == infeasible);
        if !is_known {
            asking.since = Some((self.parts.clock.now(), wanted));
            let reason = if infeasible { "ResizeInfeasible" } else { "ResizeDeferred" };
            let message = resize_message(pending.reason(), desired, Some(&pending.message));
            self.tell_resize(desired, Warning, reason, message);
        }
        self.parts.resizes.set_pending(uid, Some(pending));
    }

    fn tell_resize(&self, pod: &Pod, kind: EventType, reason: &'static str, message: String) {
        let event = PodEvent::warning(view::uid(pod), view::pod_name(pod), reason, message);
        self.parts.events.record(PodEvent { kind, ..event });
    }
}
