//! Something that fails again and again: said at once, then ever more rarely, and once it is over.

use std::time::{Duration, Instant};

/// The first time that passes before it is said again; each further one is twice as long.
const FIRST: Duration = Duration::from_secs(10);
/// No time is longer than this.
const LONGEST: Duration = Duration::from_mins(10);

/// What was said about one thing that fails.
#[derive(Debug, Clone, Default)]
pub struct Trouble {
    lasting: Option<Lasting>,
}

#[derive(Debug, Clone)]
struct Lasting {
    since: Instant,
    said: Instant,
    pause: Duration,
}

impl Trouble {
    /// It failed. Whether that is to be said.
    pub fn failed(&mut self, now: Instant) -> bool {
        let Some(lasting) = &mut self.lasting else {
            self.lasting = Some(Lasting { since: now, said: now, pause: FIRST });
            return true;
        };
        let is_time = now.saturating_duration_since(lasting.said) >= lasting.pause;
        if is_time {
            lasting.said = now;
            lasting.pause = (lasting.pause * 2).min(LONGEST);
        }
        is_time
    }

    /// It works. How long it did not, if it did not.
    pub fn over(&mut self, now: Instant) -> Option<Duration> {
        let lasting = self.lasting.take()?;
        Some(now.saturating_duration_since(lasting.since))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[expect(clippy::disallowed_methods, reason = "there is no other way to have an instant")]
    fn it_is_said_at_once_then_more_rarely_and_when_it_is_over() {
        let begin = Instant::now();
        let mut trouble = Trouble::default();
        assert_eq!(trouble.over(begin), None);
        let at = |second: u64| begin + Duration::from_secs(second);
        let said: Vec<u64> = (0..2000).filter(|second| trouble.failed(at(*second))).collect();
        assert_eq!(said, [0, 10, 30, 70, 150, 310, 630, 1230, 1830]);
        assert_eq!(trouble.over(at(2000)), Some(Duration::from_secs(2000)));
        assert_eq!(trouble.over(at(2001)), None);
        assert!(trouble.failed(at(2002)), "what comes back is said again");
    }
}
