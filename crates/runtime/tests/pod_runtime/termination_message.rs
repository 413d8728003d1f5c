//! What containers leave behind.

use std::io::ErrorKind;

use k8s_openapi::api::core::v1::Pod;
use model::observed::ContainerState::Running;
use model::ports::runtime::ContainerService;

use crate::world::{IMAGE, PODS, WEB_LOGS, World, web};

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

/// The file for the last words of the running container.
async fn file(world: &World, pod: &Pod) -> String {
    let id = world.running(pod, "main").await;
    let status = world.runtime.container_status(&id).await.unwrap();
    let mut mounts = status.mounts.iter();
    let mount = mounts.find(|mount| mount.container_path == "/dev/termination-log").unwrap();
    assert!(!mount.read_only);
    mount.host_path.clone()
}

async fn message(world: &World, pod: &Pod) -> String {
    world.status(pod).await.latest("main").unwrap().message.to_string()
}

// behaviour: ACT-89
#[tokio::test(start_paused = true)]
async fn each_instance_gets_its_own_world_writable_message_file() {
    let world = World::new();
    let mut pod = failing("File");
    pod.spec.as_mut().unwrap().restart_policy = Some("Always".into());
    world.synced(&pod).await;
    let first = file(&world, &pod).await;
    let directory = format!("{PODS}/uid-of-web/containers/main");
    let name = first.strip_prefix(&format!("{directory}/")).unwrap();
    assert!(name.len() == 8 && name.bytes().all(|byte| byte.is_ascii_hexdigit()), "{name}");
    assert_eq!(
        (world.files.mode(&first), world.files.mode(&directory)),
        (Some(0o666), Some(0o750))
    );
    world.runtime.kill_container(&world.running(&pod, "main").await, 1);
    world.synced(&pod).await;
    assert_ne!(file(&world, &pod).await, first);
}

// behaviour: ACT-92
#[tokio::test(start_paused = true)]
async fn termination_message_is_the_file_or_by_policy_the_end_of_the_log() {
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
        let (world, pod) = (World::new(), failing(policy));
        world.synced(&pod).await;
        world.logs.put(&log, lines.concat());
        let file = file(&world, &pod).await;
        match words {
            Some(words) => world.files.write(&file, words),
            None => world.files.remove(&file),
        }
        world.runtime.kill_container(&world.running(&pod, "main").await, code);
        assert_eq!(message(&world, &pod).await, expected, "{policy} {words:?} {code}");
    }
}

#[tokio::test(start_paused = true)]
async fn termination_message_from_a_log_is_limited() {
    let (world, pod) = (World::new(), failing("FallbackToLogsOnError"));
    world.synced(&pod).await;
    let lines: Vec<String> = (0..80).map(|line| format!("{line:063}\n")).collect();
    let text = lines.concat();
    world.logs.put(format!("{WEB_LOGS}/main/0.log"), &text);
    world.runtime.kill_container(&world.running(&pod, "main").await, 1);
    assert_eq!(message(&world, &pod).await, text[text.len() - 2048..]);
}

// behaviour: ACT-94
#[tokio::test(start_paused = true)]
async fn termination_message_is_read_only_from_regular_files_of_the_pod() {
    let (world, pod) = (World::new(), failing("File"));
    world.synced(&pod).await;
    let file = file(&world, &pod).await;
    world.files.write("/etc/shadow", "secret");
    world.files.remove(&file);
    world.files.put_link(&file, "/etc/shadow");
    world.runtime.kill_container(&world.running(&pod, "main").await, 1);
    let message = message(&world, &pod).await;
    assert!(message.starts_with("Error on reading termination log"), "{message}");
    assert!(!message.contains("secret"));
}

// behaviour: ACT-95
#[tokio::test(start_paused = true)]
async fn container_runs_without_a_termination_message_file() {
    let (world, pod) = (World::new(), failing("File"));
    let directory = format!("{PODS}/uid-of-web/containers/main");
    world.files.fail(directory, ErrorKind::PermissionDenied);
    world.synced(&pod).await;
    assert_eq!(world.instances("main"), [(0, Running)]);
}
