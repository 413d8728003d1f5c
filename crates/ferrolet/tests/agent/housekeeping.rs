//! Pods that nobody looks after, and a runtime that is not up to its work.

use std::time::Duration;

use model::ports::runtime::{Code, SandboxService};
use testkit::runtime::{Fault, Method, Rule};
use testkit::wanted;

use crate::world::World;

/// Takes a second to end when it is asked to.
const SLOW: &str = "[trap, TERM, --exit, \"0\", --delay, 800ms]";

// behaviour: WRK-18
#[tokio::test(start_paused = true)]
async fn a_pod_that_changed_while_the_agent_was_away_starts_after_its_earlier_self_has_ended() {
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
            assert!(!runs || !begun, "both are there: {running:?}");
            running.into_iter().find(|container| container.pod_uid != old.pod_uid)
        })
        .await;
    assert!(new.created_at > old.created_at);
}

// behaviour: WRK-18
#[tokio::test(start_paused = true)]
async fn the_earlier_self_of_a_pod_ends_first_even_if_its_status_cannot_be_read_for_a_while() {
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
async fn a_pod_that_appears_in_the_runtime_and_that_nobody_wants_is_ended() {
    let world = World::new();
    world.write_manifest("web", "Always", "[sleep, forever]");
    let _agent = world.start();
    world.one_runs("web").await;
    let stranger =
        wanted::sandbox(&model::ids::PodName::new("default", "stranger-node"), &"stranger".into());
    world.runtime.run_pod_sandbox(&stranger).await.unwrap();
    assert_eq!(world.live_sandboxes(), 2);
    world.until("only ours is left", |world| (world.live_sandboxes() == 1).then_some(())).await;
    world.one_runs("web").await;
}

// behaviour: WRK-35
#[tokio::test(start_paused = true)]
async fn what_appears_of_a_pod_that_has_finished_is_ended_and_changes_nothing_that_is_told() {
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
    let told = || agent.pods().pods().remove(0).status.unwrap();
    let before = told();
    assert_eq!(before.phase.as_deref(), Some("Failed"));
    // A call that was given up and took effect late.
    let sandbox = world.runtime.sandboxes().remove(0);
    let mut late = world.runtime.sandbox_config(&sandbox.id).unwrap();
    late.attempt += 1;
    world.runtime.run_pod_sandbox(&late).await.unwrap();
    assert_eq!(world.live_sandboxes(), 1);
    world.until("it ended again", ended).await;
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert_eq!(told(), before);
    assert_eq!(world.runtime.containers().len(), 1, "nothing was started");
}

// behaviour: WRK-21
#[tokio::test(start_paused = true)]
async fn while_the_runtime_says_that_it_is_not_ready_pods_are_left_as_they_are() {
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
async fn that_the_status_of_a_pod_cannot_be_read_is_told_and_told_no_more_once_it_can() {
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
    // Whoever edits the pod has it looked at.
    let manifest = "apiVersion: v1\nkind: Pod\nmetadata: {name: web, labels: {a: b}}\nspec: \
                    {containers: [{name: main, image: \"ferrolet.test/workload:1\", \
                    args: [sleep, forever]}]}\n";
    world.files.write("/manifests/web.yaml", manifest);
    let told = world.until("it is told", |world| failed(world).pop()).await;
    assert_eq!(*told.pod.name, *"web-node");
    let message = "error determining status: rpc error: code = Unavailable desc = \
                   a test asked for this";
    assert_eq!(told.message, message);
    tokio::time::sleep(Duration::from_mins(1)).await;
    // As often as it is tried: every 10 to 15 s.
    let count = failed(&world).len();
    assert!((4..=9).contains(&count), "{count}");
    assert!(failed(&world).iter().all(|event| *event == told), "one event, told again");
    world.runtime.clear_faults();
    world.one_runs("web").await;
    tokio::time::sleep(Duration::from_secs(30)).await;
    let count = failed(&world).len();
    tokio::time::sleep(Duration::from_mins(5)).await;
    assert_eq!(failed(&world).len(), count);
}

// behaviour: WRK-33, WRK-34
#[tokio::test(start_paused = true)]
async fn containers_are_counted_when_a_pod_begins_and_when_they_end() {
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
