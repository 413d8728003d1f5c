//! Waits for a value with a timeout.

use std::thread;
use std::time::{Duration, Instant};

const POLL: Duration = Duration::from_millis(20);

/// The end of a wait.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Deadline(Instant);

impl Deadline {
    pub(crate) fn after(time: Duration) -> Self {
        Self(Instant::now() + time)
    }

    pub(crate) fn left(self) -> Duration {
        self.0.saturating_duration_since(Instant::now())
    }

    /// Polls until there is a value; `None` after the deadline. Polls at least once.
    pub(crate) fn poll<T>(self, mut check: impl FnMut() -> Option<T>) -> Option<T> {
        loop {
            if let Some(answer) = check() {
                return Some(answer);
            }
            if self.left().is_zero() {
                return None;
            }
            thread::sleep(POLL.min(self.left()));
        }
    }
}
