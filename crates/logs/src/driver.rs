//! The driver of a container log: waits, checks, rotates.

use std::sync::Arc;
use std::time::Duration;

use model::chain::Chain;
use model::ports::files::FileError;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use crate::decide::growth::{Growth, LogCheck, NextLook, ROTATION_GAP};
use crate::rotation::RotationError;
use crate::shared::Shared;
use crate::table::Log;

/// How long a quiet log is not checked. The notice of a write can be lost.
pub const REPAIR: Duration = Duration::from_mins(5);

/// Checks one log, and rotates it.
#[derive(Debug)]
pub(crate) struct Driver {
    shared: Arc<Shared>,
    log: Arc<Log>,
    growth: Growth,
    looked_at: Instant,
    rotated_at: Option<Instant>,
    /// Whether the last operation failed: a failure is logged once.
    has_failed: bool,
}

impl Driver {
    pub(crate) fn new(shared: Arc<Shared>, log: Arc<Log>) -> Self {
        let growth = Growth::quiet(0);
        let looked_at = Instant::now();
        Self { shared, log, growth, looked_at, rotated_at: None, has_failed: false }
    }

    /// Runs until the container has terminated or the agent stops. A rotation in progress is completed.
    pub(crate) async fn run(mut self, stop: CancellationToken) {
        let mut next = Box::pin(self.first_look()).await;
        while !stop.is_cancelled() {
            next = match next {
                NextLook::Rotate => Box::pin(self.rotate()).await,
                NextLook::After(delay) => {
                    if stop.run_until_cancelled(sleep(delay)).await.is_none() {
                        break;
                    }
                    Box::pin(self.look()).await
                }
                NextLook::OnWrite => match stop.run_until_cancelled(self.wait_for_write()).await {
                    Some(next) => next,
                    None => break,
                },
            };
        }
        // The last writes count too.
        self.shared.list(&self.log).await.ok();
        self.shared.queue.forget(&self.log);
    }

    /// Takes over existing files of an earlier agent.
    async fn first_look(&mut self) -> NextLook {
        let size = match self.shared.after_rotation(&self.log).await {
            Ok(size) => size,
            Err(error) if error.is_not_found() => 0,
            Err(error) => return self.failed(&RotationError::Prepare(error)),
        };
        self.looked_at = Instant::now();
        self.growth = Growth::quiet(size);
        NextLook::OnWrite
    }

    /// Waits until a quiet log is written to.
    async fn wait_for_write(&mut self) -> NextLook {
        let watch = self.shared.parts.files.watch(&self.log.path).await;
        // Writes before the watch show now.
        let next = Box::pin(self.look()).await;
        let written = match watch {
            Ok(written) if next == NextLook::OnWrite => written,
            Err(error) if next == NextLook::OnWrite => {
                debug!(error = %Chain(&error), "Cannot watch container log, polling it");
                return NextLook::After(self.shared.settings.monitor_interval);
            }
            _ => return next,
        };
        tokio::select! {
            // Biased: both branches lead to a check.
            biased;
            () = written => {
                self.looked_at = Instant::now();
                self.growth.written()
            }
            () = sleep(REPAIR) => NextLook::OnWrite,
        }
    }

    async fn look(&mut self) -> NextLook {
        match self.shared.parts.files.size(&self.log.path).await {
            Ok(size) => self.looked(size),
            Err(error) if error.is_not_found() => self.missing().await,
            Err(error) => self.failed(&RotationError::Prepare(error)),
        }
    }

    fn looked(&mut self, size: u64) -> NextLook {
        self.has_failed = false;
        self.shared.table().store_size(&self.log, size);
        let now = Instant::now();
        let look = LogCheck {
            size,
            elapsed: now - self.looked_at,
            may_rotate_in: self
                .rotated_at
                .map_or(Duration::ZERO, |at| (at + ROTATION_GAP).saturating_duration_since(now)),
        };
        self.looked_at = now;
        self.growth.looked(look, self.shared.limits(&self.log))
    }

    /// The live file is missing: an agent was killed during a rotation, or another program removed
    /// it.
    async fn missing(&mut self) -> NextLook {
        if let Err(error) = self.shared.reopen(&self.log).await {
            return self.failed(&error);
        }
        match self.shared.parts.files.size(&self.log.path).await {
            Ok(size) => {
                self.growth = Growth::quiet(size);
                self.looked(size)
            }
            Err(error) => {
                // The runtime writes no log file.
                debug!(container = %self.log.id, error = %Chain(&error), "Container log is missing");
                NextLook::After(REPAIR)
            }
        }
    }

    async fn rotate(&mut self) -> NextLook {
        let rotated = self.shared.rotate(&self.log).await;
        self.shared.parts.metrics.rotated(rotated.is_ok());
        if let Err(error) = rotated {
            return self.failed(&error);
        }
        self.rotated_at = Some(Instant::now());
        self.looked_at = Instant::now();
        let size: Result<u64, FileError> = self.shared.after_rotation(&self.log).await;
        match size {
            Ok(size) => self.growth.rotated(size, self.shared.limits(&self.log)),
            Err(error) => self.failed(&RotationError::Prepare(error)),
        }
    }

    /// Tries again after an interval.
    fn failed(&mut self, error: &RotationError) -> NextLook {
        let (container, pod) = (&*self.log.key.container, &self.log.pod);
        if self.has_failed {
            debug!(container, %pod, error = %Chain(error), "Cannot rotate container log");
        } else {
            warn!(container, %pod, error = %Chain(error), "Cannot rotate container log");
        }
        self.has_failed = true;
        NextLook::After(self.shared.settings.monitor_interval)
    }
}
