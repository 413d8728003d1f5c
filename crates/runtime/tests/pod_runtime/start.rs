//! Starts of pods, and their failures.

use std::io::ErrorKind;
use std::path::Path;

use k8s_openapi::api::core::v1::{ConfigMapEnvSource, EnvFromSource, EnvVar};
use model::ids::PodName;
use model::observed::ContainerState::{Exited, Running};
use model::observed::SandboxState;
use model::ports::events::EventType;
use model::ports::files::HostFiles;
use model::ports::runtime::Code;
use runtime::SyncError;
use testkit::runtime::{Fault, Method, Rule};

use crate::harness::{Harness, IMAGE, WEB_LOGS, forever, seconds, web};

// behaviour: ACT-140
#[tokio::test(start_paused = true)]
async fn new_pod_gets_a_sandbox_log_directories_and_containers() {
    let harness = Harness::new();
    let pod = web()
        .label("app", "web")
        .annotation("note", "hello")
        .container("main", IMAGE, ["sleep", "forever"])
        .container("side", IMAGE, ["sleep", "forever"])
        .build();
    harness.synced(&pod).await;
    // The image is inspected once: for its presence and its user.
    let start = [Method::ImageStatus, Method::CreateContainer];
    let starts = [&start[..], &[Method::StartContainer]].concat().repeat(2);
    let sandbox = vec![Method::RunPodSandbox, Method::PodSandboxStatus];
    assert_eq!(harness.calls(), [sandbox, starts].concat());
    let status = harness.status(&pod).await;
    let sandbox = &status.sandboxes[0];
    assert_eq!((sandbox.attempt, sandbox.state), (0, SandboxState::Ready));
    assert_eq!(status.running().count(), 2);
    for directory in [WEB_LOGS, &format!("{WEB_LOGS}/main"), &format!("{WEB_LOGS}/side")] {
        assert_eq!(harness.files.mode(directory), Some(0o755), "{directory}");
    }
    let main = status.latest("main").unwrap();
    assert_eq!(*main.log_path, format!("{WEB_LOGS}/main/0.log"));
    let listed = harness.runtime.containers();
    let whose: Vec<_> = listed.iter().map(|one| (one.pod_uid.as_str(), &one.pod)).collect();
    assert_eq!(whose, [("uid-of-web", &PodName::new("default", "web")); 2], "by their labels");
    assert_eq!(main.annotations["io.kubernetes.container.restartCount"], "0");
    assert_eq!(main.annotations["io.kubernetes.pod.terminationGracePeriod"], "30");
    let hash = podspec::definition_hash_hex("main", IMAGE);
    assert_eq!(main.annotations["io.kubernetes.container.hash"], hash);
    let events: Vec<_> = harness
        .events
        .all()
        .iter()
        .map(|event| (event.reason.to_string(), event.field_path.to_string(), event.kind))
        .collect();
    let each = |name: &str| {
        let path = format!("spec.containers{{{name}}}");
        ["Pulled", "Created", "Started"]
            .map(|reason| (reason.to_owned(), path.clone(), EventType::Normal))
    };
    assert_eq!(events, [each("main"), each("side")].concat());
}

#[tokio::test(start_paused = true)]
async fn converged_pod_needs_no_calls_even_for_a_new_agent() {
    let harness = Harness::new();
    harness.synced(&forever()).await;
    assert!(!harness.sync(&forever()).await.unwrap());
    assert_eq!(harness.calls(), []);
    assert_eq!(harness.events.reasons().len(), 3);
}

// behaviour: ACT-138
#[tokio::test(start_paused = true)]
async fn container_log_is_linked_by_name_if_it_exists() {
    let (harness, pod) = (Harness::new(), forever());
    harness.synced(&pod).await;
    assert!(harness.files.list(Path::new("/var/log/containers")).await.unwrap_err().is_not_found());
    harness.files.write(format!("{WEB_LOGS}/main/1.log"), "here I am");
    harness.runtime.kill_container(&harness.running(&pod, "main").await, 1);
    harness.synced(&pod).await;
    let id = harness.running(&pod, "main").await;
    let link = format!("/var/log/containers/web_default_main-{id}.log");
    assert_eq!(harness.files.read(Path::new(&link), 100).await.unwrap(), b"here I am");
}

// behaviour: ACT-138
#[tokio::test(start_paused = true)]
async fn failed_log_link_does_not_fail_the_container() {
    let (harness, pod) = (Harness::new(), forever());
    harness.synced(&pod).await;
    harness.files.write(format!("{WEB_LOGS}/main/1.log"), "here I am");
    harness.files.write("/var/log/containers", "not a directory");
    harness.runtime.kill_container(&harness.running(&pod, "main").await, 1);
    harness.synced(&pod).await;
    harness.running(&pod, "main").await;
}

// behaviour: ACT-139
#[tokio::test(start_paused = true)]
async fn failed_container_does_not_block_the_others() {
    let harness = Harness::new();
    let mut pod = web()
        .container("absent", "ferrolet.test/absent:1", [])
        .container("main", IMAGE, ["sleep", "forever"])
        .container("never", "ferrolet.test/never:1", [])
        .build();
    pod.spec.as_mut().unwrap().containers[2].image_pull_policy = Some("Never".into());
    let (reasons, error) = harness.failed(&pod).await;
    let expected =
        [("absent".to_owned(), "ErrImagePull"), ("never".to_owned(), "ErrImageNeverPull")];
    assert_eq!(reasons, expected);
    assert_eq!(
        error.to_string(),
        "2 container(s) did not start: absent (ErrImagePull), never (ErrImageNeverPull)"
    );
    assert_eq!(error.retry_at(), None);
    harness.running(&pod, "main").await;
    assert_eq!(harness.last_message("Failed"), "Error: ErrImageNeverPull");
}

// behaviour: CON-65
#[tokio::test(start_paused = true)]
async fn failed_container_creation_is_retried_with_the_same_number() {
    let harness = Harness::new();
    harness.runtime.inject(Rule::on(Method::CreateContainer, Fault::error(Code::Internal)).once());
    let (reasons, _) = harness.failed(&forever()).await;
    assert_eq!(reasons, [("main".to_owned(), "CreateContainerError")]);
    assert_eq!(harness.events.reasons(), ["Pulled", "Failed"]);
    assert_eq!(harness.last_message("Failed"), "Error: injected by a test");
    assert_eq!(harness.instances("main"), []);
    harness.synced(&forever()).await;
    let made = [Method::CreateContainer, Method::StartContainer];
    assert_eq!(harness.calls()[1..], made);
    assert_eq!(harness.instances("main"), [(0, Running)]);
}

// behaviour: CON-65
#[tokio::test(start_paused = true)]
async fn failed_container_start_is_retried() {
    let harness = Harness::new();
    harness.runtime.inject(Rule::on(Method::StartContainer, Fault::error(Code::Unknown)).once());
    let (reasons, _) = harness.failed(&forever()).await;
    assert_eq!(reasons, [("main".to_owned(), "RunContainerError")]);
    assert_eq!(harness.events.reasons(), ["Pulled", "Created", "Failed"]);
    assert_eq!(harness.last_message("Failed"), "Error: injected by a test");
    harness.synced(&forever()).await;
    assert_eq!(harness.instances("main"), [(0, Running)]);
}

#[tokio::test(start_paused = true)]
async fn missing_program_fails_like_a_crash() {
    let harness = Harness::new();
    let mut pod = forever();
    pod.spec.as_mut().unwrap().containers[0].command = Some(vec!["/nonsense".into()]);
    for attempt in [0, 1] {
        let (reasons, _) = harness.failed(&pod).await;
        assert_eq!(reasons, [("main".to_owned(), "RunContainerError")]);
        assert_eq!(harness.instances("main")[0], (attempt, Exited));
    }
    let (reasons, _) = harness.failed(&pod).await;
    assert_eq!(reasons, [("main".to_owned(), "CrashLoopBackOff")]);
}

#[tokio::test(start_paused = true)]
async fn invalid_config_never_reaches_the_runtime() {
    let harness = Harness::new();
    let mut pod = forever();
    let config_map_ref = Some(ConfigMapEnvSource::default());
    let source = EnvFromSource { config_map_ref, ..EnvFromSource::default() };
    pod.spec.as_mut().unwrap().containers[0].env_from = Some(vec![source]);
    let (reasons, _) = harness.failed(&pod).await;
    assert_eq!(reasons, [("main".to_owned(), "CreateContainerConfigError")]);
    assert_eq!(harness.runtime.count(Method::CreateContainer), 0);
}

// behaviour: CON-16
#[tokio::test(start_paused = true)]
async fn arguments_expanded_beyond_the_limit_never_reach_the_runtime() {
    let harness = Harness::new();
    let mut pod = forever();
    let main = &mut pod.spec.as_mut().unwrap().containers[0];
    let value = Some("x".repeat(100 * 1024));
    main.env = Some(vec![EnvVar { name: "A".to_owned(), value, ..EnvVar::default() }]);
    main.args = Some(vec!["$(A)".to_owned(), "$(A)$(A)".to_owned()]);
    let (reasons, _) = harness.failed(&pod).await;
    assert_eq!(reasons, [("main".to_owned(), "CreateContainerConfigError")]);
    let message = "Error: container \"main\": args[1] is longer than 131072 bytes";
    assert_eq!(harness.last_message("Failed"), message);
    assert_eq!(harness.runtime.count(Method::CreateContainer), 0);
}

// behaviour: ACT-112
#[tokio::test(start_paused = true)]
async fn failed_log_directory_is_an_error_of_the_pod_or_container() {
    let harness = Harness::new();
    harness.files.fail(WEB_LOGS, ErrorKind::PermissionDenied);
    let error = harness.sync(&forever()).await.unwrap_err();
    assert!(matches!(error, SyncError::LogDirectory(_)), "{error}");
    assert_eq!(harness.calls(), []);
    assert_eq!(harness.events.reasons(), ["FailedCreatePodSandBox"]);
    let error_text = harness.last_message("FailedCreatePodSandBox");
    let expected = format!("Failed to create pod sandbox: mkdir {WEB_LOGS}: ");
    assert!(error_text.starts_with(&expected), "{error_text}");
    harness.files.repair(WEB_LOGS);
    harness.files.write(format!("{WEB_LOGS}/main"), "not a directory");
    let (reasons, _) = harness.failed(&forever()).await;
    assert_eq!(reasons, [("main".to_owned(), "CreateContainerConfigError")]);
    let error_text = harness.last_message("Failed");
    let expected = "Error: create container log directory for container main failed: ";
    assert!(error_text.starts_with(expected), "{error_text}");
    assert_eq!(harness.runtime.count(Method::CreateContainer), 0);
}

// behaviour: ACT-134
#[tokio::test(start_paused = true)]
async fn container_is_not_created_when_its_logs_cannot_be_listed() {
    let harness = Harness::new();
    let logs = format!("{WEB_LOGS}/main");
    harness.files.write(format!("{logs}/3.log"), "an earlier log");
    harness.files.fail_list(&logs, ErrorKind::PermissionDenied);
    let (reasons, _) = harness.failed(&forever()).await;
    assert_eq!(reasons, [("main".to_owned(), "CreateContainerConfigError")]);
    assert_eq!(harness.runtime.count(Method::CreateContainer), 0);
    let error_text = harness.last_message("Failed");
    assert!(
        error_text.starts_with("Error: count the logs of container main: list "),
        "{error_text}"
    );
    harness.files.repair(&logs);
    harness.synced(&forever()).await;
    let main = harness.status(&forever()).await.latest("main").unwrap().log_path.clone();
    assert_eq!(*main, format!("{logs}/4.log"));
}

// behaviour: ACT-123
#[tokio::test(start_paused = true)]
async fn starts_and_failures_are_counted_by_kind_and_reason() {
    let harness = Harness::new();
    let fault = |method| Rule::on(method, Fault::error(Code::Internal)).once();
    harness.runtime.inject(fault(Method::RunPodSandbox));
    let mut pod = web()
        .init_container("init", IMAGE, ["exit", "0"])
        .sidecar("side", IMAGE, ["sleep", "forever"])
        .container("main", IMAGE, ["sleep", "forever"])
        .container("never", "ferrolet.test/never:1", [])
        .build();
    pod.spec.as_mut().unwrap().containers[1].image_pull_policy = Some("Never".into());
    harness.sync(&pod).await.unwrap_err();
    let pods = ["kubelet_started_pods_errors_total 1", "kubelet_started_pods_total 1"];
    assert_eq!(harness.counted("kubelet_started_pods"), pods);
    // The init container, the sidecar after it, and then the others.
    for _ in 0..2 {
        harness.synced(&pod).await;
        tokio::time::sleep(seconds(1)).await;
    }
    harness.failed(&pod).await;
    let pods = ["kubelet_started_pods_errors_total 1", "kubelet_started_pods_total 2"];
    assert_eq!(harness.counted("kubelet_started_pods"), pods);
    let containers = [
        r#"kubelet_started_containers_errors_total{code="ErrImageNeverPull",container_type="container"} 1"#,
        r#"kubelet_started_containers_total{container_type="container"} 2"#,
        r#"kubelet_started_containers_total{container_type="init_container"} 2"#,
    ];
    assert_eq!(harness.counted("kubelet_started_containers"), containers);
}

// behaviour: ACT-128, ACT-129
#[tokio::test(start_paused = true)]
async fn sandbox_metrics_have_handler_and_user_namespaces() {
    let harness = Harness::new();
    let fault = |method| Rule::on(method, Fault::error(Code::Internal)).once();
    harness.runtime.inject(fault(Method::RunPodSandbox));
    harness.sync(&forever()).await.unwrap_err();
    harness.runtime.inject(Rule::on(Method::RunPodSandbox, Fault::delay(seconds(2))).once());
    harness.synced(&forever()).await;
    let sandboxes = [
        r#"kubelet_run_podsandbox_duration_seconds_sum{runtime_handler=""} 2"#,
        r#"kubelet_run_podsandbox_duration_seconds_count{runtime_handler=""} 2"#,
        r#"kubelet_run_podsandbox_errors_total{runtime_handler=""} 1"#,
    ];
    assert_eq!(harness.counted("kubelet_run_podsandbox"), sandboxes);
    let none = [
        "kubelet_started_user_namespaced_pods_errors_total 0",
        "kubelet_started_user_namespaced_pods_total 0",
    ];
    assert_eq!(harness.counted("kubelet_started_user"), none);
    let mut own = testkit::pods::pod("own").container("main", IMAGE, ["sleep", "forever"]).build();
    own.spec.as_mut().unwrap().host_users = Some(false);
    harness.runtime.inject(fault(Method::CreateContainer));
    harness.failed(&own).await;
    let failed = [
        "kubelet_started_user_namespaced_pods_errors_total 1",
        "kubelet_started_user_namespaced_pods_total 1",
    ];
    assert_eq!(harness.counted("kubelet_started_user"), failed);
    // The sandbox exists now: nothing is repeated.
    harness.synced(&own).await;
    assert_eq!(harness.counted("kubelet_started_user"), failed);
}
