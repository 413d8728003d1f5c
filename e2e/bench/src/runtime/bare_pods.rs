//! Pods of one container by bare calls, without an agent: what no agent can be faster than.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};
use proto::runtime_v1 as cri;
use proto::runtime_v1::runtime_service_client::RuntimeServiceClient;
use tokio::task::JoinSet;
use tonic::transport::Channel;

use super::Direct;

/// How long a container may take to end, in seconds. It ends at once.
const GRACE: i64 = 30;

/// A pod to be started.
#[derive(Debug, Clone)]
pub struct BarePod {
    /// Its name, and its uid.
    pub name: String,
    /// Where the log of its container goes.
    pub logs: PathBuf,
}

/// A pod that was started.
#[derive(Debug, Clone)]
pub struct StartedPod {
    sandbox: String,
    container: String,
}

impl BarePod {
    fn sandbox(&self) -> cri::PodSandboxConfig {
        let metadata = cri::PodSandboxMetadata {
            name: self.name.clone(),
            uid: self.name.clone(),
            namespace: "bench".to_owned(),
            attempt: 0,
        };
        let security = cri::LinuxSandboxSecurityContext {
            namespace_options: Some(namespaces()),
            ..Default::default()
        };
        let linux = cri::LinuxPodSandboxConfig {
            cgroup_parent: format!("/kubepods/besteffort/pod{}", self.name),
            security_context: Some(security),
            ..Default::default()
        };
        cri::PodSandboxConfig {
            metadata: Some(metadata),
            hostname: self.name.clone(),
            log_directory: self.logs.display().to_string(),
            linux: Some(linux),
            ..Default::default()
        }
    }

    async fn start(self, mut client: RuntimeServiceClient<Channel>) -> Result<StartedPod> {
        let config = self.sandbox();
        let request =
            cri::RunPodSandboxRequest { config: Some(config.clone()), ..Default::default() };
        let sandbox = client.run_pod_sandbox(request).await.context("run a sandbox")?;
        let sandbox = sandbox.into_inner().pod_sandbox_id;
        let request = cri::CreateContainerRequest {
            pod_sandbox_id: sandbox.clone(),
            config: Some(container()),
            sandbox_config: Some(config),
        };
        let container = client.create_container(request).await.context("create a container")?;
        let container = container.into_inner().container_id;
        let request = cri::StartContainerRequest { container_id: container.clone() };
        client.start_container(request).await.context("start a container")?;
        Ok(StartedPod { sandbox, container })
    }
}

impl StartedPod {
    async fn end(self, mut client: RuntimeServiceClient<Channel>) -> Result<()> {
        let request = cri::StopContainerRequest { container_id: self.container, timeout: GRACE };
        client.stop_container(request).await.context("stop a container")?;
        let request = cri::StopPodSandboxRequest { pod_sandbox_id: self.sandbox };
        client.stop_pod_sandbox(request).await.context("stop a sandbox")?;
        Ok(())
    }
}

/// Those of a pod that asks for nothing.
fn namespaces() -> cri::NamespaceOption {
    cri::NamespaceOption { pid: cri::NamespaceMode::Container.into(), ..Default::default() }
}

fn container() -> cri::ContainerConfig {
    let security = cri::LinuxContainerSecurityContext {
        namespace_options: Some(namespaces()),
        ..Default::default()
    };
    let linux =
        cri::LinuxContainerConfig { security_context: Some(security), ..Default::default() };
    cri::ContainerConfig {
        metadata: Some(cri::ContainerMetadata { name: "main".to_owned(), attempt: 0 }),
        image: Some(cri::ImageSpec {
            image: "ferrolet.test/workload:1".to_owned(),
            ..Default::default()
        }),
        args: ["sleep", "forever"].map(str::to_owned).to_vec(),
        log_path: "main.log".to_owned(),
        linux: Some(linux),
        ..Default::default()
    }
}

impl Direct {
    /// Starts pods, all at the same time.
    pub fn start_pods(&self, pods: Vec<BarePod>) -> Result<Vec<StartedPod>> {
        for pod in &pods {
            fs::create_dir_all(&pod.logs).context("make a directory for logs")?;
        }
        self.handle.block_on(async {
            let mut starting = JoinSet::new();
            for pod in pods {
                starting.spawn(pod.start(self.client.clone()));
            }
            let mut started = Vec::new();
            while let Some(pod) = starting.join_next().await {
                started.push(pod.context("start a pod")??);
            }
            anyhow::Ok(started)
        })
    }

    /// Ends pods, all at the same time; what is left of them stays.
    pub fn end_pods(&self, pods: Vec<StartedPod>) -> Result<()> {
        self.handle.block_on(async {
            let mut ending = JoinSet::new();
            for pod in pods {
                ending.spawn(pod.end(self.client.clone()));
            }
            while let Some(pod) = ending.join_next().await {
                pod.context("end a pod")??;
            }
            anyhow::Ok(())
        })
    }
}
