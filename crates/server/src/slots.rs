//! The slots of a port: the limit of connections, and which one is closed for a new one.
//!
//! ```text
//!  accepted ── waits for its request ──> kept ──> released
//!              closed to make room       counts   no longer counts: its caller is authenticated
//! ```

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::AbortHandle;
use tracing::debug;

/// The limit of counted connections.
pub const MOST_CONNECTIONS: usize = 64;

const WAITS: u8 = 0;
const KEPT: u8 = 1;
const CLOSED: u8 = 2;

/// The slot of a connection. Clones share it.
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

    /// Its request has arrived: it is no longer closed to make room.
    pub fn keep(&self) {
        self.leave_waiting(KEPT);
    }

    /// Its caller is authenticated: it no longer counts.
    pub fn release(&self) {
        self.keep();
        self.0.permit.lock().unwrap_or_else(PoisonError::into_inner).take();
    }

    /// Whether its caller is authenticated.
    pub(crate) fn is_released(&self) -> bool {
        self.0.permit.lock().unwrap_or_else(PoisonError::into_inner).is_none()
    }

    /// Whether it was waiting until now.
    fn leave_waiting(&self, stage: u8) -> bool {
        let order = (Ordering::AcqRel, Ordering::Acquire);
        self.0.stage.compare_exchange(WAITS, stage, order.0, order.1).is_ok()
    }
}

/// The slots of a port.
#[derive(Debug)]
pub(crate) struct Slots {
    free: Arc<Semaphore>,
    /// Connections without a request, oldest first. They own their slots, which are freed with them.
    waiting: VecDeque<(Weak<State>, AbortHandle)>,
}

impl Slots {
    pub(crate) fn new() -> Self {
        Self { free: Arc::new(Semaphore::new(MOST_CONNECTIONS)), waiting: VecDeque::new() }
    }

    /// Waits until a connection can be accepted: a slot is free, or a connection that waits for its request can
    /// be closed.
    pub(crate) async fn room(&self) {
        if !self.waiting.iter().any(|(slot, _)| waits(slot)) {
            // Never closed: the semaphore exists as long as this value.
            drop(self.free.acquire().await);
        }
    }

    /// A slot for an accepted connection. If none is free, the connection that has waited longest for its
    /// request is closed: connections without requests must not block health checks.
    pub(crate) async fn take(&mut self) -> Option<Slot> {
        self.waiting.retain(|(slot, _)| waits(slot));
        while self.free.available_permits() == 0
            && let Some((slot, task)) = self.waiting.pop_front()
        {
            let Some(slot) = slot.upgrade().map(Slot) else { continue };
            if slot.leave_waiting(CLOSED) {
                debug!("Closing a connection without a request to make room");
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

/// Whether a connection exists and has no request.
fn waits(slot: &Weak<State>) -> bool {
    slot.upgrade().is_some_and(|slot| slot.stage.load(Ordering::Acquire) == WAITS)
}
