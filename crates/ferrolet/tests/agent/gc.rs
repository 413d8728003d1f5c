//! Garbage collection of pods, containers and logs.

use std::io::ErrorKind;
use std::time::Duration;

use futures_util::StreamExt as _;
use gc::decide::images::Policy;
use gc::plan::{Fate, Item};
use gc::policy::ContainerPolicy;
use journal::{Query, find};
use model::ids::{PodName, SandboxId};
use model::observed::{Container, ContainerState};
use model::ports::files::HostFiles as _;
use model::ports::runtime::{Code, ContainerService, Image, SandboxService};
use model::verdict::Subject;
use server::wire::GcLine;
use testkit::http::Page;
use testkit::pods::pod;
use testkit::runtime::{Fault, Method, RemoteImage, Rule};
use testkit::wanted;

use crate::harness::Harness;

/// Writes the log of a container as a runtime on a disk would, and returns its directory.
fn write_log(harness: &Harness, container: &Container) -> String {
    let Container { pod, pod_uid, name, attempt, .. } = container;
    let directory = format!("/var/log/pods/{}_{}_{pod_uid}", pod.namespace, pod.name);
    harness.files.write(format!("{directory}/{name}/{attempt}.log"), "hello\n");
    directory
}

/// Leftovers of a pod without a worker: dead containers in a dead sandbox.
async fn leftovers(harness: &Harness, pod: &str, instances: u32) -> SandboxId {
    let config = wanted::sandbox(&PodName::new("default", pod), &format!("uid-{pod}").into());
    let sandbox = harness.runtime.run_pod_sandbox(&config).await.expect("a sandbox");
    for attempt in 0..instances {
        let image = "ferrolet.test/workload:1";
        let mut container = wanted::container(&config, "main", image, &["exit", "1"]);
        container.attempt = attempt;
        let id = harness
            .runtime
            .create_container(&sandbox, &container, &config)
            .await
            .expect("a container");
        harness.runtime.start_container(&id).await.expect("it starts");
    }
    harness.runtime.stop_pod_sandbox(&sandbox).await.expect("it stops");
    harness.files.write(format!("/var/log/pods/default_{pod}_uid-{pod}/main/0.log"), "hello\n");
    sandbox
}

fn instances(harness: &Harness, pod: &str) -> usize {
    harness.runtime.containers().iter().filter(|one| *one.pod.name == *pod).count()
}

// behaviour: GC-105
#[tokio::test(start_paused = true)]
async fn gc_plan_fails_within_seconds_when_the_runtime_hangs() {
    let harness = Harness::new();
    let agent = harness.start();
    let end_faults = agent.collector().plan().await;
    assert!(end_faults.problems.is_empty(), "{:?}", end_faults.problems);
    for method in [Method::Version, Method::ListContainers, Method::ListImages] {
        harness.runtime.inject(Rule::on(method, Fault::hang()));
    }
    let requested = tokio::time::Instant::now();
    let plan = agent.collector().plan().await;
    assert!(requested.elapsed() <= Duration::from_secs(10), "{:?}", requested.elapsed());
    let silent = "the container runtime does not answer: requested its version 5s ago";
    assert_eq!((plan.items.len(), &plan.problems[..]), (0, &[silent.to_owned()][..]));
}

// behaviour: GC-4, GC-76
#[tokio::test(start_paused = true)]
async fn pod_without_manifest_is_removed_within_seconds() {
    let harness = Harness::new();
    harness.write_manifest("web", "Always", "[sleep, forever]");
    harness.write_manifest("other", "Always", "[sleep, forever]");
    let _agent = harness.start();
    let web = harness.one_runs("web").await;
    let other = harness.one_runs("other").await;
    let (logs, others) = (write_log(&harness, &web), write_log(&harness, &other));
    harness.remove_manifest("web");
    harness.until("it ended", |harness| harness.running("web").is_empty().then_some(())).await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(instances(&harness, "web-node"), 0);
    assert_eq!(harness.runtime.sandboxes().len(), 1);
    assert!(harness.files.look(logs.as_ref()).await.is_err());
    assert!(harness.files.look(others.as_ref()).await.is_ok());
    assert_eq!(harness.one_runs("other").await.id, other.id);
}

// behaviour: GC-3
#[tokio::test(start_paused = true)]
async fn finished_pod_keeps_its_last_container_and_logs() {
    let harness = Harness::new();
    harness.write_manifest("job", "OnFailure", "[exit, \"0\"]");
    let agent = harness.start();
    let done = harness
        .until("it ran", |harness| {
            harness.runtime.containers().into_iter().find(|one| *one.pod.name == *"job-node")
        })
        .await;
    let logs = write_log(&harness, &done);
    tokio::time::sleep(Duration::from_mins(20)).await;
    agent.stop().await;
    let _agent = harness.start();
    tokio::time::sleep(Duration::from_mins(20)).await;
    assert_eq!(instances(&harness, "job-node"), 1);
    assert_eq!(harness.runtime.sandboxes().len(), 1);
    assert!(harness.files.look(logs.as_ref()).await.is_ok());
    harness.remove_manifest("job");
    harness
        .until("nothing is left", |harness| harness.runtime.sandboxes().is_empty().then_some(()))
        .await;
    harness
        .until("its logs are removed too", |harness| {
            harness.files.content(format!("{logs}/main/0.log")).is_none().then_some(())
        })
        .await;
}

// behaviour: GC-5, GC-24, GC-48
#[tokio::test(start_paused = true)]
async fn gc_waits_until_all_sources_are_ready() {
    let mut harness = Harness::new();
    harness.url = Some("http://manifests.test/");
    leftovers(&harness, "late", 4).await;
    harness.write_manifest("web", "Always", "[sleep, forever]");
    let _agent = harness.start();
    harness.one_runs("web").await;
    tokio::time::sleep(Duration::from_mins(10)).await;
    assert_eq!(instances(&harness, "late"), 4);
    assert_eq!(harness.runtime.count(Method::RemoveContainer), 0);
    assert!(harness.files.look("/var/log/pods/default_late_uid-late".as_ref()).await.is_ok());
    let none = Page::ok("apiVersion: v1\nkind: PodList\nitems: []\n");
    harness.web.put("http://manifests.test/", none);
    harness
        .until("its deletion is known", |harness| (instances(harness, "late") == 0).then_some(()))
        .await;
    harness
        .until("its sandbox too", |harness| (harness.runtime.sandboxes().len() == 1).then_some(()))
        .await;
}

// behaviour: GC-14
#[tokio::test(start_paused = true)]
async fn restarting_container_keeps_dead_instances_up_to_the_cap() {
    let mut harness = Harness::new();
    harness.container_gc = ContainerPolicy { per_container: Some(2), ..ContainerPolicy::default() };
    harness.write_manifest("web", "Always", "[sleep, forever]");
    let _agent = harness.start();
    for _ in 0..4 {
        let web = harness.one_runs("web").await;
        harness.runtime.kill_container(&web.id, 1);
        harness
            .until("the next one", |harness| {
                let running = harness.running("web");
                running.iter().any(|one| one.id != web.id).then_some(())
            })
            .await;
    }
    tokio::time::sleep(Duration::from_secs(5)).await;
    let mut attempts: Vec<u32> =
        harness.runtime.containers().iter().map(|container| container.attempt).collect();
    attempts.sort_unstable();
    assert_eq!(attempts, [2, 3, 4]);
}

// behaviour: GC-108, GC-109
#[tokio::test(start_paused = true)]
async fn containers_of_finished_pods_beyond_the_cap_are_removed_within_seconds() {
    let of_node = ContainerPolicy { in_all: Some(1), ..ContainerPolicy::default() };
    let of_each = ContainerPolicy { per_container: Some(0), ..ContainerPolicy::default() };
    for (policy, stay) in [(of_node, 1), (of_each, 0)] {
        let mut harness = Harness::new();
        harness.container_gc = policy;
        let agent = harness.start();
        tokio::time::sleep(Duration::from_secs(70)).await;
        for job in ["a", "b", "c"] {
            harness.write_manifest(job, "OnFailure", "[exit, \"0\"]");
        }
        let started = |harness: &Harness| harness.runtime.count(Method::StartContainer);
        harness.until("all ran", |harness| (started(harness) == 3).then_some(())).await;
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert_eq!(harness.runtime.containers().len(), stay, "{policy:?}");
        tokio::time::sleep(Duration::from_mins(10)).await;
        assert_eq!(started(&harness), 3, "{policy:?}");
        agent.stop().await;
    }
}

// behaviour: GC-81
#[tokio::test(start_paused = true)]
async fn gc_plan_matches_the_next_pass() {
    let mut harness = Harness::new();
    // Nothing is removed until a day has passed.
    harness.container_gc =
        ContainerPolicy { min_age: Duration::from_hours(24), ..ContainerPolicy::default() };
    harness.write_manifest("web", "Always", "[sleep, forever]");
    leftovers(&harness, "old", 3).await;
    let agent = harness.start();
    harness.one_runs("web").await;
    tokio::time::sleep(Duration::from_hours(24)).await;
    let (gc, methods) = (agent.container_gc(), [Method::RemoveContainer, Method::RemovePodSandbox]);
    harness
        .until("they are old enough", |harness| (instances(harness, "old") == 0).then_some(()))
        .await;
    leftovers(&harness, "new", 2).await;
    harness.runtime.forget_calls();
    let planned = gc.plan().await;
    assert!(planned.problems.is_empty());
    let rules: Vec<_> = planned.plan.items.iter().map(|item| item.rule).collect();
    assert_eq!(rules.iter().filter(|rule| **rule == "too-young").count(), 2, "{rules:?}");
    let goes = |item: &&Item| item.fate == Fate::Remove;
    let logs: Vec<Item> = planned.plan.items.iter().filter(goes).cloned().collect();
    assert!(matches!(&logs[..], [Item { subject: Subject::PodLogs(_), .. }]), "{logs:?}");
    assert!(methods.iter().all(|method| harness.runtime.count(*method) == 0));
    let mut pass = gc.run_now().await;
    let done = pass.steps.recv().await.unwrap();
    assert_eq!((done.verdict.subject, done.outcome), (logs[0].subject.clone(), Ok(())));
    let report = pass.report.await.unwrap();
    assert_eq!((report.removed(), report.failed()), (1, 0));
}

// behaviour: GC-77, GC-80
#[tokio::test(start_paused = true)]
async fn failed_removal_blocks_no_other_and_failed_list_is_reported() {
    let harness = Harness::new();
    harness.write_manifest("web", "Always", "[sleep, forever]");
    let agent = harness.start();
    harness.one_runs("web").await;
    let kept = leftovers(&harness, "kept", 1).await;
    leftovers(&harness, "goes", 1).await;
    let stuck =
        harness.runtime.containers().into_iter().find(|one| one.sandbox_id == kept).unwrap();
    let fault = Fault::error(Code::Internal);
    harness.runtime.inject(Rule::on(Method::RemoveContainer, fault).object(stuck.id.as_str()));
    harness
        .until("the other is removed", |harness| (instances(harness, "goes") == 0).then_some(()))
        .await;
    harness
        .until("with its sandbox", |harness| (harness.runtime.sandboxes().len() == 2).then_some(()))
        .await;
    assert_eq!(harness.node_warnings(), [""; 0]);
    let rule = Rule::on(Method::ListContainers, Fault::error(Code::ResourceExhausted));
    harness.runtime.inject(rule);
    let report = agent.container_gc().run_now().await.report.await.unwrap();
    assert_eq!(report.problems.len(), 2, "{report:?}");
    assert_eq!(harness.node_warnings(), ["ContainerGCFailed"]);
    harness.runtime.clear_faults();
    harness
        .until("it is removed at last", |harness| (instances(harness, "kept") == 0).then_some(()))
        .await;
}

// behaviour: GC-83, PLEG-53
#[tokio::test(start_paused = true)]
async fn gc_works_when_the_runtime_list_exceeds_the_message_limit() {
    let harness = Harness::new();
    for pod in 0..6 {
        leftovers(&harness, &format!("old-{pod}"), 8).await;
    }
    // A list can have the containers of one pod, but not of two.
    harness.runtime.set_longest_list(8);
    harness.write_manifest("web", "Always", "[sleep, forever]");
    let agent = harness.start();
    let web = harness.one_runs("web").await;
    let sandboxes = |harness: &Harness| harness.runtime.sandboxes().len();
    harness
        .until("the leftovers are removed", |harness| (sandboxes(harness) == 1).then_some(()))
        .await;
    assert_eq!(harness.runtime.containers(), std::slice::from_ref(&web));
    assert!(harness.files.look("/var/log/pods/default_old-0_uid-old-0".as_ref()).await.is_err());
    assert_eq!(harness.node_warnings(), [""; 0]);
    agent.stop().await;
}

// behaviour: GC-75
#[tokio::test(start_paused = true)]
async fn pods_removed_while_stopped_are_collected_within_seconds_of_start() {
    let harness = Harness::new();
    harness.write_manifest("web", "Always", "[sleep, forever]");
    leftovers(&harness, "old", 3).await;
    let _agent = harness.start();
    harness.one_runs("web").await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(instances(&harness, "old"), 0);
    assert_eq!(harness.runtime.sandboxes().len(), 1);
    assert!(harness.files.look("/var/log/pods/default_old_uid-old".as_ref()).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn requested_gc_pass_completes_without_a_reader() {
    let harness = Harness::new();
    harness.write_manifest("web", "Always", "[sleep, forever]");
    let agent = harness.start();
    harness.one_runs("web").await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    harness.runtime.forget_calls();
    drop(agent.collector().run().await);
    // Images come first; then containers.
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert!(harness.runtime.count(Method::ListImages) > 0, "{:?}", harness.runtime.calls());
    assert!(harness.runtime.count(Method::ListContainers) > 0, "{:?}", harness.runtime.calls());
}

#[tokio::test(start_paused = true)]
async fn slow_reader_of_a_gc_pass_gets_the_complete_summary() {
    const EACH: u64 = 1300;
    let mut harness = Harness::new();
    harness.images.policy = Policy {
        maximum_age: Duration::from_mins(3),
        minimum_age: Duration::ZERO,
        ..<_>::default()
    };
    for number in 0..EACH {
        let name = format!("ferrolet.test/unused:{number}");
        harness.runtime.add_image(&RemoteImage::new(&name));
    }
    harness.write_manifest("web", "Always", "[sleep, forever]");
    let agent = harness.start();
    harness.one_runs("web").await;
    tokio::time::sleep(Duration::from_secs(200)).await;
    for number in 0..EACH {
        harness.files.write(format!("/var/log/pods/ns_stray_{number}/main/0.log"), "x");
    }
    leftovers(&harness, "stuck", 0).await;
    harness.files.remove("/var/log/pods/default_stuck_uid-stuck");
    harness.runtime.inject(Rule::on(Method::RemovePodSandbox, Fault::error(Code::Internal)));
    let mut lines = agent.collector().run().await;
    tokio::time::sleep(Duration::from_mins(1)).await;
    let (mut reported, mut done) = (0, None);
    while let Some(line) = lines.next().await {
        match line {
            GcLine::Done(last) => done = Some(last),
            _ => reported += 1,
        }
    }
    let done = done.expect("the pass has a result");
    assert!(reported < EACH, "{reported}");
    assert_eq!(done.left_out, 2 * EACH + 1 - reported);
    let removed = [("image".to_owned(), EACH), ("log".to_owned(), EACH)].into();
    assert_eq!((done.removed, done.failed), (removed, [("sandbox".to_owned(), 1)].into()));
    assert_eq!(done.problems, [""; 0]);
}

// behaviour: GC-29
#[tokio::test(start_paused = true)]
async fn container_without_a_pod_is_removed_only_after_it_ended() {
    let harness = Harness::new();
    harness.write_manifest("web", "Always", "[sleep, forever]");
    let agent = harness.start();
    let web = harness.one_runs("web").await;
    let config = wanted::sandbox(&web.pod, &web.pod_uid);
    let mut bare =
        wanted::container(&config, "bare", "ferrolet.test/workload:1", &["sleep", "forever"]);
    bare.labels.clear();
    let mut podless = Vec::new();
    for attempt in 0..2 {
        bare.attempt = attempt;
        let made = harness.runtime.create_container(&web.sandbox_id, &bare, &config).await;
        let id = made.expect("a container");
        harness.runtime.start_container(&id).await.expect("it starts");
        podless.push(id);
    }
    tokio::time::sleep(Duration::from_mins(20)).await;
    agent.stop().await;
    let _agent = harness.start();
    tokio::time::sleep(Duration::from_mins(20)).await;
    assert_eq!(harness.runtime.count(Method::StopContainer), 0, "{:?}", harness.runtime.calls());
    assert_eq!(harness.runtime.containers().len(), 3);
    harness.runtime.kill_container(&podless[0], 1);
    harness
        .until("the dead one is removed", |harness| {
            (harness.runtime.containers().len() == 2).then_some(())
        })
        .await;
    let left: Vec<_> = harness.runtime.containers().into_iter().map(|one| one.id).collect();
    assert!(left.contains(&podless[1]) && left.contains(&web.id), "{left:?}");
    assert_eq!(harness.one_runs("web").await.id, web.id);
    let found = find(&harness.journal, &Query::new(podless[0].as_str()), 10).expect("memory");
    let entries: Vec<_> = found.entries.iter().filter(|one| one.kind == "container").collect();
    assert_eq!(entries.len(), 1, "{entries:?}");
    assert_eq!((entries[0].rule.as_str(), &entries[0].pod_uid), ("pod-is-gone", &None));
}

// behaviour: GC-7, GC-76
#[tokio::test(start_paused = true)]
async fn evicted_pod_is_removed_within_seconds() {
    let (harness, api) = Harness::in_cluster();
    let reasons = [("evicted", "Evicted"), ("failed", "NodeLost")];
    for (name, _) in reasons {
        let sleeps = pod(name).on_node("node").restart_policy("Always").grace(1);
        let image = "ferrolet.test/workload:1";
        api.make(sleeps.container("main", image, ["sleep", "forever"]).build());
    }
    let _agent = harness.start();
    let mut logs = Vec::new();
    for (name, reason) in reasons {
        let of_pod = |harness: &Harness| {
            let mut all = harness.runtime.containers().into_iter();
            all.find(|one| *one.pod.name == *name && one.state == ContainerState::Running)
        };
        logs.push(write_log(&harness, &harness.until("it runs", of_pod).await));
        api.update(&PodName::new("default", name), |pod| {
            let status = pod.status.get_or_insert_default();
            status.phase = Some("Failed".to_owned());
            status.reason = Some(reason.to_owned());
        });
    }
    let lives = |harness: &Harness| {
        let all = harness.runtime.containers();
        all.iter().any(|one| one.state == ContainerState::Running)
    };
    harness.until("both ended", |harness| (!lives(harness)).then_some(())).await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(instances(&harness, "evicted"), 0);
    assert!(harness.files.look(logs[0].as_ref()).await.is_err());
    tokio::time::sleep(Duration::from_mins(3)).await;
    assert_eq!(instances(&harness, "failed"), 1, "its exit can still be read");
    assert!(harness.files.look(logs[1].as_ref()).await.is_ok());
}

// behaviour: GC-77, IMG-18, IMG-19, IMG-31, IMG-54, EVT-10
#[tokio::test(start_paused = true)]
async fn gc_failures_are_node_events() {
    let (harness, _api) = Harness::in_cluster();
    harness.write_manifest("web", "Always", "[sleep, forever]");
    let agent = harness.start();
    harness.one_runs("web").await;
    harness.files.fail("/var/log/pods", ErrorKind::PermissionDenied);
    agent.container_gc().run_now().await.report.await.unwrap();
    harness.files.repair("/var/log/pods");
    // First the capacity is 0, then it is too small; the only image is in use.
    for capacity in [0, 1000] {
        // The name of an event has its object and its time.
        tokio::time::sleep(Duration::from_secs(1)).await;
        harness.disk.set_capacity(capacity);
        agent.image_gc().run_now().await;
    }
    harness
        .runtime
        .list_additional(Image { id: String::new(), ..harness.runtime.images().remove(0) });
    // Two regular passes fail.
    tokio::time::sleep(Duration::from_mins(11)).await;
    for (reason, part) in [
        ("ContainerGCFailed", "failed to read podLogsDirectory"),
        ("InvalidDiskCapacity", "invalid capacity 0"),
        ("FreeDiskSpaceFailed", "100% of 1000 B used"),
        ("InvalidImageID", "ImageID is not valid"),
        ("ImageGCFailed", "100% of 1000 B used"),
    ] {
        let of_reason = |harness: &Harness| {
            let mut all = harness.rest.events().into_iter();
            all.find(|event| event.reason == reason)
        };
        let event = harness.until(reason, of_reason).await;
        assert!(event.is_warning && event.message.contains(part), "{event:?}");
        assert_eq!((event.about.kind, &*event.about.name), ("Node", "node"), "{event:?}");
    }
    agent.stop().await;
}
