//! The node's clock, which can be set.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use model::observed::{Container, ContainerStatus, Sandbox, SandboxStatus};
use model::ports::clock::WallClock;
use testkit::clock::VirtualClock;

/// A clock that is set now and then. Processes, timers and the runtime use the steady clock below it; times
/// recorded by the runtime are those of the clock at that time.
#[derive(Debug)]
pub(crate) struct NodeClock {
    steady: VirtualClock,
    /// The offsets of the clock, with the steady time from which each applies; in order.
    set: Mutex<Vec<(Timestamp, SignedDuration)>>,
}

impl NodeClock {
    pub(crate) fn new(steady: VirtualClock) -> Self {
        Self { steady, set: Mutex::default() }
    }

    /// Sets the clock.
    pub(crate) fn jump(&self, seconds: i64) {
        let now = self.steady.now();
        let by = self.off_at(now) + SignedDuration::from_secs(seconds);
        self.set.lock().unwrap_or_else(PoisonError::into_inner).push((now, by));
    }

    fn off_at(&self, steady: Timestamp) -> SignedDuration {
        let set = self.set.lock().unwrap_or_else(PoisonError::into_inner);
        let last = set.iter().rev().find(|(from, _)| *from <= steady);
        last.map_or(SignedDuration::ZERO, |(_, by)| *by)
    }

    /// The time of the clock at a steady time.
    fn shown(&self, steady: Timestamp) -> Timestamp {
        steady + self.off_at(steady)
    }
}

impl NodeClock {
    /// The age, by the clock, of an event at a steady time.
    pub(crate) fn age(&self, steady: Timestamp) -> SignedDuration {
        self.now().duration_since(self.shown(steady))
    }

    /// How much longer a wait for a time of the clock may take because the clock was set back meanwhile, up to
    /// the length of the wait.
    pub(crate) fn set_back(&self, longest_wait: Duration) -> Duration {
        let set = self.set.lock().unwrap_or_else(PoisonError::into_inner);
        let before = std::iter::once(SignedDuration::ZERO).chain(set.iter().map(|(_, by)| *by));
        let jumps = set.iter().zip(before).map(|((_, by), before)| before - *by);
        let back = jumps.filter_map(|back| Duration::try_from(back).ok());
        back.filter(|back| *back <= longest_wait).sum()
    }

    /// The largest value that this ever had before the clock was set back.
    pub(crate) fn longest_age(&self, steady: Timestamp) -> SignedDuration {
        let began = self.shown(steady);
        let set = self.set.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let mut off = SignedDuration::ZERO;
        let mut longest = self.age(steady);
        for (from, by) in set {
            if from > steady {
                longest = longest.max((from + off).duration_since(began));
            }
            off = by;
        }
        longest
    }
}

impl WallClock for NodeClock {
    fn now(&self) -> Timestamp {
        self.shown(self.steady.now())
    }
}

/// An object with recorded times.
pub(crate) trait Timed {
    /// Sets its times to those of the node's clock.
    fn show_by(&mut self, clock: &NodeClock);
}

impl<T: Timed> Timed for Vec<T> {
    fn show_by(&mut self, clock: &NodeClock) {
        for one in self {
            one.show_by(clock);
        }
    }
}

impl Timed for Sandbox {
    fn show_by(&mut self, clock: &NodeClock) {
        self.created_at = clock.shown(self.created_at);
    }
}

impl Timed for SandboxStatus {
    fn show_by(&mut self, clock: &NodeClock) {
        self.created_at = clock.shown(self.created_at);
    }
}

impl Timed for Container {
    fn show_by(&mut self, clock: &NodeClock) {
        self.created_at = clock.shown(self.created_at);
    }
}

impl Timed for ContainerStatus {
    fn show_by(&mut self, clock: &NodeClock) {
        self.created_at = clock.shown(self.created_at);
        self.started_at = self.started_at.map(|at| clock.shown(at));
        self.finished_at = self.finished_at.map(|at| clock.shown(at));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn timestamp_from_before_a_clock_step_is_kept() {
        let steady = VirtualClock::new();
        let clock = NodeClock::new(steady.clone());
        let before = steady.now();
        tokio::time::sleep(Duration::from_secs(10)).await;
        clock.jump(-3600);
        assert_eq!(clock.shown(before), before);
        assert_eq!(clock.now(), before - SignedDuration::from_secs(3590));
        tokio::time::sleep(Duration::from_secs(10)).await;
        clock.jump(3600);
        assert_eq!(clock.now(), steady.now());
    }

    #[tokio::test(start_paused = true)]
    async fn latest_wall_time_survives_a_clock_step_back() {
        let steady = VirtualClock::new();
        let clock = NodeClock::new(steady.clone());
        let wait = |seconds| tokio::time::sleep(Duration::from_secs(seconds));
        let ages = |since| (clock.age(since).as_secs(), clock.longest_age(since).as_secs());
        clock.jump(50);
        wait(1).await;
        let since = steady.now();
        wait(10).await;
        assert_eq!(ages(since), (10, 10));
        clock.jump(100);
        wait(5).await;
        clock.jump(-1000);
        wait(1).await;
        assert_eq!(ages(since), (-884, 115));
        clock.jump(2000);
        assert_eq!(ages(since), (1116, 1116));
    }

    #[tokio::test(start_paused = true)]
    async fn wait_grows_by_the_clock_step_back_up_to_its_own_length() {
        let clock = NodeClock::new(VirtualClock::new());
        let set_back = || clock.set_back(Duration::from_mins(5)).as_secs();
        assert_eq!(set_back(), 0);
        for (jump, expected) in [(-120, 120), (3600, 120), (-3600, 120), (-5, 125)] {
            clock.jump(jump);
            assert_eq!(set_back(), expected, "{jump}");
        }
    }
}
