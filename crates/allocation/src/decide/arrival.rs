//! In which order pods that came are let in, and who needs no letting in.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use model::admission::{Preemption, Rejection};
use model::observed::PodStatus;
use podspec::restart::has_finished;
use podspec::view;

use super::admission::{Decision, Occupancy};
use super::chain::AdmissionChain;

/// Where a pod stands that came.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Standing {
    /// It runs: an earlier agent has let it in, and nobody ends it because the node has less by now.
    Runs,
    /// It is over and takes nothing; it is looked after all the same.
    Over,
    /// It is to be let in.
    New,
}

/// Where a pod stands, by whether something of it lives and by its last known status.
pub fn standing(pod: &Pod, lives: bool, status: Option<&PodStatus>) -> Standing {
    if lives {
        Standing::Runs
    } else if view::is_being_deleted(pod)
        || view::is_over(pod)
        || status.is_some_and(|status| has_finished(pod, status))
    {
        Standing::Over
    } else {
        Standing::New
    }
}

/// A pod that is to be admitted.
#[derive(Debug, Clone)]
pub struct Arrival {
    /// The pod, with what an earlier agent allocated.
    pub pod: Arc<Pod>,
    /// Whether it has to be admitted at all.
    pub standing: Standing,
    /// Whether nothing newer can be known of the node: its object was fetched for this pod, or there is none.
    pub is_final: bool,
}

/// What becomes of a pod that is to be admitted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AdmissionDecision {
    /// It is admitted.
    Admit {
        /// Whether it takes something of the node; one that has finished does not.
        occupies: bool,
    },
    /// It is not admitted.
    Reject(Rejection),
    /// Only the node's labels are in the way: its object is fetched before the pod is rejected.
    RefreshNode,
    /// It is admitted, and starts once others have terminated.
    Preempt(Preemption),
}

/// Decides whether a pod is admitted beside those that are there.
pub fn decide_arrival(
    chain: &AdmissionChain,
    arrival: &Arrival,
    there: &Occupancy,
) -> AdmissionDecision {
    let Arrival { pod, standing, is_final } = arrival;
    match standing {
        Standing::Runs => return AdmissionDecision::Admit { occupies: true },
        Standing::Over => return AdmissionDecision::Admit { occupies: false },
        Standing::New => {}
    }
    match chain.decide(pod, there) {
        Decision::Admit => AdmissionDecision::Admit { occupies: true },
        Decision::Preempt(plan) => AdmissionDecision::Preempt(plan),
        Decision::Reject(_) if !is_final && chain.may_be_late(pod, there) => {
            AdmissionDecision::RefreshNode
        }
        Decision::Reject(rejection) => AdmissionDecision::Reject(rejection),
    }
}

/// Pods in the order in which they are let in: those that run come first, whatever the others take
/// must be beside them; then the oldest, and of equally old ones whoever came first.
pub fn in_order(mut came: Vec<(Arc<Pod>, Standing)>) -> Vec<(Arc<Pod>, Standing)> {
    came.sort_by_key(|(pod, standing)| {
        let made = pod.metadata.creation_timestamp.as_ref().map(|time| time.0);
        (*standing, made)
    });
    came
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use k8s_openapi::api::core::v1;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
    use testkit::pods::pod;

    use super::*;
    use crate::decide::AllowedSysctls;
    use crate::decide::admission::Node;

    // behaviour: ADM-17, ADM-20
    #[test]
    fn arrival_is_decided_by_its_standing_and_then_by_the_chain() {
        use AdmissionDecision::{Admit, RefreshNode};
        let allocatable = [("pods", "1")].map(|(name, text)| {
            let amount = text.parse().unwrap();
            (name.to_owned(), amount)
        });
        let chain = AdmissionChain {
            sysctls: AllowedSysctls::new((6, 1), &[]),
            apparmor: false,
            restart_rules: true,
            node: Node { allocatable: allocatable.into(), ..Node::default() },
        };
        let selecting = |zone: Option<&str>| {
            let selector = zone.map(|zone| [("zone".to_owned(), zone.to_owned())].into());
            Arc::new(pod("web").spec(|spec| spec.node_selector = selector).build())
        };
        let (plain, elsewhere) = (selecting(None), selecting(Some("south")));
        let rows = [
            (&plain, Standing::New, false, Some(Admit { occupies: true })),
            (&elsewhere, Standing::Runs, false, Some(Admit { occupies: true })),
            (&elsewhere, Standing::Over, false, Some(Admit { occupies: false })),
            (&elsewhere, Standing::New, false, Some(RefreshNode)),
            (&elsewhere, Standing::New, true, None),
        ];
        for (row, (pod, standing, is_final, expected)) in rows.into_iter().enumerate() {
            let arrival = Arrival { pod: Arc::clone(pod), standing, is_final };
            let decision = decide_arrival(&chain, &arrival, &Occupancy::default());
            match expected {
                Some(expected) => assert_eq!(decision, expected, "row {row}"),
                None => assert!(matches!(decision, AdmissionDecision::Reject(_)), "row {row}"),
            }
        }
    }

    fn made(name: &str, second: Option<i64>) -> Arc<Pod> {
        let mut pod = pod(name).build();
        let time = second.map(|second| Time(Timestamp::from_second(second).unwrap()));
        pod.metadata.creation_timestamp = time;
        Arc::new(pod)
    }

    // behaviour: ADM-17, ADM-18
    #[test]
    fn who_runs_comes_first_and_then_the_oldest() {
        let came = vec![
            (made("young", Some(20)), Standing::New),
            (made("b", None), Standing::New),
            (made("running", Some(30)), Standing::Runs),
            (made("old", Some(10)), Standing::New),
            (made("a", None), Standing::New),
            (made("over", Some(5)), Standing::Over),
        ];
        let ordered = in_order(came);
        let names: Vec<&str> =
            ordered.iter().filter_map(|(pod, _)| pod.metadata.name.as_deref()).collect();
        assert_eq!(names, ["running", "over", "b", "a", "old", "young"]);
    }

    // behaviour: ADM-17, ADM-20
    #[test]
    fn a_pod_that_runs_or_is_over_is_not_asked_again() {
        let mut ended = pod("ended").build();
        ended.status =
            Some(v1::PodStatus { phase: Some("Failed".to_owned()), ..v1::PodStatus::default() });
        let fresh = pod("fresh").build();
        assert_eq!(standing(&fresh, false, None), Standing::New);
        assert_eq!(standing(&fresh, true, None), Standing::Runs);
        assert_eq!(standing(&ended, false, None), Standing::Over);
        assert_eq!(standing(&ended, true, None), Standing::Runs);
        let mut going = pod("going").build();
        going.metadata.deletion_timestamp = Some(Time(Timestamp::UNIX_EPOCH));
        assert_eq!(standing(&going, false, None), Standing::Over);
    }
}
