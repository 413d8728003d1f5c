//! The allocation manager of the sync loop.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use model::admission::{PendingResize, Preemption};
use model::ids::PodUid;
use model::observed::RuntimePodStatus;
use model::ports::clock::WallClock;
use model::ports::events::EventType::{Normal, Warning};
use model::ports::events::{EventType, Events, PodEvent};
use model::ports::files::{FileError, HostFiles};
use podspec::{Sizes, view};
use tracing::debug;

use crate::admission_metrics::AdmissionMetrics;
use crate::checkpoint_file::{CheckpointFile, CheckpointWrite, Record};
use crate::decide::admission::Occupancy;
use crate::decide::next_resize::{NextResize, RefusalEvent, next_resize};
use crate::decide::pod_allocation::{ObservedResize, PodAllocation};
use crate::decide::resize::{Waiting, requested, resize, turn, undeclared_for_change};
use crate::decide::{AdmissionChain, AdmissionDecision, Arrival, decide_arrival, restored};
use crate::resize_message::resize_message;
use crate::resize_metrics::Trigger;
use crate::resizes::Resizes;

/// The event of a change that needs a feature which the node does not declare.
const UNDECLARED: &str = "FailedNodeDeclaredFeaturesCheck";

/// Dependencies of the manager.
#[derive(Debug)]
pub struct AllocationParts {
    /// The rules of admission, and the node.
    pub chain: AdmissionChain,
    /// The table that it shares with workers.
    pub resizes: Arc<Resizes>,
    /// Counts rejections and preemptions.
    pub metrics: AdmissionMetrics,
    /// Records events of resizes.
    pub events: Arc<dyn Events>,
    /// The wall clock.
    pub clock: Arc<dyn WallClock>,
    /// Access to the checkpoint.
    pub files: Arc<dyn HostFiles>,
}

/// Admits pods and grants resizes. Owned by the sync loop.
#[derive(Debug)]
pub struct AllocationManager {
    /// The rules of admission, and the node.
    pub chain: AdmissionChain,
    /// Counts rejections and preemptions.
    pub metrics: AdmissionMetrics,
    resizes: Arc<Resizes>,
    events: Arc<dyn Events>,
    clock: Arc<dyn WallClock>,
    file: CheckpointFile,
}

/// Something that the sync loop handles.
#[derive(Debug)]
pub enum AllocationEvent {
    /// Workers have completed resizes, which may have freed resources.
    ResizesCompleted,
    /// A write of the checkpoint has ended, or is due.
    Checkpoint(CheckpointWrite),
}

/// A granted resize that is saved.
#[derive(Debug, Clone)]
pub struct Grant {
    /// The pod.
    pub uid: PodUid,
    /// The new version.
    pub pod: Arc<Pod>,
    /// The previous version.
    pub before: Arc<Pod>,
}

/// A decision about a resize that the sync loop carries out.
#[derive(Debug)]
pub struct DecidedResize {
    /// The pod with its allocated resources.
    pub allocated: Arc<Pod>,
    /// The pods that are terminated for it.
    pub preempt: Option<Preemption>,
    /// Whether the status of the pod changes.
    pub publish: bool,
}

impl AllocationManager {
    /// Creates a manager without pods; the checkpoint is in this directory.
    pub fn new(parts: AllocationParts, state: &Path) -> Self {
        let AllocationParts { chain, resizes, metrics, events, clock, files } = parts;
        let file = CheckpointFile::new(files, state);
        Self { chain, metrics, resizes, events, clock, file }
    }

    /// Why a pod is not allocated what it requests.
    pub fn pending_resize(&self, uid: &PodUid) -> Option<Arc<PendingResize>> {
        self.resizes.pending(uid)
    }

    /// Loads the allocations of an earlier agent.
    pub async fn load(&mut self) -> Result<(), FileError> {
        let saved = self.file.load().await?;
        self.resizes.write(|table| {
            for (uid, saved) in saved {
                table.change(&uid, |entry| entry.saved = Some(saved));
            }
        });
        Ok(())
    }

    /// A version of the pod with its allocated resources.
    pub fn allocated(&self, pod: &Arc<Pod>) -> Arc<Pod> {
        self.resizes.allocated(pod)
    }

    /// A pod for admission: with the resources that an earlier agent allocated.
    pub fn restored(
        &self,
        pod: &Arc<Pod>,
        observed: Option<&RuntimePodStatus>,
        sizes: &Sizes,
    ) -> Arc<Pod> {
        let saved = |entry: &PodAllocation| Some(entry.saved.as_ref()?.allocated.clone());
        let saved = self.resizes.entry(&view::uid(pod), saved).flatten();
        restored(pod, saved.as_ref(), observed, sizes).applied(pod)
    }

    /// A removed pod, with its last known resources.
    pub fn last_known(
        &self,
        pod: &Arc<Pod>,
        observed: Option<&RuntimePodStatus>,
        sizes: &Sizes,
    ) -> Arc<Pod> {
        let admitted =
            |entry: &PodAllocation| entry.admitted.is_some().then(|| entry.allocated(pod));
        let admitted = self.resizes.entry(&view::uid(pod), admitted).flatten();
        admitted.unwrap_or_else(|| self.restored(pod, observed, sizes))
    }

    /// The pod with the resources that it uses, by its allocated version.
    pub fn taken(&self, uid: &PodUid, allocated: Arc<Pod>) -> Arc<Pod> {
        let taken = self.resizes.entry(uid, |entry| entry.taken(Arc::clone(&allocated)));
        taken.unwrap_or(allocated)
    }

    /// Decides whether a pod is admitted in addition to the pods of the node.
    pub fn decide(&self, arrival: &Arrival, there: &Occupancy) -> AdmissionDecision {
        decide_arrival(&self.chain, arrival, there)
    }

    /// Admits a pod with these resources. An earlier agent may have been resizing it.
    pub fn admit(
        &mut self,
        desired: &Arc<Pod>,
        allocated: &Arc<Pod>,
        observed: Option<&RuntimePodStatus>,
        sizes: &Sizes,
    ) {
        let found = ObservedResize { observed, sizes, now: self.clock.now() };
        let is_new = self.resizes.change(&view::uid(desired), |entry| {
            let is_new = entry.admit(Arc::clone(desired), Arc::clone(allocated));
            entry.resume(desired, allocated, &found);
            is_new
        });
        if is_new {
            self.file.changed();
        }
    }

    /// Updates an admitted pod. Returns it with the allocated resources; its request is
    /// decided with the other requests.
    pub fn update(&mut self, desired: &Arc<Pod>) -> Arc<Pod> {
        let uid = view::uid(desired);
        let before = |entry: &PodAllocation| Some(Arc::clone(&entry.admitted.as_ref()?.desired));
        let before = self.resizes.entry(&uid, before).flatten();
        if let Some(before) = before.filter(|before| before.spec != desired.spec) {
            let requested = requested(&before, desired).into_iter();
            requested.for_each(|request| self.resizes.metrics.requested(request));
            if let Some(message) = undeclared_for_change(&before, desired, &self.chain.node) {
                self.record(desired, Warning, UNDECLARED, message);
            }
        }
        self.resizes.change(&uid, |entry| {
            let allocated = entry.update(desired);
            entry.request(desired);
            allocated
        })
    }

    /// Whether any pod requests resources that differ from its allocation.
    pub fn has_requests(&self) -> bool {
        self.resizes.read(|table| table.totals.requests > 0)
    }

    /// The pods with requests to decide, in their order. `find` returns the latest version of a pod from its
    /// source, unless its decision is postponed.
    pub fn waiting(&self, find: impl Fn(&PodUid) -> Option<Arc<Pod>>) -> Vec<(PodUid, Arc<Pod>)> {
        let mut found = self.resizes.read(|table| {
            let waiting = table.pods.iter().filter_map(|(uid, entry)| {
                let request = entry.request.as_ref().filter(|request| request.is_open())?;
                let desired = find(uid)?;
                let since = request.refusal.as_ref().map(|refusal| refusal.since);
                let allocated = entry.allocated(&desired);
                let turn = turn(&Waiting { desired: &desired, allocated: &allocated, since });
                Some((turn, uid.clone(), desired))
            });
            waiting.collect::<Vec<_>>()
        });
        found.sort_by(|(one, ..), (other, ..)| one.cmp(other));
        found.into_iter().map(|(_, uid, pod)| (uid, pod)).collect()
    }

    /// Decides about a resize request, given the pods of the node.
    pub fn decide_resize(
        &mut self,
        uid: &PodUid,
        desired: &Arc<Pod>,
        there: &mut Occupancy,
        trigger: Trigger,
    ) -> DecidedResize {
        let allocated = self.allocated(desired);
        // With the other pods, and without its own reservation.
        let counted = there.remove(uid).is_some();
        let decision =
            resize(desired, &allocated, &self.chain.node, || self.chain.decide(desired, there));
        debug!(pod = %view::pod_name(desired), %uid, ?decision, "Pod requests other resources");
        let now = self.clock.now();
        let next = self.resizes.change(uid, |entry| {
            let request = entry.request.take().map(|request| *request).unwrap_or_default();
            let mut next = next_resize(request, desired, decision, now);
            entry.request = next.request.take().map(Box::new);
            next
        });
        let NextResize { preempt, accepts_deferred, event, publish, save, request: _ } = next;
        if accepts_deferred {
            self.resizes.metrics.deferred_accepted(trigger);
        }
        if save {
            self.file.hurry();
        }
        if let Some(event) = event {
            self.report_refusal(desired, &event);
        }
        for victim in preempt.iter().flat_map(|plan| &plan.victims) {
            there.remove(victim);
        }
        if counted {
            there.add(self.taken(uid, Arc::clone(&allocated)));
        }
        DecidedResize { allocated, preempt, publish }
    }

    fn report_refusal(&self, desired: &Pod, event: &RefusalEvent) {
        let RefusalEvent { reason, message, infeasible } = event;
        if let Some(detail) = infeasible {
            self.resizes.metrics.infeasible(detail);
        }
        let of = if infeasible.is_some() { "ResizeInfeasible" } else { "ResizeDeferred" };
        self.record(desired, Warning, of, resize_message(reason, desired, Some(message)));
    }

    fn record(&self, pod: &Pod, kind: EventType, reason: &'static str, message: String) {
        let event = PodEvent::warning(view::uid(pod), view::pod_name(pod), reason, message);
        self.events.record(PodEvent { kind, ..event });
    }

    /// Records that the victims of a pod have terminated: a resize that waited for them is decided again.
    pub fn room_made(&mut self, uid: &PodUid) {
        self.resizes.change(uid, PodAllocation::room_made);
    }

    /// Decides all resizes again that waited for victims, because it is unknown which have terminated.
    pub fn rooms_lost(&mut self) {
        self.resizes.write(|table| table.pods.values_mut().for_each(PodAllocation::room_made));
    }

    /// Starts the actuation of a saved resize. Returns the pod with its allocated resources.
    pub fn actuate(&mut self, grant: &Grant, desired: &Arc<Pod>) -> Arc<Pod> {
        let Grant { uid, pod, before } = grant;
        let allocated = self.resizes.change(uid, |entry| entry.actuate(pod, before, desired));
        self.record(pod, Normal, "ResizeStarted", resize_message("started", pod, None));
        allocated
    }

    /// Drops a pod that is gone or was rejected.
    pub fn forget(&mut self, uid: &PodUid) {
        let Some(gone) = self.resizes.write(|table| table.remove(uid)) else { return };
        if gone.saved.is_some() || gone.is_saving() {
            self.file.removed();
        }
    }

    /// Removes all other pods from the checkpoint.
    pub fn keep_only(&mut self, pods: &BTreeSet<PodUid>) {
        let are_gone = self.resizes.write(|table| {
            let gone = table
                .pods
                .iter()
                .filter(|(uid, entry)| entry.saved.is_some() && !pods.contains(*uid));
            let gone: Vec<PodUid> = gone.map(|(uid, _)| uid.clone()).collect();
            for uid in &gone {
                table.change(uid, |entry| entry.saved = None);
            }
            !gone.is_empty()
        });
        if are_gone {
            self.file.removed();
        }
    }

    /// Starts to write all changes that are not in the checkpoint.
    pub fn tidy(&mut self) {
        self.file.tidy();
        self.save();
    }

    /// Writes changes of the checkpoint, immediately or after a short delay.
    pub fn save(&mut self) {
        let are_granted = self.resizes.read(|table| table.totals.granted > 0);
        if !self.file.is_due(are_granted) {
            return;
        }
        let record = self.resizes.write(|table| {
            let granted = table.pods.iter().filter(|(_, entry)| entry.is_granted());
            let granted: Vec<PodUid> = granted.map(|(uid, _)| uid.clone()).collect();
            let saved = table
                .pods
                .iter()
                .filter_map(|(uid, entry)| Some((uid.to_string(), entry.saved.clone()?)));
            let mut record: Record = saved.collect();
            for uid in granted {
                if let Some(saved) = table.change(&uid, PodAllocation::begin_saving) {
                    record.insert(uid.to_string(), saved);
                }
            }
            record
        });
        self.file.write(record);
    }

    /// Waits for the next event; never returns while there is none.
    pub async fn event(&mut self) -> AllocationEvent {
        let Self { resizes, file, .. } = self;
        // Biased: both come at most once for a change.
        tokio::select! {
            biased;
            () = resizes.completed() => AllocationEvent::ResizesCompleted,
            written = file.written() => AllocationEvent::Checkpoint(written),
        }
    }

    /// Handles the end of a write, or one that is due. Returns the granted resizes that are saved. Those that could not
    /// be saved are decided again.
    pub fn finish(&mut self, CheckpointWrite(written): CheckpointWrite) -> Vec<Grant> {
        let Some(written) = written else {
            self.file.hurry();
            self.save();
            return Vec::new();
        };
        let is_saved = written.is_ok();
        let grants = self.resizes.write(|table| {
            let saving = table.pods.iter().filter(|(_, entry)| entry.is_saving());
            let saving: Vec<PodUid> = saving.map(|(uid, _)| uid.clone()).collect();
            let ended = saving.into_iter().filter_map(|uid| {
                let (pod, before) = table.change(&uid, |entry| entry.end_saving(is_saved))?;
                Some(Grant { uid, pod, before })
            });
            ended.collect()
        });
        match written {
            Ok(()) => self.save(),
            Err(error) => self.file.failed(&error),
        }
        grants
    }

    /// Waits for the write in progress, and writes the rest, because the agent stops.
    pub async fn flush(&mut self) {
        self.tidy();
        while self.file.is_writing() {
            let written = self.file.written().await;
            let failed = matches!(written, CheckpointWrite(Some(Err(_))));
            self.finish(written);
            if failed {
                return;
            }
            self.tidy();
        }
    }
}

#[cfg(test)]
#[path = "manager_tests.rs"]
mod tests;
