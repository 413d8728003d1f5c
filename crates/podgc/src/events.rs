//! Writes events about deletions, slower than deletions if need be.

use std::sync::Arc;
use std::time::Duration;

use model::chain::Chain;
use model::cluster::ClusterEvent;
use model::ports::cluster::ClusterEvents;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tracing::debug;

use crate::metrics::Metrics;

/// How many events wait to be written; more are dropped and counted.
pub const WAITING: usize = 1024;

/// No faster than this, so that deletions have the server for themselves.
const PAUSE: Duration = Duration::from_millis(200);

/// Writes what comes, until it is told to stop.
pub async fn write_events(
    events: Arc<dyn ClusterEvents>,
    mut coming: mpsc::Receiver<ClusterEvent>,
    metrics: Metrics,
    stop: CancellationToken,
) {
    let write = async {
        while let Some(event) = coming.recv().await {
            if let Err(error) = events.write_event(&event).await {
                debug!(error = %Chain(&error), about = event.about.name, "an event was not written");
                metrics.event_dropped();
            }
            tokio::time::sleep(PAUSE).await;
        }
        // Nobody deletes any more; the stop follows.
        std::future::pending::<()>().await;
    };
    // Biased: a stop comes once.
    tokio::select! {
        biased;
        () = stop.cancelled() => {}
        () = write => {}
    }
}
