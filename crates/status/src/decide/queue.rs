//! Which pod is written about next. Times are counted from any one beginning.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use k8s_openapi::api::core::v1::PodStatus;
use model::ids::PodUid;

use crate::decide::conditions::{READY, TRUE, status_of};

/// How many pods are written about at a time.
const AT_A_TIME: usize = 8;
/// How long a pod waits that could not be written, at first and at most: as upstream, which tries all of
/// them every 10 s.
const FIRST_WAIT: Duration = Duration::from_secs(1);
const LONGEST_WAIT: Duration = Duration::from_secs(10);
/// How long all wait while the API server is away, at first and at most, unless it says how long.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// How a write went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wrote {
    /// As it should.
    Well,
    /// Not at all: it has so much time.
    Later(Duration),
    /// It was refused.
    Refused,
    /// The API server could not do it, or did not know who asked: it may fare better once others do.
    Failed,
    /// The API server is away, or has too much to do and wants to be left alone for a while.
    Away(Duration),
    /// The work for this pod panicked, which says nothing of the API server.
    Panicked,
}

#[derive(Debug, Clone, Copy)]
struct Waiting {
    /// The number of its last change: the newest goes first.
    change: u64,
    not_before: Option<Duration>,
    /// Whether it waits no longer once another one is written.
    for_server: bool,
}

/// How long a pod waits that was not written.
#[derive(Debug, Clone, Copy)]
struct Wait {
    time: Duration,
    /// How many had been written by then.
    wells: u64,
}

#[derive(Debug, Clone)]
struct Pause {
    until: Duration,
    next: Duration,
    /// The pod that was tried last: another one is tried next, since it may be that pod's own fault.
    tried: PodUid,
}

/// Pods that are to be written about, and those that are being. Each is there once, however often it
/// changed.
#[derive(Debug, Default)]
pub struct Queue {
    waiting: BTreeMap<PodUid, Waiting>,
    /// Pods whose readiness has changed: they are written before all others.
    prioritized: BTreeSet<PodUid>,
    /// Being written, with the last change that came meanwhile.
    busy: BTreeMap<PodUid, Option<u64>>,
    /// How long each waits that was not written.
    waits: BTreeMap<PodUid, Wait>,
    /// How many were written.
    wells: u64,
    /// While the API server is away: one is tried now and then, the others wait for it.
    pause: Option<Pause>,
}

impl Queue {
    /// A pod changed. What it says now may be taken, although what it said before was not.
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

    /// The pod that is to be written about now, if any.
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

    /// When [`Queue::take`] may give a pod that it does not give now, if only time must pass.
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

    /// A write ended.
    pub fn done(&mut self, uid: &PodUid, wrote: Wrote, change: u64, now: Duration) {
        let meanwhile = self.busy.remove(uid).flatten();
        match wrote {
            Wrote::Well => {
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
            Wrote::Later(time) => {
                let not_before = meanwhile.is_none().then_some(now + time);
                let change = meanwhile.unwrap_or(change);
                let waiting = Waiting { change, not_before, for_server: false };
                self.waiting.insert(uid.clone(), waiting);
            }
            Wrote::Refused | Wrote::Failed => {
                self.pause = None;
                let change = meanwhile.unwrap_or(change);
                self.wait(uid, change, wrote == Wrote::Failed, now);
            }
            Wrote::Panicked => self.wait(uid, meanwhile.unwrap_or(change), false, now),
            Wrote::Away(least) => {
                let (until, next) = match &self.pause {
                    // It was under way when another one failed: that counts once.
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

    /// A pod was not written, for its own sake or for the server's. It is the pod's own if others were
    /// written between this try and the one before.
    fn wait(&mut self, uid: &PodUid, change: u64, has_failed: bool, now: Duration) {
        let last = self.waits.get(uid);
        let time = last.map_or(FIRST_WAIT, |last| (last.time * 2).min(LONGEST_WAIT));
        let for_server = has_failed && last.is_none_or(|last| last.wells == self.wells);
        self.waits.insert(uid.clone(), Wait { time, wells: self.wells });
        let waiting = Waiting { change, not_before: Some(now + time), for_server };
        self.waiting.insert(uid.clone(), waiting);
    }

    /// Whether a pod is to be written about that is not being.
    pub fn is_waiting(&self, uid: &PodUid) -> bool {
        self.waiting.contains_key(uid)
    }

    /// Nothing more is to be written about a pod.
    pub fn forget(&mut self, uid: &PodUid) {
        self.waiting.remove(uid);
        self.waits.remove(uid);
        self.prioritized.remove(uid);
    }
}

/// Whether a pod became ready, or is not ready any more, since the API server got its status: services send traffic by it.
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
    fn the_newest_goes_first_and_each_pod_once() {
        let now = START;
        let mut queue = Queue::default();
        for (name, change) in [("a", 1), ("b", 2), ("c", 3), ("a", 4)] {
            queue.mark(&uid(name), change);
        }
        let order: Vec<PodUid> = std::iter::from_fn(|| queue.take(now)).collect();
        assert_eq!(order, [uid("a"), uid("c"), uid("b")]);
        queue.mark(&uid("a"), 5);
        assert_eq!(queue.take(now), None, "one at a time for each");
        queue.done(&uid("a"), Wrote::Well, 4, now);
        assert_eq!(queue.take(now), Some(uid("a")), "what came meanwhile is written too");
        queue.done(&uid("a"), Wrote::Well, 5, now);
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
        queue.done(&uid("unready"), Wrote::Well, 3, now);
        queue.done(&uid("ready"), Wrote::Refused, 1, now);
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
    fn panic_makes_a_pod_wait_and_says_nothing_of_the_server() {
        let (mut queue, now) = (Queue::default(), START);
        queue.mark(&uid("a"), 1);
        queue.take(now).unwrap();
        queue.done(&uid("a"), Wrote::Panicked, 1, now);
        queue.mark(&uid("b"), 2);
        assert_eq!(queue.take(now), Some(uid("b")));
        queue.done(&uid("b"), Wrote::Well, 2, now);
        assert_eq!(queue.take(now), None, "that another one is written does not help it");
        assert_eq!(queue.next_at(), Some(now + FIRST_WAIT));
        assert_eq!(queue.take(now + FIRST_WAIT), Some(uid("a")));
        queue.done(&uid("a"), Wrote::Panicked, 1, now);
        assert_eq!(queue.next_at(), Some(now + 2 * FIRST_WAIT));
    }

    // behaviour: STW-31
    #[test]
    fn several_are_written_at_a_time_and_no_more() {
        let now = START;
        let mut queue = Queue::default();
        for number in 0..20 {
            queue.mark(&uid(&number.to_string()), number);
        }
        assert_eq!(std::iter::from_fn(|| queue.take(now)).count(), AT_A_TIME);
    }

    // behaviour: STW-32
    #[test]
    fn one_that_is_refused_waits_ever_longer_and_holds_up_nobody() {
        let mut now = START;
        let mut queue = Queue::default();
        queue.mark(&uid("bad"), 1);
        let mut waits = Vec::new();
        for _ in 0..8 {
            assert_eq!(queue.take(now), Some(uid("bad")));
            queue.done(&uid("bad"), Wrote::Refused, 1, now);
            queue.mark(&uid("good"), 2);
            assert_eq!(queue.take(now), Some(uid("good")));
            queue.done(&uid("good"), Wrote::Well, 2, now);
            let next = queue.next_at().unwrap();
            waits.push(next.saturating_sub(now).as_secs());
            now = next;
        }
        assert_eq!(waits, [1, 2, 4, 8, 10, 10, 10, 10]);
    }

    // behaviour: STW-32
    #[test]
    fn one_that_was_refused_does_not_wait_with_something_newer() {
        let now = START;
        let mut queue = Queue::default();
        queue.mark(&uid("a"), 1);
        assert_eq!(queue.take(now), Some(uid("a")));
        queue.done(&uid("a"), Wrote::Refused, 1, now);
        queue.mark(&uid("a"), 1);
        assert_eq!(queue.take(now), None, "the same is refused again");
        queue.mark(&uid("a"), 2);
        assert_eq!(queue.take(now), Some(uid("a")));
    }

    // behaviour: STW-44
    #[test]
    fn one_that_has_time_goes_when_it_is_over_or_with_something_newer() {
        let (now, time) = (START, Duration::from_millis(300));
        let mut queue = Queue::default();
        for newer in [None, Some(2), Some(3)] {
            queue.mark(&uid("a"), 1);
            assert_eq!(queue.take(now), Some(uid("a")));
            if newer == Some(2) {
                queue.mark(&uid("a"), 2);
            }
            queue.done(&uid("a"), Wrote::Later(time), 1, now);
            queue.mark(&uid("a"), 1);
            if newer == Some(3) {
                queue.mark(&uid("a"), 3);
            }
            if newer.is_none() {
                assert_eq!((queue.take(now), queue.next_at()), (None, Some(now + time)));
            }
            let at = if newer.is_none() { now + time } else { now };
            assert_eq!(queue.take(at), Some(uid("a")), "{newer:?}");
            queue.done(&uid("a"), Wrote::Well, 3, at);
        }
    }

    // behaviour: STW-39
    #[test]
    fn those_that_the_server_failed_are_tried_again_when_one_gets_through() {
        let mut now = START;
        let mut queue = Queue::default();
        let all = ["a", "b", "c"].map(uid);
        // Long enough for each to wait for as long as any does.
        for _ in 0..8 {
            for (change, one) in (1..).zip(&all) {
                queue.mark(one, change);
            }
            while let Some(one) = queue.take(now) {
                queue.done(&one, Wrote::Failed, 1, now);
            }
            now += LONGEST_WAIT;
        }
        let first = queue.take(now).unwrap();
        for other in std::iter::from_fn(|| queue.take(now)).collect::<Vec<_>>() {
            queue.done(&other, Wrote::Failed, 1, now);
        }
        assert_eq!(queue.take(now), None, "they wait for 10 s");
        queue.done(&first, Wrote::Well, 1, now);
        assert_eq!(std::iter::from_fn(|| queue.take(now)).count(), 2, "the server is well");
    }

    // behaviour: STW-39
    #[test]
    fn one_that_fails_while_others_do_not_waits_for_its_own_sake() {
        let mut now = START;
        let mut queue = Queue::default();
        queue.mark(&uid("bad"), 1);
        let mut tries = 0;
        for change in 2..102 {
            if queue.take(now) == Some(uid("bad")) {
                tries += 1;
                queue.done(&uid("bad"), Wrote::Failed, 1, now);
            }
            queue.mark(&uid("good"), change);
            assert_eq!(queue.take(now), Some(uid("good")));
            queue.done(&uid("good"), Wrote::Well, change, now);
            now += Duration::from_millis(100);
        }
        // At once, once more as one got through, and then after 2, 4 and so on.
        assert!((3..=5).contains(&tries), "{tries}");
    }

    // behaviour: STW-33
    #[test]
    fn while_the_api_server_is_away_one_is_tried_now_and_then_and_the_newest_first() {
        let mut now = START;
        let mut queue = Queue::default();
        for number in 0..5 {
            queue.mark(&uid(&number.to_string()), number);
        }
        let all: Vec<PodUid> = std::iter::from_fn(|| queue.take(now)).collect();
        for one in &all {
            queue.done(one, Wrote::Away(Duration::ZERO), 0, now);
        }
        assert_eq!(
            queue.next_at(),
            Some(now + FIRST_PAUSE),
            "that they failed together counts once"
        );
        let mut newest = 100;
        for name in ["2", "1", "2", "1", "2", "1"] {
            assert_eq!(queue.take(now), None);
            now = queue.next_at().unwrap();
            newest += 1;
            queue.mark(&uid(name), newest);
            assert_eq!(queue.take(now), Some(uid(name)), "the newest");
            assert_eq!(queue.take(now), None, "and no other");
            assert_eq!(queue.next_at(), None);
            queue.done(&uid(name), Wrote::Away(Duration::ZERO), newest, now);
        }
        assert!(queue.next_at().unwrap().saturating_sub(now) <= LONGEST_PAUSE);
        now = queue.next_at().unwrap();
        let first = queue.take(now).unwrap();
        queue.done(&first, Wrote::Well, newest, now);
        assert_eq!(std::iter::from_fn(|| queue.take(now)).count(), 4, "all others follow");
    }

    // behaviour: STW-33
    #[test]
    fn one_pod_that_always_fails_does_not_keep_the_others_from_being_tried() {
        let mut now = START;
        let mut queue = Queue::default();
        queue.mark(&uid("bad"), 9);
        assert_eq!(queue.take(now), Some(uid("bad")));
        queue.done(&uid("bad"), Wrote::Away(Duration::ZERO), 9, now);
        queue.mark(&uid("good"), 1);
        now = queue.next_at().unwrap();
        assert_eq!(queue.take(now), Some(uid("good")), "although the other one is newer");
        queue.done(&uid("good"), Wrote::Away(Duration::ZERO), 1, now);
        now = queue.next_at().unwrap();
        assert_eq!(queue.take(now), Some(uid("bad")), "each has its turn");
    }

    // behaviour: STW-34
    #[test]
    fn a_server_that_wants_to_be_left_alone_is() {
        let now = START;
        let mut queue = Queue::default();
        queue.mark(&uid("a"), 1);
        queue.take(now);
        queue.done(&uid("a"), Wrote::Away(Duration::from_secs(30)), 1, now);
        assert_eq!(queue.next_at(), Some(now + Duration::from_secs(30)));
    }
}
