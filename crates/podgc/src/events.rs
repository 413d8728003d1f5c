//! Writes events about deletions, at their own pace.
//!
//! A deletion waits for room for its event. So slow events slow down deletions, and no event is lost because
//! there are many; the queue is bounded nevertheless. If no event is written for a while, deletions go on
//! without events, at full pace, until one is.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use model::chain::Chain;
use model::cluster::ClusterEvent;
use model::ports::cluster::{ApiError, ClusterEvents};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use crate::metrics::Metrics;

/// The length of the event queue.
pub const WAITING: usize = 256;

/// How long queued events are written after a stop; the rest is dropped and counted.
pub const FLUSH: Duration = Duration::from_secs(5);

/// How long a deletion waits for room. Deletions continue without events if these cannot be
/// written.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// How many events are written concurrently.
const AT_A_TIME: usize = 4;
/// The attempts for an event while the server is unavailable or throttles, and the delays between them.
const TRIES: u32 = 3;
const PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// Writes queued events until it is stopped and the queue is empty.
pub async fn write_events(
    events: Arc<dyn ClusterEvents>,
    mut coming: mpsc::Receiver<ClusterEvent>,
    metrics: Metrics,
    stop: CancellationToken,
) {
    let (mut is_open, mut ends) = (true, None);
    let mut under_way = FuturesUnordered::new();
    while ends.is_none() || is_open || !under_way.is_empty() {
        let has_room = under_way.len() < AT_A_TIME;
        // Biased: the stop comes first.
        tokio::select! {
            biased;
            () = stop.cancelled(), if ends.is_none() => {
                coming.close();
                ends = Some(Instant::now() + FLUSH);
            }
            () = sleep_until(ends.unwrap_or_else(Instant::now)), if ends.is_some() => break,
            Some(()) = under_way.next() => {}
            event = coming.recv(), if is_open && has_room => match event {
                Some(event) => under_way.push(write(&*events, event, &metrics)),
                None => is_open = false,
            },
        }
    }
    let left = under_way.len() + coming.len();
    if left > 0 {
        warn!(events = left, "Stopped before all events were written");
        metrics.events_dropped(left);
    }
}

async fn write(events: &dyn ClusterEvents, event: ClusterEvent, metrics: &Metrics) {
    for number in 1.. {
        let error = match events.write_event(&event).await {
            Ok(()) => return,
            // The response to an earlier attempt was lost.
            Err(ApiError::Conflict(_)) if number > 1 => return,
            Err(error) => error,
        };
        if number >= TRIES || !error.is_away() {
            debug!(error = %Chain(&error), about = event.about.name, "Cannot write event");
            metrics.events_dropped(1);
            return;
        }
        sleep(error.retry_after().unwrap_or(PAUSE).min(LONGEST_PAUSE)).await;
    }
}
