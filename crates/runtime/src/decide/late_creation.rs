//! Containers and sandboxes that a cancelled call created late, found under the desired name.

use k8s_openapi::api::core::v1::Container;
use model::ids::{ContainerId, SandboxId};
use model::labels;
use model::observed::{ContainerState, ContainerStatus, Sandbox, SandboxState};

/// The state of a taken container name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TakenContainer {
    /// By the desired container: start it.
    Start(ContainerId),
    /// By the desired container, and it runs already.
    Runs(ContainerId),
    /// By another container that does not run: remove it.
    Remove(ContainerId),
    /// By another container that may run: the next sync decides.
    LookAgain,
    /// By no listed object: the runtime has not finished an earlier call, or has not released the
    /// name. The next restart count is free.
    NextNumber,
}

/// Decides about a taken container name, by the container that the runtime has under it.
pub fn taken_container(
    found: Option<&ContainerStatus>,
    container: &Container,
    sandbox: &SandboxId,
) -> TakenContainer {
    let Some(found) = found else { return TakenContainer::NextNumber };
    let id = found.id.clone();
    match found.state {
        ContainerState::Created if is_wanted(found, container, sandbox) => {
            TakenContainer::Start(id)
        }
        ContainerState::Running if is_wanted(found, container, sandbox) => TakenContainer::Runs(id),
        ContainerState::Running | ContainerState::Unknown => TakenContainer::LookAgain,
        ContainerState::Created | ContainerState::Exited => TakenContainer::Remove(id),
    }
}

/// The latest instance, if it matches the spec and only needs to be started.
pub fn startable<'a>(
    latest: Option<&'a ContainerStatus>,
    container: &Container,
    sandbox: &SandboxId,
) -> Option<&'a ContainerStatus> {
    latest.filter(|latest| {
        latest.state == ContainerState::Created && is_wanted(latest, container, sandbox)
    })
}

/// Whether an instance is of this definition and in this sandbox.
fn is_wanted(found: &ContainerStatus, container: &Container, sandbox: &SandboxId) -> bool {
    let image = container.image.as_deref().unwrap_or_default();
    let hash = podspec::definition_hash_hex(&container.name, image);
    found.sandbox_id == *sandbox && found.annotations.get(labels::CONTAINER_HASH) == Some(&hash)
}

/// The state of a taken sandbox name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TakenSandbox {
    /// By a ready sandbox: use it.
    Use(SandboxId),
    /// By a dead sandbox: remove it.
    Remove(SandboxId),
    /// By nothing that the runtime lists.
    NextNumber,
}

/// Decides about a taken sandbox name, by the sandboxes of the pod.
pub fn taken_sandbox(listed: &[Sandbox], attempt: u32) -> TakenSandbox {
    let Some(found) = listed.iter().find(|sandbox| sandbox.attempt == attempt) else {
        return TakenSandbox::NextNumber;
    };
    match found.state {
        SandboxState::Ready => TakenSandbox::Use(found.id.clone()),
        SandboxState::NotReady => TakenSandbox::Remove(found.id.clone()),
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use model::ids::PodName;
    use model::observed::ContainerState::{Created, Exited, Running, Unknown};

    use super::*;
    use crate::decide::test_pods::{container, instance};

    // behaviour: ACT-101
    #[test]
    fn taken_container_name_is_adopted_freed_or_skipped() {
        let wanted = container("a");
        let made = |state| Some(instance("c", "a", state, 0));
        let other_hash = |state| {
            let mut one = instance("c", "a", state, 0);
            one.annotations.clear();
            Some(one)
        };
        let elsewhere = |state| {
            Some(ContainerStatus { sandbox_id: "old".into(), ..instance("c", "a", state, 0) })
        };
        let id = || "c".into();
        let rows = [
            (None, TakenContainer::NextNumber),
            (made(Created), TakenContainer::Start(id())),
            (made(Running), TakenContainer::Runs(id())),
            (made(Exited), TakenContainer::Remove(id())),
            (made(Unknown), TakenContainer::LookAgain),
            (other_hash(Created), TakenContainer::Remove(id())),
            (other_hash(Running), TakenContainer::LookAgain),
            (elsewhere(Created), TakenContainer::Remove(id())),
        ];
        for (found, expected) in rows {
            assert_eq!(
                taken_container(found.as_ref(), &wanted, &"s".into()),
                expected,
                "{found:?}"
            );
        }
    }

    // behaviour: ACT-100
    #[test]
    fn late_container_starts_only_if_matching_and_never_started() {
        let wanted = container("a");
        for (state, starts) in [(Created, true), (Running, false), (Exited, false)] {
            let latest = instance("c", "a", state, 0);
            let here = startable(Some(&latest), &wanted, &"s".into());
            assert_eq!(here.is_some(), starts, "{state:?}");
            assert!(startable(Some(&latest), &wanted, &"another".into()).is_none());
        }
        assert!(startable(None, &wanted, &"s".into()).is_none());
    }

    // behaviour: ACT-103
    #[test]
    fn taken_sandbox_name_is_adopted_freed_or_skipped() {
        let sandbox = |attempt, state| Sandbox {
            id: format!("s{attempt}").into(),
            pod_uid: "uid".into(),
            pod: PodName::new("default", "web"),
            attempt,
            state,
            created_at: Timestamp::UNIX_EPOCH,
        };
        let listed = [sandbox(1, SandboxState::Ready), sandbox(0, SandboxState::NotReady)];
        assert_eq!(taken_sandbox(&listed, 1), TakenSandbox::Use("s1".into()));
        assert_eq!(taken_sandbox(&listed, 0), TakenSandbox::Remove("s0".into()));
        assert_eq!(taken_sandbox(&listed, 2), TakenSandbox::NextNumber);
    }
}
