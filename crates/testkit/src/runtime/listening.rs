//! An event stream of the runtime.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::task::{Context, Poll};

use futures_util::Stream;
use model::ports::clock::WallClock;
use model::ports::runtime::Code;
use tokio::time::{Sleep, sleep};

use super::Inner;
use super::feed::{End, Next, SentEvent};
use crate::clock::until;

/// An open stream. Its poll waits for the next exit that is due, so that events of exits are sent on time
/// without a background task.
pub(crate) struct Listening {
    /// Weak, because the streams end with the runtime.
    inner: Weak<Mutex<Inner>>,
    clock: Arc<dyn WallClock>,
    key: u64,
    timer: Option<Pin<Box<Sleep>>>,
}

impl Listening {
    pub(super) fn new(inner: &Arc<Mutex<Inner>>, clock: Arc<dyn WallClock>) -> Self {
        let now = clock.now();
        let key = {
            let mut open = inner.lock().unwrap_or_else(PoisonError::into_inner);
            // Only exits from now on are its own.
            open.store.advance(now);
            open.store.feed.listen(now)
        };
        Self { inner: Arc::downgrade(inner), clock, key, timer: None }
    }
}

impl Stream for Listening {
    type Item = Result<SentEvent, Code>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        loop {
            let Some(inner) = this.inner.upgrade() else {
                return Poll::Ready(None);
            };
            let now = this.clock.now();
            let wake = {
                let mut inner = inner.lock().unwrap_or_else(PoisonError::into_inner);
                inner.store.advance(now);
                match inner.store.feed.next(this.key, now, cx.waker()) {
                    Next::Event(event) => return Poll::Ready(Some(Ok(event))),
                    Next::End(End::Plain) => return Poll::Ready(None),
                    Next::End(End::Fails(code)) => return Poll::Ready(Some(Err(code))),
                    Next::Wait(arrival) => arrival.into_iter().chain(inner.store.next_end()).min(),
                }
            };
            let Some(wake) = wake else {
                this.timer = None;
                return Poll::Pending;
            };
            let timer = this.timer.insert(Box::pin(sleep(until(now, wake))));
            if timer.as_mut().poll(cx).is_pending() {
                return Poll::Pending;
            }
        }
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        if let Some(inner) = self.inner.upgrade() {
            let mut inner = inner.lock().unwrap_or_else(PoisonError::into_inner);
            inner.store.feed.close(self.key);
        }
    }
}
