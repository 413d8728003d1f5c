//! When a pod is synced again.

use std::time::Duration;

use jiff::Timestamp;

pub use model::wait::Retry;

/// The delay after a failure, and while the network is not ready.
const FAILURE: Duration = Duration::from_secs(10);
const NETWORK: Duration = Duration::from_secs(1);

/// The maximum jitter, as a fraction of the delay.
const MOST_JITTER: f64 = 0.5;

/// The delay until the next job. `jitter` is between 0 and 1 and extends the delay by up to half,
/// so that pods that started together spread out.
pub fn requeue_after(retry: Retry, resync: Duration, jitter: f64, now: Timestamp) -> Duration {
    let until = |at: Timestamp| Duration::try_from(at.duration_since(now)).unwrap_or_default();
    let wait = match retry {
        Retry::Resync => resync,
        Retry::Network => NETWORK,
        Retry::Failure => FAILURE,
        Retry::At(at) => until(at).min(resync),
        Retry::Deadline(at) => return until(at).min(resync),
    };
    wait.mul_f64(1.0 + MOST_JITTER * jitter.clamp(0.0, 1.0))
}

/// Limits the delay of a pod to its active deadline.
pub fn no_later(retry: Retry, deadline: Option<Timestamp>, now: Timestamp) -> Retry {
    let Some(deadline) = deadline else { return retry };
    let longest = requeue_after(retry, Duration::MAX / 2, 1.0, now);
    let left = Duration::try_from(deadline.duration_since(now)).unwrap_or_default();
    if left < longest { Retry::Deadline(deadline) } else { retry }
}

#[cfg(test)]
mod tests {
    use super::*;

    // behaviour: WRK-13
    #[test]
    fn each_outcome_has_its_delay() {
        let now = Timestamp::from_second(1000).unwrap();
        let at = |seconds: i64| Retry::At(Timestamp::from_second(1000 + seconds).unwrap());
        let rows = [
            (Retry::Resync, 60.0, 90.0),
            (Retry::Network, 1.0, 1.5),
            (Retry::Failure, 10.0, 15.0),
            (at(5), 5.0, 7.5),
            (at(-5), 0.0, 0.0),
            (at(120), 60.0, 90.0),
            (Retry::Deadline(Timestamp::from_second(1005).unwrap()), 5.0, 5.0),
            (Retry::Deadline(Timestamp::from_second(1120).unwrap()), 60.0, 60.0),
        ];
        for (retry, least, most) in rows {
            let wait =
                |jitter| requeue_after(retry, Duration::from_mins(1), jitter, now).as_secs_f64();
            assert!((wait(0.0) - least).abs() < 1e-6, "{retry:?}");
            assert!((wait(1.0) - most).abs() < 1e-6, "{retry:?}");
        }
    }

    // behaviour: WRK-16
    #[test]
    fn requeue_is_no_later_than_the_active_deadline() {
        let now = Timestamp::from_second(1000).unwrap();
        let at = |seconds: i64| Timestamp::from_second(1000 + seconds).unwrap();
        let rows = [
            (Retry::Failure, Some(14), true),
            (Retry::Failure, Some(-1), true),
            (Retry::Failure, Some(15), false),
            (Retry::Failure, None, false),
            (Retry::Network, Some(1), true),
            (Retry::At(at(20)), Some(29), true),
            (Retry::At(at(20)), Some(31), false),
            (Retry::Resync, Some(3600), true),
        ];
        for (retry, deadline, sooner) in rows {
            let found = no_later(retry, deadline.map(at), now);
            let expected =
                deadline.filter(|_| sooner).map_or(retry, |end| Retry::Deadline(at(end)));
            assert_eq!(found, expected, "{retry:?} {deadline:?}");
        }
    }
}
