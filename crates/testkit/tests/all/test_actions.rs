//! Actions of tests on the runtime in memory.

use std::sync::Arc;
use std::time::Duration;

use model::observed::ContainerState;
use model::ports::runtime::{ContainerService, ImageService, RuntimeInfo, SandboxService};
use model::wanted::{ContainerConfig, NamespaceMode};
use testkit::clock::VirtualClock;
use testkit::runtime::{MemoryRuntime, RemoteImage, Script};
use testkit::wanted;
use tokio::time::Instant;

use crate::setup::{IMAGE, pod, runtime, start, start_web};

#[tokio::test(start_paused = true)]
async fn container_is_oom_killed_once() {
    let runtime = runtime();
    let (_, id) = start_web(&runtime, &["sleep", "forever"]).await;
    assert!(runtime.oom_kill(&id));
    assert!(!runtime.oom_kill(&id), "it no longer runs");
    let status = runtime.container_status(&id).await.unwrap();
    assert_eq!((status.exit_code, &*status.reason), (137, "OOMKilled"));
}

#[tokio::test(start_paused = true)]
async fn waiting_stop_returns_when_the_container_dies() {
    let runtime = runtime();
    let (_, id) = start_web(&runtime, &["ignore", "TERM"]).await;
    let begun = Instant::now();
    let (stopped, ()) = tokio::join!(runtime.stop_container(&id, Duration::from_secs(30)), async {
        tokio::time::sleep(Duration::from_secs(3)).await;
        assert!(runtime.kill_container(&id, 9));
    });
    stopped.unwrap();
    assert_eq!(begun.elapsed(), Duration::from_secs(3));
    assert_eq!(runtime.container_status(&id).await.unwrap().exit_code, 9);
}

#[tokio::test(start_paused = true)]
async fn lost_container_is_unknown_until_stopped() {
    let runtime = runtime();
    let (_, id) = start_web(&runtime, &["sleep", "forever"]).await;
    assert!(runtime.lose_container(&id));
    assert_eq!(runtime.containers()[0].state, ContainerState::Unknown);
    runtime.stop_container(&id, Duration::from_secs(30)).await.unwrap();
    let status = runtime.container_status(&id).await.unwrap();
    assert_eq!((status.state, status.exit_code), (ContainerState::Exited, 255));
}

#[tokio::test(start_paused = true)]
async fn only_host_network_pods_start_without_a_network() {
    let runtime = runtime();
    runtime.set_network_ready(false);
    assert!(runtime.status().await.unwrap().network_error().is_some());
    let mut pod = pod("web");
    runtime.run_pod_sandbox(&pod).await.unwrap_err();
    pod.network = NamespaceMode::Node;
    runtime.run_pod_sandbox(&pod).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn pull_takes_the_configured_time() {
    let runtime = runtime();
    let image = RemoteImage::new("ferrolet.test/big:1").size(5_000_000_000);
    runtime.publish(image.pull_takes(Duration::from_secs(90)));
    let begun = Instant::now();
    let id = runtime.pull_image("ferrolet.test/big:1", None, None).await.unwrap();
    assert_eq!(begun.elapsed(), Duration::from_secs(90));
    let stored = runtime.images();
    let stored = stored.iter().find(|image| image.id == id).unwrap();
    assert_eq!(stored.size, 5_000_000_000);
    runtime.unpublish("ferrolet.test/big:1");
    assert!(
        runtime.pull_image("ferrolet.test/big:1", None, None).await.unwrap_err().is_not_found()
    );
}

#[tokio::test(start_paused = true)]
async fn container_outlives_its_image() {
    let runtime = runtime();
    let (_, id) = start_web(&runtime, &["sleep", "forever"]).await;
    let image = runtime.images().remove(0);
    let subject = model::verdict::Subject::Image(image.id.clone());
    runtime.remove_image(&wanted::removal(subject)).await.unwrap();
    let status = runtime.container_status(&id).await.unwrap();
    assert_eq!(status.state, ContainerState::Running);
    assert_eq!((&*status.image, &*status.image_ref), (IMAGE, &*image.id));
}

#[tokio::test(start_paused = true)]
async fn test_can_replace_the_script_of_a_process() {
    let second = Duration::from_secs(1);
    let runtime = MemoryRuntime::new(Arc::new(VirtualClock::new()))
        .directed_by(move |container, _| Script::ends(second * container.attempt, 4));
    runtime.add_image(&RemoteImage::new(IMAGE));
    let pod = pod("web");
    let container =
        ContainerConfig { attempt: 8, ..wanted::container(&pod, "main", IMAGE, &["anything"]) };
    let (_, id) = start(&runtime, &pod, &container).await;
    tokio::time::sleep(second * 8).await;
    let status = runtime.container_status(&id).await.unwrap();
    assert_eq!((status.state, status.exit_code), (ContainerState::Exited, 4));
    let lived = status.finished_at.unwrap().duration_since(status.started_at.unwrap());
    assert_eq!(lived.as_secs(), 8);
}

#[tokio::test(start_paused = true)]
async fn ten_thousand_containers_end_on_time() {
    let runtime = runtime();
    for number in 0..10_000 {
        let pod = pod(&number.to_string());
        let time = format!("{}s", 1 + number % 10);
        let container = wanted::container(&pod, "main", IMAGE, &["sleep", &time]);
        start(&runtime, &pod, &container).await;
    }
    tokio::time::sleep(Duration::from_secs(5)).await;
    let containers = runtime.containers();
    let running = containers.iter().filter(|one| one.state == ContainerState::Running);
    assert_eq!(running.count(), 5_000);
}
