//! Whether a pod's sandbox can be used.

use k8s_openapi::api::core::v1::Pod;
use model::observed::{PodStatus, SandboxState, SandboxStatus};

use crate::view;

/// How a pod stands with its sandboxes; upstream's `PodSandboxChanged`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SandboxFit<'a> {
    /// The newest one can be used.
    Usable(&'a SandboxStatus),
    /// There never was one.
    Missing,
    /// The newest one is dead, has no address, or is not the only live one.
    Broken(&'a SandboxStatus),
    /// The newest one is on another network than the pod wants.
    OtherNetwork(&'a SandboxStatus),
}

/// How a pod stands with its sandboxes.
pub fn sandbox_fit<'a>(pod: &Pod, status: &'a PodStatus) -> SandboxFit<'a> {
    let Some(newest) = status.sandboxes.first() else {
        return SandboxFit::Missing;
    };
    let live = status.sandboxes.iter().filter(|sandbox| sandbox.state == SandboxState::Ready);
    if live.count() > 1 || newest.state != SandboxState::Ready {
        SandboxFit::Broken(newest)
    } else if newest.host_network != view::host_network(pod) {
        SandboxFit::OtherNetwork(newest)
    } else if !newest.host_network && newest.ips.is_empty() {
        SandboxFit::Broken(newest)
    } else {
        SandboxFit::Usable(newest)
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use model::ids::PodName;
    use model::observed::SandboxState::{NotReady, Ready};

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
        }
    }

    #[test]
    fn only_one_live_sandbox_on_the_right_network_with_an_address_can_be_used() {
        let good = || sandbox(Ready, false, true);
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
            ("no address", false, vec![sandbox(Ready, false, false)], "Broken"),
            ("on the host", true, vec![sandbox(Ready, true, false)], "Usable"),
            ("should be on the host", true, vec![good()], "OtherNetwork"),
            ("should not be", false, vec![sandbox(Ready, true, false)], "OtherNetwork"),
        ];
        for (row, host_network, sandboxes, expected) in rows {
            let mut pod = Pod::default();
            pod.spec.get_or_insert_default().host_network = Some(host_network);
            let status = PodStatus { sandboxes, ..PodStatus::empty("uid".into()) };
            let fit = format!("{:?}", sandbox_fit(&pod, &status));
            assert!(fit.starts_with(expected), "{row}: {fit}");
        }
    }
}
