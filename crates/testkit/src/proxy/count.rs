//! What is known of the calls of a method.

use std::collections::VecDeque;

use jiff::Timestamp;
use serde::Serialize;

/// How many arrivals and answers of a method are remembered.
const REMEMBERED: usize = 1024;

/// How often a method was called, and with how much.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Count {
    /// All calls.
    pub calls: u64,
    /// Those that a fault was done to.
    pub spoilt: u64,
    /// Those that the runtime has done: answered without an error.
    pub done: u64,
    /// Bytes of requests, as they are on the wire.
    pub request_bytes: u64,
    /// Bytes of answers that were passed back, the same way.
    pub answer_bytes: u64,
}

/// The calls of one method.
#[derive(Debug, Default)]
pub(super) struct Calls {
    pub(super) count: Count,
    /// When the last of them came, the latest last.
    pub(super) arrivals: VecDeque<Timestamp>,
    /// When the last of those that were done had been answered, the latest last.
    pub(super) done: VecDeque<Timestamp>,
}

fn remember(times: &mut VecDeque<Timestamp>, now: Timestamp) {
    if times.len() == REMEMBERED {
        times.pop_front();
    }
    times.push_back(now);
}

impl Calls {
    pub(super) fn arrived(&mut self, now: Timestamp) {
        self.count.calls += 1;
        remember(&mut self.arrivals, now);
    }

    pub(super) fn done(&mut self, now: Timestamp) {
        self.count.done += 1;
        remember(&mut self.done, now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_latest_arrivals_and_answers_are_kept() {
        let mut calls = Calls::default();
        for second in 0..2000 {
            calls.arrived(Timestamp::from_second(second).unwrap());
            calls.done(Timestamp::from_second(second + 1).unwrap());
        }
        assert_eq!(calls.count.calls, 2000);
        assert_eq!((calls.arrivals.len(), calls.done.len()), (REMEMBERED, REMEMBERED));
        assert_eq!(calls.done.back(), Some(&Timestamp::from_second(2000).unwrap()));
        assert_eq!(calls.arrivals.back(), Some(&Timestamp::from_second(1999).unwrap()));
    }
}
