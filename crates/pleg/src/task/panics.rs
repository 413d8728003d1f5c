//! A panic in the work for one pod: its status counts as unreadable, and is read again after a back-off.

use futures_util::future::BoxFuture;
use model::ids::{PodName, PodUid};
use model::observed::RuntimePod;
use model::panics::{CaughtPanic, PanicStep, PanicSubject};
use model::ports::runtime::{Code, RuntimeError};
use model::seq::Seq;
use tokio::time::Instant;
use tracing::warn;

use super::{Done, Inspected, LONGEST_RETRY, Reconciled, Relist};

impl Relist {
    /// Spawns a future for a pod and catches its panics.
    pub(super) fn start_work(
        &self,
        uid: PodUid,
        name: Option<PodName>,
        at: Seq,
        work: impl Future<Output = Done> + Send + 'static,
    ) {
        let guard = self.panics.clone();
        let guarded: BoxFuture<'static, Done> = Box::pin(async move {
            let subject = PanicSubject::Pod(&uid, name.as_ref());
            let done = guard.catch_async(PanicStep::Relist, subject, work).await;
            done.unwrap_or_else(|panic| Done::Panicked { uid, at, panic })
        });
        self.work.push(guarded);
    }

    /// Handles a panic in the work for a pod like a failed status read.
    pub(super) fn panicked(&mut self, uid: &PodUid, at: Seq, panic: &CaughtPanic) {
        self.records.of(uid).panicked = true;
        let error = RuntimeError {
            method: "ContainerStatus",
            object: format!("of pod {uid}"),
            code: Code::Internal,
            message: panic.to_string(),
        };
        self.unreadable(uid, error, at);
    }

    /// Stores a failed status read, and reads the status again after a back-off that doubles.
    pub(super) fn unreadable(&mut self, uid: &PodUid, error: RuntimeError, at: Seq) {
        warn!(%uid, %error, "Cannot read pod status");
        let record = self.records.of(uid);
        record.reinspect = true;
        let wait = record.retry.map_or(self.settings.relist_period, |(_, wait)| wait);
        let longer = wait.saturating_mul(2).min(LONGEST_RETRY);
        record.retry = Some((Instant::now() + wait, longer));
        self.writer.store(uid, Err(error), at);
        self.relist_pod_later(uid.clone(), wait);
    }

    /// Compares a pod of a list with its record.
    pub(super) fn reconcile_guarded(
        &mut self,
        uid: &PodUid,
        pod: Option<RuntimePod>,
        at: Seq,
        announced: bool,
    ) -> Reconciled {
        if self.waits_after_panic(uid) {
            self.note_live(uid, pod.as_ref(), at);
            return Reconciled::Waiting;
        }
        let was_busy = self.busy.contains_key(uid);
        let name = pod.as_ref().map(|pod| pod.pod.clone()).or_else(|| self.name_of(uid));
        let (guard, subject) = (self.panics.clone(), PanicSubject::Pod(uid, name.as_ref()));
        let reconciled = guard.catch(PanicStep::Relist, subject, || {
            if !announced && self.is_unannounced(uid, pod.as_ref(), at) {
                self.unannounced_change();
            }
            self.reconcile(uid, pod, at)
        });
        reconciled.unwrap_or_else(|panic| {
            if !was_busy {
                self.busy.remove(uid);
            }
            self.panicked(uid, at, &panic);
            Reconciled::Waiting
        })
    }

    /// Handles the result of an inspection.
    pub(super) fn inspected_guarded(&mut self, inspected: Inspected) {
        let (uid, at) = (inspected.uid.clone(), inspected.at);
        let seen = inspected.observation.as_ref().ok();
        let seen = seen.and_then(|status| status.sandboxes.first()).map(|one| one.pod.clone());
        let name = seen.or_else(|| self.name_of(&uid));
        let (guard, subject) = (self.panics.clone(), PanicSubject::Pod(&uid, name.as_ref()));
        let done = guard.catch(PanicStep::Relist, subject, || self.inspected(inspected));
        if let Err(panic) = done {
            self.panicked(&uid, at, &panic);
        }
    }

    /// Handles an event of a pod; after a panic the pod is relisted.
    pub(super) fn event_guarded(&mut self, uid: &PodUid, work: impl FnOnce(&mut Self)) {
        let name = self.name_of(uid);
        let (guard, subject) = (self.panics.clone(), PanicSubject::Pod(uid, name.as_ref()));
        if guard.catch(PanicStep::Relist, subject, || work(self)).is_err() {
            self.relist_pod_later(uid.clone(), self.settings.relist_period);
        }
    }

    fn waits_after_panic(&self, uid: &PodUid) -> bool {
        let record = self.records.get(uid).filter(|record| record.panicked);
        record.and_then(|record| record.retry).is_some_and(|(until, _)| Instant::now() < until)
    }

    pub(super) fn name_of(&self, uid: &PodUid) -> Option<PodName> {
        let status = self.records.get(uid)?.status.as_ref()?;
        status.sandboxes.first().map(|sandbox| sandbox.pod.clone())
    }
}
