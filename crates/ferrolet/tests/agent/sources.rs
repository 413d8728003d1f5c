//! Pods from a directory and from a URL.

use std::time::Duration;

use testkit::http::Page;

use crate::world::World;

const URL: &str = "http://pods.example/list";

fn world() -> World {
    let mut world = World::new();
    world.url = Some(URL);
    world
}

fn pods(names: &[&str]) -> Page {
    let item = |name: &&str| {
        format!(
            "- metadata: {{name: {name}}}\n  spec: {{containers: [{{name: main, \
             image: \"ferrolet.test/workload:1\", args: [sleep, forever]}}]}}\n"
        )
    };
    let items: String = names.iter().map(item).collect();
    Page::ok(format!("apiVersion: v1\nkind: PodList\nitems:\n{items}"))
}

// behaviour: SRC-41
#[tokio::test(start_paused = true)]
async fn pods_of_two_sources_run_and_a_shared_name_runs_once() {
    let world = world();
    world.write_manifest("both", "Always", "[sleep, forever]");
    world.write_manifest("mine", "Always", "[sleep, forever]");
    let agent = world.start();
    let first = world.one_runs("both").await;
    world.web.put(URL, pods(&["both", "theirs"]));
    world.one_runs("theirs").await;
    assert_eq!(world.one_runs("both").await.id, first.id);
    let refused: Vec<_> =
        world.events.all().into_iter().filter(|event| event.reason == "FailedValidation").collect();
    assert_eq!(refused.len(), 1, "{refused:?}");
    assert!(refused[0].message.contains("a pod of the source file has the same name"));
    // Once the first pod is gone, the other one is added.
    world.remove_manifest("both");
    world
        .until("the other pod of the name runs", |world| {
            let running = world.running("both");
            (running.len() == 1 && running[0].id != first.id).then_some(())
        })
        .await;
    agent.stop().await;
}

// behaviour: SRC-40, SRC-52
#[tokio::test(start_paused = true)]
async fn no_pod_is_ended_before_all_sources_are_ready() {
    let world = world();
    world.web.put(URL, pods(&["theirs"]));
    let agent = world.start();
    let first = world.one_runs("theirs").await;
    agent.stop().await;
    // The URL does not answer, and the directory is gone too: the desired pods are unknown.
    world.web.remove(URL);
    world.files.remove("/var/lib/kubelet/ferrolet/state");
    let agent = world.start();
    tokio::time::sleep(Duration::from_mins(3)).await;
    assert_eq!(world.one_runs("theirs").await.id, first.id);
    // Now they are known.
    world.web.put(URL, pods(&[]));
    world.until("the pod ends", |world| world.running("theirs").is_empty().then_some(())).await;
    agent.stop().await;
}

// behaviour: SRC-52
#[tokio::test(start_paused = true)]
async fn unavailable_url_after_a_restart_changes_no_pod() {
    let world = world();
    world.web.put(URL, pods(&["theirs"]));
    let agent = world.start();
    let first = world.one_runs("theirs").await;
    agent.stop().await;
    world.web.put(URL, Page::Silence);
    let agent = world.start();
    world.write_manifest("mine", "Always", "[sleep, forever]");
    world.one_runs("mine").await;
    tokio::time::sleep(Duration::from_mins(3)).await;
    assert_eq!(world.one_runs("theirs").await.id, first.id);
    agent.stop().await;
}
