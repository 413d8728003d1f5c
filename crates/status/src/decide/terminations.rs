//! Finds containers that terminated between two statuses.

use k8s_openapi::api::core::v1::{ContainerStatus, PodStatus};

/// A container that has terminated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Termination<'a> {
    /// Its type: `container`, `init_container` or `ephemeral_container`.
    pub(crate) kind: &'static str,
    /// Its exit code.
    pub(crate) exit_code: i32,
    /// The reason in its status.
    pub(crate) reason: &'a str,
}

/// The containers that are terminated now and were not before. One that was observed running between two
/// terminations counts twice.
pub(crate) fn terminations<'a>(
    before: Option<&PodStatus>,
    now: &'a PodStatus,
) -> Vec<Termination<'a>> {
    let before = before.map(containers).unwrap_or_default();
    let lists = containers(now).into_iter().zip(before);
    let each = lists.flat_map(|((kind, now), (_, before))| {
        now.iter().filter_map(move |container| {
            let ended = container.state.as_ref()?.terminated.as_ref()?;
            let had = before.iter().find(|one| one.name == container.name);
            let had = had.and_then(|one| one.state.as_ref()?.terminated.as_ref());
            let reason = ended.reason.as_deref().unwrap_or_default();
            had.is_none().then_some(Termination { kind, exit_code: ended.exit_code, reason })
        })
    });
    each.collect()
}

/// The containers of a pod, by type.
fn containers(status: &PodStatus) -> [(&'static str, &[ContainerStatus]); 3] {
    [
        ("init_container", status.init_container_statuses.as_deref().unwrap_or_default()),
        ("container", status.container_statuses.as_deref().unwrap_or_default()),
        ("ephemeral_container", status.ephemeral_container_statuses.as_deref().unwrap_or_default()),
    ]
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{ContainerState, ContainerStateTerminated};

    use super::*;

    fn container(name: &str, exit_code: Option<i32>) -> ContainerStatus {
        let terminated = exit_code.map(|exit_code| ContainerStateTerminated {
            exit_code,
            reason: Some("Error".to_owned()),
            ..ContainerStateTerminated::default()
        });
        let state = Some(ContainerState { terminated, ..ContainerState::default() });
        ContainerStatus { name: name.to_owned(), state, ..ContainerStatus::default() }
    }

    fn status(init: Option<i32>, main: Option<i32>) -> PodStatus {
        PodStatus {
            init_container_statuses: Some(vec![container("init", init)]),
            container_statuses: Some(vec![container("main", main), container("other", None)]),
            ..PodStatus::default()
        }
    }

    // behaviour: WRK-34
    #[test]
    fn termination_is_counted_once() {
        let end = |kind, exit_code| Termination { kind, exit_code, reason: "Error" };
        let (init, main) = (end("init_container", 0), end("container", 3));
        let rows = [
            (None, status(None, None), vec![]),
            (None, status(Some(0), Some(3)), vec![init, main]),
            (Some(status(None, None)), status(Some(0), None), vec![init]),
            (Some(status(Some(0), None)), status(Some(0), Some(3)), vec![main]),
            (Some(status(Some(0), Some(3))), status(Some(0), Some(3)), vec![]),
            (Some(status(Some(0), Some(3))), status(Some(0), None), vec![]),
            (Some(PodStatus::default()), status(None, Some(3)), vec![main]),
        ];
        for (before, now, expected) in rows {
            assert_eq!(terminations(before.as_ref(), &now), expected, "{before:?} {now:?}");
        }
    }
}
