//! Calls of a node agent that the port of the runtime does not have.

use std::collections::BTreeMap;
use std::fs;

use proto::runtime_v1 as cri;
use tonic::Code;

use crate::program::Program;

fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

fn sandbox_config(logs: &str) -> cri::PodSandboxConfig {
    cri::PodSandboxConfig {
        metadata: Some(cri::PodSandboxMetadata {
            name: "web".into(),
            uid: "u1".into(),
            namespace: "shop".into(),
            attempt: 0,
        }),
        hostname: "web".into(),
        log_directory: logs.into(),
        labels: map(&[("io.kubernetes.pod.uid", "u1"), ("app", "web")]),
        annotations: map(&[("note", "a")]),
        ..Default::default()
    }
}

fn spec(image: &str) -> cri::ImageSpec {
    cri::ImageSpec { image: image.into(), ..Default::default() }
}

/// Pulls an image and runs a container of it as a kubelet would; returns both ids.
async fn run(program: &Program, image: &str, command: &[&str]) -> (String, String) {
    let pull = cri::PullImageRequest { image: Some(spec(image)), ..Default::default() };
    let image = program.images().pull_image(pull).await.unwrap().into_inner().image_ref;
    let mut client = program.runtime();
    let logs = program.directory().join("logs").display().to_string();
    let config = sandbox_config(&logs);
    let request = cri::RunPodSandboxRequest {
        config: Some(config.clone()),
        runtime_handler: "special".into(),
    };
    let sandbox = client.run_pod_sandbox(request).await.unwrap().into_inner().pod_sandbox_id;
    let resources =
        cri::LinuxContainerResources { cpu_shares: 2, cpu_period: 7, ..Default::default() };
    let request = cri::CreateContainerRequest {
        pod_sandbox_id: sandbox.clone(),
        config: Some(cri::ContainerConfig {
            metadata: Some(cri::ContainerMetadata { name: "main".into(), attempt: 2 }),
            image: Some(spec(&image)),
            command: command.iter().map(ToString::to_string).collect(),
            mounts: vec![cri::Mount { container_path: "/data".into(), ..Default::default() }],
            labels: map(&[("io.kubernetes.pod.uid", "u1"), ("tier", "inner")]),
            annotations: map(&[("note", "b")]),
            log_path: "main/2.log".into(),
            linux: Some(cri::LinuxContainerConfig {
                resources: Some(resources),
                ..Default::default()
            }),
            stop_signal: cri::Signal::Sigint.into(),
            ..Default::default()
        }),
        sandbox_config: Some(config),
    };
    let id = client.create_container(request).await.unwrap().into_inner().container_id;
    let request = cri::StartContainerRequest { container_id: id.clone() };
    client.start_container(request).await.unwrap();
    (sandbox, id)
}

async fn status(program: &Program, id: &str) -> cri::ContainerStatus {
    let request = cri::ContainerStatusRequest { container_id: id.into(), verbose: false };
    program.runtime().container_status(request).await.unwrap().into_inner().status.unwrap()
}

#[tokio::test]
async fn container_status_returns_the_created_image_and_command() {
    let program = Program::start(&[]);
    let (sandbox, id) = run(&program, "busybox", &["sh", "-c", "sleep 3600"]).await;
    let status = status(&program, &id).await;
    assert_eq!(status.state(), cri::ContainerState::ContainerRunning);
    assert_eq!(status.metadata.unwrap().attempt, 2);
    assert_eq!(status.image.unwrap().image, "docker.io/library/busybox:latest");
    assert!(status.image_id.starts_with("sha256:"), "{}", status.image_id);
    assert_eq!(status.mounts[0].container_path, "/data");
    assert_eq!(status.resources.unwrap().linux.unwrap().cpu_shares, 2);
    assert_eq!(status.stop_signal, i32::from(cri::Signal::Sigint));
    assert_eq!(status.annotations, map(&[("note", "b")]));
    let logs = program.directory().join("logs");
    assert_eq!(status.log_path, logs.join("main/2.log").display().to_string());
    assert!(!logs.exists(), "logs are not written by default");

    let request = cri::PodSandboxStatusRequest { pod_sandbox_id: sandbox, verbose: false };
    let answer = program.runtime().pod_sandbox_status(request).await.unwrap().into_inner();
    let status = answer.status.unwrap();
    assert_eq!(status.runtime_handler, "special");
    assert_eq!(status.labels["app"], "web");
    assert_eq!(status.annotations, map(&[("note", "a")]));
    assert_eq!(status.network.unwrap().ip, "10.0.0.1");
}

#[tokio::test]
async fn only_configured_images_can_be_pulled() {
    let program = Program::start(&["--image", "busybox", "--image", "ferrolet.test/a:1"]);
    let mut images = program.images();
    for (name, there) in [("busybox:latest", true), ("ferrolet.test/a:1", true), ("nginx", false)] {
        let pull = cri::PullImageRequest { image: Some(spec(name)), ..Default::default() };
        let refusal = images.pull_image(pull).await.err().map(|status| status.code());
        assert_eq!(refusal, (!there).then_some(Code::NotFound), "{name}");
        let request = cri::ImageStatusRequest { image: Some(spec(name)), verbose: false };
        let image = images.image_status(request).await.unwrap().into_inner().image;
        assert_eq!(image.is_some(), there, "{name}");
    }
    let filter = Some(cri::ImageFilter { image: Some(spec("busybox")) });
    for (filter, count) in [(None, 2), (filter, 1)] {
        let list = images.list_images(cri::ListImagesRequest { filter }).await.unwrap();
        assert_eq!(list.into_inner().images.len(), count);
    }
    let info = images.image_fs_info(cri::ImageFsInfoRequest {}).await.unwrap().into_inner();
    let usage = &info.image_filesystems[0];
    let mountpoint = &usage.fs_id.as_ref().unwrap().mountpoint;
    assert_eq!(*mountpoint, program.directory().display().to_string());
    assert_eq!(usage.used_bytes.unwrap().value, 2_000_000);
    images.remove_image(cri::RemoveImageRequest { image: Some(spec("busybox")) }).await.unwrap();
    let list = images.list_images(cri::ListImagesRequest::default()).await.unwrap();
    assert_eq!(list.into_inner().images.len(), 1);
}

#[tokio::test]
async fn lists_are_filtered_by_any_label() {
    let program = Program::start(&["--pods", "3"]);
    let (sandbox, id) = run(&program, "busybox", &[]).await;
    let mut client = program.runtime();
    let rows = [
        (map(&[("tier", "inner")]), 1),
        (map(&[("tier", "inner"), ("io.kubernetes.pod.uid", "u1")]), 1),
        (map(&[("tier", "outer"), ("io.kubernetes.pod.uid", "u1")]), 0),
        (map(&[("tier", "inner"), ("io.kubernetes.pod.uid", "u2")]), 0),
        (map(&[]), 4),
    ];
    for (label_selector, count) in rows {
        let filter = cri::ContainerFilter { label_selector, ..Default::default() };
        let request = cri::ListContainersRequest { filter: Some(filter.clone()) };
        let list = client.list_containers(request).await.unwrap().into_inner().containers;
        assert_eq!(list.len(), count, "{filter:?}");
    }
    let filter =
        cri::PodSandboxFilter { label_selector: map(&[("app", "web")]), ..Default::default() };
    let request = cri::ListPodSandboxRequest { filter: Some(filter) };
    let list = client.list_pod_sandbox(request).await.unwrap().into_inner().items;
    assert_eq!(list.iter().map(|item| &item.id).collect::<Vec<_>>(), [&sandbox]);
    let filter = cri::ContainerStatsFilter { pod_sandbox_id: sandbox, ..Default::default() };
    let request = cri::ListContainerStatsRequest { filter: Some(filter) };
    let stats = client.list_container_stats(request).await.unwrap().into_inner().stats;
    assert_eq!(stats.len(), 1);
    assert_eq!(stats[0].attributes.as_ref().unwrap().id, id);
}

#[tokio::test]
async fn calls_of_a_kubelet_are_answered() {
    let program = Program::start(&["--pods", "3", "--containers", "2"]);
    let mut client = program.runtime();
    let config = client.runtime_config(cri::RuntimeConfigRequest {}).await.unwrap().into_inner();
    assert_eq!(config.linux.unwrap().cgroup_driver(), cri::CgroupDriver::Cgroupfs);
    client.update_runtime_config(cri::UpdateRuntimeConfigRequest::default()).await.unwrap();
    let answer = client.status(cri::StatusRequest::default()).await.unwrap().into_inner();
    let conditions = answer.status.unwrap().conditions;
    let ready: Vec<_> = conditions.iter().map(|one| (one.r#type.as_str(), one.status)).collect();
    assert_eq!(ready, [("RuntimeReady", true), ("NetworkReady", true)]);

    let request = cri::ListPodSandboxStatsRequest::default();
    let stats = client.list_pod_sandbox_stats(request).await.unwrap().into_inner().stats;
    assert_eq!(stats.len(), 3);
    let linux = stats[0].linux.as_ref().unwrap();
    assert_eq!(linux.containers.len(), 2);
    assert!(linux.cpu.as_ref().unwrap().timestamp > 0);
    let pod_sandbox_id = stats[0].attributes.as_ref().unwrap().id.clone();
    let container_id = linux.containers[0].attributes.as_ref().unwrap().id.clone();
    client.pod_sandbox_stats(cri::PodSandboxStatsRequest { pod_sandbox_id }).await.unwrap();
    let request = cri::ContainerStatsRequest { container_id: container_id.clone() };
    client.container_stats(request).await.unwrap();
    let request = cri::ListMetricDescriptorsRequest {};
    assert!(
        client.list_metric_descriptors(request).await.unwrap().into_inner().descriptors.is_empty()
    );
    let request = cri::ListPodSandboxMetricsRequest {};
    let metrics = client.list_pod_sandbox_metrics(request).await.unwrap().into_inner();
    assert_eq!(metrics.pod_metrics.len(), 3);

    let cmd = ["/workload", "exit", "0"].map(ToOwned::to_owned).into();
    let request = cri::ExecSyncRequest { container_id, cmd, ..Default::default() };
    let done = client.exec_sync(request).await.unwrap().into_inner();
    assert_eq!((done.exit_code, done.stdout.len(), done.stderr.len()), (0, 0, 0));
    let unknown = || "f".repeat(64);
    let request = cri::ExecSyncRequest { container_id: unknown(), ..Default::default() };
    assert_eq!(client.exec_sync(request).await.unwrap_err().code(), Code::NotFound);
    let request = cri::ContainerStatsRequest { container_id: unknown() };
    assert_eq!(client.container_stats(request).await.unwrap_err().code(), Code::NotFound);
    let exec = client.exec(cri::ExecRequest::default()).await.unwrap_err();
    assert_eq!(exec.code(), Code::NotFound, "no container has an empty id");
}

#[tokio::test]
async fn update_keeps_unset_resources() {
    let program = Program::start(&[]);
    let (_, id) = run(&program, "busybox", &[]).await;
    let linux = cri::LinuxContainerResources { cpu_shares: 512, ..Default::default() };
    let request = cri::UpdateContainerResourcesRequest {
        container_id: id.clone(),
        linux: Some(linux),
        ..Default::default()
    };
    program.runtime().update_container_resources(request).await.unwrap();
    let resources = status(&program, &id).await.resources.unwrap().linux.unwrap();
    assert_eq!((resources.cpu_shares, resources.cpu_period), (512, 7));
}

#[tokio::test]
async fn logs_are_written_when_enabled_and_reopened_after_rotation() {
    let program = Program::start(&["--write-logs"]);
    let (_, id) = run(&program, "busybox", &[]).await;
    let path = status(&program, &id).await.log_path;
    let log = fs::read_to_string(&path).unwrap();
    assert!(log.ends_with(" stdout F started\n") && log.starts_with("20"), "{log:?}");
    fs::rename(&path, format!("{path}.old")).unwrap();
    let request = cri::ReopenContainerLogRequest { container_id: id };
    program.runtime().reopen_container_log(request).await.unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), "");
}
