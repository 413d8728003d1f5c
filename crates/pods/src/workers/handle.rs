//! The interface of the workers for other tasks.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use model::ids::PodUid;
use model::pod_failure::PodFailure;
use model::ports::events::{Events, PodEvent};
use tokio::sync::{mpsc, oneshot};
use tracing::debug;

use crate::decide::worker::{Event, Target, Update};
use crate::states::WorkerStates;

/// The minimum time that [`WorkersHandle::evict_and_wait`] waits.
const LEAST_WAIT: Duration = Duration::from_secs(10);

/// Sends requests to the workers.
#[derive(Debug, Clone)]
pub struct WorkersHandle {
    /// Read by the workers' task; closed when it ends.
    pub(super) requests: mpsc::Sender<Request>,
    pub(super) states: WorkerStates,
    pub(super) events: Arc<dyn Events>,
}

/// A request to the workers' task.
#[derive(Debug)]
pub(super) enum Request {
    Event(Event),
    /// Kill a pod, and notify when nothing of it runs any more.
    KillAndNotify(PodUid, Update, oneshot::Sender<()>),
}

/// A pod did not terminate in time.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("pod {uid} did not end within {waited:?}")]
pub struct ExceededGracePeriod {
    /// The pod.
    pub uid: PodUid,
    /// How long the caller waited.
    pub waited: Duration,
}

impl WorkersHandle {
    /// Sends an update to a pod's worker. Waits while the task is behind; never waits for a job.
    pub async fn update(&self, uid: PodUid, update: Update) {
        self.send(Event::Updated(uid, update)).await;
    }

    /// Sets the desired pods: others are terminated, and finished ones are forgotten.
    pub async fn desired(&self, uids: BTreeSet<PodUid>) {
        self.send(Event::Desired(uids)).await;
    }

    /// Evicts a pod with a grace period. Waits until none of its containers runs, for 1.5 times the grace period and at
    /// least 10 s. The failure becomes its final status.
    pub async fn evict_and_wait(
        &self,
        uid: PodUid,
        target: Target,
        grace: Duration,
        failure: PodFailure,
    ) -> Result<(), ExceededGracePeriod> {
        let waited = grace.mul_f64(1.5).max(LEAST_WAIT);
        let (done, receiver) = oneshot::channel();
        let pod = target.name();
        let failure = Some(Arc::new(failure));
        let update = Update::Kill { target, grace: Some(grace), failure };
        self.request(Request::KillAndNotify(uid.clone(), update, done)).await;
        match tokio::time::timeout(waited, receiver).await {
            Ok(Ok(())) => Ok(()),
            // The workers' task has ended, and the agent stops.
            Ok(Err(_)) => Err(ExceededGracePeriod { uid, waited }),
            Err(_) => {
                let message =
                    "Container runtime did not kill the pod within specified grace period.";
                let (reason, message) = ("ExceededGracePeriod", message.to_owned());
                self.events.record(PodEvent::warning(uid.clone(), pod, reason, message));
                Err(ExceededGracePeriod { uid, waited })
            }
        }
    }

    /// The states of pods.
    pub fn states(&self) -> WorkerStates {
        self.states.clone()
    }

    async fn send(&self, event: Event) {
        self.request(Request::Event(event)).await;
    }

    async fn request(&self, request: Request) {
        if self.requests.send(request).await.is_err() {
            debug!("Workers have stopped, dropping request");
        }
    }
}
