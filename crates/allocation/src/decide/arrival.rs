//! Orders arrived pods, and decides which of them need admission.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use model::admission::{Preemption, Rejection};
use model::observed::RuntimePodStatus;
use podspec::restart::has_finished;
use podspec::view;

use super::admission::{Decision, Occupancy};
use super::chain::AdmissionChain;

/// The standing of an arrived pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Standing {
    /// It runs: an earlier agent admitted it, and it is not terminated because the node has less now.
    Runs,
    /// It is terminal and uses no resources; it still gets a worker.
    Over,
    /// It must be admitted.
    New,
}

/// The standing of a pod: whether any of its containers runs, and its last known status.
pub fn standing(pod: &Pod, lives: bool, status: Option<&RuntimePodStatus>) -> Standing {
    if lives {
        Standing::Runs
    } else if view::is_being_deleted(pod)
        || view::is_terminal(pod)
        || status.is_some_and(|status| has_finished(pod, status))
    {
        Standing::Over
    } else {
        Standing::New
    }
}

/// A pod in admission.
#[derive(Debug, Clone)]
pub struct Arrival {
    /// The pod, with the resources that an earlier agent allocated.
    pub pod: Arc<Pod>,
    /// Whether it needs admission.
    pub standing: Standing,
    /// Whether the node object is current: it was fetched for this pod, or there is none.
    pub is_final: bool,
}

/// The outcome of the admission of a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AdmissionDecision {
    /// The pod is admitted.
    Admit {
        /// Whether it uses resources of the node; a finished one does not.
        occupies: bool,
    },
    /// The pod is rejected.
    Reject(Rejection),
    /// Only the node's labels do not match: the node object is fetched before the pod is rejected.
    RefreshNode,
    /// The pod is admitted, and starts once its victims have terminated.
    Preempt(Preemption),
}

/// Decides whether a pod is admitted in addition to the pods of the node.
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
        Decision::Reject(_) if !is_final && chain.may_be_stale(pod, there) => {
            AdmissionDecision::RefreshNode
        }
        Decision::Reject(rejection) => AdmissionDecision::Reject(rejection),
    }
}

/// Sorts pods into the order of admission: running pods first, because the other pods must fit into
/// the remaining resources; then the oldest, and equally old ones in their order of arrival.
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
    use model::pressure::Pressure;
    use testkit::pods::pod;

    use super::*;
    use crate::decide::AllowedSysctls;
    use crate::decide::admission::Node;

    // behaviour: ADM-17, ADM-20
    #[test]
    fn arrived_pod_is_decided_by_its_standing_then_by_the_chain() {
        use AdmissionDecision::{Admit, RefreshNode};
        let allocatable = [("pods", "1")].map(|(name, text)| {
            let amount = text.parse().unwrap();
            (name.to_owned(), amount)
        });
        let chain = AdmissionChain {
            sysctls: AllowedSysctls::new((6, 1), &[]),
            apparmor: false,
            invalid_restart_rules_have_upstream_errors: true,
            node: Node { allocatable: allocatable.into(), ..Node::default() },
            pressure: Pressure::default(),
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
    fn running_pods_come_first_and_then_the_oldest() {
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
    fn running_or_terminal_pod_needs_no_admission() {
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
