//! How long a node takes to start, which is told once. Times count from the start of the agent.

use std::time::Duration;

/// What happened so far of the start of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Startup {
    attempted: Option<Duration>,
    registered: Option<Duration>,
    was_ready: bool,
}

/// How long it took to make the node object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Registration {
    /// Until it was tried.
    pub before: Duration,
    /// From then on until it was there.
    pub took: Duration,
}

impl Startup {
    /// The node object is about to be made.
    pub fn attempts(&mut self, at: Duration) {
        self.attempted.get_or_insert(at);
    }

    /// The node object was made. One that was there before is no start of a node.
    pub fn registered(&mut self, at: Duration) -> Option<Registration> {
        let before = self.attempted?;
        if self.registered.is_some() {
            return None;
        }
        self.registered = Some(at);
        Some(Registration { before, took: at.saturating_sub(before) })
    }

    /// The node is told to be ready: how long after it was made, the first time.
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
    fn the_start_of_a_new_node_is_told_once() {
        let mut startup = Startup::default();
        startup.attempts(seconds(1));
        startup.attempts(seconds(2));
        let registration = Registration { before: seconds(1), took: seconds(3) };
        assert_eq!(startup.registered(seconds(4)), Some(registration));
        assert_eq!(startup.ready(seconds(9)), Some(seconds(5)));
        // It was deleted, and made again.
        startup.attempts(seconds(20));
        assert_eq!((startup.registered(seconds(21)), startup.ready(seconds(22))), (None, None));
    }

    // behaviour: NODE-41
    #[test]
    fn of_a_node_that_was_there_nothing_is_told() {
        let mut startup = Startup::default();
        startup.attempts(seconds(1));
        assert_eq!(startup.ready(seconds(2)), None);
    }
}
