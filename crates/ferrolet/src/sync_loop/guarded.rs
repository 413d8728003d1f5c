//! The loop's steps for single pods. One that panics fails for its pod alone: it is repeated after a wait, and until
//! then whatever else is to be done for the pod waits behind it.

use std::borrow::Cow;
use std::sync::Arc;

use allocation::{Grant, Trigger};
use k8s_openapi::api::core::v1::Pod;
use model::ids::{PodName, PodUid};
use model::lifecycle::LifecycleEvent;
use model::panics::{PanicStep, PanicSubject};
use pods::decide::pod_retries::Repeatable;
use podspec::view;
use tracing::debug;

use super::SyncLoop;
use crate::decide::housekeeping::Step;
use crate::decide::news::Came;

/// Something to be done for one pod.
#[derive(Debug, Clone)]
pub(super) enum LoopStep {
    /// A source gives it.
    Came(Arc<Pod>, Came),
    /// No source does any more.
    Removed(Arc<Pod>),
    /// Its worker is finished.
    Finished,
    /// Its worker has forgotten it.
    Forgotten,
    /// Something happened to it in the runtime.
    Happened(Vec<LifecycleEvent>),
    /// It is let in, or refused.
    Admit,
    /// It gets a worker, or is ended as an orphan.
    LookAfter(Step),
    /// Its request for other resources is decided.
    Resize,
    /// What it was granted is on record.
    Granted(Grant),
}

impl Repeatable for LoopStep {
    fn merge(&mut self, earlier: Self) {
        match (self, earlier) {
            // It is still new to the loop.
            (Self::Came(_, came), Self::Came(_, Came::Added)) => *came = Came::Added,
            (Self::Happened(events), Self::Happened(earlier)) => {
                for event in std::mem::replace(events, earlier) {
                    if !events.contains(&event) {
                        events.push(event);
                    }
                }
            }
            (Self::Granted(grant), Self::Granted(earlier)) => grant.before = earlier.before,
            _ => {}
        }
    }
}

impl SyncLoop {
    /// Does something for one pod; later, if the pod waits after a panic.
    pub(super) async fn step(&mut self, uid: &PodUid, step: LoopStep) {
        if self.retries.waits(uid) {
            debug!(%uid, ?step, "Pod waits after a panic, step is put off");
            self.retries.keep(uid, step);
            return;
        }
        let (guard, name) = (self.parts.panics.clone(), self.name_of(uid, &step));
        let of = PanicSubject::Pod(uid, name.as_ref());
        let work = self.take_step(uid.clone(), step.clone());
        if guard.catch_async(PanicStep::SyncLoop, of, work).await.is_err() {
            self.panicked(uid, step);
        }
    }

    async fn take_step(&mut self, uid: PodUid, step: LoopStep) {
        match step {
            LoopStep::Came(pod, came) => self.came(pod, came).await,
            LoopStep::Removed(pod) => self.removed(pod).await,
            LoopStep::Finished => self.parts.remains.ended(&uid),
            LoopStep::Forgotten => self.forgotten(uid).await,
            LoopStep::Happened(events) => self.happened_to(uid, events).await,
            // Decided when all pods are looked after, which follows.
            LoopStep::Admit => self.arrivals.came(uid),
            LoopStep::LookAfter(step) => self.look_after_one(step).await,
            // Decided with all others that ask, which follows.
            LoopStep::Resize => {}
            LoopStep::Granted(grant) => self.granted(grant).await,
        }
    }

    /// A step for a pod panicked.
    pub(super) fn panicked(&mut self, uid: &PodUid, step: LoopStep) {
        self.retries.panicked(uid, step, self.begun.elapsed());
    }

    /// Repeats the steps that have waited.
    pub(super) async fn retry_steps(&mut self) {
        for (uid, steps) in self.retries.take_due(self.begun.elapsed()) {
            for step in steps {
                match step {
                    // What was to be done may be wrong by now, and is found anew if it is not.
                    LoopStep::LookAfter(_) => {}
                    step => self.step(&uid, step).await,
                }
            }
        }
        self.tell_desired().await;
        self.look_after_all(Trigger::PodsAdded).await;
    }

    /// An invalid manifest is reported; nothing else is done about it.
    pub(super) fn tell_invalid(
        &self,
        name: &PodName,
        uid: &PodUid,
        reason: Cow<'static, str>,
        message: &str,
    ) {
        let of = PanicSubject::Pod(uid, Some(name));
        let tell = || self.tell_refused(name, uid, reason, message);
        // The source reports it again with its next version.
        self.parts.panics.catch(PanicStep::SyncLoop, of, tell).ok();
    }

    /// The name of a pod, as far as it is known.
    fn name_of(&self, uid: &PodUid, step: &LoopStep) -> Option<PodName> {
        match step {
            LoopStep::Came(pod, _) | LoopStep::Removed(pod) => Some(view::pod_name(pod)),
            LoopStep::LookAfter(Step::End(_, name)) => Some(name.clone()),
            _ => self.known_name(uid),
        }
    }

    /// The same, by what sources give and the runtime has.
    pub(super) fn known_name(&self, uid: &PodUid) -> Option<PodName> {
        let given = self.parts.sources.get(uid).map(|pod| view::pod_name(pod));
        given.or_else(|| self.parts.cache.live(uid))
    }
}
