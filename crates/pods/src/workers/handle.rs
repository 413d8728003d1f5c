//! What others ask of the workers.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use model::ids::PodUid;
use model::ports::events::{Events, PodEvent};
use tokio::sync::{mpsc, oneshot};
use tracing::debug;

use crate::decide::worker::{Event, Target, Update};
use crate::states::WorkerStates;

/// How long [`WorkersHandle::kill_and_wait`] waits at least.
const LEAST_WAIT: Duration = Duration::from_secs(10);

/// Asks things of the workers.
#[derive(Debug, Clone)]
pub struct WorkersHandle {
    /// Read by the workers' task; closed when it ends.
    pub(super) requests: mpsc::Sender<Request>,
    pub(super) states: WorkerStates,
    pub(super) events: Arc<dyn Events>,
}

/// What is asked of the task.
#[derive(Debug)]
pub(super) enum Request {
    Event(Event),
    /// Kill a pod, and tell when nothing of it runs any more.
    KillAndTell(PodUid, Update, oneshot::Sender<()>),
}

/// A pod did not end within the time it had.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("pod {uid} did not end within {waited:?}")]
pub struct ExceededGracePeriod {
    /// The pod.
    pub uid: PodUid,
    /// How long it was waited for.
    pub waited: Duration,
}

impl WorkersHandle {
    /// Asks something of a pod's worker. Waits while the task is behind; it never waits for a job.
    pub async fn ask(&self, uid: PodUid, update: Update) {
        self.send(Event::Asked(uid, update)).await;
    }

    /// Tells which pods are wanted: others end, and what has ended is forgotten.
    pub async fn desired(&self, uids: BTreeSet<PodUid>) {
        self.send(Event::Desired(uids)).await;
    }

    /// Kills a pod, with a grace and perhaps because the node needs what it uses, and waits until nothing
    /// of it runs: half as long again as its grace, at least 10 s.
    pub async fn kill_and_wait(
        &self,
        uid: PodUid,
        target: Target,
        grace: Duration,
        evict: bool,
    ) -> Result<(), ExceededGracePeriod> {
        let waited = grace.mul_f64(1.5).max(LEAST_WAIT);
        let (teller, told) = oneshot::channel();
        let pod = target.name();
        let update = Update::Kill { target, grace: Some(grace), evict };
        self.request(Request::KillAndTell(uid.clone(), update, teller)).await;
        match tokio::time::timeout(waited, told).await {
            Ok(Ok(())) => Ok(()),
            // The task ended, and with it everybody's interest.
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

    /// How far pods are.
    pub fn states(&self) -> WorkerStates {
        self.states.clone()
    }

    async fn send(&self, event: Event) {
        self.request(Request::Event(event)).await;
    }

    async fn request(&self, request: Request) {
        if self.requests.send(request).await.is_err() {
            debug!("the workers have stopped; nothing more is asked of them");
        }
    }
}
