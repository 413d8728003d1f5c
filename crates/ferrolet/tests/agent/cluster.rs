//! An agent of a cluster: pods of the API server and their statuses.

use std::time::Duration;

use k8s_openapi::api::core::v1::{
    AppArmorProfile, CSIVolumeSource, EphemeralContainer, Pod, PodSpec, PodStatus, SecurityContext,
    Taint, Volume, VolumeMount,
};
use model::ids::PodName;
use model::observed::{Container, ContainerState};
use testkit::cluster::node_api::{MemoryNodeApi, NodeApiCall};
use testkit::cluster::{CallFault, MemoryPods};
use testkit::pods::{PodBuilder, pod};
use testkit::runtime::Method;

use crate::harness::Harness;

const IMAGE: &str = "ferrolet.test/workload:1";

fn bound(name: &str) -> PodBuilder {
    pod(name).on_node("node").restart_policy("Always").grace(30)
}

pub(crate) fn sleeper(name: &str) -> Pod {
    bound(name).container("main", IMAGE, ["sleep", "forever"]).build()
}

pub(crate) fn named(name: &str) -> PodName {
    PodName::new("default", name)
}

pub(crate) fn running(harness: &Harness, name: &str) -> Option<Container> {
    let mut containers = harness.runtime.containers();
    containers.retain(|one| &*one.pod.name == name && one.state == ContainerState::Running);
    assert!(containers.len() <= 1, "{containers:?}");
    containers.pop()
}

pub(crate) fn status(api: &MemoryPods, name: &str) -> Option<PodStatus> {
    api.pod(&named(name))?.status.clone()
}

fn is_ready(status: &PodStatus) -> bool {
    let ready = status.conditions.iter().flatten().find(|one| one.type_ == "Ready");
    status.phase.as_deref() == Some("Running") && ready.is_some_and(|one| one.status == "True")
}

pub(crate) async fn ready(harness: &Harness, api: &MemoryPods, name: &str) -> PodStatus {
    harness.until(&format!("{name} is ready"), |_| status(api, name).filter(is_ready)).await
}

pub(crate) async fn gone(harness: &Harness, api: &MemoryPods, name: &str) {
    harness
        .until(&format!("{name} is gone"), |_| api.pod(&named(name)).is_none().then_some(()))
        .await;
}

// behaviour: API-6, STW-11, STW-12, STW-13
#[tokio::test(start_paused = true)]
async fn api_pod_runs_is_reported_and_is_removed_on_deletion() {
    let (harness, api) = Harness::in_cluster();
    let uid = api.make(sleeper("web"));
    let _agent = harness.start();
    let reported = ready(&harness, &api, "web").await;
    let container = running(&harness, "web").expect("it runs");
    assert_eq!(container.pod_uid, uid);
    assert_eq!(reported.observed_generation, Some(1));
    assert_eq!(reported.host_ip.as_deref(), Some("192.0.2.1"));
    api.delete(&named("web"), Duration::from_secs(7));
    gone(&harness, &api, "web").await;
    assert_eq!(running(&harness, "web"), None);
    harness
        .until("nothing is left", |harness| harness.runtime.containers().is_empty().then_some(()))
        .await;
    assert_eq!(harness.pod_cgroups(), [""; 0]);
}

// behaviour: API-8
#[tokio::test(start_paused = true)]
async fn pod_whose_object_is_gone_ends_before_its_successor_runs() {
    let (harness, api) = Harness::in_cluster();
    let former = api.make(sleeper("web"));
    let _agent = harness.start();
    ready(&harness, &api, "web").await;
    api.delete(&named("web"), Duration::ZERO);
    let next = api.make(sleeper("web"));
    ready(&harness, &api, "web").await;
    let lives = |harness: &Harness, uid| {
        let containers = harness.runtime.containers();
        containers.iter().any(|one| one.pod_uid == uid && one.state == ContainerState::Running)
    };
    harness
        .until("the former ended", |harness| (!lives(harness, former.clone())).then_some(()))
        .await;
    assert!(lives(&harness, next));
}

// behaviour: API-9, STW-19
#[tokio::test(start_paused = true)]
async fn agent_restart_changes_no_container_and_no_status() {
    let (harness, api) = Harness::in_cluster();
    api.make(sleeper("web"));
    let job = bound("job").restart_policy("Never").container("main", IMAGE, ["exit", "3"]);
    api.make(job.build());
    let agent = harness.start();
    let before = ready(&harness, &api, "web").await;
    let failed = |_: &Harness| {
        status(&api, "job").filter(|status| status.phase.as_deref() == Some("Failed"))
    };
    harness.until("the job failed", failed).await;
    let job_before = status(&api, "job");
    tokio::time::sleep(Duration::from_mins(2)).await;
    agent.stop().await;
    harness.runtime.forget_calls();
    api.forget_calls();
    let _agent = harness.start();
    tokio::time::sleep(Duration::from_mins(10)).await;
    for method in [Method::RunPodSandbox, Method::CreateContainer, Method::StopContainer] {
        assert_eq!(harness.runtime.count(method), 0, "{method:?}");
    }
    assert_eq!(status(&api, "web"), Some(before));
    assert_eq!(status(&api, "job"), job_before);
    assert_eq!(api.calls(), [""; 0]);
    api.delete(&named("job"), Duration::from_secs(30));
    gone(&harness, &api, "job").await;
}

// behaviour: API-1, API-7
#[tokio::test(start_paused = true)]
async fn api_pods_are_not_ended_before_the_first_list() {
    let (harness, api) = Harness::in_cluster();
    api.make(sleeper("web"));
    let agent = harness.start();
    ready(&harness, &api, "web").await;
    let before = running(&harness, "web");
    agent.stop().await;
    api.away(true);
    let _agent = harness.start();
    harness.write_manifest("fixed", "Always", "[sleep, forever]");
    harness.one_runs("fixed").await;
    tokio::time::sleep(Duration::from_mins(30)).await;
    assert_eq!(running(&harness, "web"), before, "the server has not reported a deletion");
    api.delete(&named("web"), Duration::ZERO);
    api.away(false);
    harness
        .until("the deletion is known", |harness| running(harness, "web").is_none().then_some(()))
        .await;
}

// behaviour: API-38
#[tokio::test(start_paused = true)]
async fn containers_of_a_pod_that_cannot_be_decoded_keep_running() {
    let (harness, api) = Harness::in_cluster();
    api.make(sleeper("web"));
    api.make(sleeper("other"));
    let agent = harness.start();
    ready(&harness, &api, "web").await;
    ready(&harness, &api, "other").await;
    let before = running(&harness, "web");
    agent.stop().await;
    api.make_undecodable(&named("web"), true);
    api.delete(&named("other"), Duration::ZERO);
    let _agent = harness.start();
    harness
        .until("the other one ends", |harness| running(harness, "other").is_none().then_some(()))
        .await;
    let dead = before.clone().unwrap().id;
    tokio::time::sleep(Duration::from_mins(10)).await;
    assert_eq!(running(&harness, "web"), before);
    // It is neither restarted nor removed.
    harness.runtime.kill_container(&dead, 1);
    tokio::time::sleep(Duration::from_mins(10)).await;
    assert_eq!(running(&harness, "web"), None);
    assert!(harness.runtime.containers().iter().any(|one| one.id == dead));
    api.make_undecodable(&named("web"), false);
    let again = |harness: &Harness| running(harness, "web").filter(|one| one.id != dead);
    let runs = harness.until("it can be decoded", again).await;
    api.make_undecodable(&named("web"), true);
    tokio::time::sleep(Duration::from_mins(10)).await;
    assert_eq!(running(&harness, "web"), Some(runs), "with its last decoded version");
    api.delete(&named("web"), Duration::ZERO);
    harness.until("it is gone", |harness| running(harness, "web").is_none().then_some(())).await;
}

// behaviour: API-38
#[tokio::test(start_paused = true)]
async fn pod_that_was_never_decoded_ends_when_its_object_is_gone() {
    let (harness, api) = Harness::in_cluster();
    api.make(sleeper("web"));
    let agent = harness.start();
    ready(&harness, &api, "web").await;
    agent.stop().await;
    api.make_undecodable(&named("web"), true);
    let _agent = harness.start();
    tokio::time::sleep(Duration::from_mins(10)).await;
    assert!(running(&harness, "web").is_some());
    api.delete(&named("web"), Duration::ZERO);
    harness
        .until("it is gone", |harness| harness.runtime.containers().is_empty().then_some(()))
        .await;
}

// behaviour: API-7, STW-35
#[tokio::test(start_paused = true)]
async fn pods_restart_without_the_api_server_and_are_reported_later() {
    let (harness, api) = Harness::in_cluster();
    api.make(sleeper("web"));
    let _agent = harness.start();
    ready(&harness, &api, "web").await;
    let first = running(&harness, "web").unwrap();
    api.away(true);
    tokio::time::sleep(Duration::from_mins(5)).await;
    assert_eq!(running(&harness, "web").map(|one| one.id), Some(first.id.clone()));
    harness.runtime.kill_container(&first.id, 1);
    let second = harness
        .until("another runs", |harness| running(harness, "web").filter(|one| one.id != first.id))
        .await;
    api.away(false);
    let count = |status: PodStatus| Some(status.container_statuses?.first()?.restart_count);
    let reported = |_: &Harness| {
        let status = status(&api, "web").filter(is_ready)?;
        count(status).filter(|count| *count == 1)
    };
    harness.until("the restart is reported", reported).await;
    assert_eq!(running(&harness, "web").map(|one| one.id), Some(second.id));
}

// behaviour: API-20, API-21, API-26
#[tokio::test(start_paused = true)]
async fn static_pod_has_a_mirror_with_its_status() {
    let (harness, api) = Harness::in_cluster();
    harness.write_manifest("fixed", "Always", "[sleep, forever]");
    let _agent = harness.start();
    ready(&harness, &api, "fixed-node").await;
    let first = api.pod(&named("fixed-node")).unwrap();
    let marks = first.metadata.annotations.clone().unwrap();
    assert_eq!(marks["kubernetes.io/config.source"], "file");
    let container = harness.one_runs("fixed").await;
    assert_eq!(marks["kubernetes.io/config.mirror"], container.pod_uid.as_str());
    api.delete(&named("fixed-node"), Duration::from_secs(30));
    let anew = |_: &Harness| {
        let mirror = api.pod(&named("fixed-node"))?;
        (mirror.metadata.uid != first.metadata.uid).then_some(())
    };
    harness.until("it is recreated", anew).await;
    ready(&harness, &api, "fixed-node").await;
    assert_eq!(harness.one_runs("fixed").await.id, container.id, "the pod itself is unchanged");
    harness.remove_manifest("fixed");
    gone(&harness, &api, "fixed-node").await;
    assert_eq!(running(&harness, "fixed-node"), None);
}

// behaviour: API-28
#[tokio::test(start_paused = true)]
async fn static_pod_rejected_from_the_start_has_no_mirror() {
    let (mut harness, api) = Harness::in_cluster();
    harness.allocatable = vec![("pods", "0")];
    harness.write_manifest("fixed", "Always", "[sleep, forever]");
    let _agent = harness.start();
    let refused = |harness: &Harness| {
        harness.events.all().into_iter().find(|event| event.reason == "UnexpectedAdmissionError")
    };
    harness.until("it is rejected", refused).await;
    tokio::time::sleep(Duration::from_mins(2)).await;
    assert_eq!(api.pod(&named("fixed-node")), None);
    assert_eq!(api.calls(), [""; 0]);
}

// behaviour: SRC-42, API-27
#[tokio::test(start_paused = true)]
async fn api_pod_with_the_name_of_a_static_pod_runs_and_is_deleted() {
    let (harness, api) = Harness::in_cluster();
    let uid = api.make(sleeper("fixed-node"));
    harness.write_manifest("fixed", "Always", "[sleep, forever]");
    let _agent = harness.start();
    ready(&harness, &api, "fixed-node").await;
    let both = |harness: &Harness| {
        let mut all = harness.runtime.containers();
        all.retain(|one| one.state == ContainerState::Running);
        (all.len() == 2).then_some(all)
    };
    let both = harness.until("both run", both).await;
    let fixed = both.iter().find(|one| one.pod_uid != uid).expect("the static one").id.clone();
    api.delete(&named("fixed-node"), Duration::from_secs(1));
    let mirrored = |_: &Harness| {
        let mirror = api.pod(&named("fixed-node"))?;
        let marks = mirror.metadata.annotations.as_ref()?;
        marks.contains_key("kubernetes.io/config.mirror").then_some(())
    };
    harness.until("the static pod has a mirror", mirrored).await;
    assert_eq!(running(&harness, "fixed-node").map(|one| one.id), Some(fixed));
}

/// Gives the first container a volume of an unsupported kind.
pub(crate) fn mount_unsupported(spec: &mut PodSpec) {
    let csi = CSIVolumeSource { driver: "disk.example".to_owned(), ..CSIVolumeSource::default() };
    let disk = Volume { name: "disk".to_owned(), csi: Some(csi), ..Volume::default() };
    spec.volumes = Some(vec![disk]);
    let (name, mount_path) = ("disk".to_owned(), "/disk".to_owned());
    let mount = VolumeMount { name, mount_path, ..VolumeMount::default() };
    spec.containers[0].volume_mounts = Some(vec![mount]);
}

// behaviour: API-10
#[tokio::test(start_paused = true)]
async fn pod_with_unsupported_volume_waits_and_can_be_deleted() {
    let (harness, api) = Harness::in_cluster();
    let pod = bound("web").container("main", IMAGE, ["sleep", "forever"]);
    api.make(pod.spec(mount_unsupported).build());
    let _agent = harness.start();
    let mount = |harness: &Harness| {
        harness.events.all().into_iter().find(|event| event.reason == "FailedMount")
    };
    let event = harness.until("the reason is reported", mount).await;
    let cause = "failed to process volumes=[disk]: volumes of kind csi are not supported";
    assert!(event.message.ends_with(cause), "{}", event.message);
    let waits = |_: &Harness| {
        let status = status(&api, "web")?;
        let state = status.container_statuses?.first()?.state.clone()?;
        state.waiting?.reason
    };
    assert_eq!(harness.until("it waits", waits).await, "ContainerCreating");
    tokio::time::sleep(Duration::from_mins(2)).await;
    assert_eq!(harness.runtime.sandboxes(), []);
    api.delete(&named("web"), Duration::from_secs(30));
    gone(&harness, &api, "web").await;
}

// behaviour: API-11
#[tokio::test(start_paused = true)]
async fn rejected_pod_stays_failed_and_can_be_deleted() {
    let (mut harness, api) = Harness::in_cluster();
    harness.allocatable = vec![("pods", "1")];
    api.make(sleeper("first"));
    let _agent = harness.start();
    ready(&harness, &api, "first").await;
    api.make(sleeper("second"));
    let failed = |_: &Harness| {
        status(&api, "second").filter(|status| status.phase.as_deref() == Some("Failed"))
    };
    let reported = harness.until("it is rejected", failed).await;
    assert_eq!(reported.reason.as_deref(), Some("OutOfpods"));
    api.delete(&named("first"), Duration::from_secs(1));
    gone(&harness, &api, "first").await;
    api.update(&named("second"), |pod| {
        pod.metadata.labels = Some([("a".to_owned(), "b".to_owned())].into());
    });
    tokio::time::sleep(Duration::from_mins(2)).await;
    assert_eq!(running(&harness, "second"), None, "a failed pod stays failed");
    assert_eq!(status(&api, "second").and_then(|status| status.phase).as_deref(), Some("Failed"));
    api.delete(&named("second"), Duration::from_secs(30));
    gone(&harness, &api, "second").await;
}

// behaviour: ADM-25
#[tokio::test(start_paused = true)]
async fn running_pod_is_not_ended_for_an_unenforceable_profile() {
    let (harness, api) = Harness::in_cluster();
    api.make(sleeper("web"));
    let _agent = harness.start();
    ready(&harness, &api, "web").await;
    let main = running(&harness, "web").expect("it runs");
    api.update(&named("web"), |pod| {
        let profile =
            AppArmorProfile { type_: "RuntimeDefault".to_owned(), ..AppArmorProfile::default() };
        let security_context = Some(SecurityContext {
            app_armor_profile: Some(profile),
            ..SecurityContext::default()
        });
        let debug = EphemeralContainer {
            name: "debug".to_owned(),
            image: Some(IMAGE.to_owned()),
            args: Some(vec!["sleep".to_owned(), "forever".to_owned()]),
            security_context,
            ..EphemeralContainer::default()
        };
        let spec = pod.spec.as_mut().expect("a specification");
        spec.ephemeral_containers = Some(vec![debug]);
    });
    let debug = |harness: &Harness| {
        let mut all = harness.runtime.containers().into_iter();
        all.find(|one| &*one.name == "debug" && one.state == ContainerState::Running)
    };
    harness.until("the other one runs too", debug).await;
    tokio::time::sleep(Duration::from_mins(2)).await;
    let all = harness.runtime.containers();
    let still = all.iter().find(|one| one.id == main.id).expect("it still exists");
    assert_eq!(still.state, ContainerState::Running);
    assert_eq!(status(&api, "web").and_then(|status| status.phase).as_deref(), Some("Running"));
}

// behaviour: ADM-26
#[tokio::test(start_paused = true)]
async fn node_is_fetched_before_a_pod_is_rejected_for_node_labels() {
    let (mut harness, api) = Harness::in_cluster();
    let node = MemoryNodeApi::default();
    harness.own_node = Some(node.clone());
    let _agent = harness.start();
    harness.until("the node is registered", |_| node.node("node")).await;
    let in_zone = |name: &str, zone: &str| make_in_zone(&api, name, zone);
    in_zone("first", "south");
    assert_eq!(refusal(&harness, &api, "first").await.as_deref(), Some("NodeAffinity"));
    // The label is set, but the watch sends no event.
    node.freeze(true);
    node.update_node("node", |node| {
        let labels = node.metadata.labels.get_or_insert_default();
        labels.insert("zone".to_owned(), "north".to_owned());
    });
    node.forget_calls();
    in_zone("there", "north");
    ready(&harness, &api, "there").await;
    assert_eq!(node.count(NodeApiCall::Get), 1);
    in_zone("elsewhere", "south");
    assert_eq!(refusal(&harness, &api, "elsewhere").await.as_deref(), Some("NodeAffinity"));
    assert_eq!(node.count(NodeApiCall::Get), 2, "one request for each pod");
    // A server that does not answer changes nothing, and delays no other pod.
    node.inject_fault(NodeApiCall::Get, CallFault::Unreachable, u32::MAX);
    in_zone("late", "west");
    in_zone("beside", "north");
    ready(&harness, &api, "beside").await;
    assert_eq!(refusal(&harness, &api, "late").await.as_deref(), Some("NodeAffinity"));
}

/// Creates a pod with a node selector for a zone.
fn make_in_zone(api: &MemoryPods, name: &str, zone: &str) {
    let selector = [("zone".to_owned(), zone.to_owned())].into();
    let pod = bound(name).container("main", IMAGE, ["sleep", "forever"]);
    api.make(pod.spec(|spec| spec.node_selector = Some(selector)).build());
}

/// Waits until a pod has failed, and returns the message.
async fn refusal(harness: &Harness, api: &MemoryPods, name: &str) -> Option<String> {
    let failed =
        |_: &Harness| status(api, name).filter(|status| status.phase.as_deref() == Some("Failed"));
    harness.until(&format!("{name} is refused"), failed).await.reason
}

// behaviour: ADM-21
#[tokio::test(start_paused = true)]
async fn changed_node_labels_and_taints_apply_to_later_pods() {
    let (mut harness, api) = Harness::in_cluster();
    let node = MemoryNodeApi::default();
    harness.own_node = Some(node.clone());
    let _agent = harness.start();
    harness.until("the node is registered", |_| node.node("node")).await;
    let in_zone = |name: &str, zone: &str| make_in_zone(&api, name, zone);
    in_zone("early", "north");
    assert_eq!(refusal(&harness, &api, "early").await.as_deref(), Some("NodeAffinity"));
    node.update_node("node", |node| {
        let labels = node.metadata.labels.get_or_insert_default();
        labels.insert("zone".to_owned(), "north".to_owned());
    });
    in_zone("there", "north");
    ready(&harness, &api, "there").await;
    in_zone("elsewhere", "south");
    assert_eq!(refusal(&harness, &api, "elsewhere").await.as_deref(), Some("NodeAffinity"));
    node.update_node("node", |node| {
        let (key, effect) = ("broken".to_owned(), "NoExecute".to_owned());
        let taint = Taint { key, effect, ..Taint::default() };
        node.spec.get_or_insert_default().taints = Some(vec![taint]);
    });
    in_zone("late", "north");
    assert_eq!(refusal(&harness, &api, "late").await.as_deref(), Some("TaintToleration"));
    assert!(running(&harness, "there").is_some(), "running pods stay");
}

// behaviour: API-15
#[tokio::test(start_paused = true)]
async fn pods_are_listed_again_when_the_node_object_is_recreated() {
    let (mut harness, api) = Harness::in_cluster();
    let node = MemoryNodeApi::default();
    harness.own_node = Some(node.clone());
    let _agent = harness.start();
    api.make(sleeper("former"));
    ready(&harness, &api, "former").await;
    // As if the store was emptied and reached the same resource version again: the watch does not fail.
    api.break_watches();
    api.delete(&named("former"), Duration::ZERO);
    api.make(sleeper("new"));
    tokio::time::sleep(Duration::from_mins(2)).await;
    assert!(running(&harness, "former").is_some() && running(&harness, "new").is_none());
    node.drop_node("node");
    ready(&harness, &api, "new").await;
    let has_ended = |harness: &Harness| running(harness, "former").is_none().then_some(());
    harness.until("the former ends", has_ended).await;
}

// behaviour: STW-37, STW-38, WRK-28, WRK-29, WRK-30
#[tokio::test(start_paused = true)]
async fn pod_start_duration_is_observed_once() {
    let (harness, api) = Harness::in_cluster();
    let _agent = harness.start();
    tokio::time::sleep(Duration::from_secs(1)).await;
    api.make(sleeper("web"));
    ready(&harness, &api, "web").await;
    let timed = |name: &str, harness: &Harness| {
        let line = format!("kubelet_{name} 1");
        let text = harness.metrics();
        text.lines().any(|found| found == line).then_some(())
    };
    for name in [
        "pod_start_total_duration_seconds_count",
        "pod_start_sli_duration_seconds_count",
        "pod_start_duration_seconds_count",
        "pod_worker_start_duration_seconds_count",
        "pod_worker_duration_seconds_count{operation_type=\"create\"}",
    ] {
        harness.until(name, |harness| timed(name, harness)).await;
    }
    let written = "kubelet_pod_status_sync_duration_seconds_count";
    assert!(!harness.metrics().contains(&format!("{written} 0")));
    api.update(&named("web"), |pod| {
        pod.metadata.labels = Some([("a".to_owned(), "b".to_owned())].into());
    });
    tokio::time::sleep(Duration::from_mins(2)).await;
    for name in [
        "pod_start_total_duration_seconds_count",
        "pod_start_duration_seconds_count",
        "desired_pods{static=\"\"}",
        "active_pods{static=\"\"}",
    ] {
        assert!(timed(name, &harness).is_some(), "{name}");
    }
}
