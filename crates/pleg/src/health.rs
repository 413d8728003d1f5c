//! Health: the age of the last successful relist.

use std::time::Duration;

use model::go_duration::milliseconds;
use tokio::sync::watch;
use tokio::time::Instant;

/// When the last successful relist began. Written by the relist task, which closes it when it ends.
#[derive(Debug, Clone)]
pub struct Health {
    pub(crate) relisted: watch::Receiver<Option<Instant>>,
    /// The largest age of the last relist of a healthy agent.
    pub(crate) threshold: Duration,
}

/// Why the lifecycle event generator is not healthy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unhealthy {
    /// No relist succeeded so far.
    #[error("pleg has yet to be successful")]
    NeverRelisted,
    /// The last relist is too old.
    #[error(
        "pleg was last seen active {} ago; threshold is {}",
        milliseconds(*since),
        milliseconds(*threshold)
    )]
    Stale {
        /// How long ago the last successful relist began.
        since: Duration,
        /// The largest healthy age.
        threshold: Duration,
    },
}

impl Health {
    /// Waits for the first successful relist; never returns if the task ends before.
    pub async fn relisted(&mut self) {
        if self.relisted.wait_for(Option::is_some).await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// Waits until the last successful relist is recent enough; never returns if the task ends
    /// before.
    pub async fn healthy(&mut self) {
        while self.check(Instant::now()).is_err() {
            if self.relisted.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    /// Whether the last successful relist is recent enough at `now`.
    pub fn check(&self, now: Instant) -> Result<(), Unhealthy> {
        let Some(began) = *self.relisted.borrow() else {
            return Err(Unhealthy::NeverRelisted);
        };
        let (since, threshold) = (now.duration_since(began), self.threshold);
        if since > threshold { Err(Unhealthy::Stale { since, threshold }) } else { Ok(()) }
    }
}
