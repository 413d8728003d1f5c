//! API pods with unsupported fields whose containers run already: an earlier agent, such as the upstream kubelet,
//! started them.

use std::time::Duration;

use k8s_openapi::api::core::v1::{PodResourceClaim, PodSpec, PodStatus};
use model::observed::Container;
use testkit::cluster::MemoryPods;
use testkit::runtime::Method;

use crate::cluster::{gone, mount_unsupported, named, ready, running, sleeper, status};
use crate::harness::Harness;

/// The calls that start, stop or remove containers and sandboxes.
const EFFECTS: [Method; 8] = [
    Method::RunPodSandbox,
    Method::StopPodSandbox,
    Method::RemovePodSandbox,
    Method::CreateContainer,
    Method::StartContainer,
    Method::StopContainer,
    Method::UpdateContainerResources,
    Method::RemoveContainer,
];

fn claim(spec: &mut PodSpec) {
    let claim = PodResourceClaim { name: "gpu".to_owned(), ..PodResourceClaim::default() };
    spec.resource_claims = Some(vec![claim]);
}

/// Leaves two pods running, and no agent.
async fn left_running(harness: &Harness, api: &MemoryPods) {
    let former = harness.start();
    for name in ["mounted", "claiming"] {
        api.make(sleeper(name));
        ready(harness, api, name).await;
    }
    former.stop().await;
    // The earlier agent supported these fields.
    api.update(&named("mounted"), |pod| {
        mount_unsupported(pod.spec.as_mut().expect("a specification"));
    });
    api.update(&named("claiming"), |pod| claim(pod.spec.as_mut().expect("a specification")));
}

/// The message of a pod's event with this reason.
async fn reported(harness: &Harness, name: &str, reason: &str) -> String {
    let of_pod = |harness: &Harness| {
        let mut all = harness.events.all().into_iter();
        all.find(|event| event.reason == reason && *event.pod.name == *name)
    };
    harness.until(&format!("{reason} of {name}"), of_pod).await.message
}

/// The state of a pod that must not change: its container, its status and its conditions. The generation is left out,
/// because the pod was edited meanwhile.
fn observed(harness: &Harness, api: &MemoryPods, name: &str) -> (Option<Container>, PodStatus) {
    let mut status = status(api, name).expect("a status");
    status.observed_generation = None;
    for condition in status.conditions.iter_mut().flatten() {
        condition.observed_generation = None;
    }
    for container in status.container_statuses.iter_mut().flatten() {
        container.volume_mounts = None;
    }
    (running(harness, name), status)
}

// behaviour: API-10, API-13
#[tokio::test(start_paused = true)]
async fn containers_of_a_waiting_pod_keep_running_and_are_not_restarted() {
    let (harness, api) = Harness::in_cluster();
    left_running(&harness, &api).await;
    let before = ["mounted", "claiming"].map(|name| observed(&harness, &api, name));
    harness.runtime.forget_calls();

    let _agent = harness.start();
    let fields = reported(&harness, "claiming", "UnsupportedFields").await;
    assert!(fields.contains("spec.resourceClaims"), "{fields}");
    tokio::time::sleep(Duration::from_mins(30)).await;
    assert_eq!(["mounted", "claiming"].map(|name| observed(&harness, &api, name)), before);
    for method in EFFECTS {
        assert_eq!(harness.runtime.count(method), 0, "{method:?}");
    }

    // A dead container is not restarted, and this is reported; the pod can be deleted.
    for (name, (container, _)) in ["mounted", "claiming"].into_iter().zip(before) {
        assert!(harness.runtime.kill_container(&container.expect("it runs").id, 1));
        let ended = |_: &Harness| {
            let status = status(&api, name)?;
            let is_unready =
                status.conditions?.iter().any(|one| one.type_ == "Ready" && one.status == "False");
            is_unready.then_some(())
        };
        harness.until("its status is not ready", ended).await;
        if name == "mounted" {
            let mount = reported(&harness, name, "FailedMount").await;
            assert!(mount.contains("volumes of kind csi are not supported"), "{mount}");
        }
        tokio::time::sleep(Duration::from_mins(10)).await;
        assert_eq!(running(&harness, name), None);
        assert_eq!(harness.runtime.count(Method::CreateContainer), 0);
        api.delete(&named(name), Duration::from_secs(30));
        gone(&harness, &api, name).await;
    }
}
