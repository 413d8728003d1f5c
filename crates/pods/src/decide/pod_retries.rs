//! Decides which steps of a pod are repeated after one of them panicked, and when. Times are relative to a fixed
//! origin.

use std::collections::BTreeMap;
use std::mem::discriminant;
use std::time::Duration;

use model::ids::PodUid;

/// The first and the maximum wait of a pod after a panic.
const FIRST_WAIT: Duration = Duration::from_secs(1);
const LONGEST_WAIT: Duration = Duration::from_mins(1);

/// After this time without a panic the wait is reset.
const FORGIVEN: Duration = Duration::from_mins(10);

/// A step that can be repeated. A pod has at most one step of each kind: otherwise the steps of a pod that always
/// panics would grow without bound.
pub trait Repeatable: Sized {
    /// Whether this step replaces an earlier one.
    fn replaces(&self, earlier: &Self) -> bool {
        discriminant(self) == discriminant(earlier)
    }

    /// Merges an earlier step that this one replaces.
    fn merge(&mut self, earlier: Self);
}

/// The waiting steps of each pod, in order.
#[derive(Debug)]
pub struct PodRetries<S>(BTreeMap<PodUid, Entry<S>>);

#[derive(Debug)]
struct Entry<S> {
    steps: Vec<S>,
    wait: Duration,
    until: Duration,
}

impl<S> Default for PodRetries<S> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<S: Repeatable> PodRetries<S> {
    /// Records that a step of a pod panicked.
    pub fn panicked(&mut self, uid: &PodUid, step: S, now: Duration) {
        self.0.retain(|_, entry| !entry.steps.is_empty() || now < entry.until + FORGIVEN);
        let last = self.0.get(uid).map(|entry| entry.wait);
        let wait = last.map_or(FIRST_WAIT, |last| (last * 2).min(LONGEST_WAIT));
        let new = || Entry { steps: Vec::new(), wait, until: now };
        let entry = self.0.entry(uid.clone()).or_insert_with(new);
        if entry.steps.is_empty() {
            (entry.wait, entry.until) = (wait, now + wait);
        }
        add(&mut entry.steps, step);
    }

    /// Whether a pod waits after a panic.
    pub fn waits(&self, uid: &PodUid) -> bool {
        self.0.get(uid).is_some_and(|entry| !entry.steps.is_empty())
    }

    /// Stores a further step of a pod that waits.
    pub fn keep(&mut self, uid: &PodUid, step: S) {
        if let Some(entry) = self.0.get_mut(uid).filter(|entry| !entry.steps.is_empty()) {
            add(&mut entry.steps, step);
        }
    }

    /// When the next step is due.
    pub fn next(&self) -> Option<Duration> {
        let waiting = self.0.values().filter(|entry| !entry.steps.is_empty());
        waiting.map(|entry| entry.until).min()
    }

    /// Takes the steps that are due; the length of their wait is kept for the next panic.
    pub fn take_due(&mut self, now: Duration) -> Vec<(PodUid, Vec<S>)> {
        let due = self.0.iter_mut().filter(|(_, one)| !one.steps.is_empty() && one.until <= now);
        due.map(|(uid, entry)| (uid.clone(), std::mem::take(&mut entry.steps))).collect()
    }
}

fn add<S: Repeatable>(steps: &mut Vec<S>, mut step: S) {
    if let Some(earlier) = steps.iter().position(|one| step.replaces(one)) {
        step.merge(steps.remove(earlier));
    }
    steps.push(step);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq)]
    enum Step {
        One(Vec<u8>),
        Other,
    }

    impl Repeatable for Step {
        fn merge(&mut self, earlier: Self) {
            if let (Self::One(now), Self::One(before)) = (self, earlier) {
                now.splice(0..0, before);
            }
        }
    }

    #[test]
    fn wait_doubles_with_each_panic_until_one_is_forgiven() {
        let (mut retries, uid) = (PodRetries::default(), PodUid::from("a"));
        let start = Duration::from_hours(1);
        let (mut now, mut waits) = (start, Vec::new());
        for _ in 0..8 {
            retries.panicked(&uid, Step::Other, now);
            assert!(retries.waits(&uid) && !retries.waits(&"b".into()));
            assert!(retries.take_due(now).is_empty());
            let next = retries.next().unwrap();
            waits.push(next.saturating_sub(now).as_secs());
            now = next;
            assert_eq!(retries.take_due(now), [(uid.clone(), vec![Step::Other])]);
            assert!(!retries.waits(&uid) && retries.next().is_none());
        }
        assert_eq!(waits, [1, 2, 4, 8, 16, 32, 60, 60]);
        retries.panicked(&uid, Step::Other, now + FORGIVEN);
        assert_eq!(retries.next(), Some(now + FORGIVEN + FIRST_WAIT));
    }

    #[test]
    fn steps_keep_their_order_and_each_kind_is_there_once() {
        let (mut retries, uid, now) =
            (PodRetries::default(), PodUid::from("a"), Duration::from_hours(1));
        retries.panicked(&uid, Step::One(vec![1]), now);
        retries.keep(&uid, Step::Other);
        retries.keep(&uid, Step::One(vec![2]));
        // A second panic does not extend the wait of a pod that already waits.
        retries.panicked(&uid, Step::Other, now + FIRST_WAIT / 2);
        let due = retries.take_due(now + FIRST_WAIT);
        assert_eq!(due, [(uid.clone(), vec![Step::One(vec![1, 2]), Step::Other])]);
        retries.keep(&uid, Step::Other);
        assert!(!retries.waits(&uid), "a pod that does not wait keeps nothing");
    }
}
