//! Measures the start of a node once. Times are relative to the start of the agent.

use std::time::Duration;

/// The progress of the start of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Startup {
    attempted: Option<Duration>,
    registered: Option<Duration>,
    was_ready: bool,
}

/// The durations of the registration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Registration {
    /// Until the first attempt.
    pub before: Duration,
    /// From the first attempt until the object existed.
    pub took: Duration,
}

impl Startup {
    /// Records the first attempt to create the node object.
    pub fn attempts(&mut self, at: Duration) {
        self.attempted.get_or_insert(at);
    }

    /// Records that the node object was created. A node that existed before is not measured.
    pub fn registered(&mut self, at: Duration) -> Option<Registration> {
        let before = self.attempted?;
        if self.registered.is_some() {
            return None;
        }
        self.registered = Some(at);
        Some(Registration { before, took: at.saturating_sub(before) })
    }

    /// Records that the node is ready: returns the time since its creation, the first time.
    pub fn ready(&mut self, at: Duration) -> Option<Duration> {
        let registered = self.registered?;
        let is_first = !std::mem::replace(&mut self.was_ready, true);
        is_first.then(|| at.saturating_sub(registered))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn seconds(count: u64) -> Duration {
        Duration::from_secs(count)
    }

    // behaviour: NODE-41
    #[test]
    fn start_of_a_new_node_is_measured_once() {
        let mut startup = Startup::default();
        startup.attempts(seconds(1));
        startup.attempts(seconds(2));
        let registration = Registration { before: seconds(1), took: seconds(3) };
        assert_eq!(startup.registered(seconds(4)), Some(registration));
        assert_eq!(startup.ready(seconds(9)), Some(seconds(5)));
        // It was deleted, and created again.
        startup.attempts(seconds(20));
        assert_eq!((startup.registered(seconds(21)), startup.ready(seconds(22))), (None, None));
    }

    // behaviour: NODE-41
    #[test]
    fn start_of_an_existing_node_is_not_measured() {
        let mut startup = Startup::default();
        startup.attempts(seconds(1));
        assert_eq!(startup.ready(seconds(2)), None);
    }
}
