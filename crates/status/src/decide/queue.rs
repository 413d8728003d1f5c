//! Decides which pod is written next. Times are relative to a fixed origin.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use k8s_openapi::api::core::v1::PodStatus;
use model::ids::PodUid;

use crate::decide::conditions::{READY, TRUE, status_of};

/// The maximum number of concurrent writes.
const AT_A_TIME: usize = 8;
/// The first and the maximum wait of a pod whose write failed: like upstream, which retries all of
/// them every 10 s.
const FIRST_WAIT: Duration = Duration::from_secs(1);
const LONGEST_WAIT: Duration = Duration::from_secs(10);
/// The first and the maximum pause of all writes while the API server is unreachable, unless it sends a
/// Retry-After header.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// The outcome of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriteOutcome {
    /// The write succeeded.
    Well,
    /// Nothing was written yet: the write may wait this long.
    Later(Duration),
    /// The write was rejected.
    Refused,
    /// The API server failed, or could not authenticate the agent: the write may succeed once others do.
    Failed,
    /// The API server is unreachable or overloaded, and possibly sent a retry-after.
    Away(Duration),
    /// The work for this pod panicked, independent of the API server.
    Panicked,
}

#[derive(Debug, Clone, Copy)]
struct Waiting {
    /// The number of its last change: the newest is written first.
    change: u64,
    not_before: Option<Duration>,
    /// Whether the wait ends once another pod is written.
    for_server: bool,
}

/// The wait of a pod that was not written.
#[derive(Debug, Clone, Copy)]
struct Wait {
    time: Duration,
    /// How many writes had succeeded by then.
    wells: u64,
}

#[derive(Debug, Clone)]
struct Pause {
    until: Duration,
    next: Duration,
    /// The pod that was tried last: another one is tried next, because the problem may be that pod.
    tried: PodUid,
}

/// Pods that must be written, and pods being written. Each is contained once, regardless of its number of
/// changes.
#[derive(Debug, Default)]
pub struct Queue {
    waiting: BTreeMap<PodUid, Waiting>,
    /// Pods whose readiness has changed: they are written before all others.
    prioritized: BTreeSet<PodUid>,
    /// Pods being written, with the last change that arrived meanwhile.
    busy: BTreeMap<PodUid, Option<u64>>,
    /// The wait of each pod that was not written.
    waits: BTreeMap<PodUid, Wait>,
    /// How many writes have succeeded.
    wells: u64,
    /// Set while the API server is unreachable: one pod is tried periodically, the others wait for it.
    pause: Option<Pause>,
}

impl Queue {
    /// Records a change of a pod. Its new status may be accepted, although the previous one was rejected.
    pub fn mark(&mut self, uid: &PodUid, change: u64) {
        if let Some(meanwhile) = self.busy.get_mut(uid) {
            *meanwhile = Some(change);
            return;
        }
        let new = Waiting { change, not_before: None, for_server: false };
        let waiting = self.waiting.entry(uid.clone()).or_insert(new);
        if change > waiting.change {
            *waiting = new;
        }
    }

    /// Sets whether a pod is written before others.
    pub fn prioritize(&mut self, uid: &PodUid, is_prioritized: bool) {
        if is_prioritized {
            self.prioritized.insert(uid.clone());
        } else {
            self.prioritized.remove(uid);
        }
    }

    /// Takes the pod to write now, if any.
    pub fn take(&mut self, now: Duration) -> Option<PodUid> {
        let limit = if self.pause.is_some() { 1 } else { AT_A_TIME };
        let pause = self.pause.as_ref();
        if pause.is_some_and(|pause| pause.until > now) || self.busy.len() >= limit {
            return None;
        }
        let ready =
            self.waiting.iter().filter(|(_, one)| one.not_before.is_none_or(|at| at <= now));
        let is_another = |uid: &PodUid| pause.is_none_or(|pause| pause.tried != *uid);
        let (uid, _) = ready.max_by_key(|(uid, one)| {
            (is_another(uid), self.prioritized.contains(*uid), one.change)
        })?;
        let uid = uid.clone();
        self.waiting.remove(&uid);
        self.busy.insert(uid.clone(), None);
        Some(uid)
    }

    /// When [`Queue::take`] may return a pod that it does not return now, without any other event.
    pub fn next_at(&self) -> Option<Duration> {
        if self.waiting.is_empty() || (self.pause.is_some() && !self.busy.is_empty()) {
            return None;
        }
        let first = self.waiting.values().filter_map(|one| one.not_before).min();
        let pause = self.pause.as_ref().map(|pause| pause.until);
        match (pause, self.waiting.values().any(|one| one.not_before.is_none())) {
            (Some(until), true) => Some(until),
            (Some(until), false) => first.map(|at| at.max(until)),
            (None, true) => None,
            (None, false) => first,
        }
    }

    /// Records the end of a write.
    pub fn done(&mut self, uid: &PodUid, wrote: WriteOutcome, change: u64, now: Duration) {
        let meanwhile = self.busy.remove(uid).flatten();
        match wrote {
            WriteOutcome::Well => {
                self.pause = None;
                self.waits.remove(uid);
                self.wells += 1;
                for waiting in self.waiting.values_mut().filter(|one| one.for_server) {
                    waiting.not_before = None;
                }
                match meanwhile {
                    Some(change) => self.mark(uid, change),
                    None => self.prioritize(uid, false),
                }
            }
            WriteOutcome::Later(time) => {
                let not_before = meanwhile.is_none().then_some(now + time);
                let change = meanwhile.unwrap_or(change);
                let waiting = Waiting { change, not_before, for_server: false };
                self.waiting.insert(uid.clone(), waiting);
            }
            WriteOutcome::Refused | WriteOutcome::Failed => {
                self.pause = None;
                let change = meanwhile.unwrap_or(change);
                self.wait(uid, change, wrote == WriteOutcome::Failed, now);
            }
            WriteOutcome::Panicked => self.wait(uid, meanwhile.unwrap_or(change), false, now),
            WriteOutcome::Away(least) => {
                let (until, next) = match &self.pause {
                    // It was in progress when another one failed: that counts once.
                    Some(pause) if pause.until > now => (pause.until, pause.next),
                    pause => {
                        let wait = pause.as_ref().map_or(FIRST_PAUSE, |pause| pause.next);
                        (now + wait, (wait * 2).min(LONGEST_PAUSE))
                    }
                };
                let until = until.max(now + least);
                self.pause = Some(Pause { until, next, tried: uid.clone() });
                self.mark(uid, meanwhile.unwrap_or(change));
            }
        }
    }

    /// Makes a pod wait that was not written. The failure counts as the pod's own if others were
    /// written between this attempt and the one before.
    fn wait(&mut self, uid: &PodUid, change: u64, has_failed: bool, now: Duration) {
        let last = self.waits.get(uid);
        let time = last.map_or(FIRST_WAIT, |last| (last.time * 2).min(LONGEST_WAIT));
        let for_server = has_failed && last.is_none_or(|last| last.wells == self.wells);
        self.waits.insert(uid.clone(), Wait { time, wells: self.wells });
        let waiting = Waiting { change, not_before: Some(now + time), for_server };
        self.waiting.insert(uid.clone(), waiting);
    }

    /// Whether a pod waits to be written and is not being written.
    pub fn is_waiting(&self, uid: &PodUid) -> bool {
        self.waiting.contains_key(uid)
    }

    /// Drops a pod.
    pub fn forget(&mut self, uid: &PodUid) {
        self.waiting.remove(uid);
        self.waits.remove(uid);
        self.prioritized.remove(uid);
    }
}

/// Whether a pod's readiness differs from its status in the API server: services route traffic by it.
pub fn changes_readiness(api: Option<&PodStatus>, ours: &PodStatus) -> bool {
    let is_ready = |status: Option<&PodStatus>| status_of(status, READY) == Some(TRUE);
    is_ready(api) != is_ready(Some(ours))
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Duration = Duration::from_hours(1);

    fn uid(name: &str) -> PodUid {
        name.into()
    }

    // behaviour: STW-30
    #[test]
    fn newest_is_first_and_each_pod_is_queued_once() {
        let now = START;
        let mut queue = Queue::default();
        for (name, change) in [("a", 1), ("b", 2), ("c", 3), ("a", 4)] {
            queue.mark(&uid(name), change);
        }
        let order: Vec<PodUid> = std::iter::from_fn(|| queue.take(now)).collect();
        assert_eq!(order, [uid("a"), uid("c"), uid("b")]);
        queue.mark(&uid("a"), 5);
        assert_eq!(queue.take(now), None, "each pod has one write at a time");
        queue.done(&uid("a"), WriteOutcome::Well, 4, now);
        assert_eq!(queue.take(now), Some(uid("a")), "a change during the write is written too");
        queue.done(&uid("a"), WriteOutcome::Well, 5, now);
        assert_eq!(queue.take(now), None);
    }

    // behaviour: STW-49
    #[test]
    fn changed_readiness_is_written_before_newer_changes() {
        let now = START;
        let mut queue = Queue::default();
        for (name, change) in [("ready", 1), ("a", 2), ("unready", 3), ("b", 4)] {
            queue.mark(&uid(name), change);
            queue.prioritize(&uid(name), name.ends_with("ready"));
        }
        let order: Vec<PodUid> = std::iter::from_fn(|| queue.take(now)).collect();
        assert_eq!(order, [uid("unready"), uid("ready"), uid("b"), uid("a")]);
        // A pod that could not be written stays before others, one that was written does not.
        queue.done(&uid("unready"), WriteOutcome::Well, 3, now);
        queue.done(&uid("ready"), WriteOutcome::Refused, 1, now);
        for (name, change) in [("unready", 5), ("c", 6)] {
            queue.mark(&uid(name), change);
        }
        let order: Vec<PodUid> = std::iter::from_fn(|| queue.take(now + FIRST_WAIT)).collect();
        assert_eq!(order, [uid("ready"), uid("c"), uid("unready")]);
    }

    #[test]
    fn readiness_changes_with_the_status_of_the_ready_condition_alone() {
        let with = |status: &str, reason: &str| PodStatus {
            conditions: Some(vec![k8s_openapi::api::core::v1::PodCondition {
                type_: "Ready".to_owned(),
                status: status.to_owned(),
                reason: Some(reason.to_owned()),
                ..Default::default()
            }]),
            ..PodStatus::default()
        };
        let none = PodStatus::default();
        let rows = [
            (Some(with("False", "a")), with("True", "a"), true),
            (Some(with("True", "a")), with("False", "a"), true),
            (Some(with("True", "a")), with("True", "b"), false),
            (Some(none.clone()), with("True", "a"), true),
            (None, with("False", "a"), false),
            (None, none, false),
        ];
        for (api, ours, expected) in rows {
            assert_eq!(changes_readiness(api.as_ref(), &ours), expected, "{api:?} {ours:?}");
        }
    }

    #[test]
    fn panic_backs_off_the_pod_and_does_not_pause_the_queue() {
        let (mut queue, now) = (Queue::default(), START);
        queue.mark(&uid("a"), 1);
        queue.take(now).unwrap();
        queue.done(&uid("a"), WriteOutcome::Panicked, 1, now);
        queue.mark(&uid("b"), 2);
        assert_eq!(queue.take(now), Some(uid("b")));
        queue.done(&uid("b"), WriteOutcome::Well, 2, now);
        assert_eq!(
            queue.take(now),
            None,
            "a successful write of another pod does not end its wait"
        );
        assert_eq!(queue.next_at(), Some(now + FIRST_WAIT));
        assert_eq!(queue.take(now + FIRST_WAIT), Some(uid("a")));
        queue.done(&uid("a"), WriteOutcome::Panicked, 1, now);
        assert_eq!(queue.next_at(), Some(now + 2 * FIRST_WAIT));
    }

    // behaviour: STW-31
    #[test]
    fn concurrent_writes_are_limited() {
        let now = START;
        let mut queue = Queue::default();
        for number in 0..20 {
            queue.mark(&uid(&number.to_string()), number);
        }
        assert_eq!(std::iter::from_fn(|| queue.take(now)).count(), AT_A_TIME);
    }

    // behaviour: STW-32
    #[test]
    fn rejected_pod_backs_off_and_does_not_block_others() {
        let mut now = START;
        let mut queue = Queue::default();
        queue.mark(&uid("bad"), 1);
        let mut waits = Vec::new();
        for _ in 0..8 {
            assert_eq!(queue.take(now), Some(uid("bad")));
            queue.done(&uid("bad"), WriteOutcome::Refused, 1, now);
            queue.mark(&uid("good"), 2);
            assert_eq!(queue.take(now), Some(uid("good")));
            queue.done(&uid("good"), WriteOutcome::Well, 2, now);
            let next = queue.next_at().unwrap();
            waits.push(next.saturating_sub(now).as_secs());
            now = next;
        }
        assert_eq!(waits, [1, 2, 4, 8, 10, 10, 10, 10]);
    }

    // behaviour: STW-32
    #[test]
    fn rejected_pod_with_a_new_change_does_not_wait() {
        let now = START;
        let mut queue = Queue::default();
        queue.mark(&uid("a"), 1);
        assert_eq!(queue.take(now), Some(uid("a")));
        queue.done(&uid("a"), WriteOutcome::Refused, 1, now);
        queue.mark(&uid("a"), 1);
        assert_eq!(queue.take(now), None, "the same status would be rejected again");
        queue.mark(&uid("a"), 2);
        assert_eq!(queue.take(now), Some(uid("a")));
    }

    // behaviour: STW-44
    #[test]
    fn deferred_pod_is_written_after_its_delay_or_with_a_new_change() {
        let (now, time) = (START, Duration::from_millis(300));
        let mut queue = Queue::default();
        for newer in [None, Some(2), Some(3)] {
            queue.mark(&uid("a"), 1);
            assert_eq!(queue.take(now), Some(uid("a")));
            if newer == Some(2) {
                queue.mark(&uid("a"), 2);
            }
            queue.done(&uid("a"), WriteOutcome::Later(time), 1, now);
            queue.mark(&uid("a"), 1);
            if newer == Some(3) {
                queue.mark(&uid("a"), 3);
            }
            if newer.is_none() {
                assert_eq!((queue.take(now), queue.next_at()), (None, Some(now + time)));
            }
            let at = if newer.is_none() { now + time } else { now };
            assert_eq!(queue.take(at), Some(uid("a")), "{newer:?}");
            queue.done(&uid("a"), WriteOutcome::Well, 3, at);
        }
    }

    // behaviour: STW-39
    #[test]
    fn failed_pods_are_retried_when_a_write_succeeds() {
        let mut now = START;
        let mut queue = Queue::default();
        let all = ["a", "b", "c"].map(uid);
        // Long enough for each to reach the maximum wait.
        for _ in 0..8 {
            for (change, one) in (1..).zip(&all) {
                queue.mark(one, change);
            }
            while let Some(one) = queue.take(now) {
                queue.done(&one, WriteOutcome::Failed, 1, now);
            }
            now += LONGEST_WAIT;
        }
        let first = queue.take(now).unwrap();
        for other in std::iter::from_fn(|| queue.take(now)).collect::<Vec<_>>() {
            queue.done(&other, WriteOutcome::Failed, 1, now);
        }
        assert_eq!(queue.take(now), None, "they wait for 10 s");
        queue.done(&first, WriteOutcome::Well, 1, now);
        assert_eq!(std::iter::from_fn(|| queue.take(now)).count(), 2, "the server works");
    }

    // behaviour: STW-39
    #[test]
    fn pod_that_fails_alone_backs_off() {
        let mut now = START;
        let mut queue = Queue::default();
        queue.mark(&uid("bad"), 1);
        let mut tries = 0;
        for change in 2..102 {
            if queue.take(now) == Some(uid("bad")) {
                tries += 1;
                queue.done(&uid("bad"), WriteOutcome::Failed, 1, now);
            }
            queue.mark(&uid("good"), change);
            assert_eq!(queue.take(now), Some(uid("good")));
            queue.done(&uid("good"), WriteOutcome::Well, change, now);
            now += Duration::from_millis(100);
        }
        // Immediately, once more after a success, and then after 2, 4 and so on.
        assert!((3..=5).contains(&tries), "{tries}");
    }

    // behaviour: STW-33
    #[test]
    fn unreachable_server_is_probed_with_the_newest_pod() {
        let mut now = START;
        let mut queue = Queue::default();
        for number in 0..5 {
            queue.mark(&uid(&number.to_string()), number);
        }
        let all: Vec<PodUid> = std::iter::from_fn(|| queue.take(now)).collect();
        for one in &all {
            queue.done(one, WriteOutcome::Away(Duration::ZERO), 0, now);
        }
        assert_eq!(queue.next_at(), Some(now + FIRST_PAUSE), "concurrent failures count once");
        let mut newest = 100;
        for name in ["2", "1", "2", "1", "2", "1"] {
            assert_eq!(queue.take(now), None);
            now = queue.next_at().unwrap();
            newest += 1;
            queue.mark(&uid(name), newest);
            assert_eq!(queue.take(now), Some(uid(name)), "the newest");
            assert_eq!(queue.take(now), None, "and no other");
            assert_eq!(queue.next_at(), None);
            queue.done(&uid(name), WriteOutcome::Away(Duration::ZERO), newest, now);
        }
        assert!(queue.next_at().unwrap().saturating_sub(now) <= LONGEST_PAUSE);
        now = queue.next_at().unwrap();
        let first = queue.take(now).unwrap();
        queue.done(&first, WriteOutcome::Well, newest, now);
        assert_eq!(std::iter::from_fn(|| queue.take(now)).count(), 4, "all others follow");
    }

    // behaviour: STW-33
    #[test]
    fn always_failing_pod_does_not_block_others() {
        let mut now = START;
        let mut queue = Queue::default();
        queue.mark(&uid("bad"), 9);
        assert_eq!(queue.take(now), Some(uid("bad")));
        queue.done(&uid("bad"), WriteOutcome::Away(Duration::ZERO), 9, now);
        queue.mark(&uid("good"), 1);
        now = queue.next_at().unwrap();
        assert_eq!(queue.take(now), Some(uid("good")), "although the other pod is newer");
        queue.done(&uid("good"), WriteOutcome::Away(Duration::ZERO), 1, now);
        now = queue.next_at().unwrap();
        assert_eq!(queue.take(now), Some(uid("bad")), "each has its turn");
    }

    // behaviour: STW-34
    #[test]
    fn retry_after_of_the_server_is_respected() {
        let now = START;
        let mut queue = Queue::default();
        queue.mark(&uid("a"), 1);
        queue.take(now);
        queue.done(&uid("a"), WriteOutcome::Away(Duration::from_secs(30)), 1, now);
        assert_eq!(queue.next_at(), Some(now + Duration::from_secs(30)));
    }
}
