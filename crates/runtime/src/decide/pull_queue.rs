//! The order in which pulls run.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;

/// The slots for parallel pulls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PullSlots {
    /// One, in the order of arrival: `serializeImagePulls`. A pull of an image that is present is mostly a check of its
    /// manifest, so it has a second slot if the first is taken (kubernetes#109673).
    #[default]
    Serial,
    /// A number of slots: `maxParallelImagePulls`. Critical and static pods come first.
    Parallel(NonZeroUsize),
    /// Without a limit.
    Unlimited,
}

impl PullSlots {
    /// The slots by `serializeImagePulls` and `maxParallelImagePulls`. Fewer than one is not a limit, like
    /// upstream.
    pub fn of_settings(is_serial: bool, most: Option<i32>) -> Self {
        let most = most.and_then(|most| usize::try_from(most).ok()).and_then(NonZeroUsize::new);
        match (is_serial, most) {
            (true, _) => Self::Serial,
            (false, Some(most)) => Self::Parallel(most),
            (false, None) => Self::Unlimited,
        }
    }
}

/// A pull in the queue, by its arrival.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PullTicket(u64);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Slot {
    /// For any pull.
    Pull,
    /// For a pull of an image that is present.
    Check,
}

#[derive(Debug, Clone, Copy, Default)]
struct Waiting {
    is_critical: bool,
    is_present: bool,
}

/// The pulls that wait and those that run.
#[derive(Debug, Default)]
pub struct PullQueue {
    slots: PullSlots,
    arrived: u64,
    waiting: BTreeMap<PullTicket, Waiting>,
    running: BTreeMap<PullTicket, Slot>,
}

impl PullQueue {
    /// An empty queue.
    pub fn new(slots: PullSlots) -> Self {
        Self { slots, ..Self::default() }
    }

    /// Adds a pull at the end.
    pub fn enter(&mut self) -> PullTicket {
        let ticket = PullTicket(self.arrived);
        self.arrived += 1;
        self.waiting.insert(ticket, Waiting::default());
        ticket
    }

    /// A critical or static pod waits for the pull.
    pub fn set_critical(&mut self, ticket: PullTicket) {
        if let Some(waiting) = self.waiting.get_mut(&ticket) {
            waiting.is_critical = true;
        }
    }

    /// The image of the pull is present.
    pub fn set_present(&mut self, ticket: PullTicket) {
        if let Some(waiting) = self.waiting.get_mut(&ticket) {
            waiting.is_present = true;
        }
    }

    /// The pull has ended, or was cancelled.
    pub fn leave(&mut self, ticket: PullTicket) {
        self.waiting.remove(&ticket);
        self.running.remove(&ticket);
    }

    /// Takes the next pull that may run.
    pub fn start_next(&mut self) -> Option<PullTicket> {
        let (ticket, slot) = self.next()?;
        self.waiting.remove(&ticket);
        self.running.insert(ticket, slot);
        Some(ticket)
    }

    fn next(&self) -> Option<(PullTicket, Slot)> {
        let taken = |slot: Slot| self.running.values().filter(|taken| **taken == slot).count();
        let is_free = match self.slots {
            PullSlots::Serial => taken(Slot::Pull) == 0,
            PullSlots::Parallel(slots) => taken(Slot::Pull) < slots.get(),
            PullSlots::Unlimited => true,
        };
        let is_serial = self.slots == PullSlots::Serial;
        if is_free {
            let rank =
                |ticket: PullTicket, waiting: Waiting| (!is_serial && !waiting.is_critical, ticket);
            let first =
                self.waiting.iter().min_by_key(|(ticket, waiting)| rank(**ticket, **waiting));
            return first.map(|(ticket, _)| (*ticket, Slot::Pull));
        }
        if !is_serial || taken(Slot::Check) > 0 {
            return None;
        }
        let present = self.waiting.iter().find(|(_, waiting)| waiting.is_present);
        present.map(|(ticket, _)| (*ticket, Slot::Check))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parallel(slots: usize) -> PullSlots {
        PullSlots::Parallel(NonZeroUsize::new(slots).unwrap())
    }

    /// The pulls that start, by their arrival.
    fn started(queue: &mut PullQueue) -> Vec<u64> {
        std::iter::from_fn(|| queue.start_next()).map(|ticket| ticket.0).collect()
    }

    fn queue(slots: PullSlots, pulls: usize) -> (PullQueue, Vec<PullTicket>) {
        let mut queue = PullQueue::new(slots);
        let tickets = (0..pulls).map(|_| queue.enter()).collect();
        (queue, tickets)
    }

    // behaviour: PULL-3
    #[test]
    fn serial_pulls_run_one_at_a_time_in_order_of_arrival() {
        let (mut queue, tickets) = queue(PullSlots::Serial, 3);
        queue.set_critical(tickets[2]);
        assert_eq!(started(&mut queue), [0]);
        queue.leave(tickets[0]);
        assert_eq!(started(&mut queue), [1]);
        assert_eq!(started(&mut queue), [0; 0]);
    }

    // behaviour: PULL-5
    #[test]
    fn serial_pull_of_a_present_image_passes_those_that_wait() {
        let (mut queue, tickets) = queue(PullSlots::Serial, 4);
        for ticket in &tickets[2..] {
            queue.set_present(*ticket);
        }
        assert_eq!(started(&mut queue), [0, 2], "one beside the pull that runs");
        queue.leave(tickets[2]);
        assert_eq!(started(&mut queue), [3]);
        queue.leave(tickets[0]);
        assert_eq!(started(&mut queue), [1]);
    }

    // behaviour: PULL-4
    #[test]
    fn parallel_pulls_are_limited_to_their_slots() {
        let (mut queue, tickets) = queue(parallel(2), 4);
        queue.set_present(tickets[3]);
        assert_eq!(started(&mut queue), [0, 1]);
        queue.leave(tickets[1]);
        assert_eq!(started(&mut queue), [2], "a pull that hangs costs its own slot");
    }

    // behaviour: PULL-4
    #[test]
    fn parallel_pulls_of_critical_pods_come_first() {
        let (mut queue, tickets) = queue(parallel(1), 4);
        assert_eq!(started(&mut queue), [0]);
        queue.set_critical(tickets[2]);
        queue.set_critical(tickets[3]);
        for next in [2, 3, 1] {
            let running = *queue.running.keys().next().unwrap();
            queue.leave(running);
            assert_eq!(started(&mut queue), [next]);
        }
    }

    // behaviour: PULL-3
    #[test]
    fn settings_select_the_slots() {
        let rows = [
            (true, None, PullSlots::Serial),
            (true, Some(1), PullSlots::Serial),
            (false, Some(1), parallel(1)),
            (false, Some(3), parallel(3)),
            (false, None, PullSlots::Unlimited),
        ];
        for (is_serial, most, expected) in rows {
            assert_eq!(PullSlots::of_settings(is_serial, most), expected, "{is_serial} {most:?}");
        }
    }

    #[test]
    fn pulls_without_a_limit_start_at_once() {
        assert_eq!(started(&mut queue(PullSlots::Unlimited, 3).0), [0, 1, 2]);
    }

    #[test]
    fn cancelled_waiting_pull_is_skipped() {
        let (mut queue, tickets) = queue(PullSlots::Serial, 3);
        assert_eq!(started(&mut queue), [0]);
        queue.leave(tickets[1]);
        queue.leave(tickets[0]);
        assert_eq!(started(&mut queue), [2]);
    }
}
