//! Decides whether a pod's sandbox can be used.

use k8s_openapi::api::core::v1::Pod;
use model::observed::{RuntimePodStatus, SandboxState, SandboxStatus};

use crate::view;

/// The state of a pod's sandboxes; upstream's `PodSandboxChanged`, with one difference: a live
/// sandbox other than the newest one that never had a container was completed by the runtime after
/// its call had timed out, and is not a reason to restart the pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SandboxFit<'a> {
    /// The newest one can be used.
    Usable(&'a SandboxStatus),
    /// There is no sandbox.
    Missing,
    /// The newest one is dead, has no address, or is not the only live one with containers.
    Broken(&'a SandboxStatus),
    /// The newest one is in another network than the pod requires.
    OtherNetwork(&'a SandboxStatus),
}

/// The state of a pod's sandboxes.
pub fn sandbox_fit<'a>(pod: &Pod, status: &'a RuntimePodStatus) -> SandboxFit<'a> {
    let Some(newest) = status.sandboxes.first() else {
        return SandboxFit::Missing;
    };
    let is_used = |sandbox: &SandboxStatus| {
        status.containers.iter().any(|container| container.sandbox_id == sandbox.id)
    };
    if live_beside_newest(status).any(is_used) || newest.state != SandboxState::Ready {
        SandboxFit::Broken(newest)
    } else if newest.host_network != view::host_network(pod) {
        SandboxFit::OtherNetwork(newest)
    } else if !newest.host_network && newest.ips.is_empty() {
        SandboxFit::Broken(newest)
    } else {
        SandboxFit::Usable(newest)
    }
}

/// The live sandboxes of a pod other than the newest one.
pub fn live_beside_newest(status: &RuntimePodStatus) -> impl Iterator<Item = &SandboxStatus> {
    let others = status.sandboxes.iter().skip(1);
    others.filter(|sandbox| sandbox.state == SandboxState::Ready)
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use model::ids::PodName;
    use model::observed::SandboxState::{NotReady, Ready};
    use model::observed::{ContainerState, ContainerStatus};

    use super::*;

    fn sandbox(state: SandboxState, host_network: bool, ip: bool) -> SandboxStatus {
        SandboxStatus {
            id: "s".into(),
            pod_uid: "uid".into(),
            pod: PodName::new("default", "web"),
            attempt: 0,
            state,
            created_at: Timestamp::UNIX_EPOCH,
            ips: ip.then(|| "10.0.0.1".parse().unwrap()).into_iter().collect(),
            host_network,
            given: None,
        }
    }

    fn container_in(sandbox: &str) -> ContainerStatus {
        ContainerStatus {
            id: "c".into(),
            sandbox_id: sandbox.into(),
            name: "main".into(),
            state: ContainerState::Running,
            created_at: Timestamp::UNIX_EPOCH,
            started_at: None,
            finished_at: None,
            exit_code: 0,
            image: "".into(),
            image_ref: "".into(),
            reason: "".into(),
            message: "".into(),
            log_path: "".into(),
            annotations: [].into(),
            mounts: Vec::new(),
            resources: None,
            user: None,
            stop_signal: None,
        }
    }

    #[test]
    fn usable_sandbox_is_the_only_live_one_with_the_right_network_and_address() {
        let good = || sandbox(Ready, false, true);
        let unused = || SandboxStatus { id: "unused".into(), ..good() };
        let rows = [
            ("none", false, vec![], "Missing"),
            ("good", false, vec![good()], "Usable"),
            ("dead", false, vec![sandbox(NotReady, false, true)], "Broken"),
            (
                "live behind a dead one",
                false,
                vec![sandbox(NotReady, false, true), good()],
                "Broken",
            ),
            (
                "good before a dead one",
                false,
                vec![good(), sandbox(NotReady, false, true)],
                "Usable",
            ),
            ("two live", false, vec![good(), good()], "Broken"),
            ("one live and unused beside it", false, vec![good(), unused()], "Usable"),
            ("no address", false, vec![sandbox(Ready, false, false)], "Broken"),
            ("on the host", true, vec![sandbox(Ready, true, false)], "Usable"),
            ("should be on the host", true, vec![good()], "OtherNetwork"),
            ("should not be", false, vec![sandbox(Ready, true, false)], "OtherNetwork"),
        ];
        for (row, host_network, sandboxes, expected) in rows {
            let mut pod = Pod::default();
            pod.spec.get_or_insert_default().host_network = Some(host_network);
            let containers = vec![container_in("s")];
            let status =
                RuntimePodStatus { sandboxes, containers, ..RuntimePodStatus::empty("uid".into()) };
            let fit = format!("{:?}", sandbox_fit(&pod, &status));
            assert!(fit.starts_with(expected), "{row}: {fit}");
        }
    }
}
