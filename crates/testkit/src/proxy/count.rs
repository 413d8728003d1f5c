//! Statistics of the calls of a method.

use std::collections::VecDeque;

use jiff::Timestamp;
use serde::Serialize;

/// How many arrivals and responses of a method are kept.
const REMEMBERED: usize = 1024;

/// The number of calls of a method, and their bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Count {
    /// All calls.
    pub calls: u64,
    /// Calls with an injected fault.
    pub spoilt: u64,
    /// Calls that the runtime answered without an error.
    pub done: u64,
    /// Bytes of requests on the wire.
    pub request_bytes: u64,
    /// Bytes of forwarded responses on the wire.
    pub answer_bytes: u64,
}

/// The calls of one method.
#[derive(Debug, Default)]
pub(super) struct Calls {
    pub(super) count: Count,
    /// The latest arrivals, in order.
    pub(super) arrivals: VecDeque<Timestamp>,
    /// The latest times of responses without an error, in order.
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
    fn only_the_latest_arrivals_and_responses_are_kept() {
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
