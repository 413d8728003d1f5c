//! The resources of all pods, shared between the sync loop and the workers.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use k8s_openapi::api::core::v1::Pod;
use model::admission::PendingResize;
use model::ids::PodUid;
use podspec::view;
use tokio::sync::Notify;

use crate::decide::pod_allocation::{PodAllocation, ResizeStage};
use crate::resize_metrics::{Counts, ResizeMetrics};

/// The resources of all pods. The allocation manager admits pods and grants resizes; workers report their
/// progress, and read it for the status of pods.
#[derive(Debug)]
pub struct Resizes {
    pub(crate) metrics: ResizeMetrics,
    /// Never held across an await.
    table: Mutex<Table>,
    /// Wakes the sync loop.
    completed: Notify,
}

/// One entry per pod.
#[derive(Debug, Default)]
pub(crate) struct Table {
    pub(crate) pods: BTreeMap<PodUid, PodAllocation>,
    pub(crate) totals: Totals,
}

/// Sums over all entries, to avoid useless searches.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Totals {
    /// Resize requests.
    pub(crate) requests: usize,
    /// The granted resizes that no checkpoint write in progress contains.
    pub(crate) granted: usize,
    /// The values of metrics.
    shown: Counts,
}

impl Totals {
    fn of(entry: Option<&PodAllocation>) -> Self {
        let Some(entry) = entry else { return Self::default() };
        let request = entry.request.as_deref();
        let refusal = request.and_then(|request| request.refusal.as_ref());
        let is_infeasible = refusal.is_some_and(|refusal| refusal.refused.infeasible);
        let is_granted =
            request.is_some_and(|request| matches!(request.stage, ResizeStage::Granted(_)));
        Self {
            requests: usize::from(request.is_some()),
            granted: usize::from(is_granted),
            shown: Counts {
                deferred: usize::from(refusal.is_some() && !is_infeasible),
                infeasible: usize::from(is_infeasible),
                in_progress: usize::from(entry.actuation.is_some()),
            },
        }
    }

    /// The sums after a change of an entry.
    fn after(self, before: Self, after: Self) -> Self {
        // A change that panicked may be missing in the sums.
        let sum = |all: usize, before: usize, after: usize| (all + after).saturating_sub(before);
        let shown = |count: fn(&Counts) -> usize| {
            sum(count(&self.shown), count(&before.shown), count(&after.shown))
        };
        Self {
            requests: sum(self.requests, before.requests, after.requests),
            granted: sum(self.granted, before.granted, after.granted),
            shown: Counts {
                deferred: shown(|counts| counts.deferred),
                infeasible: shown(|counts| counts.infeasible),
                in_progress: shown(|counts| counts.in_progress),
            },
        }
    }
}

impl Table {
    /// Changes the entry of a pod. An empty entry is dropped.
    pub(crate) fn change<T>(
        &mut self,
        uid: &PodUid,
        change: impl FnOnce(&mut PodAllocation) -> T,
    ) -> T {
        let entry = self.pods.entry(uid.clone()).or_default();
        let before = Totals::of(Some(&*entry));
        let changed = change(entry);
        self.totals = self.totals.after(before, Totals::of(Some(&*entry)));
        if entry.is_empty() {
            self.pods.remove(uid);
        }
        changed
    }

    /// Removes the entry of a pod.
    pub(crate) fn remove(&mut self, uid: &PodUid) -> Option<PodAllocation> {
        let removed = self.pods.remove(uid);
        self.totals = self.totals.after(Totals::of(removed.as_ref()), Totals::default());
        removed
    }
}

impl Resizes {
    /// Creates an empty table.
    pub fn new(metrics: ResizeMetrics) -> Self {
        Self { metrics, table: Mutex::default(), completed: Notify::new() }
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A version of the pod with its allocated resources.
    pub fn allocated(&self, pod: &Arc<Pod>) -> Arc<Pod> {
        let allocated = self.entry(&view::uid(pod), |entry| entry.allocated(pod));
        allocated.unwrap_or_else(|| Arc::clone(pod))
    }

    /// Reads the table.
    pub(crate) fn read<T>(&self, read: impl FnOnce(&Table) -> T) -> T {
        read(&self.lock())
    }

    /// Reads the entry of a pod, if there is one.
    pub(crate) fn entry<T>(
        &self,
        uid: &PodUid,
        read: impl FnOnce(&PodAllocation) -> T,
    ) -> Option<T> {
        self.lock().pods.get(uid).map(read)
    }

    /// Changes the table, and updates the metrics.
    pub(crate) fn write<T>(&self, write: impl FnOnce(&mut Table) -> T) -> T {
        let mut table = self.lock();
        let before = table.totals.shown;
        let written = write(&mut table);
        let after = table.totals.shown;
        if before != after {
            self.metrics.set_counts(after);
        }
        written
    }

    /// Changes the entry of a pod.
    pub(crate) fn change<T>(
        &self,
        uid: &PodUid,
        change: impl FnOnce(&mut PodAllocation) -> T,
    ) -> T {
        self.write(|table| table.change(uid, change))
    }

    /// Why a pod is not allocated what it requests.
    pub fn pending(&self, uid: &PodUid) -> Option<Arc<PendingResize>> {
        self.entry(uid, PodAllocation::pending)?.map(Arc::new)
    }

    /// Records whether a worker found that the pod, in the version of its job, lacks allocated resources.
    /// Returns whether this completes a resize that must be reported.
    pub fn seen(&self, uid: &PodUid, pod: &Pod, lacks: bool) -> bool {
        let complete = self.change(uid, |entry| entry.observe(pod, lacks));
        if complete.is_some() {
            self.completed.notify_one();
        }
        complete.is_some_and(|complete| !complete.unconfirmed)
    }

    /// Records a worker's observation that only the pod's cgroup lacks resources. Returns whether that is part of a
    /// resize, which is not complete then.
    pub fn is_resizing_cgroup(&self, uid: &PodUid) -> bool {
        let mut table = self.lock();
        let entry = table.pods.get_mut(uid);
        let Some(actuation) = entry.and_then(|entry| entry.actuation.as_mut()) else {
            return false;
        };
        actuation.unconfirmed = false;
        true
    }

    /// Records that the actuation of a resize failed. Returns whether the error is new.
    pub fn failed(&self, uid: &PodUid, error: &str) -> bool {
        let mut table = self.lock();
        let entry = table.pods.get_mut(uid);
        let Some(actuation) = entry.and_then(|entry| entry.actuation.as_mut()) else {
            return false;
        };
        let is_new = actuation.error.as_deref() != Some(error);
        actuation.error = Some(error.into());
        is_new
    }

    /// The last error of a pod's resize.
    pub fn error(&self, uid: &PodUid) -> Option<Arc<str>> {
        self.entry(uid, |entry| entry.actuation.as_ref()?.error.clone())?
    }

    /// Waits until workers have completed resizes.
    pub(crate) async fn completed(&self) {
        self.completed.notified().await;
    }
}

#[cfg(test)]
#[path = "resizes_tests.rs"]
mod tests;
