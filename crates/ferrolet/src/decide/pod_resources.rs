//! Which pods the `PodResources` API returns, and with which containers.

use k8s_openapi::api::core::v1::{Container, Pod, PodStatus};
use model::cluster::PodPhase;
use model::pod_resources::PodContainers;
use model::pod_state::PodState;
use podspec::view;

/// Whether a pod uses resources of the node, or will: the opposite of upstream's `isPodInactive`.
pub(crate) fn is_active(state: PodState, pod: &Pod, reported: Option<&PodStatus>) -> bool {
    match state {
        // While it terminates it still has its resources, though its published phase may be Failed.
        PodState::Known(worker) => !worker.terminated,
        // Without a worker it was rejected, ended before this agent started, or waits for admission.
        PodState::Desired | PodState::Gone | PodState::SourcesNotReady | PodState::Unknown => {
            let is_final =
                |phase: Option<&str>| phase.is_some_and(|phase| PodPhase::named(phase).is_final());
            let statuses = [pod.status.as_ref(), reported];
            !statuses.into_iter().flatten().any(|status| is_final(status.phase.as_deref()))
        }
    }
}

/// A pod as the API returns it. Init containers that end are omitted: their resources are free when others start.
pub(crate) fn containers(pod: &Pod) -> PodContainers {
    let name = |container: &Container| container.name.clone();
    let init = view::init_containers(pod).iter();
    PodContainers {
        namespace: pod.metadata.namespace.clone().unwrap_or_default(),
        name: pod.metadata.name.clone().unwrap_or_default(),
        sidecars: init.filter(|container| view::is_sidecar(container)).map(name).collect(),
        containers: view::containers(pod).iter().map(name).collect(),
    }
}

#[cfg(test)]
mod tests {
    use model::pod_state::WorkerState;
    use testkit::pods::pod;

    use super::*;

    fn status(phase: &str) -> PodStatus {
        PodStatus { phase: Some(phase.to_owned()), ..PodStatus::default() }
    }

    // behaviour: PRS-2
    #[test]
    fn pod_is_active_until_its_containers_have_ended() {
        let works = PodState::Known(WorkerState::default());
        let ended = PodState::Known(WorkerState { terminated: true, ..WorkerState::default() });
        let rows = [
            ("it runs", works, "Running", Some("Running"), true),
            ("it has ended", ended, "Running", Some("Succeeded"), false),
            ("it has ended, which is not published yet", ended, "Running", None, false),
            ("it is preempted and terminating", works, "Running", Some("Failed"), true),
            ("its published phase is Failed, and it is terminating", works, "Failed", None, true),
            ("it waits for admission", PodState::Desired, "Pending", None, true),
            ("it was rejected", PodState::Desired, "Pending", Some("Failed"), false),
            ("it ended before this agent started", PodState::Desired, "Succeeded", None, false),
        ];
        for (what, state, given, reported, expected) in rows {
            let mut pod = pod("web").build();
            pod.status = Some(status(given));
            let reported = reported.map(status);
            assert_eq!(is_active(state, &pod, reported.as_ref()), expected, "{what}");
        }
        assert!(is_active(PodState::Desired, &pod("web").build(), None), "of a manifest");
    }

    // behaviour: PRS-1
    #[test]
    fn only_restartable_init_containers_are_listed() {
        let pod = pod("web")
            .namespace("shop")
            .init_container("prepare", "image", [])
            .sidecar("proxy", "image", [])
            .init_container("migrate", "image", [])
            .container("main", "image", [])
            .container("log", "image", [])
            .build();
        let reported = containers(&pod);
        assert_eq!((reported.namespace.as_str(), reported.name.as_str()), ("shop", "web"));
        assert_eq!(reported.sidecars, ["proxy"]);
        assert_eq!(reported.containers, ["main", "log"]);
    }
}
