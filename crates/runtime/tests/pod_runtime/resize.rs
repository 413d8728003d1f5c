//! In-place resizes of pods.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{ContainerResizePolicy, Pod, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use model::cgroup::{CgroupDriver, CgroupName};
use model::ports::runtime::Code;
use runtime::decide::NodeSettings;
use runtime::{ResizeError, SyncError};
use testkit::cgroups::MemoryCgroups;
use testkit::runtime::{Fault, Method, Rule};

use crate::harness::{Harness, IMAGE, web};

fn harness() -> (Harness, Arc<MemoryCgroups>) {
    let cgroups = Arc::new(MemoryCgroups::new(CgroupDriver::Cgroupfs));
    for class in ["burstable", "besteffort"] {
        cgroups.make(&name(&format!("/kubepods/{class}")));
    }
    let port = Arc::clone(&cgroups) as _;
    (Harness::with_cgroups(NodeSettings::default(), Some(port)), cgroups)
}

fn name(path: &str) -> CgroupName {
    CgroupName::parse(path).unwrap()
}

const OWN: &str = "/kubepods/burstable/poduid-of-web";

/// Two containers with these memory limits.
fn pod(first: &str, second: &str) -> Pod {
    let pod = web().container("first", IMAGE, ["sleep", "forever"]).container(
        "second",
        IMAGE,
        ["sleep", "forever"],
    );
    pod.spec(|spec| {
        for (container, memory) in spec.containers.iter_mut().zip([first, second]) {
            let list = Some([("memory".to_owned(), Quantity(memory.to_owned()))].into());
            container.resources = Some(ResourceRequirements {
                limits: list.clone(),
                requests: list,
                ..ResourceRequirements::default()
            });
        }
    })
    .build()
}

fn memory(cgroups: &MemoryCgroups) -> Option<u64> {
    cgroups.all()[&name(OWN)].memory_limit
}

// behaviour: RSZ-13
#[tokio::test(start_paused = true)]
async fn pod_limits_increase_before_and_decrease_after_its_containers() {
    let (harness, cgroups) = harness();
    harness.synced(&pod("4Ki", "8Ki")).await;
    assert_eq!(memory(&cgroups), Some(12 << 10));
    // The runtime refuses: the limit of the pod is raised already, those of its containers are not.
    let fault = Fault::error(Code::Internal);
    harness.runtime.inject(Rule::on(Method::UpdateContainerResources, fault).once());
    let error = harness.sync(&pod("8Ki", "8Ki")).await.unwrap_err();
    let SyncError::Resize(ResizeError::Container { name, .. }) = &error else { panic!("{error}") };
    assert_eq!((name.as_str(), memory(&cgroups)), ("first", Some(16 << 10)));
    harness.synced(&pod("8Ki", "8Ki")).await;
    assert_eq!(harness.calls(), [Method::UpdateContainerResources], "the rest was done before");
    assert!(!harness.sync(&pod("8Ki", "8Ki")).await.unwrap());
    // One shrinks and the other grows: the decrease comes first, and the limit of the pod does not change.
    cgroups.effects();
    harness.synced(&pod("12Ki", "4Ki")).await;
    let calls = harness.runtime.calls().into_iter();
    let calls = calls.filter(|call| call.method == Method::UpdateContainerResources);
    let updated: Vec<String> = calls.map(|call| call.object).collect();
    let (first, second) = (
        harness.running(&pod("12Ki", "4Ki"), "first").await,
        harness.running(&pod("12Ki", "4Ki"), "second").await,
    );
    assert_eq!(updated, [second.to_string(), first.to_string()]);
    assert_eq!(cgroups.effects(), [""; 0]);
    // A smaller pod: its cgroup waits for its containers.
    harness.runtime.inject(Rule::on(Method::UpdateContainerResources, fault).once());
    harness.sync(&pod("4Ki", "4Ki")).await.unwrap_err();
    assert_eq!(memory(&cgroups), Some(16 << 10));
    harness.synced(&pod("4Ki", "4Ki")).await;
    assert_eq!(memory(&cgroups), Some(8 << 10));
}

// behaviour: RSZ-9
#[tokio::test(start_paused = true)]
async fn interrupted_resize_is_completed_by_the_next_agent() {
    let (harness, cgroups) = harness();
    harness.synced(&pod("4Ki", "8Ki")).await;
    cgroups.set_broken(&name(OWN), true);
    let error = harness.sync(&pod("4Ki", "4Ki")).await.unwrap_err();
    assert!(matches!(error, SyncError::Resize(ResizeError::Cgroup(_))), "{error}");
    cgroups.set_broken(&name(OWN), false);
    // Another agent knows it from the annotation of the container, and reads the cgroup.
    let next = harness.again(NodeSettings::default(), Some(Arc::clone(&cgroups) as _));
    next.synced(&pod("4Ki", "4Ki")).await;
    assert_eq!(memory(&cgroups), Some(8 << 10));
    assert!(!next.sync(&pod("4Ki", "4Ki")).await.unwrap());
}

/// Containers without limits in a pod with this memory limit.
fn limited_as_a_whole(memory: &str) -> Pod {
    let pod = web().container("main", IMAGE, ["sleep", "forever"]);
    pod.spec(|spec| {
        let list = Some([("memory".to_owned(), Quantity(memory.to_owned()))].into());
        spec.resources = Some(ResourceRequirements {
            limits: list.clone(),
            requests: list,
            ..ResourceRequirements::default()
        });
    })
    .build()
}

// behaviour: RSZ-13
#[tokio::test(start_paused = true)]
async fn pod_level_increase_is_applied_before_its_containers() {
    let (harness, cgroups) = harness();
    harness.synced(&limited_as_a_whole("4Ki")).await;
    assert_eq!(memory(&cgroups), Some(4 << 10));
    let refuse = || {
        let rule = Rule::on(Method::UpdateContainerResources, Fault::error(Code::Internal));
        harness.runtime.inject(rule.once());
    };
    refuse();
    harness.sync(&limited_as_a_whole("8Ki")).await.unwrap_err();
    assert_eq!(memory(&cgroups), Some(8 << 10));
    // Another agent does not know the written values, and reads them.
    let next = harness.again(NodeSettings::default(), Some(Arc::clone(&cgroups) as _));
    next.synced(&limited_as_a_whole("8Ki")).await;
    let next = harness.again(NodeSettings::default(), Some(Arc::clone(&cgroups) as _));
    refuse();
    next.sync(&limited_as_a_whole("2Ki")).await.unwrap_err();
    assert_eq!(memory(&cgroups), Some(8 << 10), "the decrease comes last");
    next.synced(&limited_as_a_whole("2Ki")).await;
    assert_eq!(memory(&cgroups), Some(2 << 10));
}

/// The same two containers, which restart for a memory resize.
fn restarting(first: &str, second: &str) -> Pod {
    let mut pod = pod(first, second);
    for container in &mut pod.spec.as_mut().unwrap().containers {
        container.resize_policy = Some(vec![ContainerResizePolicy {
            resource_name: "memory".to_owned(),
            restart_policy: "RestartContainer".to_owned(),
        }]);
    }
    pod
}

// behaviour: RSZ-12, CGR-11
#[tokio::test(start_paused = true)]
async fn qos_cgroup_is_updated_for_a_resize_with_restart() {
    let (harness, cgroups) = harness();
    let requesting = |cpu: &str, memory: &str| {
        let mut pod = restarting(memory, "8Ki");
        let resources = pod.spec.as_mut().unwrap().containers[0].resources.as_mut().unwrap();
        let requests = resources.requests.as_mut().unwrap();
        requests.insert("cpu".to_owned(), Quantity(cpu.to_owned()));
        pod
    };
    let shares = || cgroups.all()[&name("/kubepods/burstable")].cpu_shares;
    harness.synced(&requesting("250m", "4Ki")).await;
    assert_eq!(shares(), Some(256));
    let larger = requesting("500m", "8Ki");
    harness.synced(&larger).await;
    // With the new container everything is converged, except the class.
    while harness.sync(&larger).await.unwrap() {}
    assert_eq!(shares(), Some(512));
}

// behaviour: RSZ-12, RSZ-13
#[tokio::test(start_paused = true)]
async fn pod_limits_increase_before_a_container_restarts_for_a_resize() {
    let (harness, cgroups) = harness();
    harness.synced(&restarting("4Ki", "8Ki")).await;
    let before = harness.running(&restarting("4Ki", "8Ki"), "first").await;
    // If the pod limit cannot be raised, the container keeps its resources.
    let larger = restarting("8Ki", "8Ki");
    cgroups.set_broken(&name(OWN), true);
    let error = harness.sync(&larger).await.unwrap_err();
    assert!(matches!(error, SyncError::Resize(ResizeError::Cgroup(_))), "{error}");
    assert_eq!(harness.running(&larger, "first").await, before);
    cgroups.set_broken(&name(OWN), false);
    let rule = Rule::on(Method::StopContainer, Fault::error(Code::Internal));
    harness.runtime.inject(rule.once());
    let error = harness.sync(&larger).await.unwrap_err();
    assert!(matches!(error, SyncError::KillContainer { .. }), "{error}");
    assert_eq!(memory(&cgroups), Some(16 << 10), "before the container is killed");
    harness.synced(&larger).await;
    assert_ne!(harness.running(&larger, "first").await, before);
    // A container with a decrease is killed before the pod limit decreases: its usage does not count any more.
    cgroups.use_memory(&name(OWN), 1);
    harness.synced(&restarting("4Ki", "8Ki")).await;
    assert_eq!(memory(&cgroups), Some(12 << 10));
}

// behaviour: RSZ-16
#[tokio::test(start_paused = true)]
async fn sandbox_update_precedes_the_cgroup_change_and_may_refuse_it() {
    let (harness, cgroups) = harness();
    harness.synced(&pod("4Ki", "8Ki")).await;
    let sandbox = harness.sandbox(&pod("4Ki", "8Ki")).await;
    let sandbox_limit = || harness.runtime.sandbox_config(&sandbox).unwrap().resources.memory_limit;
    let refuse = |code| {
        harness
            .runtime
            .inject(Rule::on(Method::UpdatePodSandboxResources, Fault::error(code)).once());
    };
    refuse(Code::Internal);
    let error = harness.sync(&pod("8Ki", "8Ki")).await.unwrap_err();
    assert!(
        matches!(error, SyncError::Resize(ResizeError::Sandbox { resource: "memory", .. })),
        "{error}"
    );
    assert_eq!(
        (memory(&cgroups), harness.calls()),
        (Some(12 << 10), vec![Method::UpdatePodSandboxResources])
    );
    // A runtime without this call works as well.
    refuse(Code::Unimplemented);
    harness.synced(&pod("8Ki", "8Ki")).await;
    assert_eq!((memory(&cgroups), sandbox_limit()), (Some(16 << 10), 12 << 10));
    harness.synced(&pod("16Ki", "8Ki")).await;
    assert_eq!((memory(&cgroups), sandbox_limit()), (Some(24 << 10), 24 << 10));
    // The runtime gets the actual values of the cgroup, not the desired ones.
    cgroups.set_broken(&name(OWN), true);
    harness.sync(&pod("32Ki", "8Ki")).await.unwrap_err();
    assert_eq!(sandbox_limit(), 24 << 10);
}

// behaviour: RSZ-15
#[tokio::test(start_paused = true)]
async fn resize_with_a_lost_response_is_reverted_by_another() {
    let (harness, _) = harness();
    harness.synced(&pod("4Ki", "8Ki")).await;
    let fault = Fault::error_after_effect(Code::Unavailable);
    let rule = Rule::on(Method::UpdateContainerResources, fault);
    harness.runtime.inject(rule.once());
    harness.sync(&pod("8Ki", "8Ki")).await.unwrap_err();
    let first = harness.running(&pod("4Ki", "8Ki"), "first").await;
    let has = || harness.runtime.container_config(&first).unwrap().resources.memory_limit;
    assert_eq!(has(), 8 << 10);
    harness.synced(&pod("4Ki", "8Ki")).await;
    assert_eq!(has(), 4 << 10);
    assert!(!harness.sync(&pod("4Ki", "8Ki")).await.unwrap());
}
