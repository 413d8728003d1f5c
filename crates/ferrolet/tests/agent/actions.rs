//! Actions on the containers of a pod, with the whole agent.

use std::path::Path;
use std::time::Duration;

use model::observed::ContainerState::{Exited, Running};
use model::ports::files::HostFiles as _;
use model::ports::runtime::{Code, ContainerService};
use model::verdict::Subject;
use testkit::runtime::{Fault, Method, Rule};
use testkit::wanted::removal;
use tokio::time::Instant;

use crate::harness::Harness;

/// Names, numbers and states of all containers.
fn containers(harness: &Harness) -> Vec<(String, u32, bool)> {
    let all = harness.runtime.containers();
    let mut all: Vec<_> =
        all.iter().map(|one| (one.name.to_string(), one.attempt, one.state == Running)).collect();
    all.sort();
    all
}

fn expected(rows: &[(&str, u32, bool)]) -> Vec<(String, u32, bool)> {
    rows.iter().map(|(name, attempt, runs)| ((*name).to_owned(), *attempt, *runs)).collect()
}

async fn until_containers(harness: &Harness, rows: &[(&str, u32, bool)]) {
    let look = |harness: &Harness| (containers(harness) == expected(rows)).then_some(());
    harness.until(&format!("{rows:?}"), look).await;
}

#[tokio::test(start_paused = true)]
async fn pod_runs_its_init_containers_in_order() {
    let harness = Harness::new();
    harness.write_spec(
        "staged",
        "
  initContainers:
  - {name: a-init, image: 'ferrolet.test/workload:1', args: [sleep, '1']}
  - {name: b-side, image: 'ferrolet.test/workload:1', args: [sleep, forever], restartPolicy: Always}
  - {name: c-init, image: 'ferrolet.test/workload:1', args: [sleep, '1']}
  containers:
  - {name: main, image: 'ferrolet.test/workload:1', args: [sleep, forever]}
",
    );
    let _agent = harness.start();
    let all = [("a-init", 0, false), ("b-side", 0, true), ("c-init", 0, false), ("main", 0, true)];
    until_containers(&harness, &all).await;
}

// behaviour: ACT-55, ACT-56
#[tokio::test(start_paused = true)]
async fn pod_restarts_all_containers_by_a_restart_rule() {
    let harness = Harness::new();
    harness.write_spec(
        "over",
        "
  initContainers:
  - {name: init, image: 'ferrolet.test/workload:1', args: [exit, '0']}
  containers:
  - name: asks
    image: ferrolet.test/workload:1
    args: [sleep, forever]
    restartPolicy: Never
    restartPolicyRules: [{action: RestartAllContainers, exitCodes: {operator: In, values: [42]}}]
  - {name: other, image: 'ferrolet.test/workload:1', args: [sleep, forever]}
",
    );
    let _agent = harness.start();
    until_containers(&harness, &[("asks", 0, true), ("init", 0, false), ("other", 0, true)]).await;
    for log in ["asks/0.log", "init/0.log", "other/0.log"] {
        let uid = &harness.runtime.sandboxes()[0].pod_uid;
        harness.files.write(format!("/var/log/pods/default_over-node_{uid}/{log}"), "words");
    }
    let triggering =
        harness.runtime.containers().into_iter().find(|one| &*one.name == "asks").unwrap();
    harness.runtime.kill_container(&triggering.id, 42);
    until_containers(&harness, &[("asks", 1, true), ("init", 1, false), ("other", 1, true)]).await;
    assert_eq!(harness.runtime.sandboxes().len(), 1);
}

/// How many containers are created for a pod whose running container the runtime loses, or has forgotten completely.
async fn creations(policy: &str, forgets: bool) -> usize {
    let harness = Harness::new();
    harness.write_manifest("once", policy, "[sleep, forever]");
    let _agent = harness.start();
    let id = harness.one_runs("once").await.id;
    tokio::time::sleep(Duration::from_secs(5)).await;
    if forgets {
        let removed = harness.runtime.remove_container(&removal(Subject::Container(id))).await;
        removed.expect("no fault is set");
    } else {
        assert!(harness.runtime.lose_container(&id));
    }
    tokio::time::sleep(Duration::from_mins(3)).await;
    assert_eq!(harness.running("once").len(), usize::from(policy == "Always"));
    harness.runtime.count(Method::CreateContainer)
}

// behaviour: ACT-43
#[tokio::test(start_paused = true)]
async fn vanished_container_restarts_only_if_its_policy_allows() {
    for forgets in [false, true] {
        assert_eq!(creations("Never", forgets).await, 1);
        assert_eq!(creations("Always", forgets).await, 2);
    }
}

// behaviour: WRK-16
#[tokio::test(start_paused = true)]
async fn pod_without_sandbox_fails_at_its_deadline() {
    let harness = Harness::new();
    harness.runtime.inject(Rule::on(Method::RunPodSandbox, Fault::error(Code::Unavailable)));
    harness.write_spec(
        "short",
        "
  activeDeadlineSeconds: 42
  containers:
  - {name: main, image: 'ferrolet.test/workload:1', args: [sleep, forever]}
",
    );
    let _agent = harness.start();
    let begun = Instant::now();
    let is_over = |harness: &Harness| {
        harness.events.all().iter().any(|event| event.reason == "DeadlineExceeded").then_some(())
    };
    harness.until("its deadline is over", is_over).await;
    let took = begun.elapsed().as_secs_f64();
    assert!((41.9..43.0).contains(&took), "{took}");
    let tries = harness.runtime.count(Method::RunPodSandbox);
    tokio::time::sleep(Duration::from_mins(3)).await;
    assert_eq!(harness.runtime.count(Method::RunPodSandbox), tries);
}

// behaviour: ACT-75
#[tokio::test(start_paused = true)]
async fn pod_fails_when_its_init_container_fails() {
    let harness = Harness::new();
    harness.write_spec(
        "broken",
        "
  restartPolicy: Never
  initContainers:
  - {name: init, image: 'ferrolet.test/workload:1', args: [exit, '1']}
  containers:
  - {name: main, image: 'ferrolet.test/workload:1', args: [sleep, forever]}
",
    );
    let _agent = harness.start();
    harness
        .until("its sandbox is dead", |harness| {
            let ended = harness.runtime.containers().iter().any(|one| one.state == Exited);
            (ended && harness.live_sandboxes() == 0).then_some(())
        })
        .await;
    tokio::time::sleep(Duration::from_mins(3)).await;
    assert_eq!(containers(&harness), expected(&[("init", 0, false)]));
}

async fn directories(harness: &Harness) -> Vec<String> {
    harness.files.list(Path::new("/var/lib/kubelet/pods")).await.unwrap_or_default()
}

// behaviour: ACT-96
#[tokio::test(start_paused = true)]
async fn pod_directories_are_removed_for_pods_deleted_while_agent_is_stopped() {
    let harness = Harness::new();
    harness.files.write("/var/lib/kubelet/pods/long-gone/containers/main/0a1b2c3d", "words");
    harness.write_manifest("web", "Always", "[sleep, forever]");
    harness.write_manifest("job", "Never", "[exit, \"0\"]");
    let _agent = harness.start();
    let web = harness.one_runs("web").await;
    tokio::time::sleep(Duration::from_mins(2)).await;
    let kept = directories(&harness).await;
    assert_eq!(kept.len(), 2, "{kept:?}");
    assert!(kept.contains(&web.pod_uid.to_string()), "{kept:?}");
    harness.remove_manifest("web");
    tokio::time::sleep(Duration::from_mins(1)).await;
    let left = directories(&harness).await;
    assert_eq!(left.len(), 1, "{left:?}");
    assert_ne!(left[0], web.pod_uid.to_string());
}
