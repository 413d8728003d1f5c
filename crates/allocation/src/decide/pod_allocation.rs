//! All that is known of the resources of one pod.
//!
//! ```text
//!  admitted ──> request ──┬─> granted ──> saving ──> actuation ──> the pod has what it was allocated
//!     ^          ^        ├─> awaiting room ──┐
//!     │          └────────┴─> deferred ───────┘
//!  saved by an earlier agent
//! ```

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use model::admission::PendingResize;
use model::observed::PodStatus;
use podspec::{Allocation, Sizes, reported_resize};
use serde::{Deserialize, Serialize};

use super::remembered::still_has;
use super::resize::Refused;

/// The resources of one pod. Requests and actuations are boxed: hardly any pod is resized.
#[derive(Debug, Default)]
pub struct PodAllocation {
    /// Set from its admission on.
    pub admitted: Option<Admitted>,
    /// Its entry in the checkpoint.
    pub saved: Option<SavedAllocation>,
    /// It requests other resources than it is allocated.
    pub request: Option<Box<ResizeRequest>>,
    /// It does not yet have what it is allocated. An earlier request may still be actuated when the next one
    /// arrives.
    pub actuation: Option<Box<Actuation>>,
}

/// A pod that was admitted.
#[derive(Debug)]
pub struct Admitted {
    /// As its source has it.
    pub desired: Arc<Pod>,
    /// With the resources that it is allocated; the same pod if it requests just that.
    pub allocated: Arc<Pod>,
}

/// The entry of a pod in the checkpoint.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedAllocation {
    /// What it is allocated.
    #[serde(flatten)]
    pub allocated: Allocation,
    /// What it may still have, if its resize was not complete when this was written. Boxed: hardly any pod is
    /// resized, and all are saved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<Box<Allocation>>,
}

/// A request for other resources.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ResizeRequest {
    /// How far it is.
    pub stage: ResizeStage,
    /// The last refusal; perhaps of an earlier request.
    pub refusal: Option<Refusal>,
}

/// How far a resize request is.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum ResizeStage {
    /// New, or deferred: decided at the next trigger.
    #[default]
    Waiting,
    /// Decided again when the pod requests something else.
    Infeasible,
    /// Its victims are terminating. No other pod gets what is reserved.
    AwaitingRoom(Allocation),
    /// Its victims have terminated, or the checkpoint could not be written: decided at the next trigger, and
    /// reserved until then.
    Reserved(Allocation),
    /// The next write of the checkpoint includes it.
    Granted(Arc<Pod>),
    /// The checkpoint is being written with this entry.
    Saving(Arc<Pod>, SavedAllocation),
}

/// A refusal of a resize.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// When the pod was first refused what it requests.
    pub since: Timestamp,
    /// The request, and the reason.
    pub refused: Refused,
}

/// A resize that is being actuated.
#[derive(Debug, PartialEq, Eq)]
pub struct Actuation {
    /// The new allocation; none if an earlier agent allocated it.
    pub to: Option<Allocation>,
    /// What the pod had before, and may still have.
    pub before: Allocation,
    /// The last error.
    pub error: Option<Arc<str>>,
    /// Whether it may have been complete before this agent started.
    pub unconfirmed: bool,
}

/// What this agent found of a pod that an earlier agent may have been resizing.
#[derive(Debug, Clone, Copy)]
pub struct Found<'a> {
    /// The pod in the runtime.
    pub observed: Option<&'a PodStatus>,
    /// What containers were given since they were created.
    pub sizes: &'a Sizes,
    /// The time now.
    pub now: Timestamp,
}

impl ResizeRequest {
    /// Whether it is decided at the next trigger.
    pub fn is_open(&self) -> bool {
        matches!(self.stage, ResizeStage::Waiting | ResizeStage::Reserved(_))
    }

    /// Whether the pod gets what it requested once that is in the checkpoint.
    pub fn is_granted(&self) -> bool {
        matches!(self.stage, ResizeStage::Granted(_) | ResizeStage::Saving(..))
    }

    /// What no other pod gets.
    fn reserved(&self) -> Option<Allocation> {
        match &self.stage {
            ResizeStage::Waiting | ResizeStage::Infeasible => None,
            ResizeStage::AwaitingRoom(reserved) | ResizeStage::Reserved(reserved) => {
                Some(reserved.clone())
            }
            ResizeStage::Granted(pod) | ResizeStage::Saving(pod, _) => Some(Allocation::of(pod)),
        }
    }
}

impl PodAllocation {
    /// Whether nothing is known.
    pub fn is_empty(&self) -> bool {
        let Self { admitted, saved, request, actuation } = self;
        admitted.is_none() && saved.is_none() && request.is_none() && actuation.is_none()
    }

    /// Whether a granted resize waits for the checkpoint.
    pub fn is_granted(&self) -> bool {
        self.request.as_ref().is_some_and(|request| request.is_granted())
    }

    /// Whether the checkpoint is being written with a granted resize.
    pub fn is_saving(&self) -> bool {
        let stage = self.request.as_ref().map(|request| &request.stage);
        matches!(stage, Some(ResizeStage::Saving(..)))
    }

    /// A version of the pod with its allocated resources: the pod itself, as long as it requests just that.
    pub fn allocated(&self, pod: &Arc<Pod>) -> Arc<Pod> {
        match &self.admitted {
            Some(admitted) if Arc::ptr_eq(&admitted.desired, pod) => {
                Arc::clone(&admitted.allocated)
            }
            Some(admitted) => Allocation::of(&admitted.allocated).applied(pod),
            None => Arc::clone(pod),
        }
    }

    /// Why the pod is not allocated what it requests.
    pub fn pending(&self) -> Option<PendingResize> {
        let Refused { infeasible, message, .. } = &self.request.as_ref()?.refusal.as_ref()?.refused;
        Some(PendingResize { infeasible: *infeasible, message: message.clone() })
    }

    /// What the pod may still have beside what it is allocated.
    pub fn before(&self) -> Option<&Allocation> {
        self.saved.as_ref()?.before.as_deref()
    }

    /// The pod is admitted with these resources. Returns whether the checkpoint has something else.
    pub fn admit(&mut self, desired: Arc<Pod>, allocated: Arc<Pod>) -> bool {
        let allocation = Allocation::of(&allocated);
        let is_saved = self.saved.as_ref().is_some_and(|saved| saved.allocated == allocation);
        match &mut self.saved {
            Some(saved) => saved.allocated = allocation,
            None => self.saved = Some(SavedAllocation { allocated: allocation, before: None }),
        }
        self.admitted = Some(Admitted { desired, allocated });
        !is_saved
    }

    /// The source has another version of the pod. Returns that with the allocated resources.
    pub fn update(&mut self, desired: &Arc<Pod>) -> Arc<Pod> {
        let (desired, allocated) = (Arc::clone(desired), self.allocated(desired));
        self.admitted = Some(Admitted { desired, allocated: Arc::clone(&allocated) });
        allocated
    }

    /// The pod requests the resources of this version.
    pub fn request(&mut self, desired: &Arc<Pod>) {
        let is_same = Arc::ptr_eq(&self.allocated(desired), desired);
        if is_same && !self.is_granted() {
            self.request = None;
            return;
        }
        let request = self.request.get_or_insert_default();
        let is_refused = request
            .refusal
            .as_ref()
            .is_some_and(|refusal| refusal.refused.wanted == Allocation::of(desired));
        if request.stage == ResizeStage::Infeasible && !is_refused {
            request.stage = ResizeStage::Waiting;
        }
    }

    /// Takes up a resize of an earlier agent: what the pod may still have counts until it has less, and what
    /// its status reports is not reported again.
    pub fn resume(&mut self, desired: &Arc<Pod>, allocated: &Pod, found: &Found<'_>) {
        let Found { observed, sizes, now } = *found;
        let reported = reported_resize(desired.status.as_ref());
        let allocation = Allocation::of(allocated);
        let had = still_has(&allocation, self.before(), observed, sizes);
        let is_certain = reported.in_progress || had.containers != allocation.containers;
        // Whether the cgroup was changed is unknown.
        let runs = observed.is_some_and(|observed| observed.running().next().is_some());
        let is_possible = runs && self.before().is_some_and(|before| *before != allocation);
        if is_certain || is_possible || had != allocation {
            self.actuation = Some(Box::new(Actuation {
                to: Some(allocation),
                before: had,
                error: reported.error.map(Into::into),
                unconfirmed: !is_certain,
            }));
        }
        self.request(desired);
        let Some((PendingResize { infeasible, message }, generation)) = reported.pending else {
            return;
        };
        let is_current = generation == desired.metadata.generation.filter(|number| *number != 0);
        if let Some(request) = self.request.as_mut().filter(|_| is_current) {
            let refused = Refused { wanted: Allocation::of(desired), infeasible, message };
            request.refusal = Some(Refusal { since: now, refused });
        }
    }

    /// What the pod takes of the node: as long as it may still have more than it is allocated, that; and what is
    /// reserved for it.
    pub fn taken(&self, allocated: Arc<Pod>) -> Arc<Pod> {
        let before = self.actuation.as_ref().map(|actuation| actuation.before.clone());
        let reserved = self.request.as_ref().and_then(|request| request.reserved());
        if before.is_none() && reserved.is_none() {
            return allocated;
        }
        let own = Allocation::of(&allocated);
        let more = before.into_iter().chain(reserved);
        more.fold(own, |most, more| most.max(&more)).applied(&allocated)
    }

    /// The victims of a resize have terminated.
    pub fn room_made(&mut self) {
        if let Some(ResizeRequest { stage, .. }) = self.request.as_deref_mut()
            && let ResizeStage::AwaitingRoom(reserved) = stage
        {
            *stage = ResizeStage::Reserved(std::mem::take(reserved));
        }
    }

    /// The checkpoint is about to be written. Returns the entry of a granted resize.
    pub fn begin_saving(&mut self) -> Option<SavedAllocation> {
        let ResizeStage::Granted(pod) = &self.request.as_ref()?.stage else { return None };
        let pod = Arc::clone(pod);
        let had = self.admitted.as_ref().map(|admitted| Allocation::of(&admitted.allocated));
        let before = match (had, self.before()) {
            (Some(had), Some(earlier)) => Some(had.max(earlier)),
            (had, earlier) => had.or_else(|| earlier.cloned()),
        };
        let saved =
            SavedAllocation { allocated: Allocation::of(&pod), before: before.map(Box::new) };
        self.request.as_mut()?.stage = ResizeStage::Saving(pod, saved.clone());
        Some(saved)
    }

    /// The checkpoint was written, or could not be. Returns the pod of a granted resize that is saved, and the
    /// pod as it was before.
    pub fn end_saving(&mut self, is_saved: bool) -> Option<(Arc<Pod>, Arc<Pod>)> {
        let stage = &mut self.request.as_mut()?.stage;
        let ResizeStage::Saving(pod, saved) = stage else { return None };
        let (pod, saved) = (Arc::clone(pod), saved.clone());
        *stage = ResizeStage::Reserved(Allocation::of(&pod));
        if !is_saved {
            return None;
        }
        self.saved = Some(saved);
        let now = Admitted { desired: Arc::clone(&pod), allocated: Arc::clone(&pod) };
        let before = self.admitted.replace(now);
        let before = before.map_or_else(|| Arc::clone(&pod), |before| before.allocated);
        Some((pod, before))
    }

    /// A granted resize is saved, and its actuation begins. Returns the pod with its allocated resources; it may
    /// request something else by now.
    pub fn actuate(&mut self, granted: &Pod, before: &Pod, desired: &Arc<Pod>) -> Arc<Pod> {
        self.begin_actuation(granted, before);
        let allocated = self.update(desired);
        self.request = None;
        self.request(desired);
        allocated
    }

    /// The actuation of a resize begins. What the pod may have of an earlier one counts on.
    pub fn begin_actuation(&mut self, granted: &Pod, before: &Pod) {
        let mut before = Allocation::of(before);
        if let Some(earlier) = self.actuation.take() {
            before = before.max(&earlier.before);
        }
        let to = Some(Allocation::of(granted));
        let actuation = Actuation { to, before, error: None, unconfirmed: false };
        self.actuation = Some(Box::new(actuation));
    }

    /// A worker observed whether this version of the pod lacks something of what it is allocated. Returns the
    /// actuation that is complete.
    pub fn observe(&mut self, pod: &Pod, lacks: bool) -> Option<Box<Actuation>> {
        if lacks {
            // An earlier agent may have begun it.
            let unknown = || Actuation {
                to: None,
                before: Allocation::default(),
                error: None,
                unconfirmed: false,
            };
            let actuation = self.actuation.get_or_insert_with(|| Box::new(unknown()));
            actuation.unconfirmed = false;
            return None;
        }
        // The job of a worker may still be about the pod as it was before.
        let is_meant = |one: &mut Box<Actuation>| one.to.as_ref().is_none_or(|to| to.is_of(pod));
        let complete = self.actuation.take_if(is_meant)?;
        self.settle();
        Some(complete)
    }

    /// The pod has what it is allocated. The checkpoint says so with its next change.
    pub fn settle(&mut self) {
        if let Some(saved) = &mut self.saved {
            saved.before = None;
        }
    }
}
