//! Who makes cgroups.

use std::time::Duration;

use model::cgroup::CgroupDriver;
use model::ports::runtime::{Code, RuntimeError};
use prometheus::Registry;
use tracing::warn;

use crate::feature_metrics::tell_losing_support;

/// How often the runtime is asked for its cgroup driver, and how long to wait in between.
const TRIES: u32 = 3;
const RETRY: Duration = Duration::from_secs(2);

/// As the runtime says; one that cannot say leaves it to the configuration, which a later version will not.
pub(crate) async fn cgroup_driver(
    ask: impl AsyncFn() -> Result<Option<CgroupDriver>, RuntimeError>,
    metrics: &Registry,
) -> Result<Option<CgroupDriver>, RuntimeError> {
    let mut tries = 0;
    loop {
        tries += 1;
        match ask().await {
            Err(error) if error.code == Code::Unimplemented => {
                warn!(%error, "the runtime does not tell its cgroup driver; using cgroupDriver");
                tell_losing_support(metrics).expect("the runtime is asked once");
                return Ok(None);
            }
            Err(error) if tries < TRIES => {
                warn!(%error, "the runtime did not tell its cgroup driver; trying again");
                tokio::time::sleep(RETRY).await;
            }
            answer => return answer,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use prometheus::TextEncoder;
    use tokio::time::Instant;

    use super::*;

    type Answer = Result<Option<CgroupDriver>, RuntimeError>;

    fn refused(code: Code) -> Answer {
        let (object, message) = (String::new(), "no".to_owned());
        Err(RuntimeError { method: "RuntimeConfig", object, code, message })
    }

    /// What comes of these answers, how many were needed, how many seconds it took, and what metrics tell.
    async fn asked(
        answers: Vec<Answer>,
    ) -> ((Result<Option<CgroupDriver>, Code>, usize, u64), String) {
        let (left, begun) = (RefCell::new(answers.into_iter()), Instant::now());
        let (count, metrics) = (left.borrow().len(), Registry::new());
        let ask = async || left.borrow_mut().next().expect("asked too often");
        let driver = cgroup_driver(ask, &metrics).await.map_err(|error| error.code);
        let told = TextEncoder::new().encode_to_string(&metrics.gather()).unwrap();
        ((driver, count - left.borrow().len(), begun.elapsed().as_secs()), told)
    }

    // behaviour: CGR-25, CFG-8
    #[tokio::test(start_paused = true)]
    async fn a_runtime_that_does_not_answer_is_asked_three_times() {
        let busy = || refused(Code::Unavailable);
        let systemd = || Ok(Some(CgroupDriver::Systemd));
        let rows = [
            (vec![systemd()], (Ok(Some(CgroupDriver::Systemd)), 1, 0)),
            (vec![busy(), busy(), systemd()], (Ok(Some(CgroupDriver::Systemd)), 3, 4)),
            (vec![busy(), busy(), busy()], (Err(Code::Unavailable), 3, 4)),
            (vec![busy(), refused(Code::Unimplemented)], (Ok(None), 2, 2)),
            (vec![Ok(None)], (Ok(None), 1, 0)),
        ];
        for (answers, expected) in rows {
            let row = format!("{answers:?}");
            let (found, told) = asked(answers).await;
            assert_eq!(found, expected, "{row}");
            let losing = "kubelet_cri_losing_support{version=\"1.37.0\"} 1";
            let cannot_tell = row.contains("Unimplemented");
            assert_eq!(told.lines().any(|line| line == losing), cannot_tell, "{row}: {told}");
        }
    }
}
