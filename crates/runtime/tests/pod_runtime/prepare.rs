//! Pods that wait until the node is ready for them.

use model::wait::{Retry, Wait, WaitOn};
use runtime::Applied;
use runtime::decide::Progress;
use testkit::runtime::{Method, RemoteImage};

use crate::world::{World, forever, web};

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
async fn pod_of_which_nothing_starts_does_not_wait() {
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
