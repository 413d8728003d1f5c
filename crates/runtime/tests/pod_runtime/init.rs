//! Init containers, sidecars and ephemeral containers.

use k8s_openapi::api::core::v1::EphemeralContainer;
use model::observed::Container;
use model::observed::ContainerState::{Exited, Running};
use model::ports::files::HostFiles as _;
use model::ports::runtime::Code;
use model::wanted::NamespaceMode;
use runtime::SyncError;
use runtime::decide::PodEnd;
use testkit::runtime::{Fault, Method, Rule};
use tokio::time::Instant;

use crate::world::{IMAGE, WEB_LOGS, World, seconds, web};

// behaviour: ACT-70
#[tokio::test(start_paused = true)]
async fn init_containers_complete_in_order_before_regular_containers() {
    let world = World::new();
    let pod = web()
        .init_container("one", IMAGE, ["sleep", "2"])
        .init_container("two", IMAGE, ["sleep", "3"])
        .container("main", IMAGE, ["sleep", "forever"])
        .build();
    world.synced(&pod).await;
    assert_eq!(world.instances("one"), [(0, Running)]);
    assert!(!world.sync(&pod).await.unwrap(), "it is waited for");
    tokio::time::sleep(seconds(2)).await;
    world.synced(&pod).await;
    assert_eq!(
        (world.instances("one"), world.instances("two")),
        (vec![(0, Exited)], vec![(0, Running)])
    );
    assert_eq!(world.instances("main"), []);
    tokio::time::sleep(seconds(3)).await;
    world.synced(&pod).await;
    world.running(&pod, "main").await;
    let paths: Vec<_> =
        world.events.all().iter().map(|event| event.field_path.to_string()).collect();
    assert!(paths.contains(&"spec.initContainers{one}".to_owned()), "{paths:?}");
    assert!(!world.sync(&pod).await.unwrap());
}

// behaviour: ACT-71
#[tokio::test(start_paused = true)]
async fn failing_init_container_backs_off_and_keeps_only_its_last_instance() {
    let world = World::new();
    let pod = web()
        .init_container("bad", IMAGE, ["exit", "1"])
        .container("main", IMAGE, ["sleep", "forever"])
        .build();
    world.synced(&pod).await;
    world.files.write(format!("{WEB_LOGS}/bad/0.log"), "first words");
    world.synced(&pod).await;
    for (attempt, delay) in [(1, 10), (2, 20)] {
        let again = world.now() + seconds(delay);
        let (reasons, error) = world.failed(&pod).await;
        assert_eq!(reasons, [("bad".to_owned(), "CrashLoopBackOff")]);
        assert_eq!(error.retry_at(), Some(again));
        assert_eq!(world.instances("bad"), [(attempt, Exited)], "older ends are removed");
        world.at(again).await;
        world.synced(&pod).await;
        assert_eq!(world.instances("bad").len(), 2);
    }
    assert_eq!(world.files.content(format!("{WEB_LOGS}/bad/0.log")), None, "with their logs");
    assert_eq!(world.instances("main"), []);
}

// behaviour: ACT-71
#[tokio::test(start_paused = true)]
async fn older_init_instances_without_status_are_removed_with_their_logs() {
    let world = World::new();
    let pod = web()
        .init_container("bad", IMAGE, ["exit", "1"])
        .container("main", IMAGE, ["sleep", "forever"])
        .build();
    // They pile up while the runtime removes nothing.
    world.runtime.inject(Rule::on(Method::RemoveContainer, Fault::error(Code::Internal)));
    world.synced(&pod).await;
    world.synced(&pod).await;
    for delay in [10, 20] {
        let again = world.now() + seconds(delay);
        world.failed(&pod).await;
        world.at(again).await;
        world.synced(&pod).await;
    }
    assert_eq!(world.instances("bad").len(), 4);
    world.runtime.clear_faults();
    let mut listed = world.runtime.containers();
    listed.sort_by_key(|one| std::cmp::Reverse(one.attempt));
    let log = |one: &Container| format!("{WEB_LOGS}/bad/{}.log", one.attempt);
    let link = |one: &Container| format!("/var/log/containers/web_default_bad-{}.log", one.id);
    for one in &listed {
        world.files.write(log(one), "words");
        world.files.put_link(link(one), log(one));
    }
    // As the relist task has them: the newest two, and what a list tells of the others.
    let mut status = world.status(&pod).await;
    status.containers.truncate(2);
    status.older = listed[2..].to_vec();
    world.runtime.forget_calls();
    let error = world.sync_on(&pod, &status).await.unwrap_err();
    assert!(matches!(error, SyncError::StartContainers(_)), "{error}");
    assert_eq!(world.instances("bad"), [(3, Exited)]);
    for one in &listed {
        let stays = one.attempt == 3;
        assert_eq!(world.files.content(log(one)).is_some(), stays, "{}", log(one));
        assert_eq!(world.files.look(link(one).as_ref()).await.is_ok(), stays, "{}", link(one));
    }
    let calls = world.runtime.calls().into_iter();
    let looks = calls.filter(|call| call.method == Method::ContainerStatus);
    let looked: Vec<_> = looks.map(|call| call.object).collect();
    assert_eq!(looked, [listed[2].id.as_str(), listed[3].id.as_str()], "only where the log is");
}

// behaviour: ACT-72
#[tokio::test(start_paused = true)]
async fn failed_start_ends_the_sync_for_init_containers_but_not_for_sidecars() {
    let world = World::new();
    let pod = web()
        .sidecar("side", "ferrolet.test/absent:1", [])
        .container("main", IMAGE, ["sleep", "forever"])
        .build();
    let (reasons, _) = world.failed(&pod).await;
    assert_eq!(reasons, [("side".to_owned(), "ErrImagePull")]);
    let broken = web()
        .uid("broken")
        .sidecar("side", IMAGE, ["sleep", "forever"])
        .init_container("init", "ferrolet.test/absent:1", [])
        .container("main", IMAGE, ["sleep", "forever"])
        .build();
    world.synced(&broken).await;
    world.runtime.kill_container(&world.running(&broken, "side").await, 1);
    // The sidecar runs again; the init container after it waits for that.
    world.synced(&broken).await;
    let (reasons, _) = world.failed(&broken).await;
    assert_eq!(reasons, [("init".to_owned(), "ErrImagePull")]);
    world.running(&broken, "side").await;
    // A sidecar that does not start again keeps nobody behind it from doing so.
    let served = web()
        .uid("served")
        .sidecar("side", IMAGE, ["sleep", "forever"])
        .container("main", IMAGE, ["sleep", "forever"])
        .container("other", IMAGE, ["sleep", "forever"])
        .build();
    world.synced(&served).await;
    world.synced(&served).await;
    for name in ["side", "main"] {
        world.runtime.kill_container(&world.running(&served, name).await, 1);
    }
    world.runtime.inject(Rule::on(Method::CreateContainer, Fault::error(Code::Internal)).once());
    let (reasons, _) = world.failed(&served).await;
    assert_eq!(reasons, [("side".to_owned(), "CreateContainerError")]);
    world.running(&served, "main").await;
}

// behaviour: ACT-73
#[tokio::test(start_paused = true)]
async fn sidecar_starts_before_later_containers_and_restarts_beside_them() {
    let world = World::new();
    let pod = web()
        .restart_policy("Never")
        .sidecar("side", IMAGE, ["sleep", "forever"])
        .init_container("init", IMAGE, ["sleep", "1"])
        .container("main", IMAGE, ["sleep", "forever"])
        .build();
    world.synced(&pod).await;
    assert_eq!((world.instances("side"), world.instances("init")), (vec![(0, Running)], vec![]));
    world.synced(&pod).await;
    assert_eq!(world.instances("init"), [(0, Running)]);
    tokio::time::sleep(seconds(1)).await;
    world.synced(&pod).await;
    let main = world.running(&pod, "main").await;
    world.runtime.kill_container(&world.running(&pod, "side").await, 1);
    world.synced(&pod).await;
    assert_eq!(world.instances("side"), [(1, Running), (0, Exited)]);
    assert_eq!(world.running(&pod, "main").await, main);
}

// behaviour: ACT-65, ACT-66
#[tokio::test(start_paused = true)]
async fn sidecars_stop_after_regular_containers_in_reverse_order() {
    let world = World::new();
    let slow = ["trap", "TERM", "--delay", "3s"];
    let pod = web()
        .sidecar("s1", IMAGE, slow)
        .sidecar("s2", IMAGE, slow)
        .container("main", IMAGE, slow)
        .build();
    for _ in 0..3 {
        world.synced(&pod).await;
    }
    let status = world.status(&pod).await;
    world.runtime.forget_calls();
    let begun = Instant::now();
    let start = world.now();
    world.pods.kill(&pod, &status, Some(seconds(20)), PodEnd::Deleted).await.unwrap();
    assert_eq!(begun.elapsed(), seconds(9));
    let name = |id: &str| status.containers.iter().find(|one| one.id.as_str() == id).unwrap();
    let stops: Vec<_> = world
        .runtime
        .calls()
        .iter()
        .filter(|call| call.method == Method::StopContainer)
        .map(|call| (name(&call.object).name.to_string(), call.at.duration_since(start).as_secs()))
        .collect();
    assert_eq!(stops, [("main".into(), 0), ("s2".into(), 3), ("s1".into(), 6)]);
    let ended = world.status(&pod).await;
    assert!(ended.containers.iter().all(|one| one.exit_code == 0), "nobody was killed");
}

// behaviour: ACT-67
#[tokio::test(start_paused = true)]
async fn sidecar_waits_to_stop_at_most_its_grace_period() {
    let world = World::new();
    let pod = web()
        .sidecar("side", IMAGE, ["ignore", "TERM"])
        .container("main", IMAGE, ["ignore", "TERM"])
        .build();
    for _ in 0..2 {
        world.synced(&pod).await;
    }
    let status = world.status(&pod).await;
    let begun = Instant::now();
    world.pods.kill(&pod, &status, Some(seconds(5)), PodEnd::Deleted).await.unwrap();
    // Five seconds for the container, then the least for the sidecar that waited for it.
    assert_eq!(begun.elapsed(), seconds(7));
    assert!(!world.status(&pod).await.may_be_alive());
}

// behaviour: ACT-74
#[tokio::test(start_paused = true)]
async fn dead_sandbox_restarts_from_the_first_init_container() {
    let world = World::new();
    let pod = web()
        .init_container("init", IMAGE, ["exit", "0"])
        .container("main", IMAGE, ["sleep", "forever"])
        .build();
    world.synced(&pod).await;
    world.synced(&pod).await;
    world.running(&pod, "main").await;
    world.runtime.kill_sandbox(&world.sandbox(&pod).await);
    world.synced(&pod).await;
    // The number goes on, and nothing of the old sandbox's is left to be taken for the new one's.
    assert_eq!(world.instances("init"), [(1, Exited)]);
    assert_eq!(world.instances("main"), [(0, Exited)]);
    world.synced(&pod).await;
    assert_eq!(world.instances("main"), [(1, Running), (0, Exited)]);
}

// behaviour: ACT-75
#[tokio::test(start_paused = true)]
async fn permanently_failed_init_container_fails_the_pod() {
    let world = World::new();
    let pod = web()
        .restart_policy("Never")
        .sidecar("side", IMAGE, ["sleep", "forever"])
        .init_container("bad", IMAGE, ["exit", "1"])
        .container("main", IMAGE, ["sleep", "forever"])
        .build();
    world.synced(&pod).await;
    world.synced(&pod).await;
    assert!(runtime::decide::has_finished(&pod, &world.status(&pod).await));
    world.synced(&pod).await;
    assert!(!world.status(&pod).await.may_be_alive());
    assert_eq!(world.instances("main"), []);
    assert!(!world.sync(&pod).await.unwrap());
}

// behaviour: ACT-76
#[tokio::test(start_paused = true)]
async fn ephemeral_container_shares_its_target_pid_namespace_and_never_restarts() {
    let world = World::new();
    let mut pod = web().container("main", IMAGE, ["sleep", "forever"]).build();
    world.synced(&pod).await;
    let debug = |name: &str, target: &str| EphemeralContainer {
        name: name.into(),
        image: Some(IMAGE.into()),
        args: Some(vec!["exit".into(), "3".into()]),
        target_container_name: Some(target.into()),
        ..EphemeralContainer::default()
    };
    let spec = pod.spec.as_mut().unwrap();
    spec.ephemeral_containers = Some(vec![debug("debug", "main"), debug("lost", "nobody")]);
    let (reasons, _) = world.failed(&pod).await;
    assert_eq!(reasons, [("lost".to_owned(), "CreateContainerConfigError")]);
    assert_eq!(world.instances("debug"), [(0, Exited)]);
    let made = world.status(&pod).await.latest("debug").unwrap().id.clone();
    let target = world.runtime.container_config(&made).unwrap().pid_target;
    assert_eq!(target, Some(world.running(&pod, "main").await));
    world.failed(&pod).await;
    assert_eq!(world.instances("debug"), [(0, Exited)]);
    let paths: Vec<_> =
        world.events.all().iter().map(|event| event.field_path.to_string()).collect();
    assert!(paths.contains(&"spec.ephemeralContainers{debug}".to_owned()), "{paths:?}");
}

// behaviour: ACT-76
#[tokio::test(start_paused = true)]
async fn ephemeral_container_needs_no_running_target_with_shared_pids() {
    let world = World::new();
    let mut pod =
        web().restart_policy("Never").container("main", IMAGE, ["sleep", "forever"]).build();
    let spec = pod.spec.as_mut().unwrap();
    spec.share_process_namespace = Some(true);
    world.synced(&pod).await;
    pod.spec.as_mut().unwrap().ephemeral_containers = Some(vec![EphemeralContainer {
        name: "debug".into(),
        image: Some(IMAGE.into()),
        args: Some(vec!["sleep".into(), "forever".into()]),
        target_container_name: Some("main".into()),
        ..EphemeralContainer::default()
    }]);
    world.synced(&pod).await;
    let made = world.running(&pod, "debug").await;
    let config = world.runtime.container_config(&made).unwrap();
    assert_eq!((config.pid, config.pid_target), (NamespaceMode::Pod, None));
}

#[tokio::test(start_paused = true)]
async fn failed_removal_of_old_instances_does_not_block_the_sync() {
    let world = World::new();
    let pod = web()
        .init_container("bad", IMAGE, ["exit", "1"])
        .container("main", IMAGE, ["sleep", "forever"])
        .build();
    world.synced(&pod).await;
    world.synced(&pod).await;
    world.runtime.inject(Rule::on(Method::RemoveContainer, Fault::error(Code::Internal)));
    let error = world.sync(&pod).await.unwrap_err();
    assert!(matches!(error, SyncError::StartContainers(_)), "{error}");
    assert_eq!(world.instances("bad").len(), 2);
}
