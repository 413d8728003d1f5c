//! What a pod needs on the node before its sandbox and its containers can be made.

use std::net::IpAddr;
use std::path::Path;

use futures_util::future::join;
use k8s_openapi::api::core::v1::{Container, Pod};
use model::chain::Chain;
use model::ids::SandboxId;
use model::observed::{ContainerState, PodStatus};
use model::ports::events::EventType::Warning;
use model::ports::events::NodeEvent;
use model::ports::files::FileError;
use model::wanted::{DnsConfig, Mount, SandboxConfig, UserNamespace};
use podspec::view;
use tracing::info;

use crate::act::{PodRuntime, has_own_users};
use crate::decide::{
    HOSTS_PATH, NodeDns, described, go_text, host_network_hosts, managed_hosts, over_limits,
    parse_resolv_conf, pod_dns, pod_hostname, wants_hosts_file,
};
use crate::error::{ReleaseError, SandboxConfigError, SyncError};
use crate::sandbox::{SandboxFacts, sandbox_config};
use crate::user_namespaces::UserNamespaceError;

/// More than a resolver file or a hosts file ever has.
const LONGEST_FILE: u64 = 10 << 20;

/// How a sync meets the cgroup of its pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Met {
    /// This agent saw to it before.
    Before,
    /// It was seen to just now.
    SeenTo,
    /// What ran outside of it was ended.
    Ended,
}

impl PodRuntime {
    /// Makes the pod's directories, side by side.
    pub(crate) async fn make_directories(&self, pod: &Pod) -> Result<(), SyncError> {
        let (files, root, uid) = (&self.parts.files, &self.parts.pods, view::uid(pod));
        let [volumes, plugins] =
            ["volumes", "plugins"].map(|name| Path::new(uid.as_str()).join(name));
        let made = join(
            files.create_directory(root, &volumes, 0o750),
            files.create_directory(root, &plugins, 0o750),
        );
        let (volumes, plugins) = made.await;
        volumes.and(plugins).map_err(|error| {
            let message =
                format!("error making pod data directories: {}", go_text::file_error(&error));
            self.pod_reporter(pod).event(Warning, "Failed", message);
            SyncError::PodDirectory(error)
        })
    }

    /// Sees to a pod's cgroup when this agent meets the pod first. What runs without one is ended, to
    /// run in it.
    pub(crate) async fn meet_cgroup(
        &self,
        pod: &Pod,
        status: &PodStatus,
    ) -> Result<Met, SyncError> {
        let Some(cgroups) = &self.parts.cgroups else { return Ok(Met::Before) };
        if cgroups.knows(&status.uid) {
            return Ok(Met::Before);
        }
        let runs = status.containers.iter().any(|one| one.state == ContainerState::Running);
        if runs && !cgroups.is_there(pod).await.map_err(SyncError::Cgroup)? {
            let name = view::pod_name(pod);
            info!(pod = %name, uid = %status.uid, "pod runs outside of its cgroup; stopping it");
            self.kill(pod, status, None).await?;
            return Ok(Met::Ended);
        }
        self.make_cgroup(pod).await?;
        Ok(Met::SeenTo)
    }

    /// Makes the pod's cgroup, if it is not there.
    pub(crate) async fn make_cgroup(&self, pod: &Pod) -> Result<(), SyncError> {
        let Some(cgroups) = &self.parts.cgroups else { return Ok(()) };
        cgroups.ensure(pod).await.map_err(|error| {
            let message = format!("unable to ensure pod container exists: {}", Chain(&error));
            self.pod_reporter(pod).event(Warning, "FailedCreatePodContainer", message);
            SyncError::Cgroup(error)
        })
    }

    /// What the runtime is asked for to make the pod's sandbox.
    pub(crate) async fn sandbox_config(
        &self,
        pod: &Pod,
        attempt: u32,
        runtime_handler: String,
    ) -> Result<SandboxConfig, SandboxConfigError> {
        let dns = self.dns(pod).await?;
        let users = self.users(pod, &runtime_handler).await;
        let users = users.map_err(SandboxConfigError::UserNamespace)?;
        let cgroups = self.parts.cgroups.as_ref();
        let cgroup_parent = cgroups.map(|cgroups| cgroups.parent(pod)).transpose();
        let cgroup_parent = cgroup_parent.map_err(SandboxConfigError::Cgroup)?.unwrap_or_default();
        let facts = SandboxFacts { attempt, runtime_handler, dns, users, cgroup_parent };
        sandbox_config(pod, facts, &self.parts.logs, &self.parts.node)
            .map_err(SandboxConfigError::Config)
    }

    /// What the node's resolver file says, if it has one.
    async fn resolver_file(&self) -> Result<Option<DnsConfig>, SandboxConfigError> {
        let Some(path) = &self.parts.node.resolv_conf else { return Ok(None) };
        let content = self.parts.files.read(path, LONGEST_FILE).await;
        let content = content.map_err(SandboxConfigError::ResolvConf)?;
        let parsed = parse_resolv_conf(&String::from_utf8_lossy(&content));
        parsed.map(Some).map_err(SandboxConfigError::ResolvConfContent)
    }

    /// Tells when the node's resolver file is not for the resolvers of pods. Asked for when the agent starts.
    pub async fn check_resolver_file(&self) {
        let node = &self.parts.node;
        let Some(path) = &node.resolv_conf else { return };
        let wrong = match self.resolver_file().await {
            Ok(said) => {
                let searches = said.map(|said| said.searches).unwrap_or_default();
                over_limits(&path.display().to_string(), &searches, !node.cluster_domain.is_empty())
            }
            Err(SandboxConfigError::ResolvConfContent(error)) => Some(error.to_string()),
            Err(error) => Some(error.told()),
        };
        if let Some(message) = wrong {
            let reason = "CheckLimitsForResolvConf";
            self.parts.node_events.record(NodeEvent { kind: Warning, reason, message });
        }
    }

    async fn dns(&self, pod: &Pod) -> Result<DnsConfig, SandboxConfigError> {
        let node = &self.parts.node;
        let host = self.resolver_file().await?;
        let dns = pod_dns(
            pod,
            &NodeDns {
                cluster_servers: node.cluster_dns.clone(),
                cluster_domain: node.cluster_domain.clone(),
                host,
                node_ips: node.asked_ips.clone(),
            },
        );
        let report = self.pod_reporter(pod);
        if dns.lacks_cluster_servers {
            let message = "kubelet does not have ClusterDNS IP configured and cannot create Pod using \
                           \"ClusterFirst\" policy. Falling back to \"Default\" policy.";
            let reason = "MissingClusterDNS";
            let of_node = NodeEvent { kind: Warning, reason, message: message.to_owned() };
            self.parts.node_events.record(of_node);
            report.event(Warning, reason, format!("pod: {:?}. {message}", described(pod)));
        }
        for message in dns.cut {
            report.event(Warning, "DNSConfigForming", message);
        }
        Ok(dns.config)
    }

    /// Whose user ids the pod has: its own only if it asks for that and the runtime can do it.
    async fn users(&self, pod: &Pod, handler: &str) -> Result<UserNamespace, UserNamespaceError> {
        if !has_own_users(pod) {
            return Ok(UserNamespace::Node);
        }
        let (uid, files) = (view::uid(pod), &*self.parts.files);
        if let Some(mapping) = self.user_namespaces.get(&uid, files).await? {
            return Ok(UserNamespace::Pod(mapping));
        }
        let status = self.parts.runtime.info.status().await;
        let handlers = status.map(|status| status.handlers).unwrap_or_default();
        let of_pod = handlers.iter().find(|one| one.name == handler);
        if !of_pod.is_some_and(|handler| handler.user_namespaces) {
            let is_known = of_pod.is_some() || handlers.is_empty();
            return Err(match handler {
                handler if !is_known => {
                    UserNamespaceError::HandlerNotKnown { handler: handler.to_owned() }
                }
                "" => UserNamespaceError::NotSupported,
                handler => UserNamespaceError::HandlerNotSupported(handler.to_owned()),
            });
        }
        Ok(UserNamespace::Pod(self.user_namespaces.take(&uid, files).await?))
    }

    /// Whether the runtime can keep from being written what is mounted below a read-only mount of the pod.
    pub async fn mounts_recursively_read_only(&self, pod: &Pod) -> bool {
        let Ok(handler) = self.runtime_handler(pod).await else { return false };
        let Ok(status) = self.parts.runtime.info.status().await else { return false };
        let of_pod = status.handlers.iter().find(|one| one.name == handler);
        of_pod.is_some_and(|handler| handler.recursive_read_only_mounts)
    }

    /// Forgets what the node keeps for a pod of which nothing is left in the runtime.
    pub async fn release(&self, pod: &Pod) -> Result<(), ReleaseError> {
        self.forget_sizes(pod).await;
        self.unregister_objects(pod);
        if let Some(cgroups) = &self.parts.cgroups {
            cgroups.release(pod).await.map_err(ReleaseError::Cgroup)?;
        }
        if !has_own_users(pod) {
            return Ok(());
        }
        let released = self.user_namespaces.release(&view::uid(pod), &*self.parts.files).await;
        released.map_err(ReleaseError::UserNamespace)
    }

    /// The addresses of a pod whose sandbox was just made. A runtime that does not tell is no reason
    /// to fail: the pod's next look tells.
    pub(crate) async fn addresses(
        &self,
        pod: &Pod,
        sandbox: &SandboxId,
    ) -> Result<Vec<IpAddr>, SyncError> {
        if view::host_network(pod) {
            return Ok(self.parts.host_ips.host_ips());
        }
        match self.parts.runtime.sandboxes.pod_sandbox_status(sandbox).await {
            Ok(status) => Ok(status.ips),
            Err(source) => {
                let message = format!("Unable to get pod sandbox status: {}", source.rpc_text());
                self.pod_reporter(pod).event(Warning, "FailedPodSandBoxStatus", message);
                Err(SyncError::SandboxStatus(source))
            }
        }
    }

    /// What a container sees of the host's files.
    pub(crate) async fn mounts(
        &self,
        pod: &Pod,
        container: &Container,
        ips: &[IpAddr],
    ) -> Result<Vec<Mount>, FileError> {
        if !wants_hosts_file(pod, container, ips) {
            return Ok(Vec::new());
        }
        let node = &self.parts.node;
        let files = &self.parts.files;
        let spec = view::spec(pod);
        let aliases = spec.and_then(|spec| spec.host_aliases.as_deref()).unwrap_or_default();
        let content = if view::host_network(pod) {
            let of_host = files.read(Path::new(HOSTS_PATH), LONGEST_FILE).await?;
            host_network_hosts(&of_host, aliases)
        } else {
            let name = pod_hostname(pod, node);
            managed_hosts(ips, &name, aliases).into_bytes()
        };
        let path = self.parts.pods.join(view::uid(pod).as_str()).join("etc-hosts");
        // Written where it is: containers of the pod that run have it mounted.
        files.overwrite(&path, &content, 0o644).await?;
        Ok(vec![Mount {
            container_path: HOSTS_PATH.to_owned(),
            host_path: path.to_string_lossy().into_owned(),
            relabel: node.machine.selinux,
            ..Mount::default()
        }])
    }
}
