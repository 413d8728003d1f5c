//! Counters, faults and container deaths through the control socket.

use std::time::{Duration, Instant};

use proto::runtime_v1 as cri;
use serde_json::json;
use tokio::time::timeout;
use tonic::Code;

use crate::program::{LONG, Program};

fn version() -> cri::VersionRequest {
    cri::VersionRequest { version: "v1".into() }
}

#[tokio::test]
async fn calls_are_counted_by_method_until_they_are_reset() {
    let program = Program::start(&["--pods", "2"]);
    assert_eq!(program.command("counters"), json!({}), "creating the population is not counted");
    let mut client = program.runtime();
    client.version(version()).await.unwrap();
    let filter = cri::PodSandboxFilter { id: "nothing".into(), ..Default::default() };
    for filter in [None, Some(cri::PodSandboxFilter::default()), Some(filter)] {
        client.list_pod_sandbox(cri::ListPodSandboxRequest { filter }).await.unwrap();
    }
    client.attach(cri::AttachRequest::default()).await.unwrap_err();
    let expected = json!({
        "Attach": {"calls": 1, "filtered": 0, "failed": 0},
        "ListPodSandbox": {"calls": 3, "filtered": 1, "failed": 0},
        "Version": {"calls": 1, "filtered": 0, "failed": 0},
    });
    assert_eq!(program.command(""), expected);
    assert_eq!(program.command("reset"), expected);
    client.version(version()).await.unwrap();
    let expected = json!({"Version": {"calls": 1, "filtered": 0, "failed": 0}});
    assert_eq!(program.command(""), expected);
}

#[tokio::test]
async fn methods_are_delayed_and_fail_as_configured() {
    let program =
        Program::start(&["--delay", "Version=300ms", "--fail", "Status=ResourceExhausted:2"]);
    let mut client = program.runtime();
    let begun = Instant::now();
    client.version(version()).await.unwrap();
    assert!(begun.elapsed() >= Duration::from_millis(300));
    for _ in 0..2 {
        let status = client.status(cri::StatusRequest::default()).await.unwrap_err();
        assert_eq!(status.code(), Code::ResourceExhausted, "{status}");
    }
    client.status(cri::StatusRequest::default()).await.unwrap();
    let expected = json!({"calls": 3, "filtered": 0, "failed": 2});
    assert_eq!(program.command("")["Status"], expected);
}

#[tokio::test]
async fn name_is_reserved_while_its_call_is_delayed() {
    let program = Program::start(&["--delay", "RunPodSandbox=1h"]);
    let metadata = cri::PodSandboxMetadata { name: "web".into(), ..Default::default() };
    let config = cri::PodSandboxConfig { metadata: Some(metadata), ..Default::default() };
    let request = cri::RunPodSandboxRequest { config: Some(config), ..Default::default() };
    let (mut first, mut second) = (program.runtime(), program.runtime());
    // The later of the two calls is not delayed.
    let refused = async {
        tokio::select! {
            answer = first.run_pod_sandbox(request.clone()) => answer,
            answer = second.run_pod_sandbox(request.clone()) => answer,
        }
    };
    let refused = timeout(LONG, refused).await.unwrap().unwrap_err();
    assert!(refused.message().contains("is reserved for"), "{refused}");
}

#[tokio::test]
async fn method_failures_can_be_set_and_cleared_at_run_time() {
    let program = Program::start(&[]);
    let mut client = program.runtime();
    assert_eq!(program.command("fail Version=Aborted"), json!({"done": "fail Version=Aborted"}));
    assert_eq!(client.version(version()).await.unwrap_err().code(), Code::Aborted);
    program.command("clear");
    client.version(version()).await.unwrap();
    let refused = program.command("delay Versions=1s");
    assert_eq!(refused, json!({"error": "the CRI has no method \"Versions\""}));
}

#[tokio::test]
async fn killed_container_sends_an_event_and_has_its_exit_code() {
    let program = Program::start(&["--pods", "1"]);
    let mut client = program.runtime();
    let mut events =
        client.get_container_events(cri::GetEventsRequest {}).await.unwrap().into_inner();
    let list = client.list_containers(cri::ListContainersRequest::default()).await.unwrap();
    let container = list.into_inner().containers.remove(0);
    let line = format!("kill {} 3", container.id);
    assert_eq!(program.command(&line), json!({"done": line}));
    assert!(program.command(&line)["error"].as_str().unwrap().contains("runs"), "it is dead");

    let event = timeout(LONG, events.message()).await.unwrap().unwrap().unwrap();
    assert_eq!(event.container_id, container.id, "the population sent no events");
    assert_eq!(event.container_event_type(), cri::ContainerEventType::ContainerStoppedEvent);
    let sandbox = event.pod_sandbox_status.unwrap();
    assert_eq!(sandbox.id, container.pod_sandbox_id);
    assert_eq!(sandbox.metadata.unwrap().uid, container.labels["io.kubernetes.pod.uid"]);
    assert_eq!(event.containers_statuses.len(), 1);
    assert_eq!(event.containers_statuses[0].exit_code, 3);
}

#[tokio::test]
async fn population_file_sets_the_initial_pods() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("pods.json");
    let text = r#"{"pods": [{"name": "web", "uid": "u1", "labels": {"app": "web"}, "containers": [
        {"name": "main", "attempt": 1, "annotations": {"io.kubernetes.container.hash": "1234"}},
        {"name": "main", "state": "exited"}
    ]}]}"#;
    std::fs::write(&file, text).unwrap();
    let program = Program::start(&["--population", file.to_str().unwrap()]);
    let mut client = program.runtime();
    let list = client.list_pod_sandbox(cri::ListPodSandboxRequest::default()).await.unwrap();
    let sandboxes = list.into_inner().items;
    assert_eq!(sandboxes.len(), 1);
    assert_eq!(sandboxes[0].labels["app"], "web");
    assert_eq!(sandboxes[0].metadata.as_ref().unwrap().namespace, "default");
    let list = client.list_containers(cri::ListContainersRequest::default()).await.unwrap();
    let mut containers = list.into_inner().containers;
    containers.sort_by_key(|container| container.metadata.as_ref().unwrap().attempt);
    let states: Vec<_> = containers.iter().map(cri::Container::state).collect();
    let expected = [cri::ContainerState::ContainerExited, cri::ContainerState::ContainerRunning];
    assert_eq!(states, expected);
    assert_eq!(containers[1].annotations["io.kubernetes.container.hash"], "1234");
    assert_eq!(containers[1].labels["io.kubernetes.container.name"], "main");
}
