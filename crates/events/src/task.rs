//! Writes events one by one.

use std::sync::Arc;
use std::time::Duration;

use model::chain::Chain;
use model::cluster::ClusterEvent;
use model::jitter::fraction;
use model::log_throttle::LogThrottle;
use model::ports::cluster::{ApiError, ClusterEvents};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use crate::decide::{Correlator, DropReason, Next, next};
use crate::metrics::Metrics;

/// The delay of an event before it is written. Users do not read faster, and at the time of an event its pod is usually
/// still starting and needs the processors, and the API server for its status.
const REST: Duration = Duration::from_millis(500);
/// How long queued events are still written once the agent stops.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(1);

/// An event and the time at which it was recorded.
#[derive(Debug)]
pub(crate) struct QueuedEvent {
    pub(crate) event: ClusterEvent,
    pub(crate) at: Instant,
}

/// Writes queued events. Owns the correlator.
#[derive(Debug)]
pub struct EventWriter {
    receiver: mpsc::Receiver<QueuedEvent>,
    correlator: Correlator,
    metrics: Metrics,
    throttle: LogThrottle,
}

impl EventWriter {
    pub(crate) fn new(receiver: mpsc::Receiver<QueuedEvent>, metrics: Metrics) -> Self {
        let correlator = Correlator::default();
        Self { receiver, correlator, metrics, throttle: LogThrottle::default() }
    }

    /// Writes until `stop` is cancelled, and then the queued events, if the server accepts them at once.
    pub async fn run(mut self, server: Arc<dyn ClusterEvents>, stop: CancellationToken) {
        let mut held = None;
        // Biased: `stop` is cancelled once.
        tokio::select! {
            biased;
            () = stop.cancelled() => {}
            () = self.write(&*server, &mut held) => {}
        }
        let rest = async {
            while let Some(QueuedEvent { event, .. }) =
                held.take().or_else(|| self.receiver.try_recv().ok())
            {
                self.write_one(&*server, event).await;
            }
        };
        if timeout(FLUSH_TIMEOUT, rest).await.is_err() {
            debug!("Agent stops before all events were written");
        }
    }

    /// Writes until it is cancelled. `held` is the event that is delayed.
    async fn write(&mut self, server: &dyn ClusterEvents, held: &mut Option<QueuedEvent>) {
        while let Some(queued) = self.receiver.recv().await {
            let due = queued.at + REST;
            *held = Some(queued);
            sleep_until(due).await;
            if let Some(QueuedEvent { event, .. }) = held.take() {
                self.write_one(server, event).await;
            }
        }
        // All senders are gone; the stop follows.
        std::future::pending::<()>().await;
    }

    async fn write_one(&mut self, server: &dyn ClusterEvents, event: ClusterEvent) {
        match self.correlator.correlate(event) {
            Some(event) => self.send(server, &event).await,
            None => self.metrics.dropped(DropReason::TooMany),
        }
    }

    async fn send(&mut self, server: &dyn ClusterEvents, event: &ClusterEvent) {
        let mut counted = event.count > 1;
        let mut tries = 0;
        loop {
            let answer = if counted {
                server.count_event(event).await
            } else {
                server.write_event(event).await
            };
            tries += 1;
            match next(answer.as_ref().copied(), counted, tries, fraction()) {
                Next::Done => {
                    self.metrics.written();
                    self.recovered();
                    return;
                }
                Next::Write => {
                    counted = false;
                    tries -= 1;
                }
                Next::Wait(time) => {
                    self.failed(answer.err().as_ref());
                    sleep(time).await;
                }
                Next::Drop(why) => {
                    self.metrics.dropped(why);
                    log_dropped(event, answer.err().as_ref());
                    return;
                }
            }
        }
    }

    fn recovered(&mut self) {
        if let Some(after) = self.throttle.recovered(Instant::now().into_std()) {
            info!(?after, "Writing events to the API server works again");
        }
    }

    fn failed(&mut self, error: Option<&ApiError>) {
        if self.throttle.failed(Instant::now().into_std())
            && let Some(error) = error
        {
            warn!(error = %Chain(error), "Cannot write events to the API server, retrying");
        }
    }
}

fn log_dropped(event: &ClusterEvent, error: Option<&ApiError>) {
    if let Some(error) = error {
        let about = &event.about;
        debug!(kind = about.kind, namespace = about.namespace, name = about.name, reason = %event.reason,
            error = %Chain(error), "Server rejected event, not retrying");
    }
}
