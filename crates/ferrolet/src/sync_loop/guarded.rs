//! The loop's steps for single pods. A panic fails a step for its pod alone: it is repeated after a wait, and until
//! then all other steps for the pod wait.

use std::borrow::Cow;
use std::mem::discriminant;
use std::sync::Arc;

use allocation::{Grant, Trigger};
use k8s_openapi::api::core::v1::Pod;
use model::ids::{PodName, PodUid};
use model::lifecycle::LifecycleEvent;
use model::panics::{PanicStep, PanicSubject};
use pods::decide::intake::IntakeCommand;
use pods::decide::pod_retries::Repeatable;
use podspec::view;
use tracing::debug;

use super::SyncLoop;

/// A step for one pod.
#[derive(Debug, Clone)]
pub(super) enum LoopStep {
    /// A source added or updated it.
    Changed,
    /// A source removed it.
    Removed(Arc<Pod>),
    /// Its worker has finished.
    WorkerFinished,
    /// Its worker was dropped.
    WorkerForgotten,
    /// Its containers or sandboxes changed.
    RuntimeChanged(Vec<LifecycleEvent>),
    /// Its admission is decided.
    Admit,
    /// A command of the intake is executed.
    Execute(IntakeCommand),
    /// Its request for other resources is decided.
    Resize,
    /// A resize that was granted to it is saved.
    Granted(Grant),
}

impl Repeatable for LoopStep {
    /// The intake returns each command once, so all are kept, in their order.
    fn replaces(&self, earlier: &Self) -> bool {
        discriminant(self) == discriminant(earlier) && !matches!(self, Self::Execute(_))
    }

    fn merge(&mut self, earlier: Self) {
        match (self, earlier) {
            (Self::RuntimeChanged(events), Self::RuntimeChanged(earlier)) => {
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
    /// Takes a step for one pod; later, if the pod waits after a panic.
    pub(super) async fn step(&mut self, uid: &PodUid, step: LoopStep) {
        if self.retries.waits(uid) {
            debug!(%uid, ?step, "Pod waits after a panic, step is put off");
            self.retries.keep(uid, step);
            return;
        }
        let (guard, name) = (self.parts.panics.clone(), self.name_of(uid, &step));
        let of = PanicSubject::Pod(uid, name.as_ref());
        let work = self.take_step(uid.clone(), step.clone());
        match guard.catch_async(PanicStep::SyncLoop, of, work).await {
            Ok(commands) => self.execute_all(commands).await,
            Err(_) => self.panicked(uid, step),
        }
    }

    /// Executes commands of the intake, each as a step of its pod.
    pub(super) async fn execute_all(&mut self, commands: Vec<IntakeCommand>) {
        for command in commands {
            let uid = command.uid().clone();
            let step = LoopStep::Execute(command.clone());
            if self.retries.waits(&uid) {
                debug!(%uid, ?step, "Pod waits after a panic, step is put off");
                self.retries.keep(&uid, step);
                continue;
            }
            let (guard, name) = (self.parts.panics.clone(), self.name_of(&uid, &step));
            let of = PanicSubject::Pod(&uid, name.as_ref());
            let work = self.execute(command);
            if guard.catch_async(PanicStep::SyncLoop, of, work).await.is_err() {
                self.panicked(&uid, step);
            }
        }
    }

    /// Returns the commands of the intake that follow from the step.
    async fn take_step(&mut self, uid: PodUid, step: LoopStep) -> Vec<IntakeCommand> {
        match step {
            LoopStep::Changed => return self.pod_changed(uid),
            LoopStep::Removed(pod) => return self.pod_removed(uid, &pod).await,
            LoopStep::WorkerFinished => self.parts.gc.ended(&uid),
            LoopStep::WorkerForgotten => return self.worker_forgotten(&uid),
            LoopStep::RuntimeChanged(events) => return self.runtime_changed(uid, &events),
            LoopStep::Execute(command) => self.execute(command).await,
            // Decided with all others, which follows.
            LoopStep::Admit | LoopStep::Resize => {}
            LoopStep::Granted(grant) => self.granted(grant).await,
        }
        Vec::new()
    }

    /// A step for a pod panicked.
    pub(super) fn panicked(&mut self, uid: &PodUid, step: LoopStep) {
        self.retries.panicked(uid, step, self.begun.elapsed());
    }

    /// Repeats the steps that have waited.
    pub(super) async fn retry_steps(&mut self) {
        for (uid, steps) in self.retries.take_due(self.begun.elapsed()) {
            for step in steps {
                self.step(&uid, step).await;
            }
        }
        self.send_desired().await;
        self.reconcile_all(Trigger::PodsAdded).await;
    }

    /// An invalid manifest is reported; nothing else is done about it.
    pub(super) fn report_invalid(
        &self,
        name: &PodName,
        uid: &PodUid,
        reason: Cow<'static, str>,
        message: &str,
    ) {
        let of = PanicSubject::Pod(uid, Some(name));
        let report = || self.record_warning(name, uid, reason, message);
        // The source reports it again with its next version.
        self.parts.panics.catch(PanicStep::SyncLoop, of, report).ok();
    }

    /// The name of a pod, if it is known.
    fn name_of(&self, uid: &PodUid, step: &LoopStep) -> Option<PodName> {
        match step {
            LoopStep::Removed(pod)
            | LoopStep::Execute(
                IntakeCommand::Reject { pod, .. } | IntakeCommand::Terminate { pod, .. },
            ) => Some(view::pod_name(pod)),
            LoopStep::Execute(IntakeCommand::TerminateOrphan { name, .. }) => Some(name.clone()),
            _ => self.known_name(uid),
        }
    }

    /// The name of a pod that a source lists or the runtime has.
    pub(super) fn known_name(&self, uid: &PodUid) -> Option<PodName> {
        let listed = self.intake.pod(uid).map(|pod| view::pod_name(pod));
        listed.or_else(|| self.parts.cache.live(uid))
    }
}
