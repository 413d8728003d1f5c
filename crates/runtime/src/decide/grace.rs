//! The grace period of a container, and what is left of it.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Container, Pod, Probe};

use super::reasons::KillReason;

/// The shortest time between SIGTERM and SIGKILL, with any pod spec.
pub const LEAST_GRACE: Duration = Duration::from_secs(2);

/// The grace period of a container: the first that is set of the kill, the pod's deletion, the
/// failed probe and the pod spec.
pub fn stop_grace(
    pod: &Pod,
    container: Option<&Container>,
    why: Option<KillReason>,
    requested: Option<Duration>,
) -> Duration {
    let seconds = |seconds: i64| Duration::from_secs(u64::try_from(seconds).unwrap_or(0));
    let deletion = pod.metadata.deletion_grace_period_seconds.map(seconds);
    let specified = pod.spec.as_ref().and_then(|spec| spec.termination_grace_period_seconds);
    let probe = match why {
        Some(KillReason::LivenessProbe) => container.and_then(|one| one.liveness_probe.as_ref()),
        Some(KillReason::StartupProbe) => container.and_then(|one| one.startup_probe.as_ref()),
        _ => None,
    };
    let of_probe = |probe: &Probe| probe.termination_grace_period_seconds;
    // Like upstream: a probe's grace period replaces that of the pod, but not a missing one.
    let specified = specified.map(|specified| probe.and_then(of_probe).unwrap_or(specified));
    requested.or(deletion).or(specified.map(seconds)).unwrap_or(LEAST_GRACE)
}

/// The rest of a grace period. Hooks and the wait of sidecars are subtracted, in whole
/// seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GraceBudget {
    left: Duration,
}

impl GraceBudget {
    /// The full grace period.
    pub fn new(grace: Duration) -> Self {
        Self { left: grace }
    }

    /// The rest.
    pub fn left(&self) -> Duration {
        self.left
    }

    /// Subtracts a duration.
    pub fn spend(&mut self, took: Duration) {
        self.left = self.left.saturating_sub(Duration::from_secs(took.as_secs()));
    }

    /// The timeout for the runtime: never less than a process needs to handle its signal.
    pub fn for_runtime(&self) -> Duration {
        self.left.max(LEAST_GRACE)
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::PodSpec;
    use proptest::prelude::*;

    use super::*;

    fn with(deletion: Option<i64>, specified: Option<i64>) -> Pod {
        let mut pod = Pod::default();
        pod.metadata.deletion_grace_period_seconds = deletion;
        pod.spec =
            Some(PodSpec { termination_grace_period_seconds: specified, ..PodSpec::default() });
        pod
    }

    // behaviour: ACT-60, WRK-25
    #[test]
    fn most_specific_grace_is_used_and_the_runtime_gets_at_least_two_seconds() {
        let rows = [
            (None, None, None, 2),
            (None, None, Some(30), 30),
            (None, Some(5), Some(30), 5),
            (Some(7), Some(5), Some(30), 7),
            (Some(0), Some(5), Some(30), 2),
            (None, Some(0), Some(30), 2),
            (None, Some(-1), None, 2),
        ];
        for (requested, deletion, specified, expected) in rows {
            let pod = with(deletion, specified);
            let grace = stop_grace(&pod, None, None, requested.map(Duration::from_secs));
            let sent = GraceBudget::new(grace).for_runtime();
            assert_eq!(
                sent,
                Duration::from_secs(expected),
                "{requested:?} {deletion:?} {specified:?}"
            );
        }
    }

    // behaviour: ACT-61
    #[test]
    fn failed_probe_has_its_own_grace_period() {
        let probe =
            |seconds| Probe { termination_grace_period_seconds: Some(seconds), ..Probe::default() };
        let container = Container {
            liveness_probe: Some(probe(11)),
            startup_probe: Some(probe(12)),
            ..Container::default()
        };
        let rows = [
            (Some(30), None, Some(KillReason::LivenessProbe), 11),
            (Some(30), None, Some(KillReason::StartupProbe), 12),
            (Some(30), None, Some(KillReason::Changed), 30),
            (Some(30), None, None, 30),
            (None, None, Some(KillReason::LivenessProbe), 2),
            (Some(30), Some(5), Some(KillReason::LivenessProbe), 5),
        ];
        for (specified, deletion, why, expected) in rows {
            let grace = stop_grace(&with(deletion, specified), Some(&container), why, None);
            assert_eq!(grace, Duration::from_secs(expected), "{specified:?} {deletion:?} {why:?}");
        }
    }

    // behaviour: ACT-62
    #[test]
    fn hooks_and_waits_reduce_the_grace_by_whole_seconds() {
        let mut budget = GraceBudget::new(Duration::from_secs(10));
        budget.spend(Duration::from_millis(2900));
        assert_eq!(budget.left(), Duration::from_secs(8));
        budget.spend(Duration::from_millis(900));
        assert_eq!(budget.for_runtime(), Duration::from_secs(8));
        budget.spend(Duration::from_secs(7));
        assert_eq!((budget.left(), budget.for_runtime()), (Duration::from_secs(1), LEAST_GRACE));
        budget.spend(Duration::from_secs(99));
        assert_eq!((budget.left(), budget.for_runtime()), (Duration::ZERO, LEAST_GRACE));
    }

    proptest! {
        #[test]
        fn grace_budget_only_shrinks(grace in 0u64..100, spent in proptest::collection::vec(0u64..20_000, 0..9)) {
            let mut budget = GraceBudget::new(Duration::from_secs(grace));
            for took in spent {
                let before = budget.left();
                budget.spend(Duration::from_millis(took));
                prop_assert!(budget.left() <= before);
                prop_assert!(budget.for_runtime() >= LEAST_GRACE);
            }
        }
    }
}
