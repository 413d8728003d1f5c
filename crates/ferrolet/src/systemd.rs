//! What the service manager is told, if it asked for it: a unit of `Type=notify`, with or without
//! `WatchdogSec=`.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use sd_notify::NotifyState;
use server::HealthChecks;
use tokio::time::sleep;
use tracing::{debug, error, warn};

/// The watchdog of a unit must be longer than this.
const SHORTEST_WATCHDOG: Duration = Duration::from_secs(1);

/// A watchdog that nobody could satisfy.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("the unit's watchdog of {0:?} is too short: more than {SHORTEST_WATCHDOG:?} is needed")]
pub(crate) struct TooShort(Duration);

/// The agent is at work.
pub(crate) fn ready() {
    tell(&[NotifyState::Ready, NotifyState::Status("keeps the pods of this node")]);
}

/// The agent waits for something before it can begin.
pub(crate) fn waiting(status: &str) {
    tell(&[NotifyState::Status(status)]);
}

/// The agent ends.
pub(crate) fn stopping() {
    tell(&[NotifyState::Stopping, NotifyState::Status("pods are left running")]);
}

fn tell(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        warn!(%error, "cannot tell the service manager");
    }
}

/// How often the service manager wants to hear that the agent is well, if it does.
pub(crate) fn watchdog() -> Result<Option<Duration>, TooShort> {
    period(sd_notify::watchdog_enabled())
}

fn period(watchdog: Option<Duration>) -> Result<Option<Duration>, TooShort> {
    match watchdog.filter(|watchdog| !watchdog.is_zero()) {
        Some(watchdog) if watchdog <= SHORTEST_WATCHDOG => Err(TooShort(watchdog)),
        // Twice in its time, so that one may be late.
        watchdog => Ok(watchdog.map(|watchdog| watchdog / 2)),
    }
}

/// Tells the service manager again and again that the agent is well, while it is.
pub(crate) async fn stay_alive(period: Option<Duration>, health: Arc<dyn HealthChecks>) {
    stay_alive_by(period, &*health, || sd_notify::notify(&[NotifyState::Watchdog])).await;
}

async fn stay_alive_by(
    period: Option<Duration>,
    health: &dyn HealthChecks,
    tell: impl Fn() -> io::Result<()>,
) {
    let Some(period) = period else { return std::future::pending().await };
    loop {
        let failed = health.checks().into_iter().find(|check| check.result.is_err());
        match failed {
            Some(check) => {
                let why = check.result.err().unwrap_or_default();
                error!(check = check.name, why, "not well; the watchdog is not told otherwise");
            }
            None => match tell() {
                Ok(()) => debug!("the watchdog knows that the agent is well"),
                Err(error) => warn!(%error, "cannot tell the watchdog that the agent is well"),
            },
        }
        sleep(period).await;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

    use server::Check;
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
    fn the_watchdog_is_told_twice_in_its_time() {
        let seconds = Duration::from_secs;
        assert_eq!(period(None), Ok(None));
        assert_eq!(period(Some(seconds(0))), Ok(None));
        assert_eq!(period(Some(seconds(1))), Err(TooShort(seconds(1))));
        assert_eq!(period(Some(seconds(30))), Ok(Some(seconds(15))));
    }

    #[tokio::test(start_paused = true)]
    async fn the_watchdog_hears_nothing_while_the_agent_is_not_well() {
        let (health, told) = (Health::default(), AtomicUsize::new(0));
        let tell = || {
            told.fetch_add(1, Ordering::Relaxed);
            Ok(())
        };
        let period = Some(Duration::from_secs(10));
        let staying = stay_alive_by(period, &health, tell);
        let mut staying = std::pin::pin!(staying);
        let mut told_within = async |seconds: u64| {
            let before = told.load(Ordering::Relaxed);
            assert!(timeout(Duration::from_secs(seconds), &mut staying).await.is_err());
            told.load(Ordering::Relaxed) - before
        };
        assert_eq!(told_within(35).await, 4);
        health.ill.store(true, Ordering::Relaxed);
        assert_eq!(told_within(35).await, 0);
        health.ill.store(false, Ordering::Relaxed);
        assert_eq!(told_within(10).await, 1);
    }
}
