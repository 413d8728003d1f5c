//! Orphaned pods, and a runtime that fails or is not ready.

use std::time::Duration;

use model::ports::runtime::{Code, SandboxService};
use testkit::runtime::{Fault, Method, Rule};
use testkit::wanted;

use crate::harness::Harness;

/// Takes a second to stop.
const SLOW: &str = "[trap, TERM, --exit, \"0\", --delay, 800ms]";

// behaviour: WRK-18
#[tokio::test(start_paused = true)]
async fn pod_replaced_while_stopped_starts_after_the_old_one_ended() {
    let harness = Harness::new();
    harness.write_manifest("web", "Always", SLOW);
    let agent = harness.start();
    let old = harness.one_runs("web").await;
    agent.stop().await;
    harness.write_manifest("web", "Always", "[sleep, forever]");
    let _agent = harness.start();
    let new = harness
        .until("the new one runs", |harness| {
            let running = harness.running("web");
            let runs = running.iter().any(|container| container.id == old.id);
            let begun = harness.runtime.sandboxes().iter().any(|one| one.pod_uid != old.pod_uid);
            assert!(!runs || !begun, "both exist: {running:?}");
            running.into_iter().find(|container| container.pod_uid != old.pod_uid)
        })
        .await;
    assert!(new.created_at > old.created_at);
}

// behaviour: WRK-18
#[tokio::test(start_paused = true)]
async fn replacement_waits_for_old_pod_with_temporarily_unreadable_status() {
    let harness = Harness::new();
    harness.write_manifest("web", "Always", SLOW);
    let agent = harness.start();
    let old = harness.one_runs("web").await;
    agent.stop().await;
    harness.write_manifest("web", "Always", "[sleep, forever]");
    let fault = Fault::error(Code::Unavailable);
    let rule = Rule::on(Method::ContainerStatus, fault).object(old.id.as_str()).times(3);
    harness.runtime.inject(rule);
    let _agent = harness.start();
    harness.replaced("web", &old).await;
}

// behaviour: WRK-7, WRK-20
#[tokio::test(start_paused = true)]
async fn orphaned_runtime_pod_is_terminated() {
    let harness = Harness::new();
    harness.write_manifest("web", "Always", "[sleep, forever]");
    let _agent = harness.start();
    harness.one_runs("web").await;
    let orphan =
        wanted::sandbox(&model::ids::PodName::new("default", "orphan-node"), &"orphan".into());
    harness.runtime.run_pod_sandbox(&orphan).await.unwrap();
    assert_eq!(harness.live_sandboxes(), 2);
    harness
        .until("only ours is left", |harness| (harness.live_sandboxes() == 1).then_some(()))
        .await;
    harness.one_runs("web").await;
}

// behaviour: WRK-35
#[tokio::test(start_paused = true)]
async fn new_container_of_a_finished_pod_is_killed_and_its_status_is_unchanged() {
    let harness = Harness::new();
    harness.write_manifest("job", "Never", "[exit, \"3\"]");
    let agent = harness.start();
    let ended = |harness: &Harness| {
        let ran = !harness.runtime.containers().is_empty();
        let ended = harness.live_sandboxes() == 0 && harness.pod_cgroups().is_empty();
        (ran && ended).then_some(())
    };
    harness.until("it ended", ended).await;
    tokio::time::sleep(Duration::from_secs(30)).await;
    let reported = || agent.pods().pods().remove(0).status.unwrap();
    let before = reported();
    assert_eq!(before.phase.as_deref(), Some("Failed"));
    // A call that timed out and took effect late.
    let sandbox = harness.runtime.sandboxes().remove(0);
    let mut late = harness.runtime.sandbox_config(&sandbox.id).unwrap();
    late.attempt += 1;
    harness.runtime.run_pod_sandbox(&late).await.unwrap();
    assert_eq!(harness.live_sandboxes(), 1);
    harness.until("it ended again", ended).await;
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert_eq!(reported(), before);
    assert_eq!(harness.runtime.containers().len(), 1, "nothing was started");
}

// behaviour: WRK-21
#[tokio::test(start_paused = true)]
async fn pods_are_not_synced_while_the_runtime_is_not_ready() {
    let harness = Harness::new();
    harness.write_manifest("web", "Always", "[sleep, forever]");
    let _agent = harness.start();
    let web = harness.one_runs("web").await;
    harness.runtime.set_runtime_ready(false);
    tokio::time::sleep(Duration::from_secs(31)).await;
    harness.runtime.forget_calls();
    harness.write_manifest("late", "Always", "[sleep, forever]");
    harness.runtime.kill_container(&web.id, 1);
    tokio::time::sleep(Duration::from_mins(5)).await;
    for method in [Method::RunPodSandbox, Method::CreateContainer, Method::StopContainer] {
        assert_eq!(harness.runtime.count(method), 0, "{method:?}");
    }
    harness.runtime.set_runtime_ready(true);
    harness.one_runs("late").await;
    harness.one_runs("web").await;
}

// behaviour: WRK-19
#[tokio::test(start_paused = true)]
async fn unreadable_pod_status_is_reported_until_it_can_be_read() {
    let harness = Harness::new();
    harness.write_manifest("web", "Always", "[sleep, forever]");
    harness.write_manifest("other", "Always", "[sleep, forever]");
    let _agent = harness.start();
    let web = harness.one_runs("web").await;
    harness.one_runs("other").await;
    let failed = |harness: &Harness| {
        let events = harness.events.all();
        events.into_iter().filter(|event| event.reason == "FailedSync").collect::<Vec<_>>()
    };
    assert!(failed(&harness).is_empty());
    let fault = Fault::error(Code::Unavailable);
    harness.runtime.inject(Rule::on(Method::ContainerStatus, fault).object(web.id.as_str()));
    harness.runtime.kill_container(&web.id, 1);
    // An edit of the pod triggers a sync.
    let manifest = "apiVersion: v1\nkind: Pod\nmetadata: {name: web, labels: {a: b}}\nspec: \
                    {containers: [{name: main, image: \"ferrolet.test/workload:1\", \
                    args: [sleep, forever]}]}\n";
    harness.files.write("/manifests/web.yaml", manifest);
    let reported = harness.until("it is reported", |harness| failed(harness).pop()).await;
    assert_eq!(*reported.pod.name, *"web-node");
    let message = "error determining status: rpc error: code = Unavailable desc = \
                   injected by a test";
    assert_eq!(reported.message, message);
    tokio::time::sleep(Duration::from_mins(1)).await;
    // At every retry: every 10 to 15 s.
    let count = failed(&harness).len();
    assert!((4..=9).contains(&count), "{count}");
    assert!(failed(&harness).iter().all(|event| *event == reported), "one event, repeated");
    harness.runtime.clear_faults();
    harness.one_runs("web").await;
    tokio::time::sleep(Duration::from_secs(30)).await;
    let count = failed(&harness).len();
    tokio::time::sleep(Duration::from_mins(5)).await;
    assert_eq!(failed(&harness).len(), count);
}

// behaviour: WRK-33, WRK-34
#[tokio::test(start_paused = true)]
async fn containers_are_counted_at_pod_start_and_at_their_end() {
    let harness = Harness::new();
    harness.write_manifest("web", "Always", "[sleep, forever]");
    let _agent = harness.start();
    let web = harness.one_runs("web").await;
    let line = |line: &'static str| {
        move |harness: &Harness| harness.metrics().lines().any(|found| found == line).then_some(())
    };
    let begun = "kubelet_containers_per_pod_count_count 1";
    harness.until(begun, line(begun)).await;
    assert!(!harness.metrics().contains("kubelet_terminated_containers_total{"));
    harness.runtime.kill_container(&web.id, 3);
    let ended = "kubelet_terminated_containers_total{container_type=\"container\",\
                 exit_code=\"3\",reason=\"Error\"} 1";
    harness.until(ended, line(ended)).await;
    harness.one_runs("web").await;
    tokio::time::sleep(Duration::from_mins(2)).await;
    for once in [begun, ended] {
        assert!(line(once)(&harness).is_some(), "{}", harness.metrics());
    }
}
