//! Pods that request other resources while they run.

use std::sync::Arc;

use allocation::{AllocationEvent, DecidedResize, Grant, Trigger};
use k8s_openapi::api::core::v1::Pod;
use model::ids::PodUid;
use model::panics::{PanicStep, PanicSubject};
use pods::decide::intake::{IntakeCommand, IntakeEvent};
use pods::decide::worker::Update;
use podspec::{Sizes, view};

use super::SyncLoop;
use super::guarded::LoopStep;

impl SyncLoop {
    /// The pod with its allocated resources.
    pub(super) fn allocated(&self, pod: &Arc<Pod>) -> Arc<Pod> {
        self.parts.allocation.allocated(pod)
    }

    /// The sizes of containers at their creation.
    pub(super) async fn sizes(&self) -> Arc<Sizes> {
        match &self.parts.pod_runtime {
            Some(pod_runtime) => pod_runtime.sizes().await,
            None => Arc::default(),
        }
    }

    /// Decides again about pending resizes, because something has changed on the node.
    pub(super) async fn retry_resizes(&mut self, trigger: Trigger) {
        if self.parts.allocation.has_requests() && self.intake.is_started() {
            let waiting = self.parts.allocation.waiting(|uid| {
                let is_postponed = self.intake.awaits_room(uid) || self.retries.waits(uid);
                self.intake.pod(uid).filter(|_| !is_postponed).cloned()
            });
            if !waiting.is_empty() {
                self.decide_resizes(waiting, trigger).await;
            }
        }
        self.parts.allocation.save();
    }

    async fn decide_resizes(&mut self, waiting: Vec<(PodUid, Arc<Pod>)>, trigger: Trigger) {
        self.update_node();
        let mut there = self.occupancy();
        for (uid, desired) in waiting {
            let (guard, name) = (self.parts.panics.clone(), view::pod_name(&desired));
            let of = PanicSubject::Pod(&uid, Some(&name));
            let work = async {
                let decided =
                    self.parts.allocation.decide_resize(&uid, &desired, &mut there, trigger);
                self.resize_decided(&uid, decided).await
            };
            if let Ok(commands) = guard.catch_async(PanicStep::SyncLoop, of, work).await {
                self.execute_all(commands).await;
            } else {
                self.panicked(&uid, LoopStep::Resize);
                // The resources of the pod may not be counted yet.
                there = self.occupancy();
            }
        }
    }

    async fn resize_decided(&mut self, uid: &PodUid, decided: DecidedResize) -> Vec<IntakeCommand> {
        let DecidedResize { allocated, preempt, publish } = decided;
        if publish {
            self.parts.workers.update(uid.clone(), Update::Update(allocated)).await;
        }
        let preempts = preempt.map(|plan| IntakeEvent::Preempts(uid.clone(), plan));
        preempts.map(|event| self.decide(event)).unwrap_or_default()
    }

    /// Workers have completed resizes, or the checkpoint was written: granted resizes that are saved take effect.
    pub(super) async fn allocation_event(&mut self, event: AllocationEvent) {
        match event {
            AllocationEvent::ResizesCompleted => self.retry_resizes(Trigger::PodResized).await,
            AllocationEvent::Checkpoint(written) => {
                let grants = self.parts.allocation.finish(written);
                let are_any = !grants.is_empty();
                for grant in grants {
                    self.step(&grant.uid.clone(), LoopStep::Granted(grant)).await;
                }
                if are_any {
                    self.retry_resizes(Trigger::PodUpdated).await;
                }
            }
        }
    }

    pub(super) async fn granted(&mut self, grant: Grant) {
        let Some(desired) = self.intake.pod(&grant.uid).cloned() else { return };
        let allocated = self.parts.allocation.actuate(&grant, &desired);
        self.parts.workers.update(grant.uid, Update::Update(allocated)).await;
    }
}
