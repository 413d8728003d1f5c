//! The host's files of a container: its hosts file, its logs, and its termination messages.

use std::io::ErrorKind;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Container, Pod};
use model::ids::ContainerId;
use model::labels;
use model::log_layout::LogLayout;
use model::observed::{ContainerState, ContainerStatus};
use model::ports::clock::WallClock;
use model::ports::files::{FileError, HostFiles};
use model::wanted::{Mount, SandboxConfig};
use podspec::view;
use tracing::warn;

use crate::decide::{
    HOSTS_PATH, NodeSettings, host_network_hosts, managed_hosts, pod_hostname, wants_hosts_file,
};
use crate::layout::next_restart_count;

/// The maximum number of bytes that are read of a hosts file.
const LONGEST_FILE: u64 = 10 << 20;

/// Creates the files of containers.
#[derive(Debug)]
pub(crate) struct ContainerFiles {
    pub(crate) files: Arc<dyn HostFiles>,
    /// The directory in which each pod has its own.
    pub(crate) pods_dir: PathBuf,
    pub(crate) logs: LogLayout,
    pub(crate) node: Arc<NodeSettings>,
    pub(crate) clock: Arc<dyn WallClock>,
}

impl ContainerFiles {
    /// The file mounts of a container.
    pub(crate) async fn mounts(
        &self,
        pod: &Pod,
        container: &Container,
        ips: &[IpAddr],
    ) -> Result<Vec<Mount>, FileError> {
        if !wants_hosts_file(pod, container, ips) {
            return Ok(Vec::new());
        }
        let Self { node, files, .. } = self;
        let spec = view::spec(pod);
        let aliases = spec.and_then(|spec| spec.host_aliases.as_deref()).unwrap_or_default();
        let content = if view::host_network(pod) {
            let of_host = files.read(Path::new(HOSTS_PATH), LONGEST_FILE).await?;
            host_network_hosts(&of_host, aliases)
        } else {
            let name = pod_hostname(pod, node);
            managed_hosts(ips, &name, aliases).into_bytes()
        };
        let path = self.pods_dir.join(view::uid(pod).as_str()).join("etc-hosts");
        // Written in place: running containers of the pod have it mounted.
        files.overwrite(&path, &content, 0o644).await?;
        Ok(vec![Mount {
            container_path: HOSTS_PATH.to_owned(),
            host_path: path.to_string_lossy().into_owned(),
            relabel: node.machine.selinux,
            ..Mount::default()
        }])
    }

    /// The restart count of the next instance: one more than that of the latest started instance. Logs are the
    /// fallback if the runtime has none. If the logs cannot be listed, no container is created: it could write into
    /// the log of an earlier one.
    pub(crate) async fn restart_count(
        &self,
        latest: Option<&ContainerStatus>,
        logs: &Path,
    ) -> Result<u32, FileError> {
        if let Some(latest) = latest {
            let written = latest.annotations.get(labels::CONTAINER_RESTART_COUNT);
            let count = written.and_then(|written| written.parse::<u32>().ok()).unwrap_or(0);
            let unused = latest.state == ContainerState::Created;
            return Ok(if unused { count } else { count.saturating_add(1) });
        }
        match self.files.list(logs).await {
            Ok(names) => Ok(next_restart_count(&names)),
            // It has never run here. If a file is at the path of the directory, the creation of the directory fails.
            Err(error)
                if error.is_not_found() || error.source.kind() == ErrorKind::NotADirectory =>
            {
                Ok(0)
            }
            Err(error) => Err(error),
        }
    }

    /// Links the log by container for log collectors. A failure does not fail the container.
    pub(crate) async fn link_log(
        &self,
        sandbox: &SandboxConfig,
        log: &str,
        name: &str,
        id: &ContainerId,
    ) {
        let target = Path::new(&sandbox.log_directory).join(log);
        let link = self.logs.container_link(&sandbox.pod, name, id);
        if let Err(error) = self.files.link(&target, &link).await {
            warn!(pod = %sandbox.pod, container = name, %error, "Cannot link container log");
        }
    }
}
