//! Restarts of containers.

use k8s_openapi::api::core::v1::ResourceRequirements;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use model::observed::ContainerState::{Exited, Running, Unknown};
use model::observed::SandboxState;
use model::ports::runtime::{Code, ContainerService};
use model::verdict::Subject;
use runtime::SyncError;
use testkit::runtime::{Fault, Method, RemoteImage, Rule};
use testkit::wanted;

use crate::harness::{Harness, IMAGE, WEB_LOGS, forever, seconds, web};

// behaviour: ACT-300
#[tokio::test(start_paused = true)]
async fn exited_container_restarts_with_a_new_number_and_log() {
    let (harness, pod) = (Harness::new(), forever());
    harness.synced(&pod).await;
    harness.runtime.kill_container(&harness.running(&pod, "main").await, 1);
    harness.synced(&pod).await;
    assert_eq!(harness.instances("main"), [(1, Running), (0, Exited)]);
    let status = harness.status(&pod).await;
    let main = status.latest("main").unwrap();
    assert_eq!(main.annotations["io.kubernetes.container.restartCount"], "1");
    assert_eq!(*main.log_path, format!("{WEB_LOGS}/main/1.log"));
    assert_eq!(status.sandboxes.len(), 1);
    assert_eq!(harness.events.reasons(), ["Pulled", "Created", "Started"].repeat(2));
}

// behaviour: ACT-57
#[tokio::test(start_paused = true)]
async fn failing_container_backs_off_longer_each_time() {
    let (harness, pod) = (Harness::new(), forever());
    harness.synced(&pod).await;
    harness.runtime.kill_container(&harness.running(&pod, "main").await, 1);
    harness.synced(&pod).await;
    for (attempt, delay) in [(1, 10), (2, 20), (3, 40)] {
        tokio::time::sleep(seconds(3)).await;
        harness.runtime.kill_container(&harness.running(&pod, "main").await, 1);
        let again = harness.now() + seconds(delay);
        let (reasons, error) = harness.failed(&pod).await;
        assert_eq!(reasons, [("main".to_owned(), "CrashLoopBackOff")]);
        assert_eq!(error.retry_at(), Some(again));
        assert_eq!(harness.calls(), [], "a container in back-off needs no call");
        assert_eq!(*harness.events.reasons().last().unwrap(), "BackOff");
        let message = "Back-off restarting failed container main in pod web_default(uid-of-web)";
        assert_eq!(harness.last_message("BackOff"), message);
        let SyncError::StartContainers(failed) = &error else { panic!("{error}") };
        let waits = format!(
            "back-off {delay}s restarting failed container=main pod=web_default(uid-of-web)"
        );
        assert_eq!(failed[0].1.message(), waits);
        harness.at(again - std::time::Duration::from_millis(1)).await;
        assert_eq!(harness.failed(&pod).await.1.retry_at(), Some(again));
        harness.at(again).await;
        harness.synced(&pod).await;
        assert_eq!(harness.instances("main")[0], (attempt + 1, Running));
    }
}

#[tokio::test(start_paused = true)]
async fn container_in_back_off_does_not_block_the_others() {
    let harness = Harness::new();
    let pod = web()
        .container("bad", IMAGE, ["exit", "1"])
        .container("good", IMAGE, ["sleep", "forever"])
        .build();
    harness.synced(&pod).await;
    harness.synced(&pod).await;
    harness.runtime.kill_container(&harness.running(&pod, "good").await, 1);
    let (reasons, error) = harness.failed(&pod).await;
    assert_eq!(reasons, [("bad".to_owned(), "CrashLoopBackOff")]);
    assert_eq!(error.retry_at(), Some(harness.now() + seconds(10)));
    harness.running(&pod, "good").await;
}

// behaviour: ACT-302
#[tokio::test(start_paused = true)]
async fn back_off_is_per_pod_image_and_size() {
    let harness = Harness::new();
    let other = "ferrolet.test/other:1";
    harness.runtime.add_image(&RemoteImage::new(other));
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
    harness.synced(&old).await;
    harness.synced(&old).await;
    harness.failed(&old).await;
    harness.synced(&changed).await;
    harness.failed(&old).await;
    harness.synced(&larger).await;
    harness.failed(&larger).await;
    harness.synced(&namesake).await;
}

// behaviour: ACT-300
#[tokio::test(start_paused = true)]
async fn restart_count_is_derived_from_logs_without_instances() {
    let (harness, pod) = (Harness::new(), forever());
    harness.synced(&pod).await;
    let id = harness.running(&pod, "main").await;
    for log in ["0.log", "3.log", "3.log.20260101-000000", "notes"] {
        harness.files.write(format!("{WEB_LOGS}/main/{log}"), "");
    }
    let removal = wanted::removal(Subject::Container(id));
    harness.runtime.remove_container(&removal).await.unwrap();
    harness.synced(&pod).await;
    assert_eq!(harness.instances("main"), [(4, Running)]);
    let status = harness.status(&pod).await;
    assert_eq!(*status.latest("main").unwrap().log_path, format!("{WEB_LOGS}/main/4.log"));
}

#[tokio::test(start_paused = true)]
async fn changed_image_replaces_the_running_instance_at_once() {
    let harness = Harness::new();
    let pod = |image: &str| {
        web()
            .container("main", image, ["sleep", "forever"])
            .container("same", IMAGE, ["sleep", "forever"])
            .build()
    };
    harness.synced(&pod(IMAGE)).await;
    for (attempt, tag) in [(1, "2"), (2, "3"), (3, "2")] {
        let image = format!("ferrolet.test/workload:{tag}");
        harness.runtime.add_image(&RemoteImage::new(&image));
        harness.synced(&pod(&image)).await;
        assert_eq!(harness.runtime.count(Method::StopContainer), 1);
        assert_eq!(harness.runtime.count(Method::StopPodSandbox), 0);
        assert_eq!(
            harness.last_message("Killing"),
            "Container main definition changed, will be restarted"
        );
        let instances = harness.instances("main");
        assert_eq!(instances[0], (attempt, Running));
        assert_eq!(instances[1], (attempt - 1, Exited));
        assert_eq!(harness.instances("same"), [(0, Running)]);
        let status = harness.status(&pod(&image)).await;
        assert_eq!(*status.latest("main").unwrap().image, *image);
        let messages = harness.pods.kill_messages(&status.uid);
        let ended = status.latest_ended("main").map(|ended| ended.id.clone()).unwrap();
        assert_eq!(messages[&ended], "container definition changed");
        let lines = harness.incidents.lines();
        let recorded = [
            "kill main definition-changed: gracePeriod 30s".to_owned(),
            format!("restart main definition-changed: restartCount {attempt}"),
        ];
        assert_eq!(lines[lines.len() - 2..], recorded);
    }
}

#[tokio::test(start_paused = true)]
async fn replacement_waits_for_the_old_instance_to_end() {
    let harness = Harness::new();
    let pod = |image: &str| {
        web()
            .container("ended", IMAGE, ["sleep", "forever"])
            .container("changed", image, ["sleep", "forever"])
            .build()
    };
    let (old, new) = (pod(IMAGE), pod("ferrolet.test/workload:2"));
    harness.runtime.add_image(&RemoteImage::new("ferrolet.test/workload:2"));
    harness.synced(&old).await;
    harness.runtime.kill_container(&harness.running(&old, "ended").await, 1);
    let changed = harness.running(&old, "changed").await;
    let fault = Fault::error(Code::Internal);
    harness.runtime.inject(Rule::on(Method::StopContainer, fault).object(changed.as_str()).once());
    let error = harness.sync(&new).await.unwrap_err();
    let SyncError::KillContainer { name, .. } = &error else { panic!("{error}") };
    assert_eq!(name, "changed");
    // Not even an unrelated one, like upstream.
    assert_eq!(harness.calls(), [Method::StopContainer]);
    assert_eq!(harness.instances("ended"), [(0, Exited)]);
    assert_eq!(harness.instances("changed"), [(0, Running)]);
    harness.synced(&new).await;
    for name in ["ended", "changed"] {
        assert_eq!(harness.instances(name), [(1, Running), (0, Exited)], "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn unknown_instance_is_stopped_before_another_one_starts() {
    let (harness, pod) = (Harness::new(), forever());
    harness.synced(&pod).await;
    harness.runtime.lose_container(&harness.running(&pod, "main").await);
    assert_eq!(harness.instances("main"), [(0, Unknown)]);
    harness.synced(&pod).await;
    assert_eq!(harness.instances("main"), [(1, Running), (0, Exited)]);
    assert_eq!(harness.calls()[0], Method::StopContainer);
}

#[tokio::test(start_paused = true)]
async fn restart_policy_decides_and_the_sandbox_stops_with_the_last_container() {
    for (policy, code) in [("Never", 0), ("Never", 1), ("OnFailure", 0)] {
        let harness = Harness::new();
        let pod = web()
            .restart_policy(policy)
            .container("one", IMAGE, ["sleep", "forever"])
            .container("other", IMAGE, ["sleep", "forever"])
            .build();
        harness.synced(&pod).await;
        harness.runtime.kill_container(&harness.running(&pod, "one").await, code);
        assert!(!harness.sync(&pod).await.unwrap(), "{policy} {code}");
        harness.runtime.kill_container(&harness.running(&pod, "other").await, code);
        harness.synced(&pod).await;
        assert_eq!(harness.calls(), [Method::StopPodSandbox], "{policy} {code}");
        assert_eq!(harness.status(&pod).await.sandboxes[0].state, SandboxState::NotReady);
        assert!(!harness.sync(&pod).await.unwrap(), "{policy} {code}");
        assert_eq!(harness.instances("one"), [(0, Exited)]);
    }
}
