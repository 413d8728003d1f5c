//! Pods with `activeDeadlineSeconds`.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Pod;
use model::observed::RuntimePodStatus;
use podspec::view;

/// When a pod's active deadline expires: `activeDeadlineSeconds` after the creation of its first sandbox, which the
/// runtime reports, so a restart of the agent grants no more time. The start time in the API server covers a runtime
/// that lost its state. A pod without either started when the agent first saw it.
pub fn deadline(
    pod: &Pod,
    status: &RuntimePodStatus,
    first_seen: Option<Timestamp>,
) -> Option<Timestamp> {
    let seconds = view::spec(pod)?.active_deadline_seconds?;
    let of_api = pod.status.as_ref().and_then(|status| status.start_time.as_ref());
    let sandboxes = status.sandboxes.iter().map(|sandbox| sandbox.created_at);
    let began = sandboxes.chain(of_api.map(|began| began.0)).min().or(first_seen)?;
    began.checked_add(SignedDuration::from_secs(seconds)).ok()
}

/// Whether a terminated pod exceeded its deadline. An agent that restarted later must report the same reason.
pub fn exceeded_deadline(pod: &Pod, status: &RuntimePodStatus, deadline: Timestamp) -> bool {
    // Sidecars terminate after the other containers, at any time.
    let init = view::init_containers(pod).iter().filter(|init| !view::is_sidecar(init));
    let all = view::containers(pod).iter().chain(init);
    let ends = all.filter_map(|one| status.latest(&one.name)?.finished_at);
    ends.max().is_some_and(|end| end >= deadline)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
    use model::ids::PodName;
    use model::observed::{ContainerState, SandboxState, SandboxStatus};

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn sandbox(created: i64) -> SandboxStatus {
        SandboxStatus {
            id: format!("s{created}").into(),
            pod_uid: "uid".into(),
            pod: PodName::new("default", "web"),
            attempt: 0,
            state: SandboxState::Ready,
            created_at: at(created),
            ips: vec![],
            host_network: false,
            given: None,
        }
    }

    // behaviour: WRK-16
    #[test]
    fn deadline_counts_from_start_time_or_first_sandbox() {
        let rows = [
            (None, vec![sandbox(100)], (Some(90), None), None),
            (Some(30), vec![], (None, None), None),
            (Some(30), vec![sandbox(100)], (None, None), Some(at(130))),
            (Some(30), vec![sandbox(200), sandbox(100)], (None, None), Some(at(130))),
            (Some(30), vec![], (Some(90), None), Some(at(120))),
            (Some(30), vec![], (None, Some(90)), Some(at(120))),
            (Some(30), vec![sandbox(100)], (Some(90), None), Some(at(120))),
            (Some(30), vec![sandbox(100)], (Some(110), None), Some(at(130))),
            (Some(30), vec![sandbox(100)], (None, Some(90)), Some(at(130))),
            (Some(i64::MAX), vec![sandbox(100)], (None, None), None),
        ];
        for (seconds, sandboxes, (of_api, first_seen), expected) in rows {
            let mut pod = Pod::default();
            pod.status.get_or_insert_default().start_time = of_api.map(at).map(Time);
            pod.spec.get_or_insert_default().active_deadline_seconds = seconds;
            let status = RuntimePodStatus { sandboxes, ..RuntimePodStatus::empty("uid".into()) };
            assert_eq!(
                deadline(&pod, &status, first_seen.map(at)),
                expected,
                "{seconds:?} {of_api:?} {first_seen:?}"
            );
        }
    }

    // behaviour: WRK-16
    #[test]
    fn pod_exceeds_deadline_when_its_last_container_ended_after_it() {
        let pod = testkit::pods::pod("web").sidecar("side", "x", [""]);
        let pod = pod.init_container("init", "x", [""]).container("a", "x", [""]);
        let pod = pod.container("b", "x", [""]).build();
        let ended = |name: &str, at_second| {
            let mut one = testkit::observed::container_status(name, name, ContainerState::Exited);
            one.finished_at = Some(at(at_second));
            one
        };
        for (a, b, expected) in [(90, 99, false), (90, 100, true), (101, 90, true)] {
            let containers = vec![ended("a", a), ended("b", b)];
            let status = RuntimePodStatus { containers, ..RuntimePodStatus::empty("uid".into()) };
            assert_eq!(exceeded_deadline(&pod, &status, at(100)), expected, "{a} {b}");
        }
        for (name, expected) in [("init", true), ("side", false)] {
            let containers = vec![ended(name, 100)];
            let status = RuntimePodStatus { containers, ..RuntimePodStatus::empty("uid".into()) };
            assert_eq!(exceeded_deadline(&pod, &status, at(100)), expected, "{name}");
        }
        assert!(!exceeded_deadline(&pod, &RuntimePodStatus::empty("uid".into()), at(100)));
    }
}
