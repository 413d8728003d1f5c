//! Containers and sandboxes that the runtime creates after their call was cancelled.

use k8s_openapi::api::core::v1::{EphemeralContainer, ExecAction, Lifecycle, LifecycleHandler};
use model::observed::ContainerState::{Created, Exited, Running};
use model::observed::SandboxState::Ready;
use model::ports::runtime::{Code, ContainerService, SandboxService};
use model::verdict::Subject;
use podspec::view;
use testkit::runtime::{Fault, Method, RemoteImage, Rule};
use testkit::wanted;

use crate::harness::{Harness, IMAGE, forever, seconds, web};

const OTHER_IMAGE: &str = "ferrolet.test/workload:2";

/// The runtime reserves a name without listing its container.
fn name_taken(method: Method) -> Rule {
    Rule::on(method, Fault::error(Code::AlreadyExists))
}

// behaviour: ACT-100
#[tokio::test(start_paused = true)]
async fn container_created_after_a_cancelled_call_is_started() {
    let harness = Harness::new();
    harness.runtime.inject(Rule::on(Method::CreateContainer, Fault::late_success()).once());
    harness.failed(&forever()).await;
    let late = harness.runtime.containers()[0].id.clone();
    assert_eq!(harness.instances("main"), [(0, Created)]);
    harness.synced(&forever()).await;
    assert_eq!(harness.running(&forever(), "main").await, late);
    assert_eq!(harness.runtime.count(Method::CreateContainer), 0);
    assert_eq!(harness.runtime.count(Method::RemoveContainer), 0);
    assert!(!harness.sync(&forever()).await.unwrap());
}

// behaviour: ACT-101
#[tokio::test(start_paused = true)]
async fn container_that_appears_after_the_lookup_is_started() {
    let (harness, pod) = (Harness::new(), forever());
    harness.synced(&pod).await;
    harness.runtime.kill_container(&harness.running(&pod, "main").await, 1);
    // The status of the sync is from before the late container appeared.
    let status = harness.status(&pod).await;
    harness
        .runtime
        .inject(Rule::on(Method::StartContainer, Fault::error(Code::Unavailable)).once());
    harness.failed(&pod).await;
    assert_eq!(harness.instances("main")[0], (1, Created));
    let late = harness.status(&pod).await.latest("main").unwrap().id.clone();
    tokio::time::sleep(seconds(10)).await;
    harness.sync_on(&pod, &status).await.unwrap();
    assert_eq!(harness.running(&pod, "main").await, late);
    assert_eq!(harness.instances("main").len(), 2);
}

// behaviour: ACT-102
#[tokio::test(start_paused = true)]
async fn name_reserved_by_the_runtime_is_skipped() {
    let harness = Harness::new();
    harness.runtime.inject(name_taken(Method::CreateContainer).times(3));
    harness.synced(&forever()).await;
    assert_eq!(harness.instances("main"), [(3, Running)]);
    harness.runtime.kill_container(&harness.running(&forever(), "main").await, 1);
    harness.synced(&forever()).await;
    assert_eq!(harness.instances("main")[0], (4, Running));
}

#[tokio::test(start_paused = true)]
async fn number_of_tried_names_is_bounded() {
    let harness = Harness::new();
    harness.runtime.inject(name_taken(Method::CreateContainer));
    let (reasons, _) = harness.failed(&forever()).await;
    assert_eq!(reasons, [("main".to_owned(), "CreateContainerError")]);
    assert_eq!(harness.runtime.count(Method::CreateContainer), 16);
    harness.runtime.clear_faults();
    harness.synced(&forever()).await;
    harness.running(&forever(), "main").await;
}

// behaviour: ACT-104
#[tokio::test(start_paused = true)]
async fn outdated_late_container_is_removed() {
    let (harness, pod) = (Harness::new(), forever());
    harness
        .runtime
        .inject(Rule::on(Method::StartContainer, Fault::error(Code::Unavailable)).once());
    harness.failed(&pod).await;
    let old = harness.runtime.containers()[0].id.clone();
    // Meanwhile its sandbox has died, so it can never start.
    harness.runtime.kill_sandbox(&harness.sandbox(&pod).await);
    harness.synced(&pod).await;
    assert_eq!(harness.instances("main"), [(0, Running)]);
    assert_ne!(harness.running(&pod, "main").await, old);
}

// behaviour: ACT-105
#[tokio::test(start_paused = true)]
async fn late_container_that_fails_to_start_is_recreated() {
    let (harness, pod) = (Harness::new(), forever());
    let refused = Rule::on(Method::StartContainer, Fault::error(Code::Unavailable));
    harness.runtime.inject(refused.times(2));
    harness.failed(&pod).await;
    let late = harness.runtime.containers()[0].id.clone();
    harness.failed(&pod).await;
    assert_eq!(harness.instances("main"), [], "it failed to start twice, so it is removed");
    harness.synced(&pod).await;
    assert_ne!(harness.running(&pod, "main").await, late);
}

/// The calls of the last sync that stop or remove something.
fn endings(harness: &Harness) -> Vec<Method> {
    let ending =
        |method: &Method| matches!(method, Method::StopContainer | Method::RemoveContainer);
    harness.calls().into_iter().filter(ending).collect()
}

// behaviour: ACT-108
#[tokio::test(start_paused = true)]
async fn container_running_despite_two_failed_starts_is_kept() {
    let (harness, pod) = (Harness::new(), forever());
    harness.runtime.inject(Rule::on(Method::CreateContainer, Fault::late_success()).once());
    harness.failed(&pod).await;
    let late = harness.runtime.containers()[0].id.clone();
    harness.runtime.inject(Rule::on(Method::StartContainer, Fault::late_success()).once());
    // It cannot be inspected either.
    let status = harness.status(&pod).await;
    harness
        .runtime
        .inject(Rule::on(Method::ContainerStatus, Fault::error(Code::Unavailable)).once());
    harness.runtime.forget_calls();
    harness.sync_on(&pod, &status).await.unwrap_err();
    assert_eq!(endings(&harness), []);
    assert_eq!(harness.running(&pod, "main").await, late);
    assert!(!harness.sync(&pod).await.unwrap(), "the next sync finds it converged");
}

// behaviour: ACT-137
#[tokio::test(start_paused = true)]
async fn container_running_after_an_unanswered_start_counts_as_started() {
    let harness = Harness::new();
    let pod = web()
        .container("main", IMAGE, ["sleep", "forever"])
        .with(|pod| {
            let command = Some(vec!["/workload".to_owned(), "exit".to_owned(), "0".to_owned()]);
            let exec = Some(ExecAction { command });
            let post_start = Some(LifecycleHandler { exec, ..LifecycleHandler::default() });
            let lifecycle = Lifecycle { post_start, ..Lifecycle::default() };
            pod.spec.as_mut().unwrap().containers[0].lifecycle = Some(lifecycle);
        })
        .build();
    harness.runtime.inject(Rule::on(Method::StartContainer, Fault::late_success()).once());
    harness.synced(&pod).await;
    assert_eq!(harness.runtime.count(Method::ExecSync), 1, "its hook has run");
    assert_eq!(harness.instances("main"), [(0, Running)]);
    let event_count =
        |reason: &str| harness.events.all().iter().filter(|event| event.reason == reason).count();
    assert_eq!((event_count("Started"), event_count("Failed")), (1, 0));
    assert!(!harness.sync(&pod).await.unwrap());
}

// behaviour: ACT-137
#[tokio::test(start_paused = true)]
async fn failed_start_is_not_inspected_again() {
    for (code, looks) in [(Code::Internal, 0), (Code::Unavailable, 1)] {
        let (harness, pod) = (Harness::new(), forever());
        harness.runtime.inject(Rule::on(Method::StartContainer, Fault::error(code)).once());
        let status = harness.status(&pod).await;
        harness.runtime.forget_calls();
        harness.sync_on(&pod, &status).await.unwrap_err();
        assert_eq!(harness.runtime.count(Method::ContainerStatus), looks, "{code}");
    }
}

// behaviour: ACT-109
#[tokio::test(start_paused = true)]
async fn late_ephemeral_container_is_started_once() {
    let (harness, mut pod) = (Harness::new(), forever());
    harness.synced(&pod).await;
    let debug = EphemeralContainer {
        name: "debug".into(),
        image: Some(IMAGE.into()),
        args: Some(vec!["exit".into(), "3".into()]),
        ..EphemeralContainer::default()
    };
    pod.spec.as_mut().unwrap().ephemeral_containers = Some(vec![debug]);
    harness.runtime.inject(Rule::on(Method::CreateContainer, Fault::late_success()).once());
    harness.failed(&pod).await;
    assert_eq!(harness.instances("debug"), [(0, Created)]);
    harness.synced(&pod).await;
    assert_eq!(harness.instances("debug"), [(0, Exited)], "it ran, and is the created one");
    assert!(!harness.sync(&pod).await.unwrap(), "once");
}

// behaviour: ACT-108
#[tokio::test(start_paused = true)]
async fn late_container_of_another_definition_is_stopped_gracefully() {
    let (harness, pod) = (Harness::new(), forever());
    harness
        .runtime
        .inject(Rule::on(Method::StartContainer, Fault::error(Code::Unavailable)).once());
    harness.failed(&pod).await;
    let late = harness.runtime.containers()[0].id.clone();
    let before = harness.status(&pod).await;
    let mut edited = pod.clone();
    edited.spec.as_mut().unwrap().containers[0].image = Some(OTHER_IMAGE.to_owned());
    harness.runtime.add_image(&RemoteImage::new(OTHER_IMAGE));
    // Since the status was read, a cancelled call has taken effect.
    harness.runtime.start_container(&late).await.unwrap();
    harness.runtime.forget_calls();
    harness.sync_on(&edited, &before).await.unwrap_err();
    assert_eq!((endings(&harness), harness.instances("main")), (vec![], vec![(0, Running)]));
    assert_eq!(harness.events.reasons().iter().filter(|reason| **reason == "Failed").count(), 1);
    harness.synced(&edited).await;
    assert_eq!(endings(&harness), [Method::StopContainer]);
    assert_eq!(harness.instances("main")[0], (1, Running));
}

// behaviour: ACT-108
#[tokio::test(start_paused = true)]
async fn older_late_container_is_not_removed_while_running() {
    let (harness, pod) = (Harness::new(), forever());
    harness.synced(&pod).await;
    let status = harness.status(&pod).await;
    let config = wanted::sandbox(&status.sandboxes[0].pod, &status.uid);
    harness.runtime.kill_container(&harness.running(&pod, "main").await, 1);
    harness.runtime.inject(name_taken(Method::CreateContainer).once());
    harness.synced(&pod).await;
    let mut late = wanted::container(&config, "main", IMAGE, &["sleep", "forever"]);
    late.attempt = 1;
    let sandbox = &status.sandboxes[0].id;
    let late = harness.runtime.create_container(sandbox, &late, &config).await.unwrap();
    let before = harness.status(&pod).await;
    harness.runtime.start_container(&late).await.unwrap();
    harness.runtime.forget_calls();
    harness.sync_on(&pod, &before).await.unwrap();
    assert_eq!(endings(&harness), []);
    harness.synced(&pod).await;
    assert_eq!(endings(&harness), [Method::StopContainer]);
}

// behaviour: ACT-106
#[tokio::test(start_paused = true)]
async fn late_container_with_a_successor_is_removed() {
    let (harness, pod) = (Harness::new(), forever());
    harness.synced(&pod).await;
    let status = harness.status(&pod).await;
    let (sandbox, config) =
        (&status.sandboxes[0], wanted::sandbox(&status.sandboxes[0].pod, &status.uid));
    let id = harness.running(&pod, "main").await;
    harness.runtime.kill_container(&id, 1);
    harness.runtime.inject(name_taken(Method::CreateContainer).once());
    harness.synced(&pod).await;
    let mut late = wanted::container(&config, "main", IMAGE, &["sleep", "forever"]);
    late.attempt = 1;
    harness.runtime.create_container(&sandbox.id, &late, &config).await.unwrap();
    assert_eq!(harness.instances("main")[..2], [(2, Running), (1, Created)]);
    harness.synced(&pod).await;
    let numbers: Vec<u32> = harness.instances("main").iter().map(|(number, _)| *number).collect();
    assert_eq!(numbers, [2, 0]);
}

// behaviour: ACT-103
#[tokio::test(start_paused = true)]
async fn sandbox_that_appears_after_the_lookup_is_used() {
    let (harness, pod) = (Harness::new(), forever());
    let nothing = harness.status(&pod).await;
    harness.runtime.inject(Rule::on(Method::RunPodSandbox, Fault::late_success()).once());
    harness.sync(&pod).await.unwrap_err();
    let late = harness.sandbox(&pod).await;
    harness.sync_on(&pod, &nothing).await.unwrap();
    assert_eq!(harness.sandbox(&pod).await, late);
    assert_eq!(harness.status(&pod).await.sandboxes.len(), 1);
    harness.running(&pod, "main").await;
}

#[tokio::test(start_paused = true)]
async fn dead_sandbox_with_the_name_is_removed() {
    let (harness, pod) = (Harness::new(), forever());
    let nothing = harness.status(&pod).await;
    harness.runtime.inject(Rule::on(Method::RunPodSandbox, Fault::late_success()).once());
    harness.sync(&pod).await.unwrap_err();
    let late = harness.sandbox(&pod).await;
    harness.runtime.kill_sandbox(&late);
    harness.sync_on(&pod, &nothing).await.unwrap();
    assert_ne!(harness.sandbox(&pod).await, late);
    assert_eq!(harness.status(&pod).await.sandboxes.len(), 1);
}

// behaviour: ACT-107
#[tokio::test(start_paused = true)]
async fn late_sandbox_after_its_successor_is_removed_without_a_restart() {
    let (harness, pod) = (Harness::new(), forever());
    harness.runtime.inject(name_taken(Method::RunPodSandbox).once());
    harness.synced(&pod).await;
    let running = harness.running(&pod, "main").await;
    let status = harness.status(&pod).await;
    assert_eq!(status.sandboxes[0].attempt, 1);
    let late = wanted::sandbox(&status.sandboxes[0].pod, &status.uid);
    harness.runtime.run_pod_sandbox(&late).await.unwrap();
    harness.synced(&pod).await;
    assert_eq!(harness.calls(), [Method::StopPodSandbox, Method::RemovePodSandbox]);
    let after = harness.status(&pod).await;
    assert_eq!((after.sandboxes.len(), after.sandboxes[0].state), (1, Ready));
    assert_eq!(harness.running(&pod, "main").await, running);
    assert!(!harness.sync(&pod).await.unwrap());
}

// behaviour: ACT-103, ACT-107
#[tokio::test(start_paused = true)]
async fn sandbox_creation_in_progress_does_not_block_the_pod() {
    let (harness, pod) = (Harness::new(), forever());
    let late = wanted::sandbox(&view::pod_name(&pod), &"uid-of-web".into());
    // An earlier call that was cancelled.
    let slower = harness.runtime.slower(seconds(60));
    let (late, running) = tokio::join!(slower.run_pod_sandbox(&late), async {
        tokio::time::sleep(seconds(1)).await;
        harness.synced(&pod).await;
        assert_eq!(harness.status(&pod).await.sandboxes[0].attempt, 1);
        harness.running(&pod, "main").await
    });
    assert_eq!(harness.runtime.sandboxes().len(), 2);
    harness.synced(&pod).await;
    let left = harness.runtime.sandboxes();
    assert!(left.len() == 1 && left[0].id != late.unwrap(), "{left:?}");
    assert_eq!(harness.running(&pod, "main").await, running);
    assert!(!harness.sync(&pod).await.unwrap());
}

// behaviour: ACT-102, ACT-106
#[tokio::test(start_paused = true)]
async fn container_creation_in_progress_does_not_block_the_pod() {
    let (harness, pod) = (Harness::new(), forever());
    harness.runtime.inject(Rule::on(Method::CreateContainer, Fault::error(Code::Internal)).once());
    harness.failed(&pod).await;
    let sandbox = harness.sandbox(&pod).await;
    let config = harness.runtime.sandbox_config(&sandbox).unwrap();
    let late = wanted::container(&config, "main", IMAGE, &["sleep", "forever"]);
    let slower = harness.runtime.slower(seconds(60));
    let (made, running) = tokio::join!(slower.create_container(&sandbox, &late, &config), async {
        tokio::time::sleep(seconds(1)).await;
        harness.synced(&pod).await;
        assert_eq!(harness.instances("main"), [(1, Running)]);
        harness.running(&pod, "main").await
    });
    made.unwrap();
    assert_eq!(harness.instances("main"), [(1, Running), (0, Created)]);
    harness.synced(&pod).await;
    assert_eq!(harness.instances("main"), [(1, Running)]);
    assert_eq!(harness.running(&pod, "main").await, running);
    assert!(!harness.sync(&pod).await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn name_of_an_unlisted_exited_instance_is_freed() {
    let (harness, pod) =
        (Harness::new(), web().container("main", IMAGE, ["sleep", "forever"]).build());
    harness.synced(&pod).await;
    let mut forgotten = harness.status(&pod).await;
    let id = harness.running(&pod, "main").await;
    harness.runtime.kill_container(&id, 1);
    forgotten.containers.clear();
    harness.sync_on(&pod, &forgotten).await.unwrap();
    assert_eq!(harness.instances("main"), [(0, Running)]);
    let gone = wanted::removal(Subject::Container(id));
    harness.runtime.remove_container(&gone).await.unwrap();
}
