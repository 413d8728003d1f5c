//! Whether the runtime says that it can run containers, and what else it says it can do.
//!
//! A runtime that does not answer at all needs no word here: nothing is done for a pod before a look
//! at it succeeded.

use std::sync::Arc;
use std::time::Duration;

use model::ports::runtime::{Runtime, RuntimeFeatures};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

/// How often the runtime is asked while it is ready, and while it is not.
const PERIOD: Duration = Duration::from_secs(30);
const PERIOD_NOT_READY: Duration = Duration::from_secs(5);

/// Asks the runtime now and then.
#[derive(Debug)]
pub(crate) struct RuntimeState {
    runtime: Arc<dyn Runtime>,
    /// What it said. Closed when the task ends.
    said: watch::Sender<Said>,
}

/// What the runtime said.
#[derive(Debug)]
struct Said {
    /// Whether it is ready.
    ready: bool,
    /// What it can do, once it was asked.
    features: Option<RuntimeFeatures>,
}

/// Tells whether the runtime is ready.
#[derive(Debug, Clone)]
pub(crate) struct Ready(watch::Receiver<Said>);

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
pub(crate) fn runtime_state(runtime: Arc<dyn Runtime>) -> (RuntimeState, Ready) {
    let (said, receiver) = watch::channel(Said { ready: true, features: None });
    (RuntimeState { runtime, said }, Ready(receiver))
}

impl RuntimeState {
    pub(crate) async fn run(self, stop: CancellationToken) {
        loop {
            // Biased: a stop comes once.
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                () = self.ask() => {}
            }
            let is_ready = self.said.borrow().ready;
            let period = if is_ready { PERIOD } else { PERIOD_NOT_READY };
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                () = tokio::time::sleep(period) => {}
            }
        }
    }

    async fn ask(&self) {
        let status = match self.runtime.status().await {
            Ok(status) => status,
            Err(error) => {
                debug!(%error, "the runtime does not say how it is");
                return;
            }
        };
        let (runtime, features) = (status.runtime, Some(status.features));
        let mut changed = false;
        self.said.send_if_modified(|said| {
            said.features = features;
            changed = std::mem::replace(&mut said.ready, runtime.ready) != runtime.ready;
            changed
        });
        if changed {
            let (reason, message) = (runtime.reason, runtime.message);
            if runtime.ready {
                info!("the runtime is ready again");
            } else {
                warn!(%reason, %message, "the runtime is not ready; pods are left as they are");
            }
        }
    }
}
