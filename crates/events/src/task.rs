//! Writes events, one after the other.

use std::sync::Arc;
use std::time::Duration;

use model::chain::Chain;
use model::jitter::fraction;
use model::cluster::ClusterEvent;
use model::ports::cluster::{ApiError, ClusterEvents};
use model::log_throttle::LogThrottle;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use crate::decide::{Correlator, Dropped, Next, next};
use crate::metrics::Metrics;

/// How long an event waits before it is written. People do not read faster, and what it tells of is still under way: a
/// pod that starts needs the processors, and the API server for its status.
const REST: Duration = Duration::from_millis(500);
/// How long what waits is written for once the agent stops.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// An event, and when it was told.
#[derive(Debug)]
pub(crate) struct Told {
    pub(crate) event: ClusterEvent,
    pub(crate) at: Instant,
}

/// Writes what is taken. Owns what is remembered of it.
#[derive(Debug)]
pub struct EventWriter {
    coming: mpsc::Receiver<Told>,
    correlator: Correlator,
    metrics: Metrics,
    throttle: LogThrottle,
}

impl EventWriter {
    pub(crate) fn new(coming: mpsc::Receiver<Told>, metrics: Metrics) -> Self {
        let correlator = Correlator::default();
        Self { coming, correlator, metrics, throttle: LogThrottle::default() }
    }

    /// Writes until it is told to stop, and then what waits, if the server takes it at once.
    pub async fn run(mut self, server: Arc<dyn ClusterEvents>, stop: CancellationToken) {
        let mut held = None;
        // Biased: a stop comes once.
        tokio::select! {
            biased;
            () = stop.cancelled() => {}
            () = self.write(&*server, &mut held) => {}
        }
        let rest = async {
            while let Some(Told { event, .. }) = held.take().or_else(|| self.coming.try_recv().ok())
            {
                self.write_one(&*server, event).await;
            }
        };
        if timeout(LAST_WORDS, rest).await.is_err() {
            debug!("the agent stops before all events were written");
        }
    }

    /// Writes for ever. What waits for its time is in `held`.
    async fn write(&mut self, server: &dyn ClusterEvents, held: &mut Option<Told>) {
        while let Some(told) = self.coming.recv().await {
            let due = told.at + REST;
            *held = Some(told);
            sleep_until(due).await;
            if let Some(Told { event, .. }) = held.take() {
                self.write_one(server, event).await;
            }
        }
        // Nobody tells any more; the stop follows.
        std::future::pending::<()>().await;
    }

    async fn write_one(&mut self, server: &dyn ClusterEvents, event: ClusterEvent) {
        match self.correlator.correlate(event) {
            Some(event) => self.send(server, &event).await,
            None => self.metrics.dropped(Dropped::TooMany),
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
                    self.works_again();
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
                    tell_dropped(event, answer.err().as_ref());
                    return;
                }
            }
        }
    }

    fn works_again(&mut self) {
        if let Some(after) = self.throttle.recovered(Instant::now().into_std()) {
            info!(?after, "the API server takes events again");
        }
    }

    fn failed(&mut self, error: Option<&ApiError>) {
        if self.throttle.failed(Instant::now().into_std())
            && let Some(error) = error
        {
            warn!(error = %Chain(error), "the API server takes no events; trying again");
        }
    }
}

fn tell_dropped(event: &ClusterEvent, error: Option<&ApiError>) {
    if let Some(error) = error {
        let about = &event.about;
        debug!(kind = about.kind, namespace = about.namespace, name = about.name, reason = %event.reason,
            error = %Chain(error), "an event was not written");
    }
}
