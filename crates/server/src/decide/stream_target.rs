//! The target container or sandbox of a stream.

use k8s_openapi::api::core::v1::Pod;
use model::ids::{ContainerId, PodUid, SandboxId};
use model::observed::{Container, ContainerState, Sandbox, SandboxState};

/// The newest running container with a name.
pub fn running_container(containers: &[Container], name: &str) -> Option<ContainerId> {
    let running = containers
        .iter()
        .filter(|container| container.state == ContainerState::Running && *container.name == *name);
    let newest = running.max_by_key(|container| (container.created_at, container.attempt));
    newest.map(|container| container.id.clone())
}

/// The newest sandbox that is ready.
pub fn ready_sandbox(sandboxes: &[Sandbox]) -> Option<SandboxId> {
    let ready = sandboxes.iter().filter(|sandbox| sandbox.state == SandboxState::Ready);
    let newest = ready.max_by_key(|sandbox| (sandbox.created_at, sandbox.attempt));
    newest.map(|sandbox| sandbox.id.clone())
}

/// Whether a request means this pod by its UID. `mirrored` is the static pod of that UID, if it is that of a
/// mirror pod. A request without UID means the pod by its name.
pub fn is_requested_pod(
    pod: &PodUid,
    requested: Option<&PodUid>,
    mirrored: Option<&PodUid>,
) -> bool {
    requested.is_none_or(|requested| requested == pod) || mirrored == Some(pod)
}

/// Whether a container of the pod has a terminal by the pod's specification; `None` if there is no such container.
pub fn container_tty(pod: &Pod, name: &str) -> Option<bool> {
    let spec = pod.spec.as_ref()?;
    let containers = spec.containers.iter().chain(spec.init_containers.iter().flatten());
    let mut containers = containers.map(|container| (&container.name, container.tty));
    let ephemeral = spec.ephemeral_containers.iter().flatten();
    let mut ephemeral = ephemeral.map(|container| (&container.name, container.tty));
    let found = containers.find(|(found, _)| *found == name);
    let found = found.or_else(|| ephemeral.find(|(found, _)| *found == name));
    found.map(|(_, tty)| tty.unwrap_or(false))
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use k8s_openapi::api::core::v1::{Container as ContainerSpec, EphemeralContainer, PodSpec};
    use model::ids::PodName;

    use super::*;

    fn container(id: &str, state: ContainerState, created: i64) -> Container {
        Container {
            id: id.into(),
            sandbox_id: "s1".into(),
            pod_uid: "uid".into(),
            pod: PodName::new("shop", "web"),
            name: "main".into(),
            attempt: 0,
            state,
            created_at: Timestamp::from_second(created).unwrap(),
            image_ref: "image".into(),
        }
    }

    fn sandbox(id: &str, state: SandboxState, created: i64) -> Sandbox {
        Sandbox {
            id: id.into(),
            pod_uid: "uid".into(),
            pod: PodName::new("shop", "web"),
            attempt: 0,
            state,
            created_at: Timestamp::from_second(created).unwrap(),
        }
    }

    // behaviour: STR-3
    #[test]
    fn stream_is_connected_to_the_newest_running_container() {
        use ContainerState::{Created, Exited, Running, Unknown};
        let all = [
            container("new-exited", Exited, 9),
            container("old", Running, 1),
            container("new", Running, 3),
            container("created", Created, 5),
            container("unknown", Unknown, 5),
        ];
        assert_eq!(running_container(&all, "main"), Some("new".into()));
        assert_eq!(running_container(&all[..1], "main"), None);
        assert_eq!(running_container(&all, "other"), None);
    }

    #[test]
    fn ports_are_forwarded_to_the_newest_ready_sandbox() {
        use SandboxState::{NotReady, Ready};
        let all =
            [sandbox("old", Ready, 1), sandbox("new", Ready, 2), sandbox("dead", NotReady, 3)];
        assert_eq!(ready_sandbox(&all), Some("new".into()));
        assert_eq!(ready_sandbox(&all[2..]), None);
    }

    #[test]
    fn pod_is_requested_by_its_own_uid_or_that_of_its_mirror() {
        let (own, other, mirror) = (PodUid::from("own"), PodUid::from("other"), PodUid::from("m"));
        let rows = [
            (None, None, true),
            (Some(&own), None, true),
            (Some(&other), None, false),
            (Some(&mirror), Some(&own), true),
            (Some(&mirror), Some(&other), false),
        ];
        for (requested, mirrored, expected) in rows {
            assert_eq!(is_requested_pod(&own, requested, mirrored), expected, "{requested:?}");
        }
    }

    #[test]
    fn terminal_follows_the_container_specification() {
        let of =
            |name: &str, tty| ContainerSpec { name: name.to_owned(), tty, ..Default::default() };
        let debugger = EphemeralContainer {
            name: "debugger".to_owned(),
            tty: Some(true),
            ..EphemeralContainer::default()
        };
        let spec = PodSpec {
            containers: vec![of("main", Some(true)), of("side", None)],
            init_containers: Some(vec![of("first", Some(false))]),
            ephemeral_containers: Some(vec![debugger]),
            ..PodSpec::default()
        };
        let pod = Pod { spec: Some(spec), ..Pod::default() };
        let rows = [
            ("main", Some(true)),
            ("side", Some(false)),
            ("first", Some(false)),
            ("debugger", Some(true)),
            ("other", None),
        ];
        for (name, expected) in rows {
            assert_eq!(container_tty(&pod, name), expected, "{name}");
        }
    }
}
