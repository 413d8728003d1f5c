//! Asks the runtime how it is.

use std::sync::Arc;
use std::time::Duration;

use model::ports::runtime::RuntimeInfo;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use crate::decide::facts::Facts;
use crate::decide::pace::next_check;

/// How long the answer may take.
const LONGEST: Duration = Duration::from_secs(10);
/// From one question to the next.
const LEAST_PAUSE: Duration = Duration::from_millis(500);

/// Asks the runtime how it is, now and then and when told to.
#[derive(Debug)]
pub struct RuntimeCheck {
    runtime: Arc<dyn RuntimeInfo>,
    facts: watch::Sender<Facts>,
    again: Arc<Notify>,
    start: Instant,
    was_ready: bool,
}

impl RuntimeCheck {
    pub(crate) fn new(
        runtime: Arc<dyn RuntimeInfo>,
        facts: watch::Sender<Facts>,
        again: Arc<Notify>,
        start: Instant,
    ) -> Self {
        Self { runtime, facts, again, start, was_ready: false }
    }

    /// Asks until told to stop.
    pub async fn run(mut self, stop: CancellationToken) {
        // Biased: a stop comes once.
        tokio::select! {
            biased;
            () = stop.cancelled() => {}
            () = self.ask_again_and_again() => {}
        }
    }

    async fn ask_again_and_again(&mut self) {
        loop {
            let is_ready = self.ask().await;
            self.was_ready |= is_ready;
            let wait = next_check(self.start.elapsed(), self.was_ready, is_ready);
            let asked = Instant::now();
            if timeout(wait, self.again.notified()).await.is_ok() {
                debug!("somebody wants to know how the runtime is");
                // Many may want to know.
                sleep(LEAST_PAUSE.saturating_sub(asked.elapsed())).await;
            }
        }
    }

    /// Asks once; whether it is ready. No answer changes nothing: that it is silent shows by itself.
    async fn ask(&self) -> bool {
        let status = match timeout(LONGEST, self.runtime.status()).await {
            Ok(Ok(status)) => status,
            Ok(Err(error)) => {
                debug!(%error, "the runtime does not say how it is");
                return false;
            }
            Err(_) => {
                debug!("the runtime does not say in time how it is");
                return false;
            }
        };
        if self.facts.borrow().runtime.version.is_none() {
            ask_version(&*self.runtime, &self.facts).await;
        }
        let at = self.start.elapsed();
        let mut is_ready = false;
        let changed = self.facts.send_if_modified(|facts| {
            let changed = facts.runtime.heard(&status, at);
            is_ready = facts.runtime.is_ready();
            changed
        });
        if changed && is_ready {
            info!("the runtime and its network are ready");
        } else if changed && self.was_ready {
            let (runtime, network) = (&status.runtime, &status.network);
            warn!(?runtime, ?network, "the runtime or its network is not ready");
        }
        is_ready
    }
}

/// Asks name and version of the runtime.
pub(crate) async fn ask_version(runtime: &dyn RuntimeInfo, facts: &watch::Sender<Facts>) {
    match timeout(LONGEST, runtime.version()).await {
        Ok(Ok(version)) => {
            facts
                .send_if_modified(|facts| facts.runtime.is_called(&version.name, &version.version));
        }
        Ok(Err(error)) => debug!(%error, "the runtime does not say its version"),
        Err(_) => debug!("the runtime does not say its version in time"),
    }
}
