//! Pods of the API that request other resources while they run.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Pod, PodCondition, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use model::ids::PodName;
use model::observed::Container;
use testkit::cluster::MemoryPods;
use testkit::pods::pod;
use testkit::runtime::{Fault, Method, Rule};

use crate::harness::Harness;

const IMAGE: &str = "ferrolet.test/workload:1";
const RECORD: &str = "/var/lib/kubelet/ferrolet/state/allocated-resources.json";

pub(crate) fn named(name: &str) -> PodName {
    PodName::new("default", name)
}

pub(crate) fn cpu(amount: &str) -> ResourceRequirements {
    let requests = Some([("cpu".to_owned(), Quantity(amount.to_owned()))].into());
    ResourceRequirements { requests, ..ResourceRequirements::default() }
}

pub(crate) fn requesting(name: &str, amount: &str) -> Pod {
    let pod = pod(name).on_node("node").restart_policy("Always").grace(1);
    let pod = pod.container("main", IMAGE, ["sleep", "forever"]);
    pod.spec(|spec| spec.containers[0].resources = Some(cpu(amount))).build()
}

fn resize(api: &MemoryPods, name: &str, amount: &str) {
    api.update(&named(name), |pod| {
        pod.spec.as_mut().expect("a specification").containers[0].resources = Some(cpu(amount));
    });
}

fn condition(api: &MemoryPods, name: &str, kind: &str) -> Option<PodCondition> {
    let conditions = api.pod(&named(name))?.status.clone()?.conditions?;
    conditions.into_iter().find(|one| one.type_ == kind)
}

async fn runs(harness: &Harness, name: &str) -> Container {
    let one = |harness: &Harness| {
        let all = harness.runtime.containers().into_iter();
        let state = model::observed::ContainerState::Running;
        all.into_iter().find(|one| &*one.pod.name == name && one.state == state)
    };
    harness.until(&format!("{name} runs"), one).await
}

fn shares(harness: &Harness, container: &Container) -> i64 {
    let config = harness.runtime.container_config(&container.id).expect("the container");
    config.resources.cpu_shares
}

// behaviour: RSZ-1
#[tokio::test(start_paused = true)]
async fn checkpoint_write_blocks_only_the_pods_in_it() {
    let (harness, api) = Harness::in_cluster();
    api.make(requesting("web", "100m"));
    api.make(requesting("other", "100m"));
    let _agent = harness.start();
    let (web, other) = (runs(&harness, "web").await, runs(&harness, "other").await);
    let before = harness.until("both are recorded", |harness| harness.files.content(RECORD)).await;
    harness.files.hold_writes();
    resize(&api, "web", "200m");
    tokio::time::sleep(Duration::from_mins(2)).await;
    assert_eq!(
        (shares(&harness, &web), harness.files.content(RECORD)),
        (102, Some(before.clone()))
    );
    // The loop still handles other events.
    harness.runtime.kill_container(&other.id, 1);
    let state = model::observed::ContainerState::Running;
    let anew = |harness: &Harness| {
        let all = harness.runtime.containers().into_iter();
        let mut all = all.filter(|one| one.id != other.id && one.state == state);
        all.find(|one| &*one.pod.name == "other")
    };
    harness.until("the other one is restarted", anew).await;
    assert_eq!(shares(&harness, &web), 102);
    harness.files.release_writes();
    let has = |harness: &Harness| (shares(harness, &web) == 204).then_some(());
    harness.until("it has its allocated resources", has).await;
    assert_ne!(harness.files.content(RECORD), Some(before));
}

// behaviour: RSZ-22, RSZ-25
#[tokio::test(start_paused = true)]
async fn resize_conditions_and_events_are_not_repeated_after_a_restart() {
    let (mut harness, api) = Harness::in_cluster();
    harness.allocatable = vec![("cpu", "2")];
    api.make(requesting("web", "500m"));
    api.make(requesting("stuck", "500m"));
    let agent = harness.start();
    let (web, stuck) = (runs(&harness, "web").await, runs(&harness, "stuck").await);
    let refusal = Fault::error(model::ports::runtime::Code::Internal);
    let rule = Rule::on(Method::UpdateContainerResources, refusal).object(stuck.id.to_string());
    harness.runtime.inject(rule);
    resize(&api, "stuck", "600m");
    resize(&api, "web", "3");
    let pending = |_: &Harness| condition(&api, "web", "PodResizePending");
    let before = harness.until("it waits", pending).await;
    assert_eq!(before.reason.as_deref(), Some("Deferred"));
    let error = |_: &Harness| {
        condition(&api, "stuck", "PodResizeInProgress").filter(|one| one.reason.is_some())
    };
    let failed = harness.until("it is in progress", error).await;
    let reported =
        |reason: &str| harness.events.all().iter().filter(|event| event.reason == reason).count();
    assert_eq!((reported("ResizeDeferred"), reported("ResizeError")), (1, 1));
    let mut events = harness.events.all().into_iter();
    let deferred = events.find(|event| event.reason == "ResizeDeferred").expect("it is reported");
    assert!(deferred.message.starts_with("Pod resize OutOfcpu: {"), "{deferred:?}");
    agent.stop().await;
    let agent = harness.start();
    tokio::time::sleep(Duration::from_mins(5)).await;
    assert_eq!(condition(&api, "web", "PodResizePending"), Some(before));
    assert_eq!(condition(&api, "stuck", "PodResizeInProgress"), Some(failed));
    assert_eq!((reported("ResizeDeferred"), reported("ResizeError")), (1, 1));
    assert_eq!((shares(&harness, &web), reported("ResizeCompleted")), (512, 0));
    agent.stop().await;
    // It completes nevertheless.
    harness.runtime.clear_faults();
    let _agent = harness.start();
    let over =
        |_: &Harness| condition(&api, "stuck", "PodResizeInProgress").is_none().then_some(());
    harness.until("it is completed", over).await;
    assert_eq!((shares(&harness, &stuck), reported("ResizeCompleted")), (614, 1));
}
