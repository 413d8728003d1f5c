//! Which statuses need not be read again.

use model::observed::{
    Container, ContainerState, ContainerStatus, RuntimePodStatus, Sandbox, SandboxState,
    SandboxStatus,
};

/// The status of a container that was read before and is still valid: the status of an instance changes
/// only with its state, unless a request marks the pod as stale.
pub fn known_container<'a>(
    container: &Container,
    old: Option<&'a RuntimePodStatus>,
) -> Option<&'a ContainerStatus> {
    // A container in an unknown state may recover without a change that a list shows.
    let settled = matches!(container.state, ContainerState::Running | ContainerState::Exited);
    let known = old?.containers.iter().find(|known| known.id == container.id);
    known.filter(|known| settled && known.state == container.state)
}

/// The status of a sandbox that was read before and is still valid. One that is ready and has no
/// address yet is read again.
pub fn known_sandbox<'a>(
    sandbox: &Sandbox,
    old: Option<&'a RuntimePodStatus>,
) -> Option<&'a SandboxStatus> {
    let known = old?.sandboxes.iter().find(|known| known.id == sandbox.id);
    known.filter(|known| {
        let settled =
            known.state == SandboxState::NotReady || known.host_network || !known.ips.is_empty();
        settled && known.state == sandbox.state
    })
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use model::ids::PodName;
    use testkit::observed;

    use super::*;

    fn container(state: ContainerState) -> Container {
        Container {
            id: "c".into(),
            sandbox_id: "s".into(),
            pod_uid: "uid".into(),
            pod: PodName::new("default", "web"),
            name: "main".into(),
            attempt: 0,
            state,
            created_at: Timestamp::UNIX_EPOCH,
            image_ref: "image".into(),
        }
    }

    fn old(state: ContainerState) -> RuntimePodStatus {
        let status = observed::container_status("c", "main", state);
        RuntimePodStatus { containers: vec![status], ..RuntimePodStatus::empty("uid".into()) }
    }

    #[test]
    fn container_status_is_reused_unless_its_state_changed_or_is_not_final() {
        use ContainerState::{Created, Exited, Running, Unknown};
        let rows = [
            (Running, Running, true),
            (Exited, Exited, true),
            (Exited, Running, false),
            (Running, Created, false),
            (Created, Created, false),
            (Unknown, Unknown, false),
        ];
        for (now, before, reused) in rows {
            let known = known_container(&container(now), Some(&old(before))).is_some();
            assert_eq!(known, reused, "{before:?} -> {now:?}");
        }
        assert!(known_container(&container(Running), None).is_none());
    }

    #[test]
    fn sandbox_status_is_reused_unless_its_state_changed_or_it_has_no_ip() {
        use SandboxState::{NotReady, Ready};
        let address = "10.0.0.1".parse().unwrap();
        let rows = [
            ("same", Ready, Ready, vec![address], false, true),
            ("no address yet", Ready, Ready, vec![], false, false),
            ("on the host's network", Ready, Ready, vec![], true, true),
            ("died", NotReady, Ready, vec![address], false, false),
            ("dead", NotReady, NotReady, vec![], false, true),
        ];
        for (name, now, before, ips, host_network, reused) in rows {
            let listed = Sandbox {
                id: "s".into(),
                pod_uid: "uid".into(),
                pod: PodName::new("default", "web"),
                attempt: 0,
                state: now,
                created_at: Timestamp::UNIX_EPOCH,
            };
            let status =
                SandboxStatus { ips, host_network, ..observed::sandbox_status("s", before) };
            let old = RuntimePodStatus {
                sandboxes: vec![status],
                ..RuntimePodStatus::empty("uid".into())
            };
            assert_eq!(known_sandbox(&listed, Some(&old)).is_some(), reused, "{name}");
        }
    }
}
