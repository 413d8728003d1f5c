//! Stops containers in an unknown state outside of passes: a stop may take as long as the grace period of its
//! container, and a pass must not.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use model::ids::ContainerId;
use model::observed::{Container, ContainerStatus};
use model::panics::{PanicGuard, PanicStep, PanicSubject};
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

use super::StopUnknown;

/// How many containers are stopped concurrently; others wait.
const STOPS_AT_A_TIME: usize = 16;

/// The error of a stop when its task has ended.
const ENDED: &str = "the task that stops containers has ended";

/// The result of a stop; `None` while it is in progress.
type Outcome = Option<Result<(), String>>;

/// Stops containers in a task. When [`StopUnknown::stop`] is dropped, the stop continues, and the next call for
/// the same container waits for it.
#[derive(Debug)]
struct BackgroundStops {
    /// Never held across an await.
    under_way: Mutex<BTreeMap<ContainerId, watch::Receiver<Outcome>>>,
    /// Read by the task; closed when it ends.
    queue: mpsc::Sender<Job>,
}

#[derive(Debug)]
struct Job {
    container: Container,
    status: ContainerStatus,
    outcome: watch::Sender<Outcome>,
}

/// The task that stops containers.
#[derive(Debug)]
pub struct StopsTask {
    inner: Arc<dyn StopUnknown>,
    panics: PanicGuard,
    queue: mpsc::Receiver<Job>,
}

/// Creates a stopper that calls `stop` in its own task.
pub fn background_stops(
    inner: Arc<dyn StopUnknown>,
    panics: PanicGuard,
) -> (StopsTask, Arc<dyn StopUnknown>) {
    let (sender, queue) = mpsc::channel(1);
    let stops = BackgroundStops { under_way: Mutex::default(), queue: sender };
    (StopsTask { inner, panics, queue }, Arc::new(stops))
}

impl BackgroundStops {
    fn under_way(&self) -> MutexGuard<'_, BTreeMap<ContainerId, watch::Receiver<Outcome>>> {
        self.under_way.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The stop of a container that is in progress.
    fn joined(&self, id: &ContainerId) -> Option<watch::Receiver<Outcome>> {
        let mut under_way = self.under_way();
        // A stop whose task has ended has no result any more.
        under_way.retain(|_, outcome| outcome.borrow().is_none() && outcome.has_changed().is_ok());
        under_way.get(id).cloned()
    }

    /// Starts a stop.
    async fn begun(
        &self,
        container: &Container,
        status: &ContainerStatus,
    ) -> Result<watch::Receiver<Outcome>, String> {
        let place = self.queue.reserve().await.map_err(|_| ENDED.to_owned())?;
        let (sender, outcome) = watch::channel(None);
        self.under_way().insert(container.id.clone(), outcome.clone());
        let (container, status) = (container.clone(), status.clone());
        place.send(Job { container, status, outcome: sender });
        Ok(outcome)
    }
}

#[async_trait]
impl StopUnknown for BackgroundStops {
    async fn stop(&self, container: &Container, status: &ContainerStatus) -> Result<(), String> {
        let mut outcome = match self.joined(&container.id) {
            Some(outcome) => outcome,
            None => self.begun(container, status).await?,
        };
        let stopped = outcome.wait_for(Option::is_some).await;
        stopped.ok().and_then(|stopped| stopped.clone()).unwrap_or_else(|| Err(ENDED.to_owned()))
    }
}

impl StopsTask {
    /// Stops containers until it is stopped itself.
    pub async fn run(mut self, stop: CancellationToken) {
        let (inner, panics) = (Arc::clone(&self.inner), self.panics.clone());
        let mut under_way = FuturesUnordered::new();
        loop {
            // Biased: the agent's stop comes first; a finished container stop makes room for the next.
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                Some(()) = under_way.next() => {}
                Some(job) = self.queue.recv(), if under_way.len() < STOPS_AT_A_TIME => {
                    under_way.push(job.run(&*inner, &panics));
                }
            }
        }
    }
}

impl Job {
    async fn run(self, inner: &dyn StopUnknown, panics: &PanicGuard) {
        let Self { container, status, outcome } = &self;
        let of = PanicSubject::Pod(&container.pod_uid, Some(&container.pod));
        let stop = inner.stop(container, status);
        let stopped = panics.catch_async(PanicStep::ContainerGc, of, stop).await;
        outcome.send_replace(Some(stopped.unwrap_or_else(|panic| Err(panic.to_string()))));
    }
}
