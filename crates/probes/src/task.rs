//! The tasks of the probe manager: one starts attempts and takes their results, one saves results.

use std::sync::Arc;
use std::time::Duration;

use model::ports::events::PodEvent;
use tokio::task::{JoinError, JoinSet};
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use crate::attempt::AttemptResult;
use crate::decide::events::event;
use crate::manager::{ProbeManager, Shared};

/// The shortest time between two writes of the results.
const SAVE_PERIOD: Duration = Duration::from_secs(1);

impl ProbeManager {
    /// Probes until it is stopped.
    pub async fn run(self, stop: CancellationToken) {
        let mut attempts = JoinSet::new();
        loop {
            let wake_at = self.shared.start_due(&mut attempts);
            let timer = async {
                match wake_at {
                    Some(at) => sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            // Biased: a stop comes once; results make room for other attempts.
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                Some(ended) = attempts.join_next() => {
                    self.shared.ended(ended);
                    while let Some(ended) = attempts.try_join_next() {
                        self.shared.ended(ended);
                    }
                }
                () = self.shared.wake.notified() => {}
                () = timer => {}
            }
        }
    }

    /// Saves results that changed, at most once a second, until it is stopped.
    pub async fn keep(self, stop: CancellationToken) {
        let save = async {
            loop {
                self.shared.unsaved.notified().await;
                self.shared.save().await;
                sleep(SAVE_PERIOD).await;
            }
        };
        stop.run_until_cancelled(save).await;
        // Changes of the last second.
        self.shared.save().await;
    }
}

impl Shared {
    fn start_due(self: &Arc<Self>, attempts: &mut JoinSet<AttemptResult>) -> Option<Instant> {
        let (due, next) = self.state().take_due(Instant::now());
        for attempt in due {
            let shared = Arc::clone(self);
            attempts.spawn(async move { attempt.run(&shared.parts).await });
        }
        next
    }

    fn ended(&self, ended: Result<AttemptResult, JoinError>) {
        let ended = match ended {
            Ok(ended) => ended,
            Err(error) => {
                // Attempts catch their panics.
                warn!(%error, "A probe attempt was lost");
                return;
            }
        };
        let mut state = self.state();
        let target = state.ended(&ended, self.moment());
        // With the lock held, so that the series of a removed pod are not created again.
        if let (Some(target), Ok(output)) = (&target, &ended.returned) {
            self.parts.metrics.count(target.series(), output.verdict, ended.took);
        }
        let (has_changed, is_unsaved) = (state.has_changed(), state.is_unsaved());
        drop(state);
        if has_changed {
            self.changed.notify_one();
        }
        if is_unsaved {
            self.unsaved.notify_one();
        }
        let Some(target) = target else { return };
        if let Some(event) = event(target.kind, &ended.returned) {
            let (pod, container) = (&target.pod_name, &target.container().name);
            debug!(%pod, container, kind = %target.kind, reason = event.reason, "Probe failed");
            self.parts.events.record(PodEvent {
                pod_uid: target.uid.clone(),
                pod: pod.clone(),
                field_path: Arc::clone(&target.field_path),
                kind: event.kind,
                reason: event.reason.into(),
                message: event.message,
                annotations: Vec::new(),
            });
        }
    }

    async fn save(&self) {
        let Some(probes) = self.state().take_unsaved() else { return };
        if let Err(error) = self.checkpoint.write(&probes).await {
            let path = self.checkpoint.path().display();
            warn!(%path, %error, "Cannot save probe results, retrying");
            self.state().set_unsaved();
            self.unsaved.notify_one();
        }
    }
}
