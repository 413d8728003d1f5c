//! The status of a pod from the statuses of its parts.

use model::ids::PodUid;
use model::observed::{Container, ContainerStatus, RuntimePodStatus, SandboxState, SandboxStatus};

/// Builds a pod's status; sandboxes and containers are in the order of the list, newest first. A pod whose
/// sandbox is dead keeps its addresses, so that its last status still has them.
pub fn pod_status(
    uid: PodUid,
    sandboxes: Vec<SandboxStatus>,
    containers: Vec<ContainerStatus>,
    older: Vec<Container>,
    old: Option<&RuntimePodStatus>,
) -> RuntimePodStatus {
    let mut ips = sandboxes.first().map(|sandbox| sandbox.ips.clone()).unwrap_or_default();
    let alive = sandboxes.iter().any(|sandbox| sandbox.state == SandboxState::Ready);
    if ips.is_empty() && !alive {
        ips = old.map(|old| old.ips.clone()).unwrap_or_default();
    }
    RuntimePodStatus { uid, ips, sandboxes, containers, older }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use jiff::Timestamp;
    use model::ids::PodName;

    use super::*;

    fn sandbox(state: SandboxState, ips: &[&str]) -> SandboxStatus {
        SandboxStatus {
            id: "s".into(),
            pod_uid: "uid".into(),
            pod: PodName::new("default", "web"),
            attempt: 0,
            state,
            created_at: Timestamp::UNIX_EPOCH,
            ips: addresses(ips),
            host_network: false,
            given: None,
        }
    }

    fn addresses(ips: &[&str]) -> Vec<IpAddr> {
        ips.iter().map(|ip| ip.parse().unwrap()).collect()
    }

    #[test]
    fn only_pod_ips_are_kept_when_the_sandbox_dies() {
        use SandboxState::{NotReady, Ready};
        let rows = [
            ("live, with address", vec![sandbox(Ready, &["10.0.0.2"])], vec!["10.0.0.2"]),
            ("live, without address yet", vec![sandbox(Ready, &[])], vec![]),
            ("dead", vec![sandbox(NotReady, &[])], vec!["10.0.0.1"]),
            ("gone", vec![], vec!["10.0.0.1"]),
            (
                "new one without address yet, old one dead",
                vec![sandbox(Ready, &[]), sandbox(NotReady, &[])],
                vec![],
            ),
        ];
        let old = RuntimePodStatus {
            ips: addresses(&["10.0.0.1"]),
            ..RuntimePodStatus::empty("uid".into())
        };
        for (name, sandboxes, expected) in rows {
            let status = pod_status("uid".into(), sandboxes, Vec::new(), Vec::new(), Some(&old));
            assert_eq!(status.ips, addresses(&expected), "{name}");
        }
    }
}
