//! The status that is written before a pod is deleted.

use jiff::Timestamp;
use model::cluster::{Disruption, FailedStatus, PodPhase};

use crate::plan::Pass;

/// The known status of a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KnownStatus {
    /// Its phase.
    pub phase: PodPhase,
    /// `metadata.generation`.
    pub generation: i64,
    /// `status.observedGeneration`.
    pub observed_generation: i64,
    /// The time since when the condition `DisruptionTarget` is true.
    pub disrupted_since: Option<i64>,
}

/// The failed status; `None` for a terminated pod, whose phase must not change. Only pods that lost their node
/// get a condition.
pub fn failed_status(known: &KnownStatus, pass: Pass, now: Timestamp) -> Option<FailedStatus> {
    if known.phase.is_final() {
        return None;
    }
    let observed = (known.generation != known.observed_generation).then_some(known.generation);
    let since = known.disrupted_since.and_then(|second| Timestamp::from_second(second).ok());
    let disruption = (pass == Pass::Orphaned).then(|| Disruption {
        reason: "DeletionByPodGC",
        message: "PodGC: node no longer exists",
        observed_generation: known.generation,
        // A condition that is already true keeps its transition time.
        since: since.unwrap_or(now),
    });
    Some(FailedStatus { observed_generation: observed, disruption })
}

#[cfg(test)]
mod tests {
    use super::*;

    const RUNNING: KnownStatus = KnownStatus {
        phase: PodPhase::Running,
        generation: 2,
        observed_generation: 1,
        disrupted_since: None,
    };
    const NOW: Timestamp = Timestamp::constant(1000, 0);

    // behaviour: PGC-50
    #[test]
    fn terminated_pod_is_never_marked_as_failed() {
        for phase in [PodPhase::Succeeded, PodPhase::Failed] {
            for pass in Pass::ALL {
                assert_eq!(failed_status(&KnownStatus { phase, ..RUNNING }, pass, NOW), None);
            }
        }
    }

    // behaviour: PGC-51
    #[test]
    fn only_orphaned_pods_get_a_condition() {
        for pass in Pass::ALL {
            let status = failed_status(&RUNNING, pass, NOW).unwrap();
            assert_eq!(status.observed_generation, Some(2));
            assert_eq!(status.disruption.is_some(), pass == Pass::Orphaned, "{pass:?}");
        }
        let disruption = failed_status(&RUNNING, Pass::Orphaned, NOW).unwrap().disruption.unwrap();
        assert_eq!((disruption.observed_generation, disruption.since), (2, NOW));
    }

    // behaviour: PGC-52
    #[test]
    fn true_condition_keeps_its_transition_time() {
        let known = KnownStatus { disrupted_since: Some(10), ..RUNNING };
        let disruption = failed_status(&known, Pass::Orphaned, NOW).unwrap().disruption.unwrap();
        assert_eq!(disruption.since, Timestamp::constant(10, 0));
        assert_eq!(disruption.reason, "DeletionByPodGC");
    }

    // behaviour: PGC-53
    #[test]
    fn current_observed_generation_is_not_written() {
        let known = KnownStatus { observed_generation: 2, ..RUNNING };
        let status = failed_status(&known, Pass::Unscheduled, NOW).unwrap();
        assert_eq!(status, FailedStatus::default());
    }

    // behaviour: PGC-54
    #[test]
    fn other_phases_are_marked_as_failed() {
        for phase in [PodPhase::Pending, PodPhase::Running, PodPhase::Unknown, PodPhase::Other] {
            let status = failed_status(&KnownStatus { phase, ..RUNNING }, Pass::Terminated, NOW);
            assert!(status.is_some(), "{phase}");
        }
    }
}
