//! Termination messages.

use std::io::ErrorKind;

use k8s_openapi::api::core::v1::Pod;
use model::observed::ContainerState::Running;
use model::ports::runtime::ContainerService;

use crate::harness::{Harness, IMAGE, PODS, WEB_LOGS, web};

fn failing(policy: &str) -> Pod {
    web()
        .restart_policy("Never")
        .container("main", IMAGE, ["sleep", "forever"])
        .spec(|spec| {
            spec.containers[0].termination_message_path = Some("/dev/termination-log".into());
            spec.containers[0].termination_message_policy = Some(policy.into());
        })
        .build()
}

/// The termination message file of the running container.
async fn file(harness: &Harness, pod: &Pod) -> String {
    let id = harness.running(pod, "main").await;
    let status = harness.runtime.container_status(&id).await.unwrap();
    let mut mounts = status.mounts.iter();
    let mount = mounts.find(|mount| mount.container_path == "/dev/termination-log").unwrap();
    assert!(!mount.read_only);
    mount.host_path.clone()
}

async fn message(harness: &Harness, pod: &Pod) -> String {
    harness.status(pod).await.latest("main").unwrap().message.to_string()
}

// behaviour: ACT-89
#[tokio::test(start_paused = true)]
async fn each_instance_gets_its_own_world_writable_message_file() {
    let harness = Harness::new();
    let mut pod = failing("File");
    pod.spec.as_mut().unwrap().restart_policy = Some("Always".into());
    harness.synced(&pod).await;
    let first = file(&harness, &pod).await;
    let directory = format!("{PODS}/uid-of-web/containers/main");
    let name = first.strip_prefix(&format!("{directory}/")).unwrap();
    assert!(name.len() == 8 && name.bytes().all(|byte| byte.is_ascii_hexdigit()), "{name}");
    assert_eq!(
        (harness.files.mode(&first), harness.files.mode(&directory)),
        (Some(0o666), Some(0o750))
    );
    harness.runtime.kill_container(&harness.running(&pod, "main").await, 1);
    harness.synced(&pod).await;
    assert_ne!(file(&harness, &pod).await, first);
}

// behaviour: ACT-92
#[tokio::test(start_paused = true)]
async fn termination_message_is_from_the_file_or_the_log_by_policy() {
    let log = format!("{WEB_LOGS}/main/0.log");
    let lines: Vec<String> = (0..200).map(|line| format!("line {line}\n")).collect();
    let last_lines = lines[120..].concat();
    let much = "x".repeat(5000) + "end";
    let rows = [
        ("File", Some("bye"), 1, "bye"),
        ("File", Some(""), 1, ""),
        ("File", None, 1, ""),
        ("FallbackToLogsOnError", Some("bye"), 1, "bye"),
        ("FallbackToLogsOnError", Some(""), 1, &last_lines),
        ("FallbackToLogsOnError", None, 1, &last_lines),
        ("FallbackToLogsOnError", Some(""), 0, ""),
        ("File", Some(&much), 0, &much[5003 - 4096..]),
    ];
    for (policy, words, code, expected) in rows {
        let (harness, pod) = (Harness::new(), failing(policy));
        harness.synced(&pod).await;
        harness.logs.put(&log, lines.concat());
        let file = file(&harness, &pod).await;
        match words {
            Some(words) => harness.files.write(&file, words),
            None => harness.files.remove(&file),
        }
        harness.runtime.kill_container(&harness.running(&pod, "main").await, code);
        assert_eq!(message(&harness, &pod).await, expected, "{policy} {words:?} {code}");
    }
}

#[tokio::test(start_paused = true)]
async fn termination_message_from_a_log_is_limited() {
    let (harness, pod) = (Harness::new(), failing("FallbackToLogsOnError"));
    harness.synced(&pod).await;
    let lines: Vec<String> = (0..80).map(|line| format!("{line:063}\n")).collect();
    let text = lines.concat();
    harness.logs.put(format!("{WEB_LOGS}/main/0.log"), &text);
    harness.runtime.kill_container(&harness.running(&pod, "main").await, 1);
    assert_eq!(message(&harness, &pod).await, text[text.len() - 2048..]);
}

// behaviour: ACT-94
#[tokio::test(start_paused = true)]
async fn termination_message_is_read_only_from_regular_files_of_the_pod() {
    let (harness, pod) = (Harness::new(), failing("File"));
    harness.synced(&pod).await;
    let file = file(&harness, &pod).await;
    harness.files.write("/etc/shadow", "secret");
    harness.files.remove(&file);
    harness.files.put_link(&file, "/etc/shadow");
    harness.runtime.kill_container(&harness.running(&pod, "main").await, 1);
    let message = message(&harness, &pod).await;
    assert!(message.starts_with("Error on reading termination log"), "{message}");
    assert!(!message.contains("secret"));
}

// behaviour: ACT-95
#[tokio::test(start_paused = true)]
async fn container_runs_without_a_termination_message_file() {
    let (harness, pod) = (Harness::new(), failing("File"));
    let directory = format!("{PODS}/uid-of-web/containers/main");
    harness.files.fail(directory, ErrorKind::PermissionDenied);
    harness.synced(&pod).await;
    assert_eq!(harness.instances("main"), [(0, Running)]);
}
