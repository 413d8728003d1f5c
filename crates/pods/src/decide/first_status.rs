//! The first status of a pod.

use model::observed::RuntimePodStatus;

/// Whether a status from before the pod had a worker is reliable. It is reliable if a container or sandbox of the
/// pod runs, or if there are none. Dead ones may belong to an earlier pod of the same uid, and may have been
/// removed since: they would make the pod look finished before it started.
pub fn is_reliable(status: &RuntimePodStatus) -> bool {
    let is_empty = status.sandboxes.is_empty() && status.containers.is_empty();
    is_empty || status.may_be_alive()
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use model::ids::PodName;
    use model::observed::{SandboxState, SandboxStatus};

    use super::*;

    fn sandbox(state: SandboxState) -> SandboxStatus {
        SandboxStatus {
            id: "s".into(),
            pod_uid: "a".into(),
            pod: PodName::new("default", "web"),
            attempt: 0,
            state,
            created_at: Timestamp::UNIX_EPOCH,
            ips: Vec::new(),
            host_network: false,
            given: None,
        }
    }

    #[test]
    fn status_with_only_leftovers_is_not_reliable() {
        let rows = [
            ("nothing", vec![], true),
            ("alive", vec![SandboxState::Ready], true),
            ("alive, and remains", vec![SandboxState::Ready, SandboxState::NotReady], true),
            ("remains", vec![SandboxState::NotReady], false),
        ];
        for (row, sandboxes, expected) in rows {
            let sandboxes = sandboxes.into_iter().map(sandbox).collect();
            let status = RuntimePodStatus { sandboxes, ..RuntimePodStatus::empty("a".into()) };
            assert_eq!(is_reliable(&status), expected, "{row}");
        }
    }
}
