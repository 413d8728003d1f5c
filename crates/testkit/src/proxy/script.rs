//! The faults to inject, and the statistics of all calls.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use tokio::sync::watch;

use super::count::{Calls, Count};
use super::fault::Fault;
use crate::methods::known;

/// The name under which unknown methods are counted.
const OTHER: &str = "other";

#[derive(Debug, Default)]
struct State {
    /// In the order in which they were added; those of a method apply one after another.
    faults: Vec<Fault>,
    calls: BTreeMap<&'static str, Calls>,
    /// Late calls that the runtime has not answered yet.
    late: usize,
}

/// The remaining faults, and the counts so far.
#[derive(Debug, Default)]
pub struct Script {
    /// Written by every call and by the control socket, never held across an await.
    state: Mutex<State>,
    /// How often the faults were cleared: ends the wait of hung calls.
    cleared: watch::Sender<u64>,
}

impl Script {
    /// Adds a fault. It applies after the earlier ones of its method.
    pub fn add(&self, fault: Fault) {
        self.state().faults.push(fault);
    }

    /// Clears all faults and ends the wait of hung calls.
    pub fn clear(&self) {
        self.state().faults.clear();
        self.cleared.send_modify(|times| *times += 1);
    }

    /// The remaining faults.
    pub fn faults(&self) -> Vec<Fault> {
        self.state().faults.clone()
    }

    /// The number of late calls in progress.
    pub fn late(&self) -> usize {
        self.state().late
    }

    /// The statistics of each called method.
    pub fn counts(&self) -> BTreeMap<&'static str, Count> {
        self.state().calls.iter().map(|(method, calls)| (*method, calls.count)).collect()
    }

    /// Returns and resets the statistics.
    pub fn take_counts(&self) -> BTreeMap<&'static str, Count> {
        let calls = std::mem::take(&mut self.state().calls);
        calls.into_iter().map(|(method, calls)| (method, calls.count)).collect()
    }

    /// The times of the latest calls of a method.
    pub fn arrivals(&self, method: &str) -> Vec<Timestamp> {
        self.times(method, |calls| &calls.arrivals)
    }

    /// The times of its latest responses without an error.
    pub fn done(&self, method: &str) -> Vec<Timestamp> {
        self.times(method, |calls| &calls.done)
    }

    fn times(&self, method: &str, of: fn(&Calls) -> &VecDeque<Timestamp>) -> Vec<Timestamp> {
        let state = self.state();
        let times = state.calls.get(method).map(|calls| of(calls).iter().copied().collect());
        times.unwrap_or_default()
    }

    /// Registers a call: its counted name, its fault, and a receiver that changes when the faults are cleared.
    pub(super) fn arrived(&self, method: &str, now: Timestamp) -> RegisteredCall {
        let method = known(method).unwrap_or(OTHER);
        // Subscribed before the fault is chosen, so that no clearing is missed.
        let cleared = self.cleared.subscribe();
        let mut state = self.state();
        let fault = state.next_fault(method);
        let calls = state.calls.entry(method).or_default();
        calls.arrived(now);
        calls.count.spoilt += u64::from(fault.is_some());
        RegisteredCall { method, fault, cleared }
    }

    pub(super) fn count(&self, method: &'static str, add: impl FnOnce(&mut Count)) {
        add(&mut self.state().calls.entry(method).or_default().count);
    }

    pub(super) fn is_done(&self, method: &'static str, now: Timestamp) {
        self.state().calls.entry(method).or_default().done(now);
    }

    pub(super) fn late_begins(&self) {
        self.state().late += 1;
    }

    pub(super) fn late_ends(&self) {
        self.state().late -= 1;
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A registered call.
#[derive(Debug)]
pub(super) struct RegisteredCall {
    pub(super) method: &'static str,
    pub(super) fault: Option<Fault>,
    /// Changes when the faults are cleared.
    pub(super) cleared: watch::Receiver<u64>,
}

impl State {
    fn next_fault(&mut self, method: &str) -> Option<Fault> {
        let index = self.faults.iter().position(|fault| fault.method == method)?;
        let fault = &mut self.faults[index];
        if fault.skip > 0 {
            fault.skip -= 1;
            return None;
        }
        let taken = fault.clone();
        fault.times = fault.times.map(|times| times.saturating_sub(1));
        if fault.times == Some(0) {
            self.faults.remove(index);
        }
        Some(taken)
    }
}

#[cfg(test)]
mod tests {
    use super::super::fault::Kind;
    use super::*;

    fn kinds(script: &Script, method: &str, calls: usize) -> Vec<Option<Kind>> {
        let arrive = |_| script.arrived(method, Timestamp::UNIX_EPOCH);
        (0..calls).map(arrive).map(|arrived| arrived.fault.map(|fault| fault.kind)).collect()
    }

    #[test]
    fn faults_of_a_method_apply_in_order_and_to_no_other_method() {
        let script = Script::default();
        for text in ["Version=hang skip=1 times=2", "Version=late", "Status=deadline times=all"] {
            script.add(Fault::parse(text).unwrap());
        }
        assert_eq!(kinds(&script, "ListImages", 1), [None]);
        let expected = [None, Some(Kind::Hang), Some(Kind::Hang), Some(Kind::Late), None];
        assert_eq!(kinds(&script, "Version", 5), expected);
        assert_eq!(kinds(&script, "Status", 3), [Some(Kind::Deadline); 3]);
        assert_eq!(script.faults().len(), 1);
        script.clear();
        assert_eq!(kinds(&script, "Status", 1), [None]);
        let count = script.counts()["Version"];
        assert_eq!((count.calls, count.spoilt), (5, 3));
        assert_eq!(script.arrivals("Status").len(), 4);
    }

    #[test]
    fn unknown_methods_share_one_count() {
        let script = Script::default();
        kinds(&script, "ComeTomorrow", 2);
        kinds(&script, "OrTheDayAfter", 1);
        assert_eq!(script.take_counts()[OTHER].calls, 3);
        assert!(script.counts().is_empty());
    }
}
