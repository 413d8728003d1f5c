//! What is known of the calls of a method.

use std::collections::VecDeque;

use jiff::Timestamp;
use serde::Serialize;

/// How many arrivals of a method are remembered.
const ARRIVALS: usize = 1024;

/// How often a method was called, and with how much.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Count {
    /// All calls.
    pub calls: u64,
    /// Those that a fault was done to.
    pub spoilt: u64,
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
}

impl Calls {
    pub(super) fn arrived(&mut self, now: Timestamp) {
        self.count.calls += 1;
        if self.arrivals.len() == ARRIVALS {
            self.arrivals.pop_front();
        }
        self.arrivals.push_back(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_latest_arrivals_are_remembered() {
        let mut calls = Calls::default();
        for second in 0..2000 {
            calls.arrived(Timestamp::from_second(second).unwrap());
        }
        assert_eq!(calls.count.calls, 2000);
        assert_eq!(calls.arrivals.len(), ARRIVALS);
        assert_eq!(calls.arrivals.back(), Some(&Timestamp::from_second(1999).unwrap()));
    }
}
