//! Preparation of pods on the node.

use model::wait::{Retry, Wait, WaitOn};
use runtime::Applied;
use runtime::decide::Progress;
use serde_json::json;
use testkit::runtime::{Method, RemoteImage};

use crate::harness::{Harness, IMAGE, forever, web};

fn volumes() -> Wait {
    let on = WaitOn::Volumes(vec!["data".to_owned()]);
    Wait { on, at_latest: Retry::Failure, event: None }
}

#[tokio::test(start_paused = true)]
async fn sandbox_is_not_created_until_the_pod_is_prepared() {
    let (harness, pod) = (Harness::new(), forever());
    harness.gate.set(Some(volumes()));
    let applied = harness.apply(&pod).await.unwrap();
    let Applied::NotReady { wait, acted } = applied else { panic!("{applied:?}") };
    assert_eq!((wait, acted), (volumes(), false));
    assert_eq!(harness.calls(), []);
    harness.gate.set(None);
    harness.synced(&pod).await;
    harness.running(&pod, "main").await;
}

#[tokio::test(start_paused = true)]
async fn kills_do_not_wait_for_the_preparation() {
    let (harness, pod) = (Harness::new(), forever());
    let other = "ferrolet.test/workload:2";
    harness.runtime.add_image(&RemoteImage::new(other));
    harness.synced(&pod).await;
    harness.gate.set(Some(volumes()));
    let changed = web().container("main", other, ["sleep", "forever"]).build();
    let applied = harness.apply(&changed).await.unwrap();
    assert!(matches!(applied, Applied::NotReady { acted: true, .. }), "{applied:?}");
    assert_eq!(harness.calls(), [Method::StopContainer]);
    harness.gate.set(None);
    harness.synced(&changed).await;
    harness.running(&changed, "main").await;
}

#[tokio::test(start_paused = true)]
async fn pod_without_containers_to_start_does_not_wait() {
    let (harness, pod) = (Harness::new(), forever());
    harness.synced(&pod).await;
    harness.gate.set(Some(volumes()));
    let applied = harness.apply(&pod).await.unwrap();
    assert!(matches!(applied, Applied::Done(Progress::Nothing)), "{applied:?}");
}

#[tokio::test(start_paused = true)]
async fn new_sandbox_is_returned_before_containers_start() {
    let (harness, pod) = (Harness::new(), forever());
    let applied = harness.apply(&pod).await.unwrap();
    assert!(matches!(applied, Applied::SandboxReady(_)), "{applied:?}");
    assert!(harness.calls().contains(&Method::RunPodSandbox), "{:?}", harness.calls());
    assert!(!harness.calls().contains(&Method::CreateContainer), "{:?}", harness.calls());
}

// behaviour: CON-90
#[tokio::test(start_paused = true)]
async fn variable_is_read_from_a_file_of_a_volume() {
    let harness = Harness::new();
    let source = json!({ "volumeName": "config", "path": "app.env", "key": "LEVEL" });
    let env = json!([{ "name": "LOG_LEVEL", "valueFrom": { "fileKeyRef": source } }]);
    let pod = web().container("main", IMAGE, ["sleep", "forever"]).spec(|spec| {
        spec.containers[0].env = Some(serde_json::from_value(env).unwrap());
    });
    let pod = pod.build();
    let (reasons, _) = harness.failed(&pod).await;
    assert_eq!(reasons, [("main".to_owned(), "CreateContainerConfigError")]);
    assert_eq!(harness.last_message("Failed"), "Error: couldn't parse env file");

    harness.gate.write("config", "app.env", "LEVEL='debug'\n");
    harness.synced(&pod).await;
    let container = harness.running(&pod, "main").await;
    let config = harness.runtime.container_config(&container).unwrap();
    assert_eq!(config.envs.0, [("LOG_LEVEL".to_owned(), "debug".to_owned())]);
}
