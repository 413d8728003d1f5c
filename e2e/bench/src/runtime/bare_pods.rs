//! Pods with one container by bare calls, without an agent: the floor of the times.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};
use model::cgroup::huge_page_size;
use model::machine::{Cgroups, Machine};
use proto::runtime_v1 as cri;
use proto::runtime_v1::runtime_service_client::RuntimeServiceClient;
use runtime::decide::{MASKED_PATHS, READONLY_PATHS};
use tokio::task::JoinSet;
use tonic::transport::Channel;

use super::Direct;

/// The grace period of a container in seconds. It ends at once.
const GRACE: i64 = 30;
/// Files that agents mount into every container, and their mount points.
const MOUNTED: [(&str, &str); 2] =
    [("etc-hosts", "/etc/hosts"), ("termination-log", "/dev/termination-log")];

/// The mount path of a service account's token.
const TOKEN: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
/// Files of that volume.
const TOKEN_FILES: [&str; 3] = ["ca.crt", "namespace", "token"];

/// The name of the container, and of the directory of its log.
const MAIN: &str = "main";

/// The variables of the API server's service, which every pod has.
const VARIABLES: [(&str, &str); 8] = [
    ("KUBERNETES_SERVICE_HOST", "10.96.0.1"),
    ("KUBERNETES_SERVICE_PORT", "443"),
    ("KUBERNETES_SERVICE_PORT_HTTPS", "443"),
    ("KUBERNETES_PORT", "tcp://10.96.0.1:443"),
    ("KUBERNETES_PORT_443_TCP", "tcp://10.96.0.1:443"),
    ("KUBERNETES_PORT_443_TCP_PROTO", "tcp"),
    ("KUBERNETES_PORT_443_TCP_PORT", "443"),
    ("KUBERNETES_PORT_443_TCP_ADDR", "10.96.0.1"),
];

/// A pod to be started.
#[derive(Debug, Clone)]
pub struct BarePod {
    /// Its name, which is also its UID.
    pub name: String,
    /// The directory of its container's log, and of the files that agents mount into it.
    pub files: PathBuf,
    /// Masked paths and limits that agents set because of the machine.
    pub machine: Machine,
    /// Whether its container mounts the token volume of its service account.
    pub token_volume: bool,
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
            seccomp: Some(cri::SecurityProfile::default()),
            ..Default::default()
        };
        let linux = cri::LinuxPodSandboxConfig {
            cgroup_parent: format!("/kubepods/besteffort/pod{}", self.name),
            security_context: Some(security),
            overhead: Some(cri::LinuxContainerResources::default()),
            resources: Some(self.resources()),
            ..Default::default()
        };
        let dns = cri::DnsConfig {
            servers: vec!["10.96.0.10".to_owned()],
            searches: ["bench.svc.cluster.local", "svc.cluster.local", "cluster.local"]
                .map(str::to_owned)
                .to_vec(),
            options: vec!["ndots:5".to_owned()],
        };
        cri::PodSandboxConfig {
            metadata: Some(metadata),
            hostname: self.name.clone(),
            log_directory: self.files.display().to_string(),
            dns_config: Some(dns),
            labels: self.labels().into(),
            linux: Some(linux),
            ..Default::default()
        }
    }

    fn labels(&self) -> [(String, String); 3] {
        [("name", self.name.as_str()), ("namespace", "bench"), ("uid", &self.name)]
            .map(|(key, value)| (format!("io.kubernetes.pod.{key}"), value.to_owned()))
    }

    /// The resources of a pod without requests.
    fn resources(&self) -> cri::LinuxContainerResources {
        let whole = ("memory.oom.group".to_owned(), "1".to_owned());
        let has_unified = self.machine.cgroups == Cgroups::V2;
        cri::LinuxContainerResources {
            cpu_period: 100_000,
            cpu_shares: 2,
            unified: has_unified.then_some(whole).into_iter().collect(),
            ..Default::default()
        }
    }

    /// The resources of its container.
    fn container_resources(&self) -> cri::LinuxContainerResources {
        let mut resources = self.resources();
        resources.oom_score_adj = 1000;
        let sizes = self.machine.huge_pages.iter().map(|pages| huge_page_size(pages.size));
        let none = sizes.map(|page_size| cri::HugepageLimit { page_size, limit: 0 });
        resources.hugepage_limits = none.collect();
        if self.machine.swap_controller && self.machine.cgroups == Cgroups::V2 {
            resources.unified.insert("memory.swap.max".to_owned(), "0".to_owned());
        }
        resources
    }

    /// The container of a pod without requests, as agents create it: the runtime has the same work.
    fn container(&self) -> cri::ContainerConfig {
        let masked = MASKED_PATHS.map(str::to_owned).into_iter();
        let masked = masked.chain(self.machine.thermal_throttle.iter().cloned());
        let security = cri::LinuxContainerSecurityContext {
            namespace_options: Some(namespaces()),
            run_as_user: Some(cri::Int64Value::default()),
            masked_paths: masked.collect(),
            readonly_paths: READONLY_PATHS.map(str::to_owned).to_vec(),
            seccomp: Some(cri::SecurityProfile {
                profile_type: cri::security_profile::ProfileType::Unconfined.into(),
                ..Default::default()
            }),
            ..Default::default()
        };
        let linux = cri::LinuxContainerConfig {
            resources: Some(self.container_resources()),
            security_context: Some(security),
        };
        let variable = |(key, value): (&str, &str)| cri::KeyValue {
            key: key.to_owned(),
            value: value.as_bytes().to_vec(),
        };
        cri::ContainerConfig {
            metadata: Some(cri::ContainerMetadata { name: MAIN.to_owned(), attempt: 0 }),
            image: Some(cri::ImageSpec {
                image: "ferrolet.test/workload:1".to_owned(),
                ..Default::default()
            }),
            args: ["sleep", "forever"].map(str::to_owned).to_vec(),
            envs: VARIABLES.map(variable).to_vec(),
            mounts: self.mounts(),
            labels: self.labels().into(),
            log_path: format!("{MAIN}/0.log"),
            linux: Some(linux),
            ..Default::default()
        }
    }

    fn mounts(&self) -> Vec<cri::Mount> {
        let mut mounts = MOUNTED.map(|(name, path)| self.mount(name, path)).to_vec();
        if self.token_volume {
            mounts.push(cri::Mount { readonly: true, ..self.mount("token", TOKEN) });
        }
        mounts
    }

    fn mount(&self, name: &str, path: &str) -> cri::Mount {
        cri::Mount {
            container_path: path.to_owned(),
            host_path: self.files.join(name).display().to_string(),
            ..Default::default()
        }
    }

    /// Creates the files that the calls name.
    fn prepare(&self) -> std::io::Result<()> {
        fs::create_dir_all(self.files.join(MAIN))?;
        MOUNTED.iter().try_for_each(|(name, _)| fs::write(self.files.join(name), ""))?;
        if self.token_volume {
            let directory = self.files.join("token");
            fs::create_dir_all(&directory)?;
            TOKEN_FILES.iter().try_for_each(|name| fs::write(directory.join(name), ""))?;
        }
        Ok(())
    }

    async fn start(self, mut client: RuntimeServiceClient<Channel>) -> Result<StartedPod> {
        let config = self.sandbox();
        let request =
            cri::RunPodSandboxRequest { config: Some(config.clone()), ..Default::default() };
        let sandbox = client.run_pod_sandbox(request).await.context("run a sandbox")?;
        let sandbox = sandbox.into_inner().pod_sandbox_id;
        let request = cri::CreateContainerRequest {
            pod_sandbox_id: sandbox.clone(),
            config: Some(self.container()),
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

/// The namespaces of a pod without further settings.
fn namespaces() -> cri::NamespaceOption {
    let users = cri::UserNamespace { mode: cri::NamespaceMode::Node.into(), ..Default::default() };
    cri::NamespaceOption {
        pid: cri::NamespaceMode::Container.into(),
        userns_options: Some(users),
        ..Default::default()
    }
}

impl Direct {
    /// Starts pods, all at the same time.
    pub fn start_pods(&self, pods: Vec<BarePod>) -> Result<Vec<StartedPod>> {
        for pod in &pods {
            pod.prepare().context("make the files of a pod")?;
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

    /// Stops pods, all at the same time, without removing them.
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
