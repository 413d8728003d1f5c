//! The runtime's event stream, opened and kept open. An event only says where to look.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use model::ports::runtime::{Code, ContainerEvent, ContainerEvents, RuntimeError, RuntimeInfo};
use tokio::time::Instant;

/// How long to wait before opening the stream again: doubling from the first to the second.
const RETRY: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));

/// How long until a runtime is asked again that has no events: it may have been replaced.
const RETRY_UNIMPLEMENTED: Duration = Duration::from_mins(5);

/// What the stream says.
#[derive(Debug)]
pub(crate) enum Hint {
    /// It is open now; what happened before was not told. How long opening took.
    Opened(Duration),
    /// This happened to a pod, which wants a look.
    Told(ContainerEvent),
    /// It broke; what happens from now on is not told.
    Broken(Option<RuntimeError>),
}

/// The stream, or where we are with it.
pub(crate) struct Hints {
    runtime: Arc<dyn RuntimeInfo>,
    state: State,
    retry: Duration,
}

enum State {
    /// Not wanted.
    Off,
    Waiting(Instant),
    Opening(Instant, BoxFuture<'static, Result<ContainerEvents, RuntimeError>>),
    Open(ContainerEvents),
}

impl Hints {
    /// A stream that opens as soon as somebody asks for its first hint.
    pub(crate) fn new(runtime: Arc<dyn RuntimeInfo>, wanted: bool) -> Self {
        let state = if wanted { State::Waiting(Instant::now()) } else { State::Off };
        Self { runtime, state, retry: RETRY.0 }
    }

    /// Whether what happens is being told.
    pub(crate) fn flow(&self) -> bool {
        matches!(self.state, State::Open(_))
    }

    /// The next hint. Nothing is lost when the answer is not waited for.
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
                        return Hint::Told(event);
                    }
                    Some(Err(error)) => return self.broken(Some(error)),
                    None => return self.broken(None),
                },
            }
        }
    }

    /// Opens the stream anew: the one that is open reports nothing.
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
