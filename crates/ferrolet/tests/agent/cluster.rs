//! An agent of a cluster: pods of the API server, and what it hears of them.

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

use crate::world::World;

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

pub(crate) fn running(world: &World, name: &str) -> Option<Container> {
    let mut containers = world.runtime.containers();
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

pub(crate) async fn ready(world: &World, api: &MemoryPods, name: &str) -> PodStatus {
    world.until(&format!("{name} is ready"), |_| status(api, name).filter(is_ready)).await
}

pub(crate) async fn gone(world: &World, api: &MemoryPods, name: &str) {
    world
        .until(&format!("{name} is gone"), |_| api.pod(&named(name)).is_none().then_some(()))
        .await;
}

// behaviour: API-6, STW-11, STW-12, STW-13
#[tokio::test(start_paused = true)]
async fn api_pod_runs_is_reported_and_is_removed_on_deletion() {
    let (world, api) = World::in_cluster();
    let uid = api.make(sleeper("web"));
    let _agent = world.start();
    let reported = ready(&world, &api, "web").await;
    let container = running(&world, "web").expect("it runs");
    assert_eq!(container.pod_uid, uid);
    assert_eq!(reported.observed_generation, Some(1));
    assert_eq!(reported.host_ip.as_deref(), Some("192.0.2.1"));
    api.delete(&named("web"), Duration::from_secs(7));
    gone(&world, &api, "web").await;
    assert_eq!(running(&world, "web"), None);
    world
        .until("nothing is left", |world| world.runtime.containers().is_empty().then_some(()))
        .await;
    assert_eq!(world.pod_cgroups(), [""; 0]);
}

// behaviour: API-8
#[tokio::test(start_paused = true)]
async fn pod_whose_object_is_gone_ends_before_its_successor_runs() {
    let (world, api) = World::in_cluster();
    let former = api.make(sleeper("web"));
    let _agent = world.start();
    ready(&world, &api, "web").await;
    api.delete(&named("web"), Duration::ZERO);
    let next = api.make(sleeper("web"));
    ready(&world, &api, "web").await;
    let lives = |world: &World, uid| {
        let containers = world.runtime.containers();
        containers.iter().any(|one| one.pod_uid == uid && one.state == ContainerState::Running)
    };
    world.until("the former ended", |world| (!lives(world, former.clone())).then_some(())).await;
    assert!(lives(&world, next));
}

// behaviour: API-9, STW-19
#[tokio::test(start_paused = true)]
async fn agent_restart_changes_no_container_and_no_status() {
    let (world, api) = World::in_cluster();
    api.make(sleeper("web"));
    let job = bound("job").restart_policy("Never").container("main", IMAGE, ["exit", "3"]);
    api.make(job.build());
    let agent = world.start();
    let before = ready(&world, &api, "web").await;
    let failed =
        |_: &World| status(&api, "job").filter(|status| status.phase.as_deref() == Some("Failed"));
    world.until("the job failed", failed).await;
    let job_before = status(&api, "job");
    tokio::time::sleep(Duration::from_mins(2)).await;
    agent.stop().await;
    world.runtime.forget_calls();
    api.forget_calls();
    let _agent = world.start();
    tokio::time::sleep(Duration::from_mins(10)).await;
    for method in [Method::RunPodSandbox, Method::CreateContainer, Method::StopContainer] {
        assert_eq!(world.runtime.count(method), 0, "{method:?}");
    }
    assert_eq!(status(&api, "web"), Some(before));
    assert_eq!(status(&api, "job"), job_before);
    assert_eq!(api.calls(), [""; 0]);
    api.delete(&named("job"), Duration::from_secs(30));
    gone(&world, &api, "job").await;
}

// behaviour: API-1, API-7
#[tokio::test(start_paused = true)]
async fn api_pods_are_not_ended_before_the_first_list() {
    let (world, api) = World::in_cluster();
    api.make(sleeper("web"));
    let agent = world.start();
    ready(&world, &api, "web").await;
    let before = running(&world, "web");
    agent.stop().await;
    api.away(true);
    let _agent = world.start();
    world.write_manifest("fixed", "Always", "[sleep, forever]");
    world.one_runs("fixed").await;
    tokio::time::sleep(Duration::from_mins(30)).await;
    assert_eq!(running(&world, "web"), before, "the server has not reported a deletion");
    api.delete(&named("web"), Duration::ZERO);
    api.away(false);
    world
        .until("the deletion is known", |world| running(world, "web").is_none().then_some(()))
        .await;
}

// behaviour: API-38
#[tokio::test(start_paused = true)]
async fn containers_of_a_pod_that_cannot_be_decoded_keep_running() {
    let (world, api) = World::in_cluster();
    api.make(sleeper("web"));
    api.make(sleeper("other"));
    let agent = world.start();
    ready(&world, &api, "web").await;
    ready(&world, &api, "other").await;
    let before = running(&world, "web");
    agent.stop().await;
    api.garble(&named("web"), true);
    api.delete(&named("other"), Duration::ZERO);
    let _agent = world.start();
    world
        .until("the other one ends", |world| running(world, "other").is_none().then_some(()))
        .await;
    let dead = before.clone().unwrap().id;
    tokio::time::sleep(Duration::from_mins(10)).await;
    assert_eq!(running(&world, "web"), before);
    // It is neither restarted nor removed.
    world.runtime.kill_container(&dead, 1);
    tokio::time::sleep(Duration::from_mins(10)).await;
    assert_eq!(running(&world, "web"), None);
    assert!(world.runtime.containers().iter().any(|one| one.id == dead));
    api.garble(&named("web"), false);
    let again = |world: &World| running(world, "web").filter(|one| one.id != dead);
    let runs = world.until("it can be decoded", again).await;
    api.garble(&named("web"), true);
    tokio::time::sleep(Duration::from_mins(10)).await;
    assert_eq!(running(&world, "web"), Some(runs), "with its last decoded version");
    api.delete(&named("web"), Duration::ZERO);
    world.until("it is gone", |world| running(world, "web").is_none().then_some(())).await;
}

// behaviour: API-38
#[tokio::test(start_paused = true)]
async fn pod_that_was_never_decoded_ends_when_its_object_is_gone() {
    let (world, api) = World::in_cluster();
    api.make(sleeper("web"));
    let agent = world.start();
    ready(&world, &api, "web").await;
    agent.stop().await;
    api.garble(&named("web"), true);
    let _agent = world.start();
    tokio::time::sleep(Duration::from_mins(10)).await;
    assert!(running(&world, "web").is_some());
    api.delete(&named("web"), Duration::ZERO);
    world.until("it is gone", |world| world.runtime.containers().is_empty().then_some(())).await;
}

// behaviour: API-7, STW-35
#[tokio::test(start_paused = true)]
async fn pods_restart_without_the_api_server_and_are_reported_later() {
    let (world, api) = World::in_cluster();
    api.make(sleeper("web"));
    let _agent = world.start();
    ready(&world, &api, "web").await;
    let first = running(&world, "web").unwrap();
    api.away(true);
    tokio::time::sleep(Duration::from_mins(5)).await;
    assert_eq!(running(&world, "web").map(|one| one.id), Some(first.id.clone()));
    world.runtime.kill_container(&first.id, 1);
    let second = world
        .until("another runs", |world| running(world, "web").filter(|one| one.id != first.id))
        .await;
    api.away(false);
    let count = |status: PodStatus| Some(status.container_statuses?.first()?.restart_count);
    let reported = |_: &World| {
        let status = status(&api, "web").filter(is_ready)?;
        count(status).filter(|count| *count == 1)
    };
    world.until("the restart is reported", reported).await;
    assert_eq!(running(&world, "web").map(|one| one.id), Some(second.id));
}

// behaviour: API-20, API-21, API-26
#[tokio::test(start_paused = true)]
async fn static_pod_has_a_mirror_with_its_status() {
    let (world, api) = World::in_cluster();
    world.write_manifest("fixed", "Always", "[sleep, forever]");
    let _agent = world.start();
    ready(&world, &api, "fixed-node").await;
    let first = api.pod(&named("fixed-node")).unwrap();
    let marks = first.metadata.annotations.clone().unwrap();
    assert_eq!(marks["kubernetes.io/config.source"], "file");
    let container = world.one_runs("fixed").await;
    assert_eq!(marks["kubernetes.io/config.mirror"], container.pod_uid.as_str());
    api.delete(&named("fixed-node"), Duration::from_secs(30));
    let anew = |_: &World| {
        let mirror = api.pod(&named("fixed-node"))?;
        (mirror.metadata.uid != first.metadata.uid).then_some(())
    };
    world.until("it is recreated", anew).await;
    ready(&world, &api, "fixed-node").await;
    assert_eq!(world.one_runs("fixed").await.id, container.id, "the pod itself is unchanged");
    world.remove_manifest("fixed");
    gone(&world, &api, "fixed-node").await;
    assert_eq!(running(&world, "fixed-node"), None);
}

// behaviour: API-28
#[tokio::test(start_paused = true)]
async fn static_pod_rejected_from_the_start_has_no_mirror() {
    let (mut world, api) = World::in_cluster();
    world.allocatable = vec![("pods", "0")];
    world.write_manifest("fixed", "Always", "[sleep, forever]");
    let _agent = world.start();
    let refused = |world: &World| {
        world.events.all().into_iter().find(|event| event.reason == "UnexpectedAdmissionError")
    };
    world.until("it is rejected", refused).await;
    tokio::time::sleep(Duration::from_mins(2)).await;
    assert_eq!(api.pod(&named("fixed-node")), None);
    assert_eq!(api.calls(), [""; 0]);
}

// behaviour: SRC-42, API-27
#[tokio::test(start_paused = true)]
async fn api_pod_with_the_name_of_a_static_pod_runs_and_is_deleted() {
    let (world, api) = World::in_cluster();
    let uid = api.make(sleeper("fixed-node"));
    world.write_manifest("fixed", "Always", "[sleep, forever]");
    let _agent = world.start();
    ready(&world, &api, "fixed-node").await;
    let both = |world: &World| {
        let mut all = world.runtime.containers();
        all.retain(|one| one.state == ContainerState::Running);
        (all.len() == 2).then_some(all)
    };
    let both = world.until("both run", both).await;
    let fixed = both.iter().find(|one| one.pod_uid != uid).expect("the static one").id.clone();
    api.delete(&named("fixed-node"), Duration::from_secs(1));
    let mirrored = |_: &World| {
        let mirror = api.pod(&named("fixed-node"))?;
        let marks = mirror.metadata.annotations.as_ref()?;
        marks.contains_key("kubernetes.io/config.mirror").then_some(())
    };
    world.until("the static pod has a mirror", mirrored).await;
    assert_eq!(running(&world, "fixed-node").map(|one| one.id), Some(fixed));
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
    let (world, api) = World::in_cluster();
    let pod = bound("web").container("main", IMAGE, ["sleep", "forever"]);
    api.make(pod.spec(mount_unsupported).build());
    let _agent = world.start();
    let mount =
        |world: &World| world.events.all().into_iter().find(|event| event.reason == "FailedMount");
    let event = world.until("the reason is reported", mount).await;
    let cause = "failed to process volumes=[disk]: volumes of kind csi are not supported";
    assert!(event.message.ends_with(cause), "{}", event.message);
    let waits = |_: &World| {
        let status = status(&api, "web")?;
        let state = status.container_statuses?.first()?.state.clone()?;
        state.waiting?.reason
    };
    assert_eq!(world.until("it waits", waits).await, "ContainerCreating");
    tokio::time::sleep(Duration::from_mins(2)).await;
    assert_eq!(world.runtime.sandboxes(), []);
    api.delete(&named("web"), Duration::from_secs(30));
    gone(&world, &api, "web").await;
}

// behaviour: API-11
#[tokio::test(start_paused = true)]
async fn rejected_pod_stays_failed_and_can_be_deleted() {
    let (mut world, api) = World::in_cluster();
    world.allocatable = vec![("pods", "1")];
    api.make(sleeper("first"));
    let _agent = world.start();
    ready(&world, &api, "first").await;
    api.make(sleeper("second"));
    let failed = |_: &World| {
        status(&api, "second").filter(|status| status.phase.as_deref() == Some("Failed"))
    };
    let reported = world.until("it is rejected", failed).await;
    assert_eq!(reported.reason.as_deref(), Some("OutOfpods"));
    api.delete(&named("first"), Duration::from_secs(1));
    gone(&world, &api, "first").await;
    api.update(&named("second"), |pod| {
        pod.metadata.labels = Some([("a".to_owned(), "b".to_owned())].into());
    });
    tokio::time::sleep(Duration::from_mins(2)).await;
    assert_eq!(running(&world, "second"), None, "a failed pod stays failed");
    assert_eq!(status(&api, "second").and_then(|status| status.phase).as_deref(), Some("Failed"));
    api.delete(&named("second"), Duration::from_secs(30));
    gone(&world, &api, "second").await;
}

// behaviour: ADM-25
#[tokio::test(start_paused = true)]
async fn running_pod_is_not_ended_for_an_unenforceable_profile() {
    let (world, api) = World::in_cluster();
    api.make(sleeper("web"));
    let _agent = world.start();
    ready(&world, &api, "web").await;
    let main = running(&world, "web").expect("it runs");
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
    let debug = |world: &World| {
        let mut all = world.runtime.containers().into_iter();
        all.find(|one| &*one.name == "debug" && one.state == ContainerState::Running)
    };
    world.until("the other one runs too", debug).await;
    tokio::time::sleep(Duration::from_mins(2)).await;
    let all = world.runtime.containers();
    let still = all.iter().find(|one| one.id == main.id).expect("it still exists");
    assert_eq!(still.state, ContainerState::Running);
    assert_eq!(status(&api, "web").and_then(|status| status.phase).as_deref(), Some("Running"));
}

// behaviour: ADM-26
#[tokio::test(start_paused = true)]
async fn node_is_fetched_before_a_pod_is_rejected_for_node_labels() {
    let (mut world, api) = World::in_cluster();
    let node = MemoryNodeApi::default();
    world.own_node = Some(node.clone());
    let _agent = world.start();
    world.until("the node is registered", |_| node.node("node")).await;
    let in_zone = |name: &str, zone: &str| make_in_zone(&api, name, zone);
    in_zone("first", "south");
    assert_eq!(refusal(&world, &api, "first").await.as_deref(), Some("NodeAffinity"));
    // The label is set, but the watch sends no event.
    node.freeze(true);
    node.update_node("node", |node| {
        let labels = node.metadata.labels.get_or_insert_default();
        labels.insert("zone".to_owned(), "north".to_owned());
    });
    node.forget_calls();
    in_zone("there", "north");
    ready(&world, &api, "there").await;
    assert_eq!(node.count(NodeApiCall::Get), 1);
    in_zone("elsewhere", "south");
    assert_eq!(refusal(&world, &api, "elsewhere").await.as_deref(), Some("NodeAffinity"));
    assert_eq!(node.count(NodeApiCall::Get), 2, "one request for each pod");
    // A server that does not answer changes nothing, and delays no other pod.
    node.inject_fault(NodeApiCall::Get, CallFault::Unreachable, u32::MAX);
    in_zone("late", "west");
    in_zone("beside", "north");
    ready(&world, &api, "beside").await;
    assert_eq!(refusal(&world, &api, "late").await.as_deref(), Some("NodeAffinity"));
}

/// Creates a pod with a node selector for a zone.
fn make_in_zone(api: &MemoryPods, name: &str, zone: &str) {
    let selector = [("zone".to_owned(), zone.to_owned())].into();
    let pod = bound(name).container("main", IMAGE, ["sleep", "forever"]);
    api.make(pod.spec(|spec| spec.node_selector = Some(selector)).build());
}

/// Waits until a pod has failed, and returns the message.
async fn refusal(world: &World, api: &MemoryPods, name: &str) -> Option<String> {
    let failed =
        |_: &World| status(api, name).filter(|status| status.phase.as_deref() == Some("Failed"));
    world.until(&format!("{name} is refused"), failed).await.reason
}

// behaviour: ADM-21
#[tokio::test(start_paused = true)]
async fn changed_node_labels_and_taints_apply_to_later_pods() {
    let (mut world, api) = World::in_cluster();
    let node = MemoryNodeApi::default();
    world.own_node = Some(node.clone());
    let _agent = world.start();
    world.until("the node is registered", |_| node.node("node")).await;
    let in_zone = |name: &str, zone: &str| make_in_zone(&api, name, zone);
    in_zone("early", "north");
    assert_eq!(refusal(&world, &api, "early").await.as_deref(), Some("NodeAffinity"));
    node.update_node("node", |node| {
        let labels = node.metadata.labels.get_or_insert_default();
        labels.insert("zone".to_owned(), "north".to_owned());
    });
    in_zone("there", "north");
    ready(&world, &api, "there").await;
    in_zone("elsewhere", "south");
    assert_eq!(refusal(&world, &api, "elsewhere").await.as_deref(), Some("NodeAffinity"));
    node.update_node("node", |node| {
        let (key, effect) = ("broken".to_owned(), "NoExecute".to_owned());
        let taint = Taint { key, effect, ..Taint::default() };
        node.spec.get_or_insert_default().taints = Some(vec![taint]);
    });
    in_zone("late", "north");
    assert_eq!(refusal(&world, &api, "late").await.as_deref(), Some("TaintToleration"));
    assert!(running(&world, "there").is_some(), "running pods stay");
}

// behaviour: API-15
#[tokio::test(start_paused = true)]
async fn pods_are_listed_again_when_the_node_object_is_recreated() {
    let (mut world, api) = World::in_cluster();
    let node = MemoryNodeApi::default();
    world.own_node = Some(node.clone());
    let _agent = world.start();
    api.make(sleeper("former"));
    ready(&world, &api, "former").await;
    // As if the store was emptied and reached the same resource version again: the watch does not fail.
    api.deafen();
    api.delete(&named("former"), Duration::ZERO);
    api.make(sleeper("new"));
    tokio::time::sleep(Duration::from_mins(2)).await;
    assert!(running(&world, "former").is_some() && running(&world, "new").is_none());
    node.drop_node("node");
    ready(&world, &api, "new").await;
    let has_ended = |world: &World| running(world, "former").is_none().then_some(());
    world.until("the former ends", has_ended).await;
}

// behaviour: STW-37, STW-38, WRK-28, WRK-29, WRK-30
#[tokio::test(start_paused = true)]
async fn pod_start_duration_is_observed_once() {
    let (world, api) = World::in_cluster();
    let _agent = world.start();
    tokio::time::sleep(Duration::from_secs(1)).await;
    api.make(sleeper("web"));
    ready(&world, &api, "web").await;
    let timed = |name: &str, world: &World| {
        let line = format!("kubelet_{name} 1");
        let text = world.metrics();
        text.lines().any(|found| found == line).then_some(())
    };
    for name in [
        "pod_start_total_duration_seconds_count",
        "pod_start_sli_duration_seconds_count",
        "pod_start_duration_seconds_count",
        "pod_worker_start_duration_seconds_count",
        "pod_worker_duration_seconds_count{operation_type=\"create\"}",
    ] {
        world.until(name, |world| timed(name, world)).await;
    }
    let written = "kubelet_pod_status_sync_duration_seconds_count";
    assert!(!world.metrics().contains(&format!("{written} 0")));
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
        assert!(timed(name, &world).is_some(), "{name}");
    }
}
