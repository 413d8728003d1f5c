//! Orphaned pods, and a runtime that fails or is not ready.

use std::time::Duration;

use model::ports::runtime::{Code, SandboxService};
use testkit::runtime::{Fault, Method, Rule};
use testkit::wanted;

use crate::world::World;

/// Takes a second to stop.
const SLOW: &str = "[trap, TERM, --exit, \"0\", --delay, 800ms]";

// behaviour: WRK-18
#[tokio::test(start_paused = true)]
async fn pod_replaced_while_stopped_starts_after_the_old_one_ended() {
    let world = World::new();
    world.write_manifest("web", "Always", SLOW);
    let agent = world.start();
    let old = world.one_runs("web").await;
    agent.stop().await;
    world.write_manifest("web", "Always", "[sleep, forever]");
    let _agent = world.start();
    let new = world
        .until("the new one runs", |world| {
            let running = world.running("web");
            let runs = running.iter().any(|container| container.id == old.id);
            let begun = world.runtime.sandboxes().iter().any(|one| one.pod_uid != old.pod_uid);
            assert!(!runs || !begun, "both exist: {running:?}");
            running.into_iter().find(|container| container.pod_uid != old.pod_uid)
        })
        .await;
    assert!(new.created_at > old.created_at);
}

// behaviour: WRK-18
#[tokio::test(start_paused = true)]
async fn replaced_pod_ends_first_also_when_its_status_is_unreadable_at_first() {
    let world = World::new();
    world.write_manifest("web", "Always", SLOW);
    let agent = world.start();
    let old = world.one_runs("web").await;
    agent.stop().await;
    world.write_manifest("web", "Always", "[sleep, forever]");
    let fault = Fault::error(Code::Unavailable);
    let rule = Rule::on(Method::ContainerStatus, fault).object(old.id.as_str()).times(3);
    world.runtime.inject(rule);
    let _agent = world.start();
    world.replaced("web", &old).await;
}

// behaviour: WRK-7, WRK-20
#[tokio::test(start_paused = true)]
async fn orphaned_runtime_pod_is_terminated() {
    let world = World::new();
    world.write_manifest("web", "Always", "[sleep, forever]");
    let _agent = world.start();
    world.one_runs("web").await;
    let orphan =
        wanted::sandbox(&model::ids::PodName::new("default", "orphan-node"), &"orphan".into());
    world.runtime.run_pod_sandbox(&orphan).await.unwrap();
    assert_eq!(world.live_sandboxes(), 2);
    world.until("only ours is left", |world| (world.live_sandboxes() == 1).then_some(())).await;
    world.one_runs("web").await;
}

// behaviour: WRK-35
#[tokio::test(start_paused = true)]
async fn new_container_of_a_finished_pod_is_killed_and_its_status_is_unchanged() {
    let world = World::new();
    world.write_manifest("job", "Never", "[exit, \"3\"]");
    let agent = world.start();
    let ended = |world: &World| {
        let ran = !world.runtime.containers().is_empty();
        let ended = world.live_sandboxes() == 0 && world.pod_cgroups().is_empty();
        (ran && ended).then_some(())
    };
    world.until("it ended", ended).await;
    tokio::time::sleep(Duration::from_secs(30)).await;
    let reported = || agent.pods().pods().remove(0).status.unwrap();
    let before = reported();
    assert_eq!(before.phase.as_deref(), Some("Failed"));
    // A call that timed out and took effect late.
    let sandbox = world.runtime.sandboxes().remove(0);
    let mut late = world.runtime.sandbox_config(&sandbox.id).unwrap();
    late.attempt += 1;
    world.runtime.run_pod_sandbox(&late).await.unwrap();
    assert_eq!(world.live_sandboxes(), 1);
    world.until("it ended again", ended).await;
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert_eq!(reported(), before);
    assert_eq!(world.runtime.containers().len(), 1, "nothing was started");
}

// behaviour: WRK-21
#[tokio::test(start_paused = true)]
async fn pods_are_left_alone_while_the_runtime_is_not_ready() {
    let world = World::new();
    world.write_manifest("web", "Always", "[sleep, forever]");
    let _agent = world.start();
    let web = world.one_runs("web").await;
    world.runtime.set_runtime_ready(false);
    tokio::time::sleep(Duration::from_secs(31)).await;
    world.runtime.forget_calls();
    world.write_manifest("late", "Always", "[sleep, forever]");
    world.runtime.kill_container(&web.id, 1);
    tokio::time::sleep(Duration::from_mins(5)).await;
    for method in [Method::RunPodSandbox, Method::CreateContainer, Method::StopContainer] {
        assert_eq!(world.runtime.count(method), 0, "{method:?}");
    }
    world.runtime.set_runtime_ready(true);
    world.one_runs("late").await;
    world.one_runs("web").await;
}

// behaviour: WRK-19
#[tokio::test(start_paused = true)]
async fn unreadable_pod_status_is_reported_until_it_can_be_read() {
    let world = World::new();
    world.write_manifest("web", "Always", "[sleep, forever]");
    world.write_manifest("other", "Always", "[sleep, forever]");
    let _agent = world.start();
    let web = world.one_runs("web").await;
    world.one_runs("other").await;
    let failed = |world: &World| {
        let events = world.events.all();
        events.into_iter().filter(|event| event.reason == "FailedSync").collect::<Vec<_>>()
    };
    assert!(failed(&world).is_empty());
    let fault = Fault::error(Code::Unavailable);
    world.runtime.inject(Rule::on(Method::ContainerStatus, fault).object(web.id.as_str()));
    world.runtime.kill_container(&web.id, 1);
    // An edit of the pod triggers a sync.
    let manifest = "apiVersion: v1\nkind: Pod\nmetadata: {name: web, labels: {a: b}}\nspec: \
                    {containers: [{name: main, image: \"ferrolet.test/workload:1\", \
                    args: [sleep, forever]}]}\n";
    world.files.write("/manifests/web.yaml", manifest);
    let reported = world.until("it is reported", |world| failed(world).pop()).await;
    assert_eq!(*reported.pod.name, *"web-node");
    let message = "error determining status: rpc error: code = Unavailable desc = \
                   a test asked for this";
    assert_eq!(reported.message, message);
    tokio::time::sleep(Duration::from_mins(1)).await;
    // At every retry: every 10 to 15 s.
    let count = failed(&world).len();
    assert!((4..=9).contains(&count), "{count}");
    assert!(failed(&world).iter().all(|event| *event == reported), "one event, repeated");
    world.runtime.clear_faults();
    world.one_runs("web").await;
    tokio::time::sleep(Duration::from_secs(30)).await;
    let count = failed(&world).len();
    tokio::time::sleep(Duration::from_mins(5)).await;
    assert_eq!(failed(&world).len(), count);
}

// behaviour: WRK-33, WRK-34
#[tokio::test(start_paused = true)]
async fn containers_are_counted_at_pod_start_and_at_their_end() {
    let world = World::new();
    world.write_manifest("web", "Always", "[sleep, forever]");
    let _agent = world.start();
    let web = world.one_runs("web").await;
    let line = |line: &'static str| {
        move |world: &World| world.metrics().lines().any(|found| found == line).then_some(())
    };
    let begun = "kubelet_containers_per_pod_count_count 1";
    world.until(begun, line(begun)).await;
    assert!(!world.metrics().contains("kubelet_terminated_containers_total{"));
    world.runtime.kill_container(&web.id, 3);
    let ended = "kubelet_terminated_containers_total{container_type=\"container\",\
                 exit_code=\"3\",reason=\"Error\"} 1";
    world.until(ended, line(ended)).await;
    world.one_runs("web").await;
    tokio::time::sleep(Duration::from_mins(2)).await;
    for once in [begun, ended] {
        assert!(line(once)(&world).is_some(), "{}", world.metrics());
    }
}
