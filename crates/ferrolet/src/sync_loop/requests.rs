//! Requests of other parts to the sync loop: it alone knows which pods are active, and with which resources.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use model::ids::PodUid;
use model::pod_failure::PodFailure;
use pods::decide::worker::Target;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tracing::{debug, error, info};

use super::SyncLoop;

/// Terminates a pod that fails by this.
#[derive(Debug)]
pub(crate) struct Termination {
    /// The pod.
    pub(crate) uid: PodUid,
    /// Its failure.
    pub(crate) failure: PodFailure,
    /// Its grace period.
    pub(crate) grace: Duration,
}

/// A request.
#[derive(Debug)]
pub(crate) enum LoopRequest {
    /// Whether pods are admitted.
    ShuttingDown(bool),
    /// Answered with the active pods, once all sources and the runtime were listed.
    ActivePods(oneshot::Sender<Vec<Arc<Pod>>>),
    /// Answered when nothing of the pod runs; dropped if that takes too long.
    Terminate(Termination, oneshot::Sender<()>),
}

/// Sends requests to the loop. Clones share it.
#[derive(Debug, Clone)]
pub(crate) struct LoopHandle(mpsc::UnboundedSender<LoopRequest>);

/// The receiving side.
pub(crate) type LoopRequests = mpsc::UnboundedReceiver<LoopRequest>;

/// A handle and its receiver.
pub(crate) fn loop_requests() -> (LoopHandle, LoopRequests) {
    let (sender, receiver) = mpsc::unbounded_channel();
    (LoopHandle(sender), receiver)
}

impl LoopHandle {
    /// Sets whether the node shuts down: then no pod is admitted.
    pub(crate) fn set_shutting_down(&self, shuts_down: bool) {
        self.send(LoopRequest::ShuttingDown(shuts_down));
    }

    /// The pods that are admitted and have not terminated, once all are known.
    pub(crate) async fn active_pods(&self) -> Vec<Arc<Pod>> {
        let (sender, receiver) = oneshot::channel();
        self.send(LoopRequest::ActivePods(sender));
        receiver.await.unwrap_or_default()
    }

    /// Terminates a pod. Whether nothing of it runs; the termination goes on if this is dropped.
    pub(crate) async fn terminate(&self, termination: Termination) -> bool {
        let (sender, receiver) = oneshot::channel();
        self.send(LoopRequest::Terminate(termination, sender));
        receiver.await.is_ok()
    }

    fn send(&self, request: LoopRequest) {
        if self.0.send(request).is_err() {
            debug!("Sync loop has stopped, dropping request");
        }
    }
}

/// Requests that are not answered yet. Dropped with the loop.
#[derive(Debug, Default)]
pub(super) struct PendingRequests {
    terminations: JoinSet<()>,
    active: Vec<oneshot::Sender<Vec<Arc<Pod>>>>,
}

impl PendingRequests {
    /// Waits until a termination has ended; for ever without any.
    pub(super) async fn ended(&mut self) {
        match self.terminations.join_next().await {
            Some(Ok(())) => {}
            Some(Err(error)) => error!(%error, "Wait for a terminated pod was lost"),
            None => std::future::pending().await,
        }
    }
}

impl SyncLoop {
    pub(super) fn request(&mut self, request: LoopRequest) {
        match request {
            LoopRequest::ShuttingDown(shuts_down) => {
                info!(shuts_down, "Admission of pods follows the shutdown of the node");
                self.parts.allocation.chain.node.shutting_down = shuts_down;
            }
            LoopRequest::ActivePods(answer) => self.pending.active.push(answer),
            LoopRequest::Terminate(termination, done) => self.terminate(termination, done),
        }
    }

    /// Answers requests for the active pods, once all are known.
    pub(super) fn answer_requests(&mut self) {
        if self.pending.active.is_empty() || !self.intake.is_started() {
            return;
        }
        let active: Vec<Arc<Pod>> = self.active().map(|(_, pod)| self.allocated(pod)).collect();
        for answer in self.pending.active.drain(..) {
            // The requester may have given up.
            answer.send(active.clone()).ok();
        }
    }

    fn terminate(&mut self, termination: Termination, done: oneshot::Sender<()>) {
        let Termination { uid, failure, grace } = termination;
        let Some(pod) = self.intake.pod(&uid) else { return };
        let target = Target::Pod(self.allocated(pod));
        let workers = self.parts.workers.clone();
        self.pending.terminations.spawn(async move {
            if workers.kill_and_wait(uid, target, grace, failure).await.is_ok() {
                done.send(()).ok();
            }
        });
    }
}
