//! Checks the state of the runtime.

use std::sync::Arc;
use std::time::Duration;

use model::ports::runtime::RuntimeInfo;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use crate::decide::facts::Facts;
use crate::decide::pace::next_check;

/// The timeout of a check.
const LONGEST: Duration = Duration::from_secs(10);
/// The minimum interval of checks.
const LEAST_PAUSE: Duration = Duration::from_millis(500);

/// Checks the runtime periodically, and on request.
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

    /// Checks until `stop` is cancelled.
    pub async fn run(mut self, stop: CancellationToken) {
        // Biased: `stop` is cancelled once.
        tokio::select! {
            biased;
            () = stop.cancelled() => {}
            () = self.check_periodically() => {}
        }
    }

    async fn check_periodically(&mut self) {
        loop {
            let is_ready = self.check().await;
            self.was_ready |= is_ready;
            let wait = next_check(self.start.elapsed(), self.was_ready, is_ready);
            let requested = Instant::now();
            if timeout(wait, self.again.notified()).await.is_ok() {
                debug!("Runtime check requested");
                // Requests may come in bursts.
                sleep(LEAST_PAUSE.saturating_sub(requested.elapsed())).await;
            }
        }
    }

    /// Checks once; returns whether it is ready. A failed check changes nothing: the age of the last success shows it.
    async fn check(&self) -> bool {
        let status = match timeout(LONGEST, self.runtime.status()).await {
            Ok(Ok(status)) => status,
            Ok(Err(error)) => {
                debug!(%error, "Runtime status check failed");
                return false;
            }
            Err(_) => {
                debug!("Runtime status check timed out");
                return false;
            }
        };
        if self.facts.borrow().runtime.version.is_none() {
            update_version(&*self.runtime, &self.facts).await;
        }
        let at = self.start.elapsed();
        let mut is_ready = false;
        let changed = self.facts.send_if_modified(|facts| {
            let changed = facts.runtime.update(&status, at);
            is_ready = facts.runtime.is_ready();
            changed
        });
        if changed && is_ready {
            info!("Container runtime and its network are ready");
        } else if changed && self.was_ready {
            let (runtime, network) = (&status.runtime, &status.network);
            warn!(?runtime, ?network, "Container runtime or its network is not ready");
        }
        is_ready
    }
}

/// Reads name and version of the runtime.
pub(crate) async fn update_version(runtime: &dyn RuntimeInfo, facts: &watch::Sender<Facts>) {
    match timeout(LONGEST, runtime.version()).await {
        Ok(Ok(version)) => {
            facts.send_if_modified(|facts| {
                facts.runtime.set_version(&version.name, &version.version)
            });
        }
        Ok(Err(error)) => debug!(%error, "Cannot get runtime version"),
        Err(_) => debug!("Timed out getting runtime version"),
    }
}
