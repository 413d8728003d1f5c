//! The resource state of one pod.
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
use model::observed::RuntimePodStatus;
use podspec::{Allocation, SavedAllocation, Sizes, reported_resize};

use super::resize::RefusedResize;
use super::restored::still_has;

/// The resource state of one pod. Requests and actuations are boxed: few pods are resized.
#[derive(Debug, Default)]
pub struct PodAllocation {
    /// Set from its admission on.
    pub admitted: Option<Admitted>,
    /// Its entry in the checkpoint.
    pub saved: Option<SavedAllocation>,
    /// A pending resize: the pod requests other resources than it is allocated.
    pub request: Option<Box<ResizeRequest>>,
    /// A resize in progress: the pod does not yet have what it is allocated. An earlier request may still be actuated
    /// when the next one arrives.
    pub actuation: Option<Box<Actuation>>,
}

/// A pod that was admitted.
#[derive(Debug)]
pub struct Admitted {
    /// The pod as its source lists it.
    pub desired: Arc<Pod>,
    /// With the resources that it is allocated; the same pod if it requests just that.
    pub allocated: Arc<Pod>,
}

/// A request for other resources.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ResizeRequest {
    /// Its stage.
    pub stage: ResizeStage,
    /// The last refusal, perhaps of an earlier request.
    pub refusal: Option<Refusal>,
}

/// The stage of a resize request.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum ResizeStage {
    /// New, or deferred: decided at the next trigger.
    #[default]
    Waiting,
    /// Infeasible: decided again when the pod requests something else.
    Infeasible,
    /// Its victims are terminating. The requested resources are reserved.
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
    pub refused: RefusedResize,
}

/// A resize that is being actuated.
#[derive(Debug, PartialEq, Eq)]
pub struct Actuation {
    /// The new allocation; `None` if an earlier agent allocated it.
    pub to: Option<Allocation>,
    /// What the pod had before, and may still have.
    pub before: Allocation,
    /// The last error.
    pub error: Option<Arc<str>>,
    /// Whether it may have been complete before this agent started.
    pub unconfirmed: bool,
}

/// The observed state of a pod that an earlier agent may have been resizing.
#[derive(Debug, Clone, Copy)]
pub struct ObservedResize<'a> {
    /// The pod in the runtime.
    pub observed: Option<&'a RuntimePodStatus>,
    /// Resources applied to containers since their creation.
    pub sizes: &'a Sizes,
    /// The time now.
    pub now: Timestamp,
}

impl ResizeRequest {
    /// Whether it is decided at the next trigger.
    pub fn is_open(&self) -> bool {
        matches!(self.stage, ResizeStage::Waiting | ResizeStage::Reserved(_))
    }

    /// Whether the request is granted, and takes effect once it is in the checkpoint.
    pub fn is_granted(&self) -> bool {
        matches!(self.stage, ResizeStage::Granted(_) | ResizeStage::Saving(..))
    }

    /// The resources that are reserved for the request.
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
    /// Whether there is no state.
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

    /// A version of the pod with its allocated resources: the pod itself, if it requests exactly those.
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
        let RefusedResize { infeasible, message, .. } =
            &self.request.as_ref()?.refusal.as_ref()?.refused;
        Some(PendingResize { infeasible: *infeasible, message: message.clone() })
    }

    /// The previous resources that the pod may still have.
    pub fn before(&self) -> Option<&Allocation> {
        self.saved.as_ref()?.before.as_deref()
    }

    /// Admits the pod with these resources. Returns whether the checkpoint differs.
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

    /// Updates the pod. Returns it with the allocated resources.
    pub fn update(&mut self, desired: &Arc<Pod>) -> Arc<Pod> {
        let (desired, allocated) = (Arc::clone(desired), self.allocated(desired));
        self.admitted = Some(Admitted { desired, allocated: Arc::clone(&allocated) });
        allocated
    }

    /// Records the resources that this version of the pod requests.
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

    /// Resumes a resize of an earlier agent: the resources that the pod may still have count until it has fewer, and
    /// the published state is not reported again.
    pub fn resume(&mut self, desired: &Arc<Pod>, allocated: &Pod, found: &ObservedResize<'_>) {
        let ObservedResize { observed, sizes, now } = *found;
        let reported = reported_resize(desired.status.as_ref());
        let allocation = Allocation::of(allocated);
        let had = still_has(&allocation, self.before(), observed, sizes);
        let is_certain = reported.in_progress || had.containers != allocation.containers;
        // It is unknown whether the cgroup was changed.
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
            let refused = RefusedResize { wanted: Allocation::of(desired), infeasible, message };
            request.refusal = Some(Refusal { since: now, refused });
        }
    }

    /// The pod with the resources that it uses: the maximum of the allocated, the previous and the reserved
    /// resources.
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

    /// Records that the victims of a resize have terminated.
    pub fn room_made(&mut self) {
        if let Some(ResizeRequest { stage, .. }) = self.request.as_deref_mut()
            && let ResizeStage::AwaitingRoom(reserved) = stage
        {
            *stage = ResizeStage::Reserved(std::mem::take(reserved));
        }
    }

    /// Called before the checkpoint is written. Returns the entry of a granted resize.
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

    /// Called after the checkpoint was written, or failed to be. Returns the pod of a granted resize that is
    /// saved, and its previous version.
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

    /// Starts the actuation of a saved resize. Returns the pod with its allocated resources; it may
    /// request other ones meanwhile.
    pub fn actuate(&mut self, granted: &Pod, before: &Pod, desired: &Arc<Pod>) -> Arc<Pod> {
        self.begin_actuation(granted, before);
        let allocated = self.update(desired);
        self.request = None;
        self.request(desired);
        allocated
    }

    /// Starts the actuation of a resize. Resources that the pod may still have from an earlier resize continue
    /// to count.
    pub fn begin_actuation(&mut self, granted: &Pod, before: &Pod) {
        let mut before = Allocation::of(before);
        if let Some(earlier) = self.actuation.take() {
            before = before.max(&earlier.before);
        }
        let to = Some(Allocation::of(granted));
        let actuation = Actuation { to, before, error: None, unconfirmed: false };
        self.actuation = Some(Box::new(actuation));
    }

    /// Processes a worker's observation whether this version of the pod lacks allocated resources. Returns the
    /// completed actuation.
    pub fn observe(&mut self, pod: &Pod, lacks: bool) -> Option<Box<Actuation>> {
        if lacks {
            // An earlier agent may have started it.
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
        // The worker's job may still be based on the previous version of the pod.
        let is_meant = |one: &mut Box<Actuation>| one.to.as_ref().is_none_or(|to| to.is_of(pod));
        let complete = self.actuation.take_if(is_meant)?;
        self.settle();
        Some(complete)
    }

    /// Records that the pod has what it is allocated. The checkpoint gets that with its next change.
    pub fn settle(&mut self) {
        if let Some(saved) = &mut self.saved {
            saved.before = None;
        }
    }
}
