//! What a tap keeps of the calls that pass.
#![allow(clippy::disallowed_methods, reason = "a measurement is of real time")]

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// How many noted calls are kept.
const KEPT: usize = 10_000;

/// How many methods are told apart; the CRI has fewer.
const METHODS: usize = 100;

/// By the name of the method.
pub type Counts = BTreeMap<String, Passed>;

/// What passed of a method.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Passed {
    /// Calls that arrived.
    pub calls: u64,
    /// Calls that were answered well.
    pub well: u64,
    /// Bytes of messages towards the runtime.
    pub sent: u64,
    /// Bytes of messages from the runtime.
    pub received: u64,
}

/// One call of a method that was to be noted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotedCall {
    /// The name of the method.
    pub method: String,
    /// When it arrived.
    pub arrived: Instant,
    /// When its answer had passed, and whether that was a good one.
    pub answered: Option<(Instant, bool)>,
}

#[derive(Debug, Default)]
struct State {
    counts: Counts,
    /// The latest calls, and the number of the first of them.
    noted: VecDeque<NotedCall>,
    first: u64,
}

#[derive(Debug)]
pub(super) struct Record {
    noting: BTreeSet<String>,
    /// Written by every call that passes, never held across an await.
    state: Mutex<State>,
}

impl Record {
    pub(super) fn noting(methods: &[&str]) -> Self {
        let noting = methods.iter().map(|method| (*method).to_owned()).collect();
        Self { noting, state: Mutex::default() }
    }

    pub(super) fn counts(&self) -> Counts {
        self.state().counts.clone()
    }

    pub(super) fn noted(&self) -> Vec<NotedCall> {
        self.state().noted.iter().cloned().collect()
    }

    pub(super) fn arrived(self: &Arc<Self>, method: &str) -> Call {
        let mut state = self.state();
        let known = state.counts.contains_key(method) || state.counts.len() < METHODS;
        let method = if known { method } else { "" }.to_owned();
        state.counts.entry(method.clone()).or_default().calls += 1;
        let number = self.noting.contains(&method).then(|| state.note(&method));
        Call { record: Arc::clone(self), method: method.into(), number }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn note(&mut self, method: &str) -> u64 {
        if self.noted.len() == KEPT {
            self.noted.pop_front();
            self.first += 1;
        }
        let (method, arrived) = (method.to_owned(), Instant::now());
        self.noted.push_back(NotedCall { method, arrived, answered: None });
        self.first + self.noted.len() as u64 - 1
    }

    fn noted_as(&mut self, number: u64) -> Option<&mut NotedCall> {
        let index = usize::try_from(number.checked_sub(self.first)?).ok()?;
        self.noted.get_mut(index)
    }
}

/// A call on its way.
#[derive(Debug, Clone)]
pub(super) struct Call {
    record: Arc<Record>,
    method: Arc<str>,
    number: Option<u64>,
}

impl Call {
    pub(super) fn sent(&self, bytes: usize) {
        self.change(|passed| passed.sent += bytes as u64);
    }

    pub(super) fn received(&self, bytes: usize) {
        self.change(|passed| passed.received += bytes as u64);
    }

    pub(super) fn answered(&self, well: bool) {
        self.change(|passed| passed.well += u64::from(well));
        let Some(number) = self.number else { return };
        if let Some(noted) = self.record.state().noted_as(number) {
            noted.answered = Some((Instant::now(), well));
        }
    }

    fn change(&self, change: impl FnOnce(&mut Passed)) {
        if let Some(passed) = self.record.state().counts.get_mut(&*self.method) {
            change(passed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_the_noted_calls_the_latest_are_kept_and_late_answers_find_them() {
        let record = Arc::new(Record::noting(&["Start"]));
        let first = record.arrived("Start");
        let calls: Vec<Call> = (0..KEPT).map(|_| record.arrived("Start")).collect();
        record.arrived("List");
        first.answered(true);
        calls[0].answered(false);
        let noted = record.noted();
        assert_eq!(noted.len(), KEPT);
        assert!(matches!(noted[0].answered, Some((_, false))), "{:?}", noted[0]);
        assert!(noted[1..].iter().all(|call| call.answered.is_none()));
        assert_eq!(record.counts()["Start"].calls, KEPT as u64 + 1);
        assert_eq!((record.counts()["Start"].well, record.counts()["List"].calls), (1, 1));
    }

    #[test]
    fn methods_that_nobody_has_do_not_fill_the_memory() {
        let record = Arc::new(Record::noting(&[]));
        for number in 0..METHODS + 10 {
            record.arrived(&format!("method-{number}"));
        }
        assert_eq!(record.counts().len(), METHODS + 1);
        assert_eq!(record.counts()[""].calls, 10);
    }
}
