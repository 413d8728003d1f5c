//! Sandboxes that cannot be created or used.

use model::observed::ContainerState::{Exited, Running};
use model::observed::SandboxState::{NotReady, Ready};
use model::ports::runtime::Code;
use runtime::SyncError;
use testkit::runtime::{Fault, Method, Rule};
use tokio_util::sync::CancellationToken;

use crate::harness::{Harness, IMAGE, forever, seconds, web};

#[tokio::test(start_paused = true)]
async fn dead_sandbox_is_replaced_with_its_containers() {
    let (harness, pod) = (Harness::new(), forever());
    harness.synced(&pod).await;
    let old = harness.sandbox(&pod).await;
    harness.runtime.kill_sandbox(&old);
    harness.synced(&pod).await;
    let calls = [
        Method::StopContainer,
        Method::StopPodSandbox,
        Method::RunPodSandbox,
        Method::PodSandboxStatus,
        Method::ImageStatus,
        Method::CreateContainer,
        Method::StartContainer,
    ];
    assert_eq!(harness.calls(), calls);
    let status = harness.status(&pod).await;
    let sandboxes: Vec<_> = status.sandboxes.iter().map(|one| (one.attempt, one.state)).collect();
    assert_eq!(sandboxes, [(1, Ready), (0, NotReady)]);
    assert!(status.sandboxes[1].ips.is_empty(), "the old one released its network");
    assert_eq!(harness.instances("main"), [(1, Running), (0, Exited)]);
    let reasons = ["SandboxChanged", "Killing", "Pulled", "Created", "Started"];
    assert_eq!(harness.events.reasons()[3..], reasons);
    assert!(!harness.sync(&pod).await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn change_to_the_host_network_replaces_the_sandbox_without_a_failure_event() {
    let harness = Harness::new();
    harness.files.write("/etc/hosts", "127.0.0.1 localhost\n");
    harness.synced(&forever()).await;
    let moved = web().host_network().container("main", IMAGE, ["sleep", "forever"]).build();
    harness.synced(&moved).await;
    let status = harness.status(&moved).await;
    assert_eq!((status.sandboxes[0].attempt, status.sandboxes[0].host_network), (1, true));
    assert_eq!(harness.instances("main"), [(1, Running), (0, Exited)]);
    assert!(!harness.events.has("SandboxChanged"));
}

// behaviour: ACT-124
#[tokio::test(start_paused = true)]
async fn failed_sandbox_creation_has_an_event_and_is_retried() {
    let (harness, pod) = (Harness::new(), forever());
    harness.runtime.set_network_ready(false);
    let error = harness.sync(&pod).await.unwrap_err();
    assert!(matches!(&error, SyncError::CreateSandbox(_)), "{error}");
    assert_eq!(harness.calls(), [Method::RunPodSandbox]);
    assert_eq!(harness.events.reasons(), ["FailedCreatePodSandBox"]);
    let message = "Failed to create pod sandbox: rpc error: code = Unknown desc = \
                   the network of pods is not ready";
    assert_eq!(harness.last_message("FailedCreatePodSandBox"), message);
    harness.runtime.set_network_ready(true);
    harness.synced(&pod).await;
    assert_eq!(harness.status(&pod).await.sandboxes[0].attempt, 0);
}

#[tokio::test(start_paused = true)]
async fn sandbox_created_by_a_failed_call_is_used() {
    let (harness, pod) = (Harness::new(), forever());
    harness.runtime.inject(Rule::on(Method::RunPodSandbox, Fault::late_success()).once());
    harness.sync(&pod).await.unwrap_err();
    harness.synced(&pod).await;
    assert_eq!(harness.runtime.count(Method::RunPodSandbox), 0);
    assert_eq!(harness.status(&pod).await.sandboxes.len(), 1);
    harness.running(&pod, "main").await;
}

// behaviour: ACT-113
#[tokio::test(start_paused = true)]
async fn terminating_pod_has_no_event_for_a_failed_sandbox() {
    let (harness, pod) = (Harness::new(), forever());
    let cancel = CancellationToken::new();
    harness.runtime.inject(Rule::on(Method::RunPodSandbox, Fault::delay(seconds(5))));
    harness.runtime.set_network_ready(false);
    let (synced, ()) = tokio::join!(harness.sync_until(&pod, &cancel), async {
        tokio::time::sleep(seconds(1)).await;
        cancel.cancel();
    });
    assert!(matches!(synced, Err(SyncError::CreateSandbox(_))), "{synced:?}");
    assert_eq!(harness.events.reasons(), [""; 0]);
}

// behaviour: ACT-78, ACT-124
#[tokio::test(start_paused = true)]
async fn uninspectable_new_sandbox_has_an_event_and_is_used_later() {
    let (harness, pod) = (Harness::new(), forever());
    harness.runtime.inject(Rule::on(Method::PodSandboxStatus, Fault::error(Code::Internal)).once());
    let error = harness.sync(&pod).await.unwrap_err();
    assert!(matches!(&error, SyncError::SandboxStatus(_)), "{error}");
    assert_eq!(harness.calls(), [Method::RunPodSandbox, Method::PodSandboxStatus]);
    assert_eq!(harness.events.reasons(), ["FailedPodSandBoxStatus"]);
    let message = "Unable to get pod sandbox status: rpc error: code = Internal desc = \
                   injected by a test";
    assert_eq!(harness.last_message("FailedPodSandBoxStatus"), message);
    harness.synced(&pod).await;
    assert_eq!(harness.runtime.count(Method::RunPodSandbox), 0);
    harness.running(&pod, "main").await;
}

#[tokio::test(start_paused = true)]
async fn nothing_is_recreated_while_the_old_cannot_be_stopped() {
    let (harness, pod) = (Harness::new(), forever());
    harness.synced(&pod).await;
    harness.runtime.kill_sandbox(&harness.sandbox(&pod).await);
    harness.runtime.inject(Rule::on(Method::StopContainer, Fault::error(Code::Internal)).once());
    let error = harness.sync(&pod).await.unwrap_err();
    assert!(matches!(&error, SyncError::KillContainer { name, .. } if name == "main"), "{error}");
    assert_eq!(harness.runtime.count(Method::RunPodSandbox), 0);
    // The stop of the sandbox has killed it nevertheless, so the next sync creates both again.
    assert_eq!(harness.instances("main"), [(0, Exited)]);
    harness.synced(&pod).await;
    harness.running(&pod, "main").await;
}

#[tokio::test(start_paused = true)]
async fn run_once_pod_is_not_run_again_in_a_new_sandbox() {
    let harness = Harness::new();
    let pod = web().restart_policy("Never").container("main", IMAGE, ["sleep", "forever"]).build();
    harness.synced(&pod).await;
    harness.runtime.kill_sandbox(&harness.sandbox(&pod).await);
    harness.synced(&pod).await;
    assert_eq!(harness.calls(), [Method::StopContainer, Method::StopPodSandbox]);
    assert_eq!(harness.instances("main"), [(0, Exited)]);
    assert!(!harness.sync(&pod).await.unwrap());
}
