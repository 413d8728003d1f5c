//! When a pod is looked at again.

use std::time::Duration;

use jiff::Timestamp;

/// How the last run of a pod's worker ended, as far as the next one depends on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retry {
    /// All is well; look again now and then.
    Resync,
    /// The pod's network is not there yet.
    Network,
    /// What failed must wait until then.
    At(Timestamp),
    /// Something failed.
    Failure,
}

/// How long to wait after a failure, and for a network.
const FAILURE: Duration = Duration::from_secs(10);
const NETWORK: Duration = Duration::from_secs(1);

/// How long until the next run. `jitter` lies between 0 and 1 and stretches the wait by up to half,
/// so that pods that began together do not stay together.
pub fn requeue_after(retry: Retry, resync: Duration, jitter: f64, now: Timestamp) -> Duration {
    let wait = match retry {
        Retry::Resync => resync,
        Retry::Network => NETWORK,
        Retry::Failure => FAILURE,
        Retry::At(at) => {
            Duration::try_from(at.duration_since(now)).unwrap_or(Duration::ZERO).min(resync)
        }
    };
    wait.mul_f64(1.0 + 0.5 * jitter.clamp(0.0, 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    // behaviour: WRK-13
    #[test]
    fn each_outcome_has_its_wait() {
        let now = Timestamp::from_second(1000).unwrap();
        let at = |seconds: i64| Retry::At(Timestamp::from_second(1000 + seconds).unwrap());
        let rows = [
            (Retry::Resync, 60.0, 90.0),
            (Retry::Network, 1.0, 1.5),
            (Retry::Failure, 10.0, 15.0),
            (at(5), 5.0, 7.5),
            (at(-5), 0.0, 0.0),
            (at(120), 60.0, 90.0),
        ];
        for (retry, least, most) in rows {
            let wait =
                |jitter| requeue_after(retry, Duration::from_mins(1), jitter, now).as_secs_f64();
            assert!((wait(0.0) - least).abs() < 1e-6, "{retry:?}");
            assert!((wait(1.0) - most).abs() < 1e-6, "{retry:?}");
        }
    }
}
