//! What other parts read from the intake.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use model::ids::{PodName, PodUid};
use podspec::view;

use super::entry::{Entry, IntakeState, Listing};
use super::{Intake, OutdatedCopies};

/// A pod as garbage collection sees it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts")]
pub struct IndexEntry {
    /// Whether it belongs to the node: a source lists it, or it must not be terminated.
    pub listed: bool,
    /// Whether it may run for a limited time only, which counts from its first sandbox.
    pub has_deadline: bool,
    /// Whether nothing of it should run.
    pub rejected: bool,
    /// Whether it has a worker, or is about to get one.
    pub worker: bool,
}

impl Intake {
    /// The listed version of a pod.
    pub fn pod(&self, uid: &PodUid) -> Option<&Arc<Pod>> {
        self.pods.get(uid)?.pod()
    }

    /// The state of a pod.
    pub fn state(&self, uid: &PodUid) -> Option<&IntakeState> {
        self.pods.get(uid).map(|entry| &entry.state)
    }

    /// Whether a pod has a worker.
    pub fn has_worker(&self, uid: &PodUid) -> bool {
        self.pods.get(uid).is_some_and(|entry| entry.state.has_worker())
    }

    /// Whether a pod should run.
    pub fn is_desired(&self, uid: &PodUid) -> bool {
        self.pods.get(uid).is_some_and(Entry::is_desired)
    }

    /// The pods that should run.
    pub fn desired(&self) -> BTreeSet<PodUid> {
        let desired = self.pods.iter().filter(|(_, entry)| entry.is_desired());
        desired.map(|(uid, _)| uid.clone()).collect()
    }

    /// Whether the runtime was listed.
    pub fn is_relisted(&self) -> bool {
        self.relisted
    }

    /// Whether the runtime and all sources were listed: a running pod without a worker is an orphan.
    pub fn is_started(&self) -> bool {
        self.relisted && self.all_ready
    }

    /// Pods that await admission, in the order of their arrival. None before the runtime was listed.
    pub fn awaiting_admission(&self) -> Vec<PodUid> {
        if !self.relisted {
            return Vec::new();
        }
        let waiting = self.pods.iter().filter_map(|(uid, entry)| match entry.state {
            IntakeState::AwaitingAdmission { arrival, .. } => Some((arrival, uid)),
            _ => None,
        });
        let ordered: BTreeMap<u64, &PodUid> = waiting.collect();
        ordered.into_values().cloned().collect()
    }

    /// Whether the next decision about a pod is final.
    pub fn is_node_refreshed(&self, uid: &PodUid) -> bool {
        matches!(self.state(uid), Some(IntakeState::AwaitingAdmission { node_refreshed: true, .. }))
    }

    /// Whether a pod waits for others to terminate, for its admission or for a resize.
    pub fn awaits_room(&self, uid: &PodUid) -> bool {
        self.pods.get(uid).is_some_and(|entry| entry.awaits_room)
    }

    /// Whether a pod is listed again whose worker was not requested to start over: its directory was being removed.
    pub fn awaits_restart(&self, uid: &PodUid) -> bool {
        self.pods.get(uid).is_some_and(|entry| {
            entry.pod().is_some() && entry.state == IntakeState::Terminating { restart: false }
        })
    }

    /// Admitted pods whose resources count until their workers have terminated them.
    pub fn occupying(&self) -> impl Iterator<Item = (&PodUid, &Arc<Pod>)> {
        let occupying = self.pods.iter().filter(|(_, entry)| entry.state.occupies());
        occupying.filter_map(|(uid, entry)| Some((uid, entry.pod()?)))
    }

    /// The static pods that get a mirror pod. While the admission of a pod is not decided, its existing mirror pod
    /// stays.
    pub fn mirrored(&self) -> impl Iterator<Item = &Arc<Pod>> {
        self.pods.iter().filter_map(|(uid, entry)| {
            let is_decided =
                !entry.state.awaits_admission() && entry.state != IntakeState::AwaitingNodeRefresh;
            let is_run = entry.is_desired() && is_decided && !self.outdated.held.contains(uid);
            entry.pod().filter(|pod| is_run && view::is_static(pod))
        })
    }

    /// Whether a pod is rejected.
    pub fn is_rejected(&self, uid: &PodUid) -> bool {
        self.pods.get(uid).is_some_and(|entry| entry.state.is_rejected())
    }

    /// Stored manifest copies that are older than a running pod, as of the last comparison.
    pub fn outdated(&self) -> &OutdatedCopies {
        &self.outdated
    }

    /// Whether a pod belongs to the node: a source lists it, or it runs in place of an outdated copy.
    pub fn is_listed(&self, uid: &PodUid) -> bool {
        self.pods.get(uid).is_some_and(|entry| entry.listing.is_some())
            || self.outdated.kept_running.contains(uid)
    }

    /// Pods that belong to the node or have a worker.
    pub fn known(&self) -> BTreeSet<PodUid> {
        let known = self
            .pods
            .iter()
            .filter(|(_, entry)| entry.listing.is_some() || entry.state.has_worker());
        let kept = self.outdated.kept_running.iter();
        known.map(|(uid, _)| uid).chain(kept).cloned().collect()
    }

    /// Whether every desired and every running pod has a worker: then [`super::IntakeEvent::Reconcile`] finds nothing.
    pub fn is_settled(&self, live: &BTreeMap<PodUid, PodName>) -> bool {
        let is_settled = |entry: &Entry| {
            let is_kept = matches!(entry.state, IntakeState::RemovedBeforeFirstList(_));
            entry.state.has_worker() || !(entry.is_desired() || is_kept)
        };
        self.outdated == OutdatedCopies::default()
            && self.pods.values().all(is_settled)
            && live.keys().all(|uid| self.has_worker(uid))
    }

    /// A pod as garbage collection sees it.
    pub fn index_entry(&self, uid: &PodUid) -> Option<IndexEntry> {
        let entry = self.pods.get(uid).map(index_entry).unwrap_or_default();
        let is_kept = self.outdated.kept_running.contains(uid);
        let entry = IndexEntry { listed: entry.listed || is_kept, ..entry };
        (entry.listed || entry.worker).then_some(entry)
    }

    /// All pods as garbage collection sees them.
    pub fn index(&self) -> BTreeMap<PodUid, IndexEntry> {
        let uids = self.pods.keys().chain(&self.outdated.kept_running);
        uids.filter_map(|uid| Some((uid.clone(), self.index_entry(uid)?))).collect()
    }
}

fn index_entry(entry: &Entry) -> IndexEntry {
    let has_deadline =
        |pod: &Pod| view::spec(pod).is_some_and(|spec| spec.active_deadline_seconds.is_some());
    let is_pod = matches!(&entry.listing, Some(Listing::Pod(_)));
    IndexEntry {
        listed: entry.listing.is_some(),
        has_deadline: entry.pod().is_some_and(|pod| has_deadline(pod)),
        rejected: is_pod && entry.state.is_rejected(),
        worker: entry.state.has_worker(),
    }
}
