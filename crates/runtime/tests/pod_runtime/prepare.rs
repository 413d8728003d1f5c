//! Pods that wait until the node is ready for them.

use model::wait::{Retry, Wait, WaitOn};
use runtime::Applied;
use runtime::decide::Progress;
use serde_json::json;
use testkit::runtime::{Method, RemoteImage};

use crate::world::{IMAGE, World, forever, web};

fn volumes() -> Wait {
    let on = WaitOn::Volumes(vec!["data".to_owned()]);
    Wait { on, at_latest: Retry::Failure, event: None }
}

#[tokio::test(start_paused = true)]
async fn sandbox_is_not_created_until_the_pod_is_prepared() {
    let (world, pod) = (World::new(), forever());
    world.gate.set(Some(volumes()));
    let applied = world.apply(&pod).await.unwrap();
    let Applied::NotReady { wait, acted } = applied else { panic!("{applied:?}") };
    assert_eq!((wait, acted), (volumes(), false));
    assert_eq!(world.calls(), []);
    world.gate.set(None);
    world.synced(&pod).await;
    world.running(&pod, "main").await;
}

#[tokio::test(start_paused = true)]
async fn kills_do_not_wait_for_the_preparation() {
    let (world, pod) = (World::new(), forever());
    let other = "ferrolet.test/workload:2";
    world.runtime.add_image(&RemoteImage::new(other));
    world.synced(&pod).await;
    world.gate.set(Some(volumes()));
    let changed = web().container("main", other, ["sleep", "forever"]).build();
    let applied = world.apply(&changed).await.unwrap();
    assert!(matches!(applied, Applied::NotReady { acted: true, .. }), "{applied:?}");
    assert_eq!(world.calls(), [Method::StopContainer]);
    world.gate.set(None);
    world.synced(&changed).await;
    world.running(&changed, "main").await;
}

#[tokio::test(start_paused = true)]
async fn pod_without_containers_to_start_does_not_wait() {
    let (world, pod) = (World::new(), forever());
    world.synced(&pod).await;
    world.gate.set(Some(volumes()));
    let applied = world.apply(&pod).await.unwrap();
    assert!(matches!(applied, Applied::Done(Progress::Nothing)), "{applied:?}");
}

#[tokio::test(start_paused = true)]
async fn new_sandbox_is_returned_before_containers_start() {
    let (world, pod) = (World::new(), forever());
    let applied = world.apply(&pod).await.unwrap();
    assert!(matches!(applied, Applied::SandboxReady(_)), "{applied:?}");
    assert!(world.calls().contains(&Method::RunPodSandbox), "{:?}", world.calls());
    assert!(!world.calls().contains(&Method::CreateContainer), "{:?}", world.calls());
}

// behaviour: CON-90
#[tokio::test(start_paused = true)]
async fn variable_is_read_from_a_file_of_a_volume() {
    let world = World::new();
    let source = json!({ "volumeName": "config", "path": "app.env", "key": "LEVEL" });
    let env = json!([{ "name": "LOG_LEVEL", "valueFrom": { "fileKeyRef": source } }]);
    let pod = web().container("main", IMAGE, ["sleep", "forever"]).spec(|spec| {
        spec.containers[0].env = Some(serde_json::from_value(env).unwrap());
    });
    let pod = pod.build();
    let (reasons, _) = world.failed(&pod).await;
    assert_eq!(reasons, [("main".to_owned(), "CreateContainerConfigError")]);
    assert_eq!(world.last_message("Failed"), "Error: couldn't parse env file");

    world.gate.write("config", "app.env", "LEVEL='debug'\n");
    world.synced(&pod).await;
    let container = world.running(&pod, "main").await;
    let config = world.runtime.container_config(&container).unwrap();
    assert_eq!(config.envs.0, [("LOG_LEVEL".to_owned(), "debug".to_owned())]);
}
