//! Writes events, one after the other.

use std::sync::Arc;

use model::chain::Chain;
use model::chance::fraction;
use model::cluster::ClusterEvent;
use model::ports::cluster::{ApiError, ClusterEvents};
use model::trouble::Trouble;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use crate::decide::{Correlator, Dropped, Next, next};
use crate::metrics::Metrics;

/// Writes what is taken. Owns what is remembered of it.
#[derive(Debug)]
pub struct EventWriter {
    coming: mpsc::Receiver<ClusterEvent>,
    correlator: Correlator,
    metrics: Metrics,
    trouble: Trouble,
}

impl EventWriter {
    pub(crate) fn new(coming: mpsc::Receiver<ClusterEvent>, metrics: Metrics) -> Self {
        let correlator = Correlator::default();
        Self { coming, correlator, metrics, trouble: Trouble::default() }
    }

    /// Writes until it is told to stop; what waits then is lost.
    pub async fn run(mut self, server: Arc<dyn ClusterEvents>, stop: CancellationToken) {
        let write = async {
            while let Some(event) = self.coming.recv().await {
                match self.correlator.correlate(event) {
                    Some(event) => self.send(&*server, &event).await,
                    None => self.metrics.dropped(Dropped::TooMany),
                }
            }
            // Nobody tells any more; the stop follows.
            std::future::pending::<()>().await;
        };
        // Biased: a stop comes once.
        tokio::select! {
            biased;
            () = stop.cancelled() => {}
            () = write => {}
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
        if let Some(after) = self.trouble.over(Instant::now().into_std()) {
            info!(?after, "the API server takes events again");
        }
    }

    fn failed(&mut self, error: Option<&ApiError>) {
        if self.trouble.failed(Instant::now().into_std())
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
