//! A runtime in memory with containers.

use std::sync::Arc;

use model::ids::{ContainerId, PodName, SandboxId};
use model::ports::runtime::{ContainerService, SandboxService};
use model::wanted::{ContainerConfig, SandboxConfig};
use testkit::clock::VirtualClock;
use testkit::runtime::{MemoryRuntime, RemoteImage};
use testkit::wanted;

pub(crate) const IMAGE: &str = "ferrolet.test/workload:1";

pub(crate) fn runtime() -> MemoryRuntime {
    let runtime = MemoryRuntime::new(Arc::new(VirtualClock::new()));
    runtime.add_image(&RemoteImage::new(IMAGE));
    runtime
}

pub(crate) fn pod(name: &str) -> SandboxConfig {
    wanted::sandbox(&PodName::new("default", name), &format!("uid-of-{name}").into())
}

/// Starts a container in a new sandbox.
pub(crate) async fn start(
    runtime: &MemoryRuntime,
    pod: &SandboxConfig,
    container: &ContainerConfig,
) -> (SandboxId, ContainerId) {
    let sandbox = runtime.run_pod_sandbox(pod).await.unwrap();
    let id = runtime.create_container(&sandbox, container, pod).await.unwrap();
    runtime.start_container(&id).await.unwrap();
    (sandbox, id)
}

/// Like `start`, for the pod `web` with these arguments.
pub(crate) async fn start_web(runtime: &MemoryRuntime, args: &[&str]) -> (SandboxId, ContainerId) {
    let pod = pod("web");
    start(runtime, &pod, &wanted::container(&pod, "main", IMAGE, args)).await
}
