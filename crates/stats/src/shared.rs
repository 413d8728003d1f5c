//! Measurements that requests share: one at a time, used again while it is young enough.

use std::sync::Arc;
use std::time::Duration;

use model::ports::usage::UsageError;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// The requests that wait for a measurement in a queue; more wait in front of it.
const QUEUE: usize = 64;

type Measured<T> = Result<Arc<T>, UsageError>;

#[derive(Debug)]
struct Request<T> {
    /// A measurement that began before is too old.
    oldest: Option<Instant>,
    at: Instant,
    answer: oneshot::Sender<Measured<T>>,
}

/// Requests measurements.
#[derive(Debug)]
pub(crate) struct Shared<T>(mpsc::Sender<Request<T>>);

impl<T> Clone for Shared<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

/// Makes the requested measurements.
#[derive(Debug)]
pub(crate) struct SharedTask<T>(mpsc::Receiver<Request<T>>);

/// A measurement for many requests.
pub(crate) fn shared<T>() -> (Shared<T>, SharedTask<T>) {
    let (sender, receiver) = mpsc::channel(QUEUE);
    (Shared(sender), SharedTask(receiver))
}

impl<T> Shared<T> {
    /// A measurement that is not older than `max_age`.
    pub(crate) async fn get(&self, max_age: Duration) -> Measured<T> {
        let (answer, measured) = oneshot::channel();
        let at = Instant::now();
        let request = Request { oldest: at.checked_sub(max_age), at, answer };
        let ended = || UsageError {
            step: "measure usage".to_owned(),
            message: "the agent is stopping".to_owned(),
        };
        self.0.send(request).await.map_err(|_| ended())?;
        measured.await.map_err(|_| ended())?
    }
}

/// The last measurement.
#[derive(Debug)]
struct Last<T> {
    began: Instant,
    ended: Instant,
    result: Measured<T>,
}

impl<T> Last<T> {
    /// Whether it answers a request. A failure answers only those that waited for it.
    fn answers(&self, request: &Request<T>) -> bool {
        match &self.result {
            Ok(_) => request.oldest.is_none_or(|oldest| oldest <= self.began),
            Err(_) => request.at <= self.ended,
        }
    }
}

impl<T> SharedTask<T> {
    /// Measures on request, until the stop.
    pub(crate) async fn run<F>(mut self, measure: impl Fn() -> F, stop: CancellationToken)
    where
        F: Future<Output = Result<T, UsageError>>,
    {
        let mut last: Option<Last<T>> = None;
        while let Some(Some(request)) = stop.run_until_cancelled(self.0.recv()).await {
            if request.answer.is_closed() {
                continue;
            }
            let result = match &last {
                Some(last) if last.answers(&request) => last.result.clone(),
                _ => {
                    let began = Instant::now();
                    let Some(result) = stop.run_until_cancelled(measure()).await else { return };
                    let result = result.map(Arc::new);
                    last = Some(Last { began, ended: Instant::now(), result: result.clone() });
                    result
                }
            };
            // The client may have given up.
            drop(request.answer.send(result));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use tokio::time::{advance, sleep};

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// Runs a scenario with measurements that take 100 ms and return their number; odd ones fail if requested.
    async fn play(fails: bool, scenario: impl AsyncFn(&Shared<u32>)) {
        let (shared, task) = shared();
        let count = Arc::new(AtomicU32::new(0));
        let measure = || async {
            sleep(Duration::from_millis(100)).await;
            let number = count.fetch_add(1, Ordering::Relaxed) + 1;
            if fails && number % 2 == 1 {
                return Err(UsageError { step: "s".to_owned(), message: number.to_string() });
            }
            Ok(number)
        };
        let stop = CancellationToken::new();
        tokio::join!(task.run(measure, stop.clone()), async {
            scenario(&shared).await;
            stop.cancel();
        });
    }

    // behaviour: STA-13
    #[tokio::test(start_paused = true)]
    async fn concurrent_requests_share_a_measurement() {
        play(false, async |shared| {
            let (a, b, c) =
                tokio::join!(shared.get(SECOND), shared.get(SECOND), shared.get(Duration::ZERO));
            assert_eq!((*a.unwrap(), *b.unwrap(), *c.unwrap()), (1, 1, 1));
            assert_eq!(*shared.get(SECOND).await.unwrap(), 1);
            assert_eq!(*shared.get(Duration::ZERO).await.unwrap(), 2, "measured anew");
            advance(SECOND).await;
            assert_eq!(*shared.get(SECOND).await.unwrap(), 3, "the other is too old");
        })
        .await;
    }

    #[tokio::test(start_paused = true)]
    async fn failure_is_shared_only_with_waiting_requests() {
        play(true, async |shared| {
            let (a, b) = tokio::join!(shared.get(SECOND), shared.get(SECOND));
            assert_eq!((a.unwrap_err().message, b.unwrap_err().message), ("1".into(), "1".into()));
            advance(Duration::from_millis(1)).await;
            assert_eq!(*shared.get(SECOND).await.unwrap(), 2);
        })
        .await;
    }
}
