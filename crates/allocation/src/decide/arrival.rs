//! In which order pods that came are let in, and who needs no letting in.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use model::observed::PodStatus;
use podspec::restart::has_finished;
use podspec::view;

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
