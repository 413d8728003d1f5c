//! The slots of a port: how many connections there are at a time, and which gives way to a new one.
//!
//! ```text
//!  accepted ── waits for its request ──> kept ──> released
//!              closed to make room       counts   counts no more: its caller is authenticated
//! ```

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::AbortHandle;
use tracing::debug;

/// How many connections count at a time.
pub const MOST_CONNECTIONS: usize = 64;

const WAITS: u8 = 0;
const KEPT: u8 = 1;
const CLOSED: u8 = 2;

/// The slot of a connection. Clones are of the same one.
#[derive(Debug, Clone)]
pub struct Slot(Arc<State>);

#[derive(Debug)]
struct State {
    stage: AtomicU8,
    /// Never held across an await.
    permit: Mutex<Option<OwnedSemaphorePermit>>,
}

impl Slot {
    fn new(permit: OwnedSemaphorePermit) -> Self {
        Self(Arc::new(State { stage: AtomicU8::new(WAITS), permit: Mutex::new(Some(permit)) }))
    }

    /// Its request has come: from now on it is not closed to make room.
    pub fn keep(&self) {
        self.leave_waiting(KEPT);
    }

    /// Its caller is authenticated: from now on it does not count.
    pub fn release(&self) {
        self.keep();
        self.0.permit.lock().unwrap_or_else(PoisonError::into_inner).take();
    }

    /// Whether its caller is authenticated.
    pub(crate) fn is_released(&self) -> bool {
        self.0.permit.lock().unwrap_or_else(PoisonError::into_inner).is_none()
    }

    /// Whether it waited until now.
    fn leave_waiting(&self, stage: u8) -> bool {
        let order = (Ordering::AcqRel, Ordering::Acquire);
        self.0.stage.compare_exchange(WAITS, stage, order.0, order.1).is_ok()
    }
}

/// The slots of a port.
#[derive(Debug)]
pub(crate) struct Slots {
    free: Arc<Semaphore>,
    /// Connections without a request, the oldest first. Their slots are theirs: they go with them.
    waiting: VecDeque<(Weak<State>, AbortHandle)>,
}

impl Slots {
    pub(crate) fn new() -> Self {
        Self { free: Arc::new(Semaphore::new(MOST_CONNECTIONS)), waiting: VecDeque::new() }
    }

    /// Waits until a connection can be taken: a slot is free, or one that waits for its request can be closed.
    pub(crate) async fn room(&self) {
        if !self.waiting.iter().any(|(slot, _)| waits(slot)) {
            // Closed never: the semaphore lives as long as this.
            drop(self.free.acquire().await);
        }
    }

    /// A slot for a connection that was accepted. When none is free, the connection that has waited longest for its
    /// request is closed: connections without requests must not keep health checks out.
    pub(crate) async fn take(&mut self) -> Option<Slot> {
        self.waiting.retain(|(slot, _)| waits(slot));
        while self.free.available_permits() == 0
            && let Some((slot, task)) = self.waiting.pop_front()
        {
            let Some(slot) = slot.upgrade().map(Slot) else { continue };
            if slot.leave_waiting(CLOSED) {
                debug!("closing a connection without a request to make room");
                task.abort();
                slot.release();
            }
        }
        let permit = Arc::clone(&self.free).acquire_owned().await;
        permit.ok().map(Slot::new)
    }

    /// The task of the connection that has this slot.
    pub(crate) fn started(&mut self, slot: &Slot, task: AbortHandle) {
        self.waiting.push_back((Arc::downgrade(&slot.0), task));
    }
}

/// Whether a connection is there and has no request.
fn waits(slot: &Weak<State>) -> bool {
    slot.upgrade().is_some_and(|slot| slot.stage.load(Ordering::Acquire) == WAITS)
}
