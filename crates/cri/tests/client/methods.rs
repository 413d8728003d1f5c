//! Every method of the port, for tests that apply to all methods.

use std::time::Duration;

use cri::CriRuntime;
use model::ports::runtime::{
    ContainerFilter, ContainerService, ImageService, RuntimeError, RuntimeInfo, SandboxFilter,
    SandboxService,
};
use model::ports::streaming::Streaming;
use model::verdict::Subject;

use crate::streaming::{attach_request, checkpoint_request, exec_request, port_forward_request};
use crate::wanted::{container_config, sandbox_config, verdict};

/// The deadline class of a call.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Class {
    Request,
    Sandbox,
    Stop,
    Exec,
    Pull,
}

/// Service, method, the object in errors, and class.
pub(crate) const METHODS: [(&str, &str, &str, Class); 26] = [
    ("RuntimeService", "Version", "of the runtime", Class::Request),
    ("RuntimeService", "Status", "of the runtime", Class::Request),
    ("RuntimeService", "RunPodSandbox", "shop/web", Class::Sandbox),
    ("RuntimeService", "StopPodSandbox", "s1", Class::Request),
    ("RuntimeService", "RemovePodSandbox", "s1", Class::Request),
    ("RuntimeService", "ListPodSandbox", "of all pods", Class::Request),
    ("RuntimeService", "PodSandboxStatus", "s1", Class::Request),
    ("RuntimeService", "CreateContainer", "app of shop/web", Class::Request),
    ("RuntimeService", "StartContainer", "c1", Class::Request),
    ("RuntimeService", "StopContainer", "c1", Class::Stop),
    ("RuntimeService", "UpdateContainerResources", "c1", Class::Request),
    ("RuntimeService", "UpdatePodSandboxResources", "s1", Class::Request),
    ("RuntimeService", "RemoveContainer", "c1", Class::Request),
    ("RuntimeService", "ListContainers", "of all pods", Class::Request),
    ("RuntimeService", "ContainerStatus", "c1", Class::Request),
    ("RuntimeService", "ListContainerStats", "of all pods", Class::Request),
    ("RuntimeService", "ReopenContainerLog", "c1", Class::Request),
    ("RuntimeService", "ExecSync", "c1", Class::Exec),
    ("RuntimeService", "Exec", "c1", Class::Request),
    ("RuntimeService", "Attach", "c1", Class::Request),
    ("RuntimeService", "PortForward", "s1", Class::Request),
    ("RuntimeService", "CheckpointContainer", "c1", Class::Request),
    ("ImageService", "ImageStatus", "busybox", Class::Request),
    ("ImageService", "PullImage", "busybox", Class::Pull),
    ("ImageService", "ListImages", "of the runtime", Class::Request),
    ("ImageService", "RemoveImage", "sha256:beef", Class::Request),
];

/// Calls a method on the object in [`METHODS`]; `grace` is for the method that takes one.
pub(crate) async fn call(
    client: &CriRuntime,
    method: &str,
    grace: Duration,
) -> Result<(), RuntimeError> {
    let (sandbox, container) = (&"s1".into(), &"c1".into());
    match method {
        "Version" => client.version().await.map(drop),
        "Status" => client.status().await.map(drop),
        "RunPodSandbox" => client.run_pod_sandbox(&sandbox_config()).await.map(drop),
        "StopPodSandbox" => client.stop_pod_sandbox(sandbox).await,
        "RemovePodSandbox" => {
            client.remove_pod_sandbox(&verdict(Subject::Sandbox("s1".into()))).await
        }
        "ListPodSandbox" => client.list_pod_sandboxes(&SandboxFilter::default()).await.map(drop),
        "PodSandboxStatus" => client.pod_sandbox_status(sandbox).await.map(drop),
        "CreateContainer" => {
            client.create_container(sandbox, &container_config(), &sandbox_config()).await.map(drop)
        }
        "StartContainer" => client.start_container(container).await,
        "StopContainer" => client.stop_container(container, grace).await,
        "UpdateContainerResources" => {
            client.update_container_resources(container, &container_config().resources).await
        }
        "UpdatePodSandboxResources" => {
            let resources = &container_config().resources;
            client.update_pod_sandbox_resources(sandbox, resources, resources).await
        }
        "RemoveContainer" => {
            client.remove_container(&verdict(Subject::Container("c1".into()))).await
        }
        "ListContainers" => client.list_containers(&ContainerFilter::default()).await.map(drop),
        "ContainerStatus" => client.container_status(container).await.map(drop),
        "ListContainerStats" => client.list_writable_layers().await.map(drop),
        "ReopenContainerLog" => client.reopen_container_log(container).await,
        "ExecSync" => client.exec_sync(container, &["true".into()], Some(grace)).await.map(drop),
        "Exec" => client.exec(&exec_request()).await.map(drop),
        "Attach" => client.attach(&attach_request()).await.map(drop),
        "PortForward" => client.port_forward(&port_forward_request()).await.map(drop),
        "CheckpointContainer" => client.checkpoint_container(&checkpoint_request()).await,
        "ImageStatus" => client.image_status("busybox").await.map(drop),
        "PullImage" => client.pull_image("busybox", None, None).await.map(drop),
        "ListImages" => client.list_images().await.map(drop),
        "ImageFsInfo" => client.image_fs_info().await.map(drop),
        "RemoveImage" => client.remove_image(&verdict(Subject::Image("sha256:beef".into()))).await,
        _ => panic!("no such method: {method}"),
    }
}
