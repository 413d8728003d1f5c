//! The slots in which pulls run.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::oneshot;

use crate::decide::{PullQueue, PullSlots, PullTicket};

/// The queue of pulls. Clones share it.
#[derive(Debug, Clone)]
pub(super) struct SlotQueue(Arc<Mutex<Slots>>);

/// Never locked across an await.
#[derive(Debug)]
struct Slots {
    queue: PullQueue,
    /// Starts the pulls that wait. The queue sends and closes.
    starts: BTreeMap<PullTicket, oneshot::Sender<()>>,
}

impl SlotQueue {
    pub(super) fn new(slots: PullSlots) -> Self {
        let queue = PullQueue::new(slots);
        Self(Arc::new(Mutex::new(Slots { queue, starts: BTreeMap::new() })))
    }

    /// Adds a pull at the end.
    pub(super) fn enter(&self) -> PullSlot {
        let (sender, start) = oneshot::channel();
        let ticket = self.update(|slots| {
            let ticket = slots.queue.enter();
            slots.starts.insert(ticket, sender);
            ticket
        });
        PullSlot { ticket, start, has_started: false, queue: self.clone() }
    }

    /// A critical or static pod waits for the pull.
    pub(super) fn set_critical(&self, ticket: PullTicket) {
        self.update(|slots| slots.queue.set_critical(ticket));
    }

    /// Changes the queue, and starts the pulls that may run then.
    fn update<T>(&self, change: impl FnOnce(&mut Slots) -> T) -> T {
        // Consistent even if a holder panicked: nothing here calls anything that could.
        let mut slots = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let result = change(&mut slots);
        while let Some(ticket) = slots.queue.start_next() {
            if let Some(start) = slots.starts.remove(&ticket) {
                // A cancelled pull leaves the queue by itself.
                start.send(()).ok();
            }
        }
        result
    }
}

/// The place of a pull in the queue, and its slot once it has started. Dropping it frees the slot.
#[derive(Debug)]
pub(super) struct PullSlot {
    ticket: PullTicket,
    start: oneshot::Receiver<()>,
    has_started: bool,
    queue: SlotQueue,
}

impl PullSlot {
    pub(super) fn ticket(&self) -> PullTicket {
        self.ticket
    }

    pub(super) fn has_started(&mut self) -> bool {
        self.has_started = self.has_started || self.start.try_recv().is_ok();
        self.has_started
    }

    /// Waits for the slot.
    pub(super) async fn started(&mut self) {
        if !self.has_started {
            (&mut self.start).await.expect("the queue keeps the sender until it starts the pull");
            self.has_started = true;
        }
    }

    /// The image of the pull is present.
    pub(super) fn set_present(&self) {
        self.queue.update(|slots| slots.queue.set_present(self.ticket));
    }
}

impl Drop for PullSlot {
    fn drop(&mut self) {
        self.queue.update(|slots| {
            slots.starts.remove(&self.ticket);
            slots.queue.leave(self.ticket);
        });
    }
}
