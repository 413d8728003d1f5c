//! Pods that ask for other resources while they run.
//!
//! ```text
//!  asks ──> looked at, in turn ──┬─> granted ──> on record ──> its worker changes it
//!            ^                   ├─> others make room ──┐
//!            └───────────────────┴─> deferred ──────────┘
//! ```
//! What a pod is granted, or will be once others have gone, counts from then on.

use std::collections::BTreeSet;
use std::sync::Arc;

use allocation::decide::admission::Occupancy;
use allocation::decide::resize::{
    Impossible, Refused, Resize, Waiting, refusal_news, requested, resize, turn,
    undeclared_for_change,
};
use allocation::decide::{resize_message, still_has};
use allocation::{Grant, Trigger, Written};
use k8s_openapi::api::core::v1::Pod;
use model::admission::{PendingResize, Rejection};
use model::ids::PodUid;
use model::observed::PodStatus;
use model::panics::{PanicStep, PanicSubject};
use model::ports::events::EventType::{Normal, Warning};
use model::ports::events::{EventType, PodEvent};
use pods::decide::worker::Update;
use podspec::{Allocation, Sizes, reported_resize, view};
use tracing::debug;

use super::SyncLoop;
use super::guarded::LoopStep;

/// The word for a change that needs a feature which the node does not declare.
const UNDECLARED: &str = "FailedNodeDeclaredFeaturesCheck";

/// A pod that asks for other resources than it has.
#[derive(Debug, Default)]
pub(super) struct Asking {
    /// Since when, as far as it was refused, and how.
    refused: Option<(jiff::Timestamp, Refused)>,
    /// Whether it will never get it, as it stands.
    infeasible: bool,
}

impl SyncLoop {
    /// The pod with what it was given.
    pub(super) fn allocated(&self, pod: &Arc<Pod>) -> Arc<Pod> {
        self.parts.allocations.allocated(pod)
    }

    /// What containers were given since they were made.
    pub(super) async fn sizes(&self) -> Arc<Sizes> {
        match &self.parts.pod_runtime {
            Some(pod_runtime) => pod_runtime.sizes().await,
            None => Arc::default(),
        }
    }

    /// A pod changed that was let in; answers it with what it was given.
    pub(super) fn changed(&mut self, uid: &PodUid, desired: &Arc<Pod>) -> Arc<Pod> {
        let before = self.parts.allocations.desired(uid);
        if let Some(before) = before.filter(|before| before.spec != desired.spec) {
            let requested = requested(&before, desired).into_iter();
            requested.for_each(|request| self.parts.resizes.metrics.requested(request));
            let node = &self.parts.admission.node;
            if let Some(message) = undeclared_for_change(&before, desired, node) {
                self.tell_resize(desired, Warning, UNDECLARED, message);
            }
        }
        let given = self.allocated(desired);
        self.parts.allocations.changed(Arc::clone(desired), Arc::clone(&given));
        self.asks(uid, desired);
        given
    }

    /// What a pod asks for is looked at with all that wait.
    fn asks(&mut self, uid: &PodUid, desired: &Arc<Pod>) {
        let is_same = Arc::ptr_eq(&self.allocated(desired), desired);
        if is_same && !self.parts.allocations.is_granted(uid) {
            self.resizing.remove(uid);
            self.parts.resizes.set_pending(uid, None);
            self.parts.resizes.unreserve(uid);
            return;
        }
        let asking = self.resizing.entry(uid.clone()).or_default();
        // What can never be is asked again when it is something else.
        let same = |(_, refused): &(_, Refused)| refused.wanted == Allocation::of(desired);
        asking.infeasible &= asking.refused.as_ref().is_some_and(same);
    }

    /// A pod is let in that an earlier agent may have been about to resize: what it may still have counts
    /// until it has less, and what was told of it is not told anew.
    pub(super) fn resumed(
        &mut self,
        pod: &Arc<Pod>,
        desired: &Arc<Pod>,
        (observed, sizes): (Option<&PodStatus>, &Sizes),
    ) {
        let uid = view::uid(pod);
        let told = reported_resize(desired.status.as_ref());
        let given = Allocation::of(pod);
        let before = self.parts.allocations.before(&uid);
        let had = still_has(&given, before, observed, sizes);
        let is_sure = told.in_progress || had.containers != given.containers;
        // Of its cgroup nobody knows whether it was changed.
        let runs = observed.is_some_and(|observed| observed.running().next().is_some());
        let is_possible = runs && before.is_some_and(|before| *before != given);
        if is_sure || is_possible || had != given {
            self.parts.resizes.resume(pod, had, &told, !is_sure);
        }
        self.asks(&uid, desired);
        let Some((pending, generation)) = told.pending else { return };
        let is_current = generation == desired.metadata.generation.filter(|number| *number != 0);
        if let Some(asking) = self.resizing.get_mut(&uid).filter(|_| is_current) {
            let (wanted, message) = (Allocation::of(desired), pending.message.clone());
            let refused = Refused { wanted, infeasible: pending.infeasible, message };
            asking.refused = Some((self.parts.clock.now(), refused));
            self.parts.resizes.set_pending(&uid, Some(pending));
        }
    }

    /// A pod goes: nothing of it waits any more.
    pub(super) fn forget_resize(&mut self, uid: &PodUid) {
        self.resizing.remove(uid);
        self.parts.resizes.forget(uid);
        self.parts.allocations.forget(uid);
    }

    /// Resizes are over, which may have made room.
    pub(super) async fn resized(&mut self, pods: BTreeSet<PodUid>) {
        for uid in &pods {
            self.step(uid, LoopStep::Resized).await;
        }
        self.retry_resizes(Trigger::PodResized).await;
    }

    /// Looks again at the pods that ask for other resources: something has changed on the node.
    pub(super) async fn retry_resizes(&mut self, trigger: Trigger) {
        if !self.resizing.is_empty() && self.listed && self.parts.sources.all_ready() {
            let waiting = self.in_turn();
            if !waiting.is_empty() {
                self.meet_node();
                let mut there = self.occupancy();
                for (uid, desired) in waiting {
                    let (guard, name) = (self.parts.panics.clone(), view::pod_name(&desired));
                    let of = PanicSubject::Pod(&uid, Some(&name));
                    let work = self.look_at_resize(&uid, &desired, &mut there, trigger);
                    if guard.catch_async(PanicStep::SyncLoop, of, work).await.is_err() {
                        self.panicked(&uid, LoopStep::Resize);
                        // What the pod takes may have been left out.
                        there = self.occupancy();
                    }
                }
            }
        }
        self.parts.allocations.keep();
    }

    /// Those that wait, in their order. Who is gone does not, nor who waits for nothing but room that is
    /// being made, or a file that is being written.
    fn in_turn(&mut self) -> Vec<(PodUid, Arc<Pod>)> {
        let sources = &self.parts.sources;
        self.resizing.retain(|uid, _| sources.get(uid).is_some());
        let waiting = self.resizing.iter().filter(|(uid, asking)| {
            let is_settled = self.arrivals.is_held(uid) || self.parts.allocations.is_granted(uid);
            !asking.infeasible && !is_settled && !self.retries.waits(uid)
        });
        let found = waiting.filter_map(|(uid, asking)| {
            let desired = Arc::clone(sources.get(uid)?);
            let since = asking.refused.as_ref().map(|(since, _)| *since);
            let allocated = self.allocated(&desired);
            let waiting = Waiting { desired: &desired, allocated: &allocated, since };
            let turn = turn(&waiting);
            Some((turn, uid.clone(), desired))
        });
        let mut found: Vec<_> = found.collect();
        found.sort_by(|(one, ..), (other, ..)| one.cmp(other));
        found.into_iter().map(|(_, uid, pod)| (uid, pod)).collect()
    }

    async fn look_at_resize(
        &mut self,
        uid: &PodUid,
        desired: &Arc<Pod>,
        there: &mut Occupancy,
        trigger: Trigger,
    ) {
        let allocated = self.allocated(desired);
        // Beside the others, and without what was set aside for it.
        self.parts.resizes.unreserve(uid);
        let counted = there.remove(uid).is_some();
        let admission = &self.parts.admission;
        let answer =
            resize(desired, &allocated, &admission.node, || admission.decide(desired, there));
        debug!(pod = %view::pod_name(desired), %uid, ?answer, "pod asks for other resources");
        let mut is_news = false;
        match answer {
            Resize::Same => {
                self.resizing.remove(uid);
                is_news = self.parts.resizes.pending(uid).is_some();
                self.parts.resizes.set_pending(uid, None);
            }
            Resize::Allocate => {
                if self.parts.resizes.pending(uid).is_some_and(|pending| !pending.infeasible) {
                    self.parts.resizes.metrics.deferred_accepted(trigger);
                }
                self.parts.resizes.reserve(uid, desired);
                self.parts.allocations.grant(uid, desired);
            }
            Resize::Preempt(plan) => {
                for victim in &plan.victims {
                    there.remove(victim);
                }
                self.parts.resizes.reserve(uid, desired);
                self.make_room(desired, plan);
            }
            Resize::Deferred(why) => is_news = self.refused(uid, desired, None, why),
            Resize::Infeasible(Impossible { detail, message }) => {
                let why = Rejection::new("Infeasible", message);
                is_news = self.refused(uid, desired, Some(detail), why);
            }
        }
        if counted {
            there.add(self.parts.resizes.taken(uid, Arc::clone(&allocated)));
        }
        if is_news {
            self.parts.workers.ask(uid.clone(), Update::Update(allocated)).await;
        }
    }

    /// A pod does not get what it asks for, or never will, as the word says. Whether its status says
    /// something new.
    fn refused(
        &mut self,
        uid: &PodUid,
        desired: &Arc<Pod>,
        never: Option<&'static str>,
        Rejection { reason: word, message }: Rejection,
    ) -> bool {
        self.parts.allocations.hurry();
        let Some(asking) = self.resizing.get_mut(uid) else { return false };
        let infeasible = never.is_some();
        asking.infeasible = infeasible;
        let now = Refused { wanted: Allocation::of(desired), infeasible, message };
        let before = asking.refused.take();
        let news = refusal_news(before.as_ref().map(|(_, before)| before), &now);
        let since = before.filter(|_| !news.event).map(|(since, _)| since);
        let pending = PendingResize { infeasible, message: now.message.clone() };
        asking.refused = Some((since.unwrap_or_else(|| self.parts.clock.now()), now));
        if news.event {
            if let Some(detail) = never {
                self.parts.resizes.metrics.infeasible(detail);
            }
            let reason = if infeasible { "ResizeInfeasible" } else { "ResizeDeferred" };
            let message = resize_message(&word, desired, Some(&pending.message));
            self.tell_resize(desired, Warning, reason, message);
        }
        if news.status {
            self.parts.resizes.set_pending(uid, Some(pending));
        }
        news.status
    }

    /// What pods were granted is on record, or is not: those that are get it.
    pub(super) async fn allocations_written(&mut self, written: Written) {
        let grants = self.parts.allocations.finish(written);
        let are_any = !grants.is_empty();
        for grant in grants {
            self.step(&grant.uid.clone(), LoopStep::Granted(grant)).await;
        }
        if are_any {
            self.retry_resizes(Trigger::PodUpdated).await;
        }
    }

    pub(super) async fn granted(&mut self, Grant { uid, pod, before }: Grant) {
        let Some(desired) = self.parts.sources.get(&uid).cloned() else { return };
        self.parts.resizes.set_pending(&uid, None);
        self.parts.resizes.begin(&uid, &pod, &before);
        let message = resize_message("started", &pod, None);
        self.tell_resize(&pod, Normal, "ResizeStarted", message);
        let given = self.allocated(&desired);
        self.parts.allocations.changed(Arc::clone(&desired), Arc::clone(&given));
        // It may ask for something else by now.
        self.resizing.remove(&uid);
        self.asks(&uid, &desired);
        self.parts.workers.ask(uid, Update::Update(given)).await;
    }

    fn tell_resize(&self, pod: &Pod, kind: EventType, reason: &'static str, message: String) {
        let event = PodEvent::warning(view::uid(pod), view::pod_name(pod), reason, message);
        self.parts.events.record(PodEvent { kind, ..event });
    }
}
