//! Whether the runtime says that it can run containers, and what else it says it can do.
//!
//! A runtime that does not answer at all needs no word here: nothing is done for a pod before a look
//! at it succeeded.

use std::sync::Arc;
use std::time::Duration;

use model::ports::runtime::{RuntimeFeatures, RuntimeInfo};
use node::{NodeHandle, RuntimeHeard};
use tokio::sync::watch;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

/// How often the runtime is asked while it is ready, and while it is not, where no node does.
const PERIOD: Duration = Duration::from_secs(30);
const PERIOD_NOT_READY: Duration = Duration::from_secs(5);

/// Learns of the runtime.
#[derive(Debug)]
pub(crate) struct RuntimeState {
    source: Source,
    /// What it said. Closed when the task ends.
    said: watch::Sender<RuntimeHeard>,
}

/// Whom to ask.
#[derive(Debug)]
enum Source {
    /// The runtime itself.
    Runtime(Arc<dyn RuntimeInfo>),
    /// The node, which asks it often anyway: what it tells of itself and what is done for pods go together.
    Node(NodeHandle),
}

/// Tells whether the runtime is ready.
#[derive(Debug, Clone)]
pub(crate) struct Ready(watch::Receiver<RuntimeHeard>);

impl Ready {
    /// Whether the runtime is ready, as far as is known.
    pub(crate) fn is_ready(&self) -> bool {
        self.0.borrow().ready
    }

    /// What the runtime can do, if it has said so.
    pub(crate) fn features(&self) -> Option<RuntimeFeatures> {
        self.0.borrow().features
    }

    /// Waits until the runtime is ready; for ever once nobody asks it any more.
    pub(crate) async fn wait(&self) {
        if self.0.clone().wait_for(|said| said.ready).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

/// The task and what it tells. A runtime that was not asked yet is taken to be ready.
pub(crate) fn runtime_state(
    runtime: Arc<dyn RuntimeInfo>,
    node: Option<&NodeHandle>,
) -> (RuntimeState, Ready) {
    let source = node.map_or(Source::Runtime(runtime), |node| Source::Node(node.clone()));
    let (said, receiver) = watch::channel(RuntimeHeard { ready: true, features: None });
    (RuntimeState { source, said }, Ready(receiver))
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
                    let known = *self.said.borrow();
                    self.publish(node.other_runtime(known).await);
                }
                Source::Runtime(runtime) => {
                    self.ask(&**runtime).await;
                    let is_ready = self.said.borrow().ready;
                    sleep(if is_ready { PERIOD } else { PERIOD_NOT_READY }).await;
                }
            }
        }
    }

    async fn ask(&self, runtime: &dyn RuntimeInfo) {
        match runtime.status().await {
            Ok(status) => {
                let error = status.runtime_error();
                if let Some(error) = &error
                    && self.said.borrow().ready
                {
                    warn!(%error, "the runtime is not ready");
                }
                self.publish(RuntimeHeard {
                    ready: error.is_none(),
                    features: Some(status.features),
                });
            }
            Err(error) => debug!(%error, "the runtime does not say how it is"),
        }
    }

    fn publish(&self, now: RuntimeHeard) {
        let mut before = now;
        self.said.send_if_modified(|said| {
            before = std::mem::replace(said, now);
            before != now
        });
        match (before.ready, now.ready) {
            (false, true) => info!("the runtime is ready again"),
            (true, false) => info!("pods are left as they are until the runtime is ready"),
            _ => {}
        }
    }
}
