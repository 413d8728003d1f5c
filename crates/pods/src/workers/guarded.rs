//! A panic in the work for one pod counts as a failure of that pod: its worker retries after a wait.

use std::mem::discriminant;
use std::time::Duration;

use model::ids::{PodName, PodUid};
use model::panics::{CaughtPanic, PanicStep, PanicSubject};
use podspec::view;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{JobResult, LastJob, SyncResult, WorkerParts, WorkersTask};
use crate::decide::pod_retries::Repeatable;
use crate::decide::requeue::Retry;
use crate::decide::worker::{Command, Event, Job, Outcome, Update};

/// The result of a job that panicked.
pub(super) const FAILED: SyncResult =
    SyncResult { outcome: Outcome::Again(Retry::Failure), acted: true };

/// A step of the workers' task that panicked.
#[derive(Debug, Clone)]
pub(super) enum Work {
    Event(Event),
    Command(Command),
}

impl Repeatable for Work {
    fn replaces(&self, earlier: &Self) -> bool {
        match (self, earlier) {
            (Self::Event(Event::Updated(_, one)), Self::Event(Event::Updated(_, other))) => {
                discriminant(one) == discriminant(other)
            }
            (Self::Event(one), Self::Event(other)) => discriminant(one) == discriminant(other),
            (Self::Command(one), Self::Command(other)) => discriminant(one) == discriminant(other),
            _ => false,
        }
    }

    fn merge(&mut self, earlier: Self) {
        let kill = |grace: &Option<Duration>| grace.unwrap_or(Duration::MAX);
        if let (
            Self::Event(Event::Updated(_, Update::Kill { grace, failure, .. })),
            Self::Event(Event::Updated(_, Update::Kill { grace: before, failure: earlier, .. })),
        ) = (self, earlier)
        {
            // Grace periods only shrink, and an eviction stays one.
            *grace = if kill(&before) < kill(grace) { before } else { *grace };
            *failure = earlier.or_else(|| failure.take());
        }
    }
}

impl WorkersTask {
    /// Runs a step for a pod in this task, and catches a panic.
    pub(super) fn guarded<T>(
        &self,
        uid: &PodUid,
        work: impl FnOnce() -> T,
    ) -> Result<T, CaughtPanic> {
        let name = self.workers.name(uid);
        let of = PanicSubject::Pod(uid, name);
        self.parts.panics.catch(PanicStep::PodWorker, of, work)
    }

    /// The commands for an event; none yet if the decision panics, or if the pod waits after a panic.
    pub(super) fn decide_guarded(&mut self, event: Event) -> Vec<Command> {
        let Some(uid) = event.pod().cloned() else { return self.workers.step(event) };
        if self.redo.waits(&uid) {
            self.redo.keep(&uid, Work::Event(event));
            return Vec::new();
        }
        let (name, guard) = (self.workers.name(&uid).cloned(), self.parts.panics.clone());
        let of = PanicSubject::Pod(&uid, name.as_ref());
        let again = event.clone();
        guard.catch(PanicStep::PodWorker, of, || self.workers.step(event)).unwrap_or_else(|_| {
            self.redo.panicked(&uid, Work::Event(again), self.epoch.elapsed());
            Vec::new()
        })
    }

    pub(super) fn carry_out_guarded(&mut self, command: Command) {
        let uid = command.pod().clone();
        if self.redo.waits(&uid) {
            self.redo.keep(&uid, Work::Command(command));
            return;
        }
        let (name, guard) = (self.workers.name(&uid).cloned(), self.parts.panics.clone());
        let of = PanicSubject::Pod(&uid, name.as_ref());
        let again = command.clone();
        if guard.catch(PanicStep::PodWorker, of, || self.carry_out(command)).is_err() {
            self.redo.panicked(&uid, Work::Command(again), self.epoch.elapsed());
        }
    }

    /// When the next step that panicked is repeated.
    pub(super) fn next_redo(&self) -> Option<Instant> {
        self.redo.next().map(|at| self.epoch + at)
    }

    /// Repeats the steps that panicked and have waited.
    pub(super) fn do_again(&mut self) {
        for (_, work) in self.redo.take_due(self.epoch.elapsed()) {
            for work in work {
                match work {
                    Work::Event(event) => self.step(event),
                    Work::Command(command) => self.carry_out_guarded(command),
                }
            }
        }
    }
}

/// Runs a job; a panic counts as a failure.
pub(super) async fn run(
    parts: &WorkerParts,
    uid: &PodUid,
    job: Job,
    last: Option<LastJob>,
    cancel: CancellationToken,
) -> JobResult {
    let name = name_of(&job);
    let of = PanicSubject::Pod(uid, Some(&name));
    let job = super::run(parts, uid, job, last, cancel);
    let ran = parts.panics.catch_async(PanicStep::PodWorker, of, job).await;
    ran.unwrap_or_else(|_| FAILED.into())
}

fn name_of(job: &Job) -> PodName {
    match job {
        Job::Sync(pod) | Job::CleanUp(pod) => view::pod_name(pod),
        Job::Terminate(termination) => termination.target.name(),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use model::pod_failure::PodFailure;

    use super::*;
    use crate::decide::worker::Target;

    #[test]
    fn merged_kills_keep_the_shorter_grace_and_the_eviction() {
        let kill = |grace: Option<u64>, evicts: bool| {
            let message = String::new();
            let failure = PodFailure { reason: "Evicted", message, disruption: None };
            let failure = evicts.then(|| Arc::new(failure));
            let grace = grace.map(Duration::from_secs);
            let target = Target::RuntimeOnly(PodName::new("ns", "web"));
            Work::Event(Event::Updated("u".into(), Update::Kill { target, grace, failure }))
        };
        for (earlier, later, expected) in [
            (kill(Some(0), true), kill(None, false), (Some(0), true)),
            (kill(None, false), kill(Some(5), false), (Some(5), false)),
            (kill(Some(9), false), kill(Some(5), true), (Some(5), true)),
        ] {
            let mut merged = later;
            merged.merge(earlier);
            let Work::Event(Event::Updated(_, Update::Kill { grace, failure, .. })) = merged else {
                panic!("the merged step is not a kill");
            };
            assert_eq!((grace.map(|grace| grace.as_secs()), failure.is_some()), expected);
        }
    }
}
