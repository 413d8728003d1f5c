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

use crate::harness::{Harness, IMAGE, WEB_LOGS, seconds, web};

// behaviour: ACT-70
#[tokio::test(start_paused = true)]
async fn init_containers_complete_in_order_before_regular_containers() {
    let harness = Harness::new();
    let pod = web()
        .init_container("one", IMAGE, ["sleep", "2"])
        .init_container("two", IMAGE, ["sleep", "3"])
        .container("main", IMAGE, ["sleep", "forever"])
        .build();
    harness.synced(&pod).await;
    assert_eq!(harness.instances("one"), [(0, Running)]);
    assert!(!harness.sync(&pod).await.unwrap(), "it is waited for");
    tokio::time::sleep(seconds(2)).await;
    harness.synced(&pod).await;
    assert_eq!(
        (harness.instances("one"), harness.instances("two")),
        (vec![(0, Exited)], vec![(0, Running)])
    );
    assert_eq!(harness.instances("main"), []);
    tokio::time::sleep(seconds(3)).await;
    harness.synced(&pod).await;
    harness.running(&pod, "main").await;
    let paths: Vec<_> =
        harness.events.all().iter().map(|event| event.field_path.to_string()).collect();
    assert!(paths.contains(&"spec.initContainers{one}".to_owned()), "{paths:?}");
    assert!(!harness.sync(&pod).await.unwrap());
}

// behaviour: ACT-71
#[tokio::test(start_paused = true)]
async fn failing_init_container_backs_off_and_keeps_only_its_last_instance() {
    let harness = Harness::new();
    let pod = web()
        .init_container("bad", IMAGE, ["exit", "1"])
        .container("main", IMAGE, ["sleep", "forever"])
        .build();
    harness.synced(&pod).await;
    harness.files.write(format!("{WEB_LOGS}/bad/0.log"), "first words");
    harness.synced(&pod).await;
    for (attempt, delay) in [(1, 10), (2, 20)] {
        let again = harness.now() + seconds(delay);
        let (reasons, error) = harness.failed(&pod).await;
        assert_eq!(reasons, [("bad".to_owned(), "CrashLoopBackOff")]);
        assert_eq!(error.retry_at(), Some(again));
        assert_eq!(harness.instances("bad"), [(attempt, Exited)], "older ends are removed");
        harness.at(again).await;
        harness.synced(&pod).await;
        assert_eq!(harness.instances("bad").len(), 2);
    }
    assert_eq!(harness.files.content(format!("{WEB_LOGS}/bad/0.log")), None, "with their logs");
    assert_eq!(harness.instances("main"), []);
}

// behaviour: ACT-71
#[tokio::test(start_paused = true)]
async fn older_init_instances_without_status_are_removed_with_their_logs() {
    let harness = Harness::new();
    let pod = web()
        .init_container("bad", IMAGE, ["exit", "1"])
        .container("main", IMAGE, ["sleep", "forever"])
        .build();
    // They accumulate while removals fail.
    harness.runtime.inject(Rule::on(Method::RemoveContainer, Fault::error(Code::Internal)));
    harness.synced(&pod).await;
    harness.synced(&pod).await;
    for delay in [10, 20] {
        let again = harness.now() + seconds(delay);
        harness.failed(&pod).await;
        harness.at(again).await;
        harness.synced(&pod).await;
    }
    assert_eq!(harness.instances("bad").len(), 4);
    harness.runtime.clear_faults();
    let mut listed = harness.runtime.containers();
    listed.sort_by_key(|one| std::cmp::Reverse(one.attempt));
    let log = |one: &Container| format!("{WEB_LOGS}/bad/{}.log", one.attempt);
    let link = |one: &Container| format!("/var/log/containers/web_default_bad-{}.log", one.id);
    for one in &listed {
        harness.files.write(log(one), "words");
        harness.files.put_link(link(one), log(one));
    }
    // As the PLEG has them: the statuses of the newest two, and the listed fields of the others.
    let mut status = harness.status(&pod).await;
    status.containers.truncate(2);
    status.older = listed[2..].to_vec();
    harness.runtime.forget_calls();
    let error = harness.sync_on(&pod, &status).await.unwrap_err();
    assert!(matches!(error, SyncError::StartContainers(_)), "{error}");
    assert_eq!(harness.instances("bad"), [(3, Exited)]);
    for one in &listed {
        let stays = one.attempt == 3;
        assert_eq!(harness.files.content(log(one)).is_some(), stays, "{}", log(one));
        assert_eq!(harness.files.look(link(one).as_ref()).await.is_ok(), stays, "{}", link(one));
    }
    let calls = harness.runtime.calls().into_iter();
    let looks = calls.filter(|call| call.method == Method::ContainerStatus);
    let looked: Vec<_> = looks.map(|call| call.object).collect();
    assert_eq!(looked, [listed[2].id.as_str(), listed[3].id.as_str()], "only to find the log");
}

// behaviour: ACT-72
#[tokio::test(start_paused = true)]
async fn failed_start_ends_the_sync_for_init_containers_but_not_for_sidecars() {
    let harness = Harness::new();
    let pod = web()
        .sidecar("side", "ferrolet.test/absent:1", [])
        .container("main", IMAGE, ["sleep", "forever"])
        .build();
    let (reasons, _) = harness.failed(&pod).await;
    assert_eq!(reasons, [("side".to_owned(), "ErrImagePull")]);
    let broken = web()
        .uid("broken")
        .sidecar("side", IMAGE, ["sleep", "forever"])
        .init_container("init", "ferrolet.test/absent:1", [])
        .container("main", IMAGE, ["sleep", "forever"])
        .build();
    harness.synced(&broken).await;
    harness.runtime.kill_container(&harness.running(&broken, "side").await, 1);
    // The sidecar restarts; the init container after it waits for that.
    harness.synced(&broken).await;
    let (reasons, _) = harness.failed(&broken).await;
    assert_eq!(reasons, [("init".to_owned(), "ErrImagePull")]);
    harness.running(&broken, "side").await;
    // A sidecar that does not restart does not block later containers.
    let served = web()
        .uid("served")
        .sidecar("side", IMAGE, ["sleep", "forever"])
        .container("main", IMAGE, ["sleep", "forever"])
        .container("other", IMAGE, ["sleep", "forever"])
        .build();
    harness.synced(&served).await;
    harness.synced(&served).await;
    for name in ["side", "main"] {
        harness.runtime.kill_container(&harness.running(&served, name).await, 1);
    }
    harness.runtime.inject(Rule::on(Method::CreateContainer, Fault::error(Code::Internal)).once());
    let (reasons, _) = harness.failed(&served).await;
    assert_eq!(reasons, [("side".to_owned(), "CreateContainerError")]);
    harness.running(&served, "main").await;
}

// behaviour: ACT-73
#[tokio::test(start_paused = true)]
async fn sidecar_starts_before_later_containers_and_restarts_while_they_run() {
    let harness = Harness::new();
    let pod = web()
        .restart_policy("Never")
        .sidecar("side", IMAGE, ["sleep", "forever"])
        .init_container("init", IMAGE, ["sleep", "1"])
        .container("main", IMAGE, ["sleep", "forever"])
        .build();
    harness.synced(&pod).await;
    assert_eq!(
        (harness.instances("side"), harness.instances("init")),
        (vec![(0, Running)], vec![])
    );
    harness.synced(&pod).await;
    assert_eq!(harness.instances("init"), [(0, Running)]);
    tokio::time::sleep(seconds(1)).await;
    harness.synced(&pod).await;
    let main = harness.running(&pod, "main").await;
    harness.runtime.kill_container(&harness.running(&pod, "side").await, 1);
    harness.synced(&pod).await;
    assert_eq!(harness.instances("side"), [(1, Running), (0, Exited)]);
    assert_eq!(harness.running(&pod, "main").await, main);
}

// behaviour: ACT-65, ACT-66
#[tokio::test(start_paused = true)]
async fn sidecars_stop_after_regular_containers_in_reverse_order() {
    let harness = Harness::new();
    let slow = ["trap", "TERM", "--delay", "3s"];
    let pod = web()
        .sidecar("s1", IMAGE, slow)
        .sidecar("s2", IMAGE, slow)
        .container("main", IMAGE, slow)
        .build();
    for _ in 0..3 {
        harness.synced(&pod).await;
    }
    let status = harness.status(&pod).await;
    harness.runtime.forget_calls();
    let begun = Instant::now();
    let start = harness.now();
    harness.pods.kill(&pod, &status, Some(seconds(20)), PodEnd::Deleted).await.unwrap();
    assert_eq!(begun.elapsed(), seconds(9));
    let name = |id: &str| status.containers.iter().find(|one| one.id.as_str() == id).unwrap();
    let stops: Vec<_> = harness
        .runtime
        .calls()
        .iter()
        .filter(|call| call.method == Method::StopContainer)
        .map(|call| (name(&call.object).name.to_string(), call.at.duration_since(start).as_secs()))
        .collect();
    assert_eq!(stops, [("main".into(), 0), ("s2".into(), 3), ("s1".into(), 6)]);
    let ended = harness.status(&pod).await;
    assert!(ended.containers.iter().all(|one| one.exit_code == 0), "no container was killed");
}

// behaviour: ACT-67
#[tokio::test(start_paused = true)]
async fn sidecar_waits_to_stop_at_most_its_grace_period() {
    let harness = Harness::new();
    let pod = web()
        .sidecar("side", IMAGE, ["ignore", "TERM"])
        .container("main", IMAGE, ["ignore", "TERM"])
        .build();
    for _ in 0..2 {
        harness.synced(&pod).await;
    }
    let status = harness.status(&pod).await;
    let begun = Instant::now();
    harness.pods.kill(&pod, &status, Some(seconds(5)), PodEnd::Deleted).await.unwrap();
    // Five seconds for the container, then the minimum for the sidecar that waited for it.
    assert_eq!(begun.elapsed(), seconds(7));
    assert!(!harness.status(&pod).await.may_be_alive());
}

// behaviour: ACT-74
#[tokio::test(start_paused = true)]
async fn dead_sandbox_restarts_from_the_first_init_container() {
    let harness = Harness::new();
    let pod = web()
        .init_container("init", IMAGE, ["exit", "0"])
        .container("main", IMAGE, ["sleep", "forever"])
        .build();
    harness.synced(&pod).await;
    harness.synced(&pod).await;
    harness.running(&pod, "main").await;
    harness.runtime.kill_sandbox(&harness.sandbox(&pod).await);
    harness.synced(&pod).await;
    // The attempt increases, and no instance of the old sandbox is left.
    assert_eq!(harness.instances("init"), [(1, Exited)]);
    assert_eq!(harness.instances("main"), [(0, Exited)]);
    harness.synced(&pod).await;
    assert_eq!(harness.instances("main"), [(1, Running), (0, Exited)]);
}

// behaviour: ACT-75
#[tokio::test(start_paused = true)]
async fn permanently_failed_init_container_fails_the_pod() {
    let harness = Harness::new();
    let pod = web()
        .restart_policy("Never")
        .sidecar("side", IMAGE, ["sleep", "forever"])
        .init_container("bad", IMAGE, ["exit", "1"])
        .container("main", IMAGE, ["sleep", "forever"])
        .build();
    harness.synced(&pod).await;
    harness.synced(&pod).await;
    assert!(runtime::decide::has_finished(&pod, &harness.status(&pod).await));
    harness.synced(&pod).await;
    assert!(!harness.status(&pod).await.may_be_alive());
    assert_eq!(harness.instances("main"), []);
    assert!(!harness.sync(&pod).await.unwrap());
}

// behaviour: ACT-76
#[tokio::test(start_paused = true)]
async fn ephemeral_container_shares_its_target_pid_namespace_and_never_restarts() {
    let harness = Harness::new();
    let mut pod = web().container("main", IMAGE, ["sleep", "forever"]).build();
    harness.synced(&pod).await;
    let debug = |name: &str, target: &str| EphemeralContainer {
        name: name.into(),
        image: Some(IMAGE.into()),
        args: Some(vec!["exit".into(), "3".into()]),
        target_container_name: Some(target.into()),
        ..EphemeralContainer::default()
    };
    let spec = pod.spec.as_mut().unwrap();
    spec.ephemeral_containers = Some(vec![debug("debug", "main"), debug("lost", "missing")]);
    let (reasons, _) = harness.failed(&pod).await;
    assert_eq!(reasons, [("lost".to_owned(), "CreateContainerConfigError")]);
    assert_eq!(harness.instances("debug"), [(0, Exited)]);
    let made = harness.status(&pod).await.latest("debug").unwrap().id.clone();
    let target = harness.runtime.container_config(&made).unwrap().pid_target;
    assert_eq!(target, Some(harness.running(&pod, "main").await));
    harness.failed(&pod).await;
    assert_eq!(harness.instances("debug"), [(0, Exited)]);
    let paths: Vec<_> =
        harness.events.all().iter().map(|event| event.field_path.to_string()).collect();
    assert!(paths.contains(&"spec.ephemeralContainers{debug}".to_owned()), "{paths:?}");
}

// behaviour: ACT-76
#[tokio::test(start_paused = true)]
async fn ephemeral_container_needs_no_running_target_with_shared_pids() {
    let harness = Harness::new();
    let mut pod =
        web().restart_policy("Never").container("main", IMAGE, ["sleep", "forever"]).build();
    let spec = pod.spec.as_mut().unwrap();
    spec.share_process_namespace = Some(true);
    harness.synced(&pod).await;
    pod.spec.as_mut().unwrap().ephemeral_containers = Some(vec![EphemeralContainer {
        name: "debug".into(),
        image: Some(IMAGE.into()),
        args: Some(vec!["sleep".into(), "forever".into()]),
        target_container_name: Some("main".into()),
        ..EphemeralContainer::default()
    }]);
    harness.synced(&pod).await;
    let made = harness.running(&pod, "debug").await;
    let config = harness.runtime.container_config(&made).unwrap();
    assert_eq!((config.pid, config.pid_target), (NamespaceMode::Pod, None));
}

#[tokio::test(start_paused = true)]
async fn failed_removal_of_old_instances_does_not_block_the_sync() {
    let harness = Harness::new();
    let pod = web()
        .init_container("bad", IMAGE, ["exit", "1"])
        .container("main", IMAGE, ["sleep", "forever"])
        .build();
    harness.synced(&pod).await;
    harness.synced(&pod).await;
    harness.runtime.inject(Rule::on(Method::RemoveContainer, Fault::error(Code::Internal)));
    let error = harness.sync(&pod).await.unwrap_err();
    assert!(matches!(error, SyncError::StartContainers(_)), "{error}");
    assert_eq!(harness.instances("bad").len(), 2);
}
