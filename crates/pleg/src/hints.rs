//! The runtime's event stream, opened and kept open. An event only selects the pod to relist.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use model::ports::runtime::{Code, ContainerEvent, ContainerEvents, RuntimeError, RuntimeInfo};
use tokio::time::Instant;

/// Back-off before opening the stream again: doubles from the first value to the second.
const RETRY: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));

/// Wait before retrying with a runtime that does not implement events: it may have been replaced.
const RETRY_UNIMPLEMENTED: Duration = Duration::from_mins(5);

/// An item of the stream.
#[derive(Debug)]
pub(crate) enum Hint {
    /// The stream was opened, and how long that took. Earlier changes were not reported.
    Opened(Duration),
    /// A container event.
    Event(ContainerEvent),
    /// The stream ended or did not open: changes are not reported until it is open again.
    Broken(Option<RuntimeError>),
}

/// The stream and its state.
pub(crate) struct Hints {
    runtime: Arc<dyn RuntimeInfo>,
    state: State,
    retry: Duration,
}

enum State {
    /// Disabled by the settings.
    Off,
    Waiting(Instant),
    Opening(Instant, BoxFuture<'static, Result<ContainerEvents, RuntimeError>>),
    Open(ContainerEvents),
}

impl Hints {
    /// A stream that opens at the first call of [`Hints::next`].
    pub(crate) fn new(runtime: Arc<dyn RuntimeInfo>, wanted: bool) -> Self {
        let state = if wanted { State::Waiting(Instant::now()) } else { State::Off };
        Self { runtime, state, retry: RETRY.0 }
    }

    /// Whether the stream is open.
    pub(crate) fn flow(&self) -> bool {
        matches!(self.state, State::Open(_))
    }

    /// The next hint. Cancel-safe.
    pub(crate) async fn next(&mut self) -> Hint {
        loop {
            match &mut self.state {
                State::Off => std::future::pending().await,
                State::Waiting(until) => {
                    tokio::time::sleep_until(*until).await;
                    let runtime = Arc::clone(&self.runtime);
                    let opening = Box::pin(async move { runtime.container_events().await });
                    self.state = State::Opening(Instant::now(), opening);
                }
                State::Opening(began, opening) => match opening.await {
                    Ok(events) => {
                        let took = began.elapsed();
                        self.state = State::Open(events);
                        return Hint::Opened(took);
                    }
                    Err(error) => return self.broken(Some(error)),
                },
                State::Open(events) => match events.next().await {
                    Some(Ok(event)) => {
                        self.retry = RETRY.0;
                        return Hint::Event(event);
                    }
                    Some(Err(error)) => return self.broken(Some(error)),
                    None => return self.broken(None),
                },
            }
        }
    }

    /// Closes the open stream, which reports nothing, and opens a new one after the back-off.
    pub(crate) fn reopen(&mut self) {
        self.state = State::Waiting(Instant::now() + self.retry);
    }

    fn broken(&mut self, error: Option<RuntimeError>) -> Hint {
        let wait = match &error {
            Some(error) if error.code == Code::Unimplemented => RETRY_UNIMPLEMENTED,
            _ => self.retry,
        };
        self.retry = self.retry.saturating_mul(2).min(RETRY.1);
        self.state = State::Waiting(Instant::now() + wait);
        Hint::Broken(error)
    }
}
