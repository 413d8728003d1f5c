//! Pods from a directory and from a URL.

use std::time::Duration;

use testkit::http::Page;

use crate::harness::Harness;

const URL: &str = "http://pods.example/list";

fn harness() -> Harness {
    let mut harness = Harness::new();
    harness.url = Some(URL);
    harness
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
    let harness = harness();
    harness.write_manifest("both", "Always", "[sleep, forever]");
    harness.write_manifest("mine", "Always", "[sleep, forever]");
    let agent = harness.start();
    let first = harness.one_runs("both").await;
    harness.web.put(URL, pods(&["both", "theirs"]));
    harness.one_runs("theirs").await;
    assert_eq!(harness.one_runs("both").await.id, first.id);
    let refused: Vec<_> = harness
        .events
        .all()
        .into_iter()
        .filter(|event| event.reason == "FailedValidation")
        .collect();
    assert_eq!(refused.len(), 1, "{refused:?}");
    assert!(refused[0].message.contains("a pod of the source file has the same name"));
    // Once the first pod is gone, the other one is added.
    harness.remove_manifest("both");
    harness
        .until("the other pod of the name runs", |harness| {
            let running = harness.running("both");
            (running.len() == 1 && running[0].id != first.id).then_some(())
        })
        .await;
    agent.stop().await;
}

// behaviour: SRC-40, SRC-52
#[tokio::test(start_paused = true)]
async fn no_pod_is_ended_before_all_sources_are_ready() {
    let harness = harness();
    harness.web.put(URL, pods(&["theirs"]));
    let agent = harness.start();
    let first = harness.one_runs("theirs").await;
    agent.stop().await;
    // The URL does not answer, and the directory is gone too: the desired pods are unknown.
    harness.web.remove(URL);
    harness.files.remove("/var/lib/kubelet/ferrolet/state");
    let agent = harness.start();
    tokio::time::sleep(Duration::from_mins(3)).await;
    assert_eq!(harness.one_runs("theirs").await.id, first.id);
    // Now they are known.
    harness.web.put(URL, pods(&[]));
    harness
        .until("the pod ends", |harness| harness.running("theirs").is_empty().then_some(()))
        .await;
    agent.stop().await;
}

// behaviour: SRC-52
#[tokio::test(start_paused = true)]
async fn unavailable_url_after_a_restart_changes_no_pod() {
    let harness = harness();
    harness.web.put(URL, pods(&["theirs"]));
    let agent = harness.start();
    let first = harness.one_runs("theirs").await;
    agent.stop().await;
    harness.web.put(URL, Page::Silence);
    let agent = harness.start();
    harness.write_manifest("mine", "Always", "[sleep, forever]");
    harness.one_runs("mine").await;
    tokio::time::sleep(Duration::from_mins(3)).await;
    assert_eq!(harness.one_runs("theirs").await.id, first.id);
    agent.stop().await;
}
