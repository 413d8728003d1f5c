//! The cgroup driver: as the runtime reports it, else as configured.

use std::time::Duration;

use model::cgroup::CgroupDriver;
use model::ports::runtime::{Code, RuntimeError};
use tracing::warn;

/// How often the runtime is asked for its cgroup driver, and the wait between attempts.
const TRIES: u32 = 3;
const RETRY: Duration = Duration::from_secs(2);

/// The runtime's answer about its cgroup driver. Without a driver in it, the configuration decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DriverAnswer {
    /// The runtime reports this driver.
    Named(CgroupDriver),
    /// The runtime answered without a driver.
    Unnamed,
    /// The runtime does not implement the call. A later version of Kubernetes will require it.
    CannotSay,
}

impl DriverAnswer {
    /// The reported driver, if any.
    pub(crate) fn named(self) -> Option<CgroupDriver> {
        match self {
            Self::Named(driver) => Some(driver),
            Self::Unnamed | Self::CannotSay => None,
        }
    }
}

/// Requests the driver from the runtime, with retries while it does not answer.
pub(crate) async fn cgroup_driver(
    request_driver: impl AsyncFn() -> Result<Option<CgroupDriver>, RuntimeError>,
) -> Result<DriverAnswer, RuntimeError> {
    let mut tries = 0;
    loop {
        tries += 1;
        match request_driver().await {
            Ok(Some(driver)) => return Ok(DriverAnswer::Named(driver)),
            Ok(None) => return Ok(DriverAnswer::Unnamed),
            Err(error) if error.code == Code::Unimplemented => {
                warn!(%error, "Runtime does not report its cgroup driver, using cgroupDriver");
                return Ok(DriverAnswer::CannotSay);
            }
            Err(error) if tries < TRIES => {
                warn!(%error, "Runtime did not report its cgroup driver, retrying");
                tokio::time::sleep(RETRY).await;
            }
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use tokio::time::Instant;

    use super::*;

    type Answer = Result<Option<CgroupDriver>, RuntimeError>;

    fn refused(code: Code) -> Answer {
        let (object, message) = (String::new(), "no".to_owned());
        Err(RuntimeError { method: "RuntimeConfig", object, code, message })
    }

    /// The driver that results from these answers, the number of attempts, and the seconds they took.
    async fn requested(answers: Vec<Answer>) -> (Result<DriverAnswer, Code>, usize, u64) {
        let (left, begun) = (RefCell::new(answers.into_iter()), Instant::now());
        let count = left.borrow().len();
        let request_driver = async || left.borrow_mut().next().expect("too many requests");
        let driver = cgroup_driver(request_driver).await.map_err(|error| error.code);
        (driver, count - left.borrow().len(), begun.elapsed().as_secs())
    }

    // behaviour: CGR-25, CFG-8
    #[tokio::test(start_paused = true)]
    async fn runtime_config_is_requested_three_times_without_a_response() {
        let busy = || refused(Code::Unavailable);
        let systemd = || Ok(Some(CgroupDriver::Systemd));
        let named = || Ok(DriverAnswer::Named(CgroupDriver::Systemd));
        let rows = [
            (vec![systemd()], (named(), 1, 0)),
            (vec![busy(), busy(), systemd()], (named(), 3, 4)),
            (vec![busy(), busy(), busy()], (Err(Code::Unavailable), 3, 4)),
            (vec![busy(), refused(Code::Unimplemented)], (Ok(DriverAnswer::CannotSay), 2, 2)),
            (vec![Ok(None)], (Ok(DriverAnswer::Unnamed), 1, 0)),
        ];
        for (answers, expected) in rows {
            let row = format!("{answers:?}");
            assert_eq!(requested(answers).await, expected, "{row}");
        }
    }

    #[test]
    fn cgroup_driver_is_certain_only_when_the_runtime_names_one() {
        for driver in [CgroupDriver::Cgroupfs, CgroupDriver::Systemd] {
            assert_eq!(DriverAnswer::Named(driver).named(), Some(driver));
        }
        assert_eq!(DriverAnswer::Unnamed.named(), None);
        assert_eq!(DriverAnswer::CannotSay.named(), None);
    }
}
