//! Containers that end or change.

use k8s_openapi::api::core::v1::ResourceRequirements;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use model::observed::ContainerState::{Exited, Running, Unknown};
use model::observed::SandboxState;
use model::ports::runtime::{Code, ContainerService};
use model::verdict::Subject;
use runtime::SyncError;
use testkit::runtime::{Fault, Method, RemoteImage, Rule};
use testkit::wanted;

use crate::world::{IMAGE, WEB_LOGS, World, forever, seconds, web};

// behaviour: ACT-300
#[tokio::test(start_paused = true)]
async fn exited_container_restarts_with_a_new_number_and_log() {
    let (world, pod) = (World::new(), forever());
    world.synced(&pod).await;
    world.runtime.kill_container(&world.running(&pod, "main").await, 1);
    world.synced(&pod).await;
    assert_eq!(world.instances("main"), [(1, Running), (0, Exited)]);
    let status = world.status(&pod).await;
    let main = status.latest("main").unwrap();
    assert_eq!(main.annotations["io.kubernetes.container.restartCount"], "1");
    assert_eq!(*main.log_path, format!("{WEB_LOGS}/main/1.log"));
    assert_eq!(status.sandboxes.len(), 1);
    assert_eq!(world.events.reasons(), ["Pulled", "Created", "Started"].repeat(2));
}

// behaviour: ACT-57
#[tokio::test(start_paused = true)]
async fn failing_container_backs_off_longer_each_time() {
    let (world, pod) = (World::new(), forever());
    world.synced(&pod).await;
    world.runtime.kill_container(&world.running(&pod, "main").await, 1);
    world.synced(&pod).await;
    for (attempt, delay) in [(1, 10), (2, 20), (3, 40)] {
        tokio::time::sleep(seconds(3)).await;
        world.runtime.kill_container(&world.running(&pod, "main").await, 1);
        let again = world.now() + seconds(delay);
        let (reasons, error) = world.failed(&pod).await;
        assert_eq!(reasons, [("main".to_owned(), "CrashLoopBackOff")]);
        assert_eq!(error.retry_at(), Some(again));
        assert_eq!(world.calls(), [], "a container that waits costs no call");
        assert_eq!(*world.events.reasons().last().unwrap(), "BackOff");
        let message = "Back-off restarting failed container main in pod web_default(uid-of-web)";
        assert_eq!(world.last_message("BackOff"), message);
        let SyncError::StartContainers(failed) = &error else { panic!("{error}") };
        let waits = format!(
            "back-off {delay}s restarting failed container=main pod=web_default(uid-of-web)"
        );
        assert_eq!(failed[0].1.message(), waits);
        world.at(again - std::time::Duration::from_millis(1)).await;
        assert_eq!(world.failed(&pod).await.1.retry_at(), Some(again));
        world.at(again).await;
        world.synced(&pod).await;
        assert_eq!(world.instances("main")[0], (attempt + 1, Running));
    }
}

#[tokio::test(start_paused = true)]
async fn container_in_back_off_does_not_block_the_others() {
    let world = World::new();
    let pod = web()
        .container("bad", IMAGE, ["exit", "1"])
        .container("good", IMAGE, ["sleep", "forever"])
        .build();
    world.synced(&pod).await;
    world.synced(&pod).await;
    world.runtime.kill_container(&world.running(&pod, "good").await, 1);
    let (reasons, error) = world.failed(&pod).await;
    assert_eq!(reasons, [("bad".to_owned(), "CrashLoopBackOff")]);
    assert_eq!(error.retry_at(), Some(world.now() + seconds(10)));
    world.running(&pod, "good").await;
}

// behaviour: ACT-302
#[tokio::test(start_paused = true)]
async fn back_off_is_per_pod_image_and_size() {
    let world = World::new();
    let other = "ferrolet.test/other:1";
    world.runtime.add_image(&RemoteImage::new(other));
    let (old, changed) = (
        web().container("main", IMAGE, ["exit", "1"]).build(),
        web().container("main", other, ["exit", "1"]).build(),
    );
    let namesake = web().uid("another").container("main", IMAGE, ["exit", "1"]).build();
    let larger = web().container("main", IMAGE, ["exit", "1"]).spec(|spec| {
        let list = Some([("cpu".to_owned(), Quantity("10m".to_owned()))].into());
        spec.containers[0].resources =
            Some(ResourceRequirements { requests: list, ..ResourceRequirements::default() });
    });
    let larger = larger.build();
    world.synced(&old).await;
    world.synced(&old).await;
    world.failed(&old).await;
    world.synced(&changed).await;
    world.failed(&old).await;
    world.synced(&larger).await;
    world.failed(&larger).await;
    world.synced(&namesake).await;
}

// behaviour: ACT-300
#[tokio::test(start_paused = true)]
async fn restart_count_is_derived_from_logs_without_instances() {
    let (world, pod) = (World::new(), forever());
    world.synced(&pod).await;
    let id = world.running(&pod, "main").await;
    for log in ["0.log", "3.log", "3.log.20260101-000000", "notes"] {
        world.files.write(format!("{WEB_LOGS}/main/{log}"), "");
    }
    let removal = wanted::removal(Subject::Container(id));
    world.runtime.remove_container(&removal).await.unwrap();
    world.synced(&pod).await;
    assert_eq!(world.instances("main"), [(4, Running)]);
    let status = world.status(&pod).await;
    assert_eq!(*status.latest("main").unwrap().log_path, format!("{WEB_LOGS}/main/4.log"));
}

#[tokio::test(start_paused = true)]
async fn changed_image_replaces_the_running_instance_at_once() {
    let world = World::new();
    let pod = |image: &str| {
        web()
            .container("main", image, ["sleep", "forever"])
            .container("same", IMAGE, ["sleep", "forever"])
            .build()
    };
    world.synced(&pod(IMAGE)).await;
    for (attempt, tag) in [(1, "2"), (2, "3"), (3, "2")] {
        let image = format!("ferrolet.test/workload:{tag}");
        world.runtime.add_image(&RemoteImage::new(&image));
        world.synced(&pod(&image)).await;
        assert_eq!(world.runtime.count(Method::StopContainer), 1);
        assert_eq!(world.runtime.count(Method::StopPodSandbox), 0);
        assert_eq!(
            world.last_message("Killing"),
            "Container main definition changed, will be restarted"
        );
        let instances = world.instances("main");
        assert_eq!(instances[0], (attempt, Running));
        assert_eq!(instances[1], (attempt - 1, Exited));
        assert_eq!(world.instances("same"), [(0, Running)]);
        let status = world.status(&pod(&image)).await;
        assert_eq!(*status.latest("main").unwrap().image, *image);
        let messages = world.pods.kill_messages(&status.uid);
        let ended = status.latest_ended("main").map(|ended| ended.id.clone()).unwrap();
        assert_eq!(messages[&ended], "container definition changed");
        let lines = world.incidents.lines();
        let recorded = [
            "kill main definition-changed: gracePeriod 30s".to_owned(),
            format!("restart main definition-changed: restartCount {attempt}"),
        ];
        assert_eq!(lines[lines.len() - 2..], recorded);
    }
}

#[tokio::test(start_paused = true)]
async fn replacement_waits_for_the_old_instance_to_end() {
    let world = World::new();
    let pod = |image: &str| {
        web()
            .container("ended", IMAGE, ["sleep", "forever"])
            .container("changed", image, ["sleep", "forever"])
            .build()
    };
    let (old, new) = (pod(IMAGE), pod("ferrolet.test/workload:2"));
    world.runtime.add_image(&RemoteImage::new("ferrolet.test/workload:2"));
    world.synced(&old).await;
    world.runtime.kill_container(&world.running(&old, "ended").await, 1);
    let changed = world.running(&old, "changed").await;
    let fault = Fault::error(Code::Internal);
    world.runtime.inject(Rule::on(Method::StopContainer, fault).object(changed.as_str()).once());
    let error = world.sync(&new).await.unwrap_err();
    let SyncError::KillContainer { name, .. } = &error else { panic!("{error}") };
    assert_eq!(name, "changed");
    // Not even the one that has nothing to do with it, as upstream.
    assert_eq!(world.calls(), [Method::StopContainer]);
    assert_eq!(world.instances("ended"), [(0, Exited)]);
    assert_eq!(world.instances("changed"), [(0, Running)]);
    world.synced(&new).await;
    for name in ["ended", "changed"] {
        assert_eq!(world.instances(name), [(1, Running), (0, Exited)], "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn unknown_instance_is_stopped_before_another_one_starts() {
    let (world, pod) = (World::new(), forever());
    world.synced(&pod).await;
    world.runtime.lose_container(&world.running(&pod, "main").await);
    assert_eq!(world.instances("main"), [(0, Unknown)]);
    world.synced(&pod).await;
    assert_eq!(world.instances("main"), [(1, Running), (0, Exited)]);
    assert_eq!(world.calls()[0], Method::StopContainer);
}

#[tokio::test(start_paused = true)]
async fn restart_policy_decides_and_the_sandbox_stops_with_the_last_container() {
    for (policy, code) in [("Never", 0), ("Never", 1), ("OnFailure", 0)] {
        let world = World::new();
        let pod = web()
            .restart_policy(policy)
            .container("one", IMAGE, ["sleep", "forever"])
            .container("other", IMAGE, ["sleep", "forever"])
            .build();
        world.synced(&pod).await;
        world.runtime.kill_container(&world.running(&pod, "one").await, code);
        assert!(!world.sync(&pod).await.unwrap(), "{policy} {code}");
        world.runtime.kill_container(&world.running(&pod, "other").await, code);
        world.synced(&pod).await;
        assert_eq!(world.calls(), [Method::StopPodSandbox], "{policy} {code}");
        assert_eq!(world.status(&pod).await.sandboxes[0].state, SandboxState::NotReady);
        assert!(!world.sync(&pod).await.unwrap(), "{policy} {code}");
        assert_eq!(world.instances("one"), [(0, Exited)]);
    }
}
