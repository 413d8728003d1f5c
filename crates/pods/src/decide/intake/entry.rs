//! One pod of the intake.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use model::ids::PodName;
use podspec::view;

/// The state of a pod in its sources.
#[derive(Debug, Clone, PartialEq)]
pub enum Listing {
    /// A source lists the UID, and its object cannot be decoded: it is not run, and not an orphan.
    Undecodable,
    /// A source lists the pod.
    Pod(Arc<Pod>),
}

/// The step that a pod has reached.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum IntakeState {
    /// Nothing yet.
    #[default]
    New,
    /// Admission is not decided.
    AwaitingAdmission {
        /// Its place among those that arrived.
        arrival: u64,
        /// Whether the Node object was fetched for it: the next decision is final.
        node_refreshed: bool,
    },
    /// Only node labels prevent its admission; the Node object is being fetched.
    AwaitingNodeRefresh,
    /// Admitted, and has no worker: its victims are terminating, a running pod has its name, its directory is being
    /// removed, or a newer version runs than the stored copy of its manifest has.
    Admitted {
        /// Whether it uses resources of the node; false if it had finished.
        occupies: bool,
    },
    /// Has a worker.
    Working {
        /// Whether it uses resources of the node; false if it had finished when it was admitted.
        occupies: bool,
    },
    /// Has a worker that terminates it for a critical pod; its resources no longer count.
    Preempted,
    /// Not desired, or its earlier life is not; has a worker that terminates it.
    Terminating {
        /// Whether a source lists it again, and its worker starts over afterwards.
        restart: bool,
    },
    /// Must not run.
    Rejected {
        /// Whether a worker terminates the pod's earlier version, or remaining objects of it.
        worker: bool,
    },
    /// Removed before it was known whether it runs: the last version, so that it terminates with its own grace
    /// period.
    RemovedBeforeFirstList(Arc<Pod>),
}

impl IntakeState {
    /// Whether the pod has a worker.
    pub fn has_worker(&self) -> bool {
        match self {
            Self::Working { .. }
            | Self::Preempted
            | Self::Terminating { .. }
            | Self::Rejected { worker: true } => true,
            Self::New
            | Self::AwaitingAdmission { .. }
            | Self::AwaitingNodeRefresh
            | Self::Admitted { .. }
            | Self::Rejected { worker: false }
            | Self::RemovedBeforeFirstList(_) => false,
        }
    }

    pub(super) fn awaits_admission(&self) -> bool {
        matches!(self, Self::AwaitingAdmission { .. })
    }

    pub(super) fn is_admitted(&self) -> bool {
        matches!(self, Self::Admitted { .. } | Self::Working { .. })
    }

    pub(super) fn is_rejected(&self) -> bool {
        matches!(self, Self::Rejected { .. })
    }

    pub(super) fn occupies(&self) -> bool {
        matches!(self, Self::Admitted { occupies: true } | Self::Working { occupies: true })
    }
}

/// Which rules a version of a pod follows when it is rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Origin {
    /// Its manifest can be corrected.
    Static,
    /// It has failed in its cluster, and stays so.
    Api,
    /// It is being deleted, and must be terminated even if it was rejected.
    Deleting,
}

impl Origin {
    pub(super) fn of(pod: &Pod) -> Self {
        if view::is_being_deleted(pod) {
            Self::Deleting
        } else if view::is_static(pod) {
            Self::Static
        } else {
            Self::Api
        }
    }
}

/// A pod that a source lists, or about which something was done.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Entry {
    pub(super) listing: Option<Listing>,
    pub(super) state: IntakeState,
    /// Whether victims are terminating for it: for its admission, or for a resize.
    pub(super) awaits_room: bool,
}

impl Entry {
    pub(super) fn pod(&self) -> Option<&Arc<Pod>> {
        match &self.listing {
            Some(Listing::Pod(pod)) => Some(pod),
            Some(Listing::Undecodable) | None => None,
        }
    }

    /// The name of the pod, if no other pod may run under this name.
    pub(super) fn static_name(&self) -> Option<PodName> {
        self.pod().filter(|pod| view::is_static(pod)).map(|pod| view::pod_name(pod))
    }

    /// Whether it should run.
    pub(super) fn is_desired(&self) -> bool {
        self.pod().is_some() && !self.state.is_rejected()
    }

    /// Whether nothing of it should run, and no worker terminates it.
    pub(super) fn is_unwanted(&self) -> bool {
        !self.is_desired() && self.listing != Some(Listing::Undecodable) && !self.state.has_worker()
    }

    pub(super) fn is_awaiting_start(&self) -> bool {
        matches!(self.state, IntakeState::Admitted { .. })
    }

    pub(super) fn is_unused(&self) -> bool {
        self.listing.is_none() && self.state == IntakeState::New
    }
}
