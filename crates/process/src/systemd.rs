//! Notifications of systemd for a unit of `Type=notify`, with or without `WatchdogSec=`. Without such a unit nothing is
//! sent.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use model::program::HealthChecks;
use sd_notify::NotifyState;
use tokio::time::sleep;
use tracing::{debug, error, warn};

/// The watchdog of a unit must be longer than this.
const SHORTEST_WATCHDOG: Duration = Duration::from_secs(1);

/// The period of the watchdog is too short.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("the unit's watchdog of {0:?} is too short: more than {SHORTEST_WATCHDOG:?} is needed")]
pub struct TooShort(Duration);

/// The program has started.
pub fn ready(status: &str) {
    notify(&[NotifyState::Ready, NotifyState::Status(status)]);
}

/// The program waits for something before it can start.
pub fn waiting(status: &str) {
    notify(&[NotifyState::Status(status)]);
}

/// The program stops.
pub fn stopping(status: &str) {
    notify(&[NotifyState::Stopping, NotifyState::Status(status)]);
}

fn notify(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        warn!(%error, "Cannot notify systemd");
    }
}

/// How often the watchdog is notified; `None` for a unit without one.
pub fn watchdog() -> Result<Option<Duration>, TooShort> {
    period(sd_notify::watchdog_enabled())
}

fn period(watchdog: Option<Duration>) -> Result<Option<Duration>, TooShort> {
    match watchdog.filter(|watchdog| !watchdog.is_zero()) {
        Some(watchdog) if watchdog <= SHORTEST_WATCHDOG => Err(TooShort(watchdog)),
        // Twice in each period, so that one notification may be late.
        watchdog => Ok(watchdog.map(|watchdog| watchdog / 2)),
    }
}

/// Notifies the watchdog periodically while all health checks pass. Never returns.
pub async fn stay_alive(period: Option<Duration>, health: Arc<dyn HealthChecks>) {
    stay_alive_by(period, &*health, || sd_notify::notify(&[NotifyState::Watchdog])).await;
}

async fn stay_alive_by(
    period: Option<Duration>,
    health: &dyn HealthChecks,
    notify: impl Fn() -> io::Result<()>,
) {
    let Some(period) = period else { return std::future::pending().await };
    loop {
        let failed = health.checks().into_iter().find(|check| check.result.is_err());
        match failed {
            Some(check) => {
                let why = check.result.err().unwrap_or_default();
                error!(check = check.name, why, "Health check failed, not notifying the watchdog");
            }
            None => match notify() {
                Ok(()) => debug!("Watchdog notified"),
                Err(error) => warn!(%error, "Cannot notify the watchdog"),
            },
        }
        sleep(period).await;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

    use model::program::Check;
    use tokio::time::timeout;

    use super::*;

    #[derive(Debug, Default)]
    struct Health {
        ill: AtomicBool,
    }

    impl HealthChecks for Health {
        fn checks(&self) -> Vec<Check> {
            let ill = self.ill.load(Ordering::Relaxed);
            let result = if ill { Err("stuck".to_owned()) } else { Ok(()) };
            vec![Check { name: "ping", result: Ok(()) }, Check { name: "syncloop", result }]
        }
    }

    #[test]
    fn watchdog_is_notified_twice_in_its_period() {
        let seconds = Duration::from_secs;
        assert_eq!(period(None), Ok(None));
        assert_eq!(period(Some(seconds(0))), Ok(None));
        assert_eq!(period(Some(seconds(1))), Err(TooShort(seconds(1))));
        assert_eq!(period(Some(seconds(30))), Ok(Some(seconds(15))));
    }

    #[tokio::test(start_paused = true)]
    async fn watchdog_is_not_notified_while_a_check_fails() {
        let (health, sent) = (Health::default(), AtomicUsize::new(0));
        let notify = || {
            sent.fetch_add(1, Ordering::Relaxed);
            Ok(())
        };
        let period = Some(Duration::from_secs(10));
        let staying = stay_alive_by(period, &health, notify);
        let mut staying = std::pin::pin!(staying);
        let mut sent_within = async |seconds: u64| {
            let before = sent.load(Ordering::Relaxed);
            assert!(timeout(Duration::from_secs(seconds), &mut staying).await.is_err());
            sent.load(Ordering::Relaxed) - before
        };
        assert_eq!(sent_within(35).await, 4);
        health.ill.store(true, Ordering::Relaxed);
        assert_eq!(sent_within(35).await, 0);
        health.ill.store(false, Ordering::Relaxed);
        assert_eq!(sent_within(10).await, 1);
    }
}
