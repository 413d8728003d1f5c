//! Pods that may only run for so long.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Pod;
use model::observed::PodStatus;
use podspec::view;

/// When a pod's time is up: `activeDeadlineSeconds` after its first sandbox was made. That is known to
/// the runtime, so a restart of the agent grants no more time. A pod without a sandbox has not begun.
pub fn deadline(pod: &Pod, status: &PodStatus) -> Option<Timestamp> {
    let seconds = view::spec(pod)?.active_deadline_seconds?;
    let began = status.sandboxes.iter().map(|sandbox| sandbox.created_at).min()?;
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

    #[test]
    fn the_time_counts_from_the_first_sandbox() {
        let rows = [
            (None, vec![sandbox(100)], None),
            (Some(30), vec![], None),
            (Some(30), vec![sandbox(100)], Some(at(130))),
            (Some(30), vec![sandbox(200), sandbox(100)], Some(at(130))),
            (Some(i64::MAX), vec![sandbox(100)], None),
        ];
        for (seconds, sandboxes, expected) in rows {
            let mut pod = Pod::default();
            pod.spec.get_or_insert_default().active_deadline_seconds = seconds;
            let status = PodStatus { sandboxes, ..PodStatus::empty("uid".into()) };
            assert_eq!(deadline(&pod, &status), expected, "{seconds:?}");
        }
    }
}
