//! Cgroups of pods.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Pod, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use model::cgroup::{CgroupDriver, CgroupName, CgroupValues};
use model::ids::PodUid;
use model::panics::PanicGuard;
use model::ports::cgroups::Cgroups as _;
use runtime::decide::NodeSettings;
use runtime::{ReleaseError, SyncError};
use testkit::cgroups::MemoryCgroups;
use testkit::pods;
use testkit::runtime::Method;

use crate::harness::{Harness, IMAGE, forever, seconds};

fn harness(driver: CgroupDriver) -> (Harness, Arc<MemoryCgroups>) {
    let cgroups = Arc::new(MemoryCgroups::new(driver));
    for class in ["burstable", "besteffort"] {
        cgroups.make(&name(&format!("/kubepods/{class}")));
    }
    let port = Arc::clone(&cgroups) as _;
    (Harness::with_cgroups(NodeSettings::default(), Some(port)), cgroups)
}

fn name(path: &str) -> CgroupName {
    CgroupName::parse(path).unwrap()
}

/// A pod with a CPU request.
fn requesting(pod: &str, cpu: &str) -> Pod {
    let mut pod = pods::pod(pod).container("main", IMAGE, ["sleep", "forever"]).build();
    let requests = BTreeMap::from([("cpu".to_owned(), Quantity(cpu.to_owned()))]);
    pod.spec.as_mut().unwrap().containers[0].resources =
        Some(ResourceRequirements { requests: Some(requests), ..ResourceRequirements::default() });
    pod
}

const WEB: &str = "/kubepods/besteffort/poduid-of-web";

// behaviour: CGR-2, CGR-28
#[tokio::test(start_paused = true)]
async fn pod_cgroup_is_created_before_its_sandbox() {
    let (harness, cgroups) = harness(CgroupDriver::Cgroupfs);
    let pod = forever();
    harness.synced(&pod).await;
    assert_eq!(cgroups.effects(), ["update /kubepods/burstable", &format!("create {WEB}")]);
    assert_eq!(cgroups.looks(), 1, "its sandbox does not wait for a second read");
    assert_eq!(cgroups.all()[&name(WEB)].cpu_shares, Some(2));
    let sandbox = harness.runtime.sandbox_config(&harness.sandbox(&pod).await).unwrap();
    assert_eq!(sandbox.cgroup_parent, WEB);
    assert!(!harness.sync(&pod).await.unwrap());
    assert_eq!(cgroups.effects(), [""; 0], "a converged pod needs no calls");
    assert_eq!(cgroups.looks(), 0);
    let (other, _) = self::harness(CgroupDriver::Systemd);
    other.synced(&pod).await;
    let sandbox = other.runtime.sandbox_config(&other.sandbox(&pod).await).unwrap();
    assert_eq!(
        sandbox.cgroup_parent,
        "/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-poduid_of_web.slice"
    );
}

// behaviour: CGR-3
#[tokio::test(start_paused = true)]
async fn pod_does_not_start_without_its_cgroup() {
    let (harness, cgroups) = harness(CgroupDriver::Cgroupfs);
    cgroups.set_broken(&name(WEB), true);
    let error = harness.sync(&forever()).await.unwrap_err();
    assert!(matches!(error, SyncError::Cgroup(_)), "{error}");
    assert_eq!(harness.events.reasons(), ["FailedCreatePodContainer"]);
    let error_text = harness.last_message("FailedCreatePodContainer");
    assert!(error_text.starts_with("unable to ensure pod container exists: "), "{error_text}");
    assert_eq!(harness.calls(), []);
    cgroups.set_broken(&name(WEB), false);
    harness.synced(&forever()).await;
    let mut pod = forever();
    pod.metadata.uid = Some("../uid".into());
    assert!(matches!(harness.sync(&pod).await, Err(SyncError::Cgroup(_))));
}

// behaviour: CGR-4
#[tokio::test(start_paused = true)]
async fn pod_running_without_its_cgroup_restarts_inside() {
    let (harness, cgroups) = harness(CgroupDriver::Cgroupfs);
    let pod = forever();
    harness.synced(&pod).await;
    let before = harness.running(&pod, "main").await;
    let next = harness.again(NodeSettings::default(), Some(Arc::clone(&cgroups) as _));
    assert!(!next.sync(&pod).await.unwrap(), "it is in its cgroup");
    assert_eq!(next.running(&pod, "main").await, before);
    cgroups.vanish(&name(WEB));
    let last = harness.again(NodeSettings::default(), Some(Arc::clone(&cgroups) as _));
    assert!(last.sync(&pod).await.unwrap());
    assert!(last.calls().contains(&Method::StopContainer));
    last.synced(&pod).await;
    assert!(cgroups.all().contains_key(&name(WEB)));
    assert_ne!(last.running(&pod, "main").await, before);
}

// behaviour: CGR-41
#[tokio::test(start_paused = true)]
async fn failed_limits_of_a_new_cgroup_are_retried() {
    let (harness, cgroups) = harness(CgroupDriver::Cgroupfs);
    let (pod, own) = (requesting("web", "250m"), name("/kubepods/burstable/poduid-of-web"));
    harness.synced(&pod).await;
    // The machine reboots: only the pod's sandbox is left.
    let before = harness.running(&pod, "main").await;
    harness.runtime.kill_container(&before, 1);
    cgroups.vanish(&own);
    cgroups.set_unlimited(&own, true);
    let next = harness.again(NodeSettings::default(), Some(Arc::clone(&cgroups) as _));
    let error = next.sync(&pod).await.unwrap_err();
    assert!(matches!(error, SyncError::Resize(_)), "{error}");
    assert_ne!(next.running(&pod, "main").await, before, "it starts nevertheless");
    assert_eq!(cgroups.all()[&own].cpu_shares, None);
    cgroups.set_unlimited(&own, false);
    next.synced(&pod).await;
    assert_eq!(cgroups.all()[&own].cpu_shares, Some(256));
}

#[tokio::test(start_paused = true)]
async fn pod_continues_when_its_cgroup_cannot_be_read() {
    let (harness, cgroups) = harness(CgroupDriver::Cgroupfs);
    let pod = forever();
    harness.synced(&pod).await;
    let before = harness.running(&pod, "main").await;
    let next = harness.again(NodeSettings::default(), Some(Arc::clone(&cgroups) as _));
    cgroups.hide(&name(WEB));
    let error = next.sync(&pod).await.unwrap_err();
    assert!(matches!(error, SyncError::Cgroup(_)), "{error}");
    assert_eq!(next.running(&pod, "main").await, before);
}

// behaviour: CGR-5, CGR-11
#[tokio::test(start_paused = true)]
async fn qos_cgroup_has_the_cpu_requests_of_its_pods() {
    let (harness, cgroups) = harness(CgroupDriver::Cgroupfs);
    let (a, b) = (requesting("a", "250m"), requesting("b", "500m"));
    let shares = || cgroups.all()[&name("/kubepods/burstable")].cpu_shares;
    harness.synced(&a).await;
    assert_eq!(shares(), Some(256));
    harness.synced(&b).await;
    assert_eq!(shares(), Some(768));
    let own = name("/kubepods/burstable/poduid-of-a");
    cgroups.enter(&own.child("container").unwrap());
    harness.pods.release(&a).await.unwrap();
    assert_eq!((shares(), cgroups.processes()), (Some(512), 0));
    assert!(!cgroups.all().contains_key(&own));
    harness.pods.release(&a).await.unwrap();
    let own = name("/kubepods/burstable/poduid-of-b");
    cgroups.set_broken(&own, true);
    let error = harness.pods.release(&b).await.unwrap_err();
    assert!(matches!(error, ReleaseError::Cgroup(_)), "{error}");
    assert_eq!(shares(), Some(512), "it still exists");
}

// behaviour: CGR-11
#[tokio::test(start_paused = true)]
async fn qos_cgroup_counts_a_resized_pod_without_processes() {
    let (harness, cgroups) = harness(CgroupDriver::Cgroupfs);
    let once = |cpu: &str| {
        let mut pod = requesting("a", cpu);
        pod.spec.as_mut().unwrap().restart_policy = Some("Never".to_owned());
        pod
    };
    let shares = || cgroups.all()[&name("/kubepods/burstable")].cpu_shares;
    harness.synced(&once("250m")).await;
    harness.runtime.kill_sandbox(&harness.sandbox(&once("250m")).await);
    harness.synced(&once("250m")).await;
    assert_eq!(shares(), Some(256));
    harness.sync(&once("500m")).await.unwrap();
    assert_eq!(shares(), Some(512));
}

// behaviour: CGR-11
#[tokio::test(start_paused = true)]
async fn qos_cgroup_keeps_its_shares_while_its_pods_are_unknown() {
    let (harness, cgroups) = harness(CgroupDriver::Cgroupfs);
    let class = name("/kubepods/burstable");
    cgroups.enter(&name("/kubepods/burstable/podleft"));
    let before = CgroupValues { cpu_shares: Some(900), ..CgroupValues::default() };
    cgroups.update(&class, &before).await.unwrap();
    cgroups.hide(&class);
    harness.synced(&requesting("a", "250m")).await;
    let shares = || cgroups.all()[&class].cpu_shares;
    assert_eq!(shares(), Some(900), "a pod of an earlier agent may have the rest");
    cgroups.show(&class);
    harness.synced(&requesting("b", "250m")).await;
    assert_eq!(shares(), Some(900), "there is one");
    harness.cgroups.as_ref().unwrap().sweep_one(&"left".into(), &|_| Some("pod-is-gone")).await;
    assert_eq!(shares(), Some(512));
}

// behaviour: CGR-43
#[tokio::test(start_paused = true)]
async fn qos_cgroup_waits_at_most_a_minute_for_pods_of_an_earlier_agent() {
    let (harness, cgroups) = harness(CgroupDriver::Cgroupfs);
    let class = name("/kubepods/burstable");
    let shares = || cgroups.all()[&class].cpu_shares;
    let guard = PanicGuard::default();
    let sweep = || harness.cgroups.as_ref().unwrap().sweep(&|_| None, &guard);
    // It is terminating: this agent never syncs it.
    let drains = name("/kubepods/burstable/poddrains");
    cgroups.enter(&drains);
    let values = |shares| CgroupValues { cpu_shares: Some(shares), ..CgroupValues::default() };
    cgroups.update(&drains, &values(1024)).await.unwrap();
    cgroups.update(&class, &values(1024)).await.unwrap();
    harness.synced(&requesting("a", "250m")).await;
    sweep().await;
    assert_eq!(shares(), Some(1024), "this agent may still sync it");
    tokio::time::sleep(seconds(60)).await;
    sweep().await;
    assert_eq!(shares(), Some(1024 + 256), "it counts with the values of its cgroup");
    harness.synced(&requesting("b", "250m")).await;
    assert_eq!(shares(), Some(1024 + 512));
    harness.cgroups.as_ref().unwrap().sweep_one(&"drains".into(), &|_| Some("pod-is-gone")).await;
    assert_eq!(shares(), Some(512));
}

// behaviour: CGR-11
#[tokio::test(start_paused = true)]
async fn failed_qos_cgroup_update_is_retried_by_the_next_sweep() {
    let (harness, cgroups) = harness(CgroupDriver::Cgroupfs);
    let class = name("/kubepods/burstable");
    let shares = || cgroups.all()[&class].cpu_shares;
    let guard = PanicGuard::default();
    let sweep = || harness.cgroups.as_ref().unwrap().sweep(&|_| None, &guard);
    cgroups.hide(&class);
    harness.synced(&requesting("a", "250m")).await;
    assert_eq!(shares(), None);
    cgroups.show(&class);
    sweep().await;
    assert_eq!(shares(), Some(256));
    cgroups.set_broken(&class, true);
    harness.pods.release(&requesting("a", "250m")).await.unwrap();
    assert_eq!(shares(), Some(256));
    cgroups.set_broken(&class, false);
    sweep().await;
    assert_eq!(shares(), Some(2));
    cgroups.effects();
    sweep().await;
    assert_eq!(cgroups.effects(), [""; 0]);
}

// behaviour: CGR-11
#[tokio::test(start_paused = true)]
async fn failed_qos_cgroup_write_invalidates_the_known_shares() {
    let (harness, cgroups) = harness(CgroupDriver::Cgroupfs);
    let (class, pod) = (name("/kubepods/burstable"), requesting("a", "250m"));
    let shares = || cgroups.all()[&class].cpu_shares;
    let of_pods = harness.cgroups.as_ref().unwrap();
    of_pods.ensure(&pod).await.unwrap();
    assert_eq!(shares(), Some(256));
    cgroups.set_unanswered(&class, true);
    of_pods.release(&pod).await.unwrap();
    assert_eq!(shares(), Some(2));
    cgroups.set_unanswered(&class, false);
    // The sum equals the last value that was certainly written.
    of_pods.ensure(&pod).await.unwrap();
    assert_eq!(shares(), Some(256));
}

// behaviour: CGR-12
#[tokio::test(start_paused = true)]
async fn cgroups_of_removed_pods_are_found_in_every_qos_class() {
    let (harness, cgroups) = harness(CgroupDriver::Cgroupfs);
    let left = ["/kubepods/podg", "/kubepods/burstable/podb", "/kubepods/besteffort/pode"];
    let others = ["/kubepods/besteffort/other", "/kubepods/system", "/podx"];
    for path in left.iter().chain(&others) {
        cgroups.enter(&name(path));
    }
    harness.synced(&forever()).await;
    cgroups.effects();
    let is_gone = |uid: &PodUid| {
        (uid.as_str() != "uid-of-web" && uid.as_str() != "b").then_some("pod-is-gone")
    };
    let of_pods = harness.cgroups.as_ref().unwrap();
    of_pods.sweep(&is_gone, &PanicGuard::default()).await;
    assert_eq!(cgroups.effects(), ["remove /kubepods/besteffort/pode", "remove /kubepods/podg"]);
    of_pods.sweep_one(&"b".into(), &is_gone).await;
    assert_eq!(cgroups.effects(), [""; 0]);
    of_pods.sweep_one(&"b".into(), &|_| Some("pod-is-gone")).await;
    // Now all pods of the class are known.
    let expected = ["remove /kubepods/burstable/podb", "update /kubepods/burstable"];
    assert_eq!(cgroups.effects(), expected);
    assert!(others.iter().all(|path| cgroups.all().contains_key(&name(path))));
}
