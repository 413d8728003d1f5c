//! The inputs and outputs of the intake.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use model::admission::{Preemption, Rejection};
use model::ids::{PodName, PodUid};

/// What the checks that need no node state found about a static pod. Pods of the API pass both.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PodChecks {
    /// Why it must not start.
    pub on_arrival: Option<Rejection>,
    /// Why it must not replace its running version.
    pub on_update: Option<Rejection>,
}

/// The outcome of admission, except preemption.
#[derive(Debug, Clone, PartialEq)]
pub enum AdmissionDecision {
    /// It may run.
    Admit {
        /// Whether it uses resources of the node: it has not finished.
        occupies: bool,
    },
    /// It must not run.
    Reject {
        /// With its allocated resources.
        pod: Arc<Pod>,
        /// Why.
        rejection: Rejection,
    },
    /// Only node labels prevent the admission, and they may have changed.
    RefreshNode,
}

/// Victims that had their time to terminate for a critical pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Room {
    /// The critical pod.
    pub uid: PodUid,
    /// The victims.
    pub victims: Vec<PodUid>,
}

/// An input of the intake.
#[derive(Debug, Clone, PartialEq)]
pub enum IntakeEvent {
    /// All sources together list these pods. [`Self::PodRemoved`] and [`Self::PodChanged`] follow for the
    /// differences.
    Sources {
        /// The pods.
        pods: BTreeMap<PodUid, Arc<Pod>>,
        /// Pods whose objects cannot be decoded.
        undecodable: BTreeSet<PodUid>,
        /// Whether every source has listed its pods.
        all_ready: bool,
    },
    /// The runtime was listed for the first time.
    Relisted,
    /// A source added or updated a pod.
    PodChanged {
        /// The pod.
        uid: PodUid,
        /// The problem.
        checks: PodChecks,
    },
    /// A source removed a pod.
    PodRemoved {
        /// The pod.
        uid: PodUid,
        /// Its last version, with its allocated resources.
        pod: Arc<Pod>,
    },
    /// Admission of a pod was decided.
    Decided(PodUid, AdmissionDecision),
    /// A pod is admitted, or resized, after others have terminated.
    Preempts(PodUid, Preemption),
    /// The Node object was fetched for these pods, or for all if the task was lost.
    NodeRefreshed(Option<BTreeSet<PodUid>>),
    /// The victims of a pod have terminated or took too long; `None` if the wait was lost.
    RoomMade(Option<Room>),
    /// The containers or sandboxes of a pod changed.
    RuntimeChanged {
        /// The pod.
        uid: PodUid,
        /// Whether its worker should sync it.
        needs_sync: bool,
    },
    /// The worker of a pod has finished and was dropped.
    WorkerForgotten {
        /// The pod.
        uid: PodUid,
        /// The problem, if a source lists it.
        checks: PodChecks,
    },
    /// All pods are compared with the runtime.
    Reconcile,
}

impl IntakeEvent {
    /// The pod it is about, if it changes only that one.
    pub fn uid(&self) -> Option<&PodUid> {
        match self {
            Self::PodChanged { uid, .. }
            | Self::PodRemoved { uid, .. }
            | Self::Decided(uid, _)
            | Self::RuntimeChanged { uid, .. }
            | Self::WorkerForgotten { uid, .. } => Some(uid),
            Self::Sources { .. }
            | Self::Relisted
            | Self::Preempts(..)
            | Self::NodeRefreshed(_)
            | Self::RoomMade(_)
            | Self::Reconcile => None,
        }
    }
}

/// An effect for one pod.
#[derive(Debug, Clone, PartialEq)]
pub enum IntakeCommand {
    /// Publish the pod as one of the node's.
    Show(PodUid),
    /// Drop its status and its allocated resources.
    Forget(PodUid),
    /// Publish the rejection, and drop the allocated resources.
    Reject {
        /// The pod.
        uid: PodUid,
        /// The text that is published.
        pod: Arc<Pod>,
        /// Why.
        rejection: Rejection,
        /// Whether a worker must terminate its earlier version.
        terminate: bool,
    },
    /// Create its worker.
    CreateWorker(PodUid),
    /// Let its worker, which terminates the earlier version, start over afterwards.
    RestartWorker(PodUid),
    /// Send the new version to its worker.
    UpdateWorker(PodUid),
    /// Let its worker sync it.
    SyncWorker(PodUid),
    /// Publish that it terminates, drop the allocated resources, and let its worker terminate it.
    Terminate {
        /// The pod.
        uid: PodUid,
        /// Its last version, with its allocated resources.
        pod: Arc<Pod>,
    },
    /// Create a worker that terminates a running pod which is not desired.
    TerminateOrphan {
        /// The pod.
        uid: PodUid,
        /// Its name in the runtime.
        name: PodName,
        /// Its last version, if a source of this agent had one.
        spec: Option<Arc<Pod>>,
    },
    /// Terminate the victims for this pod.
    Preempt {
        /// The critical pod.
        uid: PodUid,
        /// The victims.
        plan: Preemption,
    },
    /// Allocate resources for a pod that had finished and lives again.
    Readmit(PodUid),
    /// Remove the directory of a pod that is gone, and notify garbage collection.
    CleanUp(PodUid),
}

impl IntakeCommand {
    /// The pod it is for.
    pub fn uid(&self) -> &PodUid {
        match self {
            Self::Show(uid)
            | Self::Forget(uid)
            | Self::Reject { uid, .. }
            | Self::CreateWorker(uid)
            | Self::RestartWorker(uid)
            | Self::UpdateWorker(uid)
            | Self::SyncWorker(uid)
            | Self::Terminate { uid, .. }
            | Self::TerminateOrphan { uid, .. }
            | Self::Preempt { uid, .. }
            | Self::Readmit(uid)
            | Self::CleanUp(uid) => uid,
        }
    }
}
