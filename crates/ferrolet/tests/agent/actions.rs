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

use crate::world::World;

/// Names, numbers and states of all containers.
fn containers(world: &World) -> Vec<(String, u32, bool)> {
    let all = world.runtime.containers();
    let mut all: Vec<_> =
        all.iter().map(|one| (one.name.to_string(), one.attempt, one.state == Running)).collect();
    all.sort();
    all
}

fn expected(rows: &[(&str, u32, bool)]) -> Vec<(String, u32, bool)> {
    rows.iter().map(|(name, attempt, runs)| ((*name).to_owned(), *attempt, *runs)).collect()
}

async fn until_containers(world: &World, rows: &[(&str, u32, bool)]) {
    let look = |world: &World| (containers(world) == expected(rows)).then_some(());
    world.until(&format!("{rows:?}"), look).await;
}

#[tokio::test(start_paused = true)]
async fn pod_runs_its_init_containers_in_order() {
    let world = World::new();
    world.write_spec(
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
    let _agent = world.start();
    let all = [("a-init", 0, false), ("b-side", 0, true), ("c-init", 0, false), ("main", 0, true)];
    until_containers(&world, &all).await;
}

// behaviour: ACT-55, ACT-56
#[tokio::test(start_paused = true)]
async fn pod_restarts_all_containers_by_a_restart_rule() {
    let world = World::new();
    world.write_spec(
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
    let _agent = world.start();
    until_containers(&world, &[("asks", 0, true), ("init", 0, false), ("other", 0, true)]).await;
    for log in ["asks/0.log", "init/0.log", "other/0.log"] {
        let uid = &world.runtime.sandboxes()[0].pod_uid;
        world.files.write(format!("/var/log/pods/default_over-node_{uid}/{log}"), "words");
    }
    let asks = world.runtime.containers().into_iter().find(|one| &*one.name == "asks").unwrap();
    world.runtime.kill_container(&asks.id, 42);
    until_containers(&world, &[("asks", 1, true), ("init", 1, false), ("other", 1, true)]).await;
    assert_eq!(world.runtime.sandboxes().len(), 1);
}

/// How many containers are created for a pod whose running container the runtime loses, or has forgotten completely.
async fn makes(policy: &str, forgets: bool) -> usize {
    let world = World::new();
    world.write_manifest("once", policy, "[sleep, forever]");
    let _agent = world.start();
    let id = world.one_runs("once").await.id;
    tokio::time::sleep(Duration::from_secs(5)).await;
    if forgets {
        let removed = world.runtime.remove_container(&removal(Subject::Container(id))).await;
        removed.expect("no fault is set");
    } else {
        assert!(world.runtime.lose_container(&id));
    }
    tokio::time::sleep(Duration::from_mins(3)).await;
    assert_eq!(world.running("once").len(), usize::from(policy == "Always"));
    world.runtime.count(Method::CreateContainer)
}

// behaviour: ACT-43
#[tokio::test(start_paused = true)]
async fn vanished_container_restarts_only_if_its_policy_allows() {
    for forgets in [false, true] {
        assert_eq!(makes("Never", forgets).await, 1);
        assert_eq!(makes("Always", forgets).await, 2);
    }
}

// behaviour: WRK-16
#[tokio::test(start_paused = true)]
async fn pod_without_sandbox_fails_at_its_deadline() {
    let world = World::new();
    world.runtime.inject(Rule::on(Method::RunPodSandbox, Fault::error(Code::Unavailable)));
    world.write_spec(
        "short",
        "
  activeDeadlineSeconds: 42
  containers:
  - {name: main, image: 'ferrolet.test/workload:1', args: [sleep, forever]}
",
    );
    let _agent = world.start();
    let begun = Instant::now();
    let is_over = |world: &World| {
        world.events.all().iter().any(|event| event.reason == "DeadlineExceeded").then_some(())
    };
    world.until("its deadline is over", is_over).await;
    let took = begun.elapsed().as_secs_f64();
    assert!((41.9..43.0).contains(&took), "{took}");
    let tries = world.runtime.count(Method::RunPodSandbox);
    tokio::time::sleep(Duration::from_mins(3)).await;
    assert_eq!(world.runtime.count(Method::RunPodSandbox), tries);
}

// behaviour: ACT-75
#[tokio::test(start_paused = true)]
async fn pod_fails_when_its_init_container_fails() {
    let world = World::new();
    world.write_spec(
        "broken",
        "
  restartPolicy: Never
  initContainers:
  - {name: init, image: 'ferrolet.test/workload:1', args: [exit, '1']}
  containers:
  - {name: main, image: 'ferrolet.test/workload:1', args: [sleep, forever]}
",
    );
    let _agent = world.start();
    world
        .until("its sandbox is dead", |world| {
            let ended = world.runtime.containers().iter().any(|one| one.state == Exited);
            (ended && world.live_sandboxes() == 0).then_some(())
        })
        .await;
    tokio::time::sleep(Duration::from_mins(3)).await;
    assert_eq!(containers(&world), expected(&[("init", 0, false)]));
}

async fn directories(world: &World) -> Vec<String> {
    world.files.list(Path::new("/var/lib/kubelet/pods")).await.unwrap_or_default()
}

// behaviour: ACT-96
#[tokio::test(start_paused = true)]
async fn pod_directories_are_removed_also_for_pods_deleted_while_stopped() {
    let world = World::new();
    world.files.write("/var/lib/kubelet/pods/long-gone/containers/main/0a1b2c3d", "words");
    world.write_manifest("web", "Always", "[sleep, forever]");
    world.write_manifest("job", "Never", "[exit, \"0\"]");
    let _agent = world.start();
    let web = world.one_runs("web").await;
    tokio::time::sleep(Duration::from_mins(2)).await;
    let kept = directories(&world).await;
    assert_eq!(kept.len(), 2, "{kept:?}");
    assert!(kept.contains(&web.pod_uid.to_string()), "{kept:?}");
    world.remove_manifest("web");
    tokio::time::sleep(Duration::from_mins(1)).await;
    let left = directories(&world).await;
    assert_eq!(left.len(), 1, "{left:?}");
    assert_ne!(left[0], web.pod_uid.to_string());
}
