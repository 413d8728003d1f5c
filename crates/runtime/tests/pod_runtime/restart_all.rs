//! Restarts of all containers of a pod.

use k8s_openapi::api::core::v1::{
    ContainerRestartRule, ContainerRestartRuleOnExitCodes, Lifecycle, LifecycleHandler, Pod,
    SleepAction,
};
use model::observed::ContainerState::{Created, Running};
use model::ports::runtime::{Code, ContainerService};
use runtime::SyncError;
use runtime::decide::Progress;
use testkit::runtime::{Fault, Method, Rule};
use testkit::wanted;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::harness::{Harness, IMAGE, WEB_LOGS, seconds, web};

fn starting_over() -> Pod {
    web()
        .init_container("init", IMAGE, ["exit", "0"])
        .container("asks", IMAGE, ["sleep", "forever"])
        .container("other", IMAGE, ["sleep", "forever"])
        .spec(|spec| {
            spec.containers[0].restart_policy = Some("Never".into());
            spec.containers[0].restart_policy_rules = Some(vec![ContainerRestartRule {
                action: "RestartAllContainers".into(),
                exit_codes: Some(ContainerRestartRuleOnExitCodes {
                    operator: "In".into(),
                    values: Some(vec![42]),
                }),
            }]);
        })
        .build()
}

// behaviour: ACT-56
#[tokio::test(start_paused = true)]
async fn restart_of_all_keeps_the_sandbox_and_the_logs() {
    let (harness, pod) = (Harness::new(), starting_over());
    harness.synced(&pod).await;
    harness.synced(&pod).await;
    let sandbox = harness.sandbox(&pod).await;
    for name in ["init", "asks", "other"] {
        harness.files.write(format!("{WEB_LOGS}/{name}/0.log"), "words");
    }
    harness.runtime.kill_container(&harness.running(&pod, "asks").await, 42);
    harness.set_restart_all(true);
    let progress = harness.sync_until(&pod, &CancellationToken::new()).await.unwrap();
    assert_eq!(progress, Progress::Again);
    assert_eq!(harness.runtime.containers(), []);
    let calls = [
        Method::StopContainer,
        Method::RemoveContainer,
        Method::RemoveContainer,
        Method::RemoveContainer,
    ];
    assert_eq!(harness.calls(), calls);
    harness.set_restart_all(false);
    harness.synced(&pod).await;
    harness.synced(&pod).await;
    assert_eq!(harness.sandbox(&pod).await, sandbox);
    for name in ["asks", "other"] {
        assert_eq!(harness.instances(name), [(1, Running)], "{name}");
    }
    assert_eq!(harness.files.content(format!("{WEB_LOGS}/asks/0.log")).unwrap(), b"words");
}

// behaviour: ACT-55, ACT-60
#[tokio::test(start_paused = true)]
async fn restart_of_all_kills_without_grace_and_the_runtime_gets_two_seconds() {
    let (harness, mut pod) = (Harness::new(), starting_over());
    let spec = pod.spec.as_mut().unwrap();
    spec.containers[1].args = Some(vec!["ignore".into(), "TERM".into()]);
    spec.containers[1].lifecycle = Some(Lifecycle {
        pre_stop: Some(LifecycleHandler {
            sleep: Some(SleepAction { seconds: 5 }),
            ..LifecycleHandler::default()
        }),
        ..Lifecycle::default()
    });
    harness.synced(&pod).await;
    harness.synced(&pod).await;
    harness.runtime.kill_container(&harness.running(&pod, "asks").await, 42);
    harness.set_restart_all(true);
    let begun = Instant::now();
    harness.synced(&pod).await;
    assert_eq!(begun.elapsed(), seconds(2));
    assert_eq!(harness.runtime.containers(), []);
}

#[tokio::test(start_paused = true)]
async fn failed_removal_keeps_the_trigger_of_a_restart_of_all() {
    let (harness, pod) = (Harness::new(), starting_over());
    harness.synced(&pod).await;
    harness.synced(&pod).await;
    harness.runtime.kill_container(&harness.running(&pod, "asks").await, 42);
    harness.set_restart_all(true);
    let fault = Fault::error(Code::Internal);
    harness.runtime.inject(Rule::on(Method::RemoveContainer, fault).once());
    let error = harness.sync(&pod).await.unwrap_err();
    assert!(matches!(error, SyncError::RemoveContainer { .. }), "{error}");
    assert_eq!(harness.instances("asks").len(), 1, "the trigger of the restart is still known");
    harness.synced(&pod).await;
    assert_eq!(harness.runtime.containers(), []);
}

// behaviour: ACT-29
#[tokio::test(start_paused = true)]
async fn late_container_after_a_restart_of_all_waits_for_init_containers() {
    let (harness, mut pod) = (Harness::new(), starting_over());
    let spec = pod.spec.as_mut().unwrap();
    spec.init_containers.as_mut().unwrap()[0].args = Some(vec!["sleep".into(), "forever".into()]);
    harness.synced(&pod).await;
    let init = harness.running(&pod, "init").await;
    // An earlier call takes effect.
    let status = harness.status(&pod).await;
    let config = wanted::sandbox(&status.sandboxes[0].pod, &status.uid);
    let late = wanted::container(&config, "other", IMAGE, &["sleep", "forever"]);
    harness.runtime.create_container(&status.sandboxes[0].id, &late, &config).await.unwrap();
    assert!(!harness.sync(&pod).await.unwrap(), "the init container runs");
    assert_eq!(harness.instances("other"), [(0, Created)]);
    harness.runtime.kill_container(&init, 0);
    harness.synced(&pod).await;
    for name in ["asks", "other"] {
        assert_eq!(harness.instances(name), [(0, Running)], "{name}");
    }
}
