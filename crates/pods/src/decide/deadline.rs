//! Pods that may only run for so long.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Pod;
use model::observed::PodStatus;
use podspec::view;

/// When a pod's time is up: `activeDeadlineSeconds` after it began, as its status tells, or its first sandbox was
/// made. That is known to the runtime, so a restart of the agent grants no more time; and the other to the API server,
/// so a runtime that lost what it knew does not either, nor does a sandbox that cannot be made.
pub fn deadline(pod: &Pod, status: &PodStatus, began: Option<Timestamp>) -> Option<Timestamp> {
    let seconds = view::spec(pod)?.active_deadline_seconds?;
    let sandboxes = status.sandboxes.iter().map(|sandbox| sandbox.created_at);
    let began = sandboxes.chain(began).min()?;
    began.checked_add(SignedDuration::from_secs(seconds)).ok()
}

#[cfg(test)]
mod tests {
    use model::ids::PodName;
    use model::observed::{SandboxState, SandboxStatus};

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
    fn the_time_counts_from_the_beginning_or_the_first_sandbox() {
        let rows = [
            (None, vec![sandbox(100)], Some(90), None),
            (Some(30), vec![], None, None),
            (Some(30), vec![sandbox(100)], None, Some(at(130))),
            (Some(30), vec![sandbox(200), sandbox(100)], None, Some(at(130))),
            (Some(30), vec![], Some(90), Some(at(120))),
            (Some(30), vec![sandbox(100)], Some(90), Some(at(120))),
            (Some(30), vec![sandbox(100)], Some(110), Some(at(130))),
            (Some(i64::MAX), vec![sandbox(100)], None, None),
        ];
        for (seconds, sandboxes, began, expected) in rows {
            let mut pod = Pod::default();
            pod.spec.get_or_insert_default().active_deadline_seconds = seconds;
            let status = PodStatus { sandboxes, ..PodStatus::empty("uid".into()) };
            assert_eq!(deadline(&pod, &status, began.map(at)), expected, "{seconds:?} {began:?}");
        }
    }
}
