//! Whether the runtime is ready to run containers, and its features.
//!
//! A runtime that does not answer at all needs no handling here: no pod is synced before its status was
//! read.

use std::sync::Arc;
use std::time::Duration;

use model::ports::runtime::{RuntimeFeatures, RuntimeInfo};
use node::{NodeHandle, ReportedRuntime};
use tokio::sync::watch;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

/// How often the runtime's status is requested while it is ready, and while it is not. Without a node part only.
const PERIOD: Duration = Duration::from_secs(30);
const PERIOD_NOT_READY: Duration = Duration::from_secs(5);

/// Requests the status of the runtime.
#[derive(Debug)]
pub(crate) struct RuntimeState {
    source: Source,
    /// The last known state. Closed when the task ends.
    state: watch::Sender<ReportedRuntime>,
}

/// The source of the state.
#[derive(Debug)]
enum Source {
    /// The runtime itself.
    Runtime(Arc<dyn RuntimeInfo>),
    /// The node part, which requests the status anyway: the Ready condition and the syncs of pods agree.
    Node(NodeHandle),
}

/// Reads whether the runtime is ready.
#[derive(Debug, Clone)]
pub(crate) struct Ready(watch::Receiver<ReportedRuntime>);

impl Ready {
    /// Whether the runtime is ready, by the last status.
    pub(crate) fn is_ready(&self) -> bool {
        self.0.borrow().ready
    }

    /// The features of the runtime, if it has reported them.
    pub(crate) fn features(&self) -> Option<RuntimeFeatures> {
        self.0.borrow().features
    }

    /// Waits until the runtime is ready; never returns once the task has ended.
    pub(crate) async fn wait(&self) {
        if self.0.clone().wait_for(|state| state.ready).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

/// The task and its reader. The runtime counts as ready before its first status.
pub(crate) fn runtime_state(
    runtime: Arc<dyn RuntimeInfo>,
    node: Option<&NodeHandle>,
) -> (RuntimeState, Ready) {
    let source = node.map_or(Source::Runtime(runtime), |node| Source::Node(node.clone()));
    let (state, receiver) = watch::channel(ReportedRuntime { ready: true, features: None });
    (RuntimeState { source, state }, Ready(receiver))
}

impl RuntimeState {
    pub(crate) async fn run(self, stop: CancellationToken) {
        // Biased: a stop comes once.
        tokio::select! {
            biased;
            () = stop.cancelled() => {}
            () = self.follow() => {}
        }
    }

    async fn follow(&self) {
        loop {
            match &self.source {
                Source::Node(node) => {
                    let known = *self.state.borrow();
                    self.publish(node.other_runtime(known).await);
                }
                Source::Runtime(runtime) => {
                    self.refresh(&**runtime).await;
                    let is_ready = self.state.borrow().ready;
                    sleep(if is_ready { PERIOD } else { PERIOD_NOT_READY }).await;
                }
            }
        }
    }

    async fn refresh(&self, runtime: &dyn RuntimeInfo) {
        match runtime.status().await {
            Ok(status) => {
                let error = status.runtime_error();
                if let Some(error) = &error
                    && self.state.borrow().ready
                {
                    warn!(%error, "Container runtime is not ready");
                }
                self.publish(ReportedRuntime {
                    ready: error.is_none(),
                    features: Some(status.features),
                });
            }
            Err(error) => debug!(%error, "Cannot read the status of the container runtime"),
        }
    }

    fn publish(&self, now: ReportedRuntime) {
        let mut before = now;
        self.state.send_if_modified(|state| {
            before = std::mem::replace(state, now);
            before != now
        });
        match (before.ready, now.ready) {
            (false, true) => info!("Container runtime is ready again"),
            (true, false) => info!("Pods are not synced until the container runtime is ready"),
            _ => {}
        }
    }
}
