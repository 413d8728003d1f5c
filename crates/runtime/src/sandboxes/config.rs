//! The configuration of sandboxes: name servers, user namespaces, runtime handlers.

use k8s_openapi::api::core::v1::Pod;
use model::ports::events::EventType::Warning;
use model::ports::events::NodeEvent;
use model::ports::objects::ObjectError;
use model::wanted::{DnsConfig, SandboxConfig, UserNamespace};
use podspec::recursive_read_only::requests_recursive_read_only;
use podspec::view;

use super::Sandboxes;
use crate::decide::{NodeDns, described, over_limits, parse_resolv_conf, pod_dns};
use crate::error::{ReleaseError, SandboxConfigError};
use crate::report::Reporter;
use crate::sandbox_config::{SandboxFacts, sandbox_config};
use crate::user_namespaces::UserNamespaceError;

/// The maximum number of bytes that are read of a `resolv.conf`.
const LONGEST_FILE: u64 = 10 << 20;

impl Sandboxes {
    /// The configuration of the pod's sandbox for the runtime.
    pub(super) async fn config(
        &self,
        pod: &Pod,
        attempt: u32,
        runtime_handler: String,
    ) -> Result<SandboxConfig, SandboxConfigError> {
        let dns = self.dns(pod).await?;
        let users = self.users(pod, &runtime_handler).await;
        let users = users.map_err(SandboxConfigError::UserNamespace)?;
        let cgroups = self.cgroups.as_ref();
        let cgroup_parent = cgroups.map(|cgroups| cgroups.parent(pod)).transpose();
        let cgroup_parent = cgroup_parent.map_err(SandboxConfigError::Cgroup)?.unwrap_or_default();
        let facts = SandboxFacts { attempt, runtime_handler, dns, users, cgroup_parent };
        sandbox_config(pod, facts, &self.logs, &self.node).map_err(SandboxConfigError::Config)
    }

    /// The content of the node's `resolv.conf`, if it has one.
    async fn resolver_file(&self) -> Result<Option<DnsConfig>, SandboxConfigError> {
        let Some(path) = &self.node.resolv_conf else { return Ok(None) };
        let content = self.files.read(path, LONGEST_FILE).await;
        let content = content.map_err(SandboxConfigError::ResolvConf)?;
        let parsed = parse_resolv_conf(&String::from_utf8_lossy(&content));
        parsed.map(Some).map_err(SandboxConfigError::ResolvConfContent)
    }

    /// Records an event if pods cannot use the node's `resolv.conf`. Called when the agent starts.
    pub(crate) async fn check_resolver_file(&self) {
        let node = &self.node;
        let Some(path) = &node.resolv_conf else { return };
        let wrong = match self.resolver_file().await {
            Ok(notice) => {
                let searches = notice.map(|notice| notice.searches).unwrap_or_default();
                over_limits(&path.display().to_string(), &searches, !node.cluster_domain.is_empty())
            }
            Err(SandboxConfigError::ResolvConfContent(error)) => Some(error.to_string()),
            Err(error) => Some(error.event_message()),
        };
        if let Some(message) = wrong {
            let reason = "CheckLimitsForResolvConf";
            self.node_events.record(NodeEvent { kind: Warning, reason, message });
        }
    }

    async fn dns(&self, pod: &Pod) -> Result<DnsConfig, SandboxConfigError> {
        let node = &self.node;
        let host = self.resolver_file().await?;
        let dns = pod_dns(
            pod,
            &NodeDns {
                cluster_servers: node.cluster_dns.clone(),
                cluster_domain: node.cluster_domain.clone(),
                host,
                node_ips: node.requested_ips.clone(),
            },
        );
        let report = Reporter::of_pod(&*self.events, pod);
        if dns.lacks_cluster_servers {
            let message = "kubelet does not have ClusterDNS IP configured and cannot create Pod using \
                           \"ClusterFirst\" policy. Falling back to \"Default\" policy.";
            let reason = "MissingClusterDNS";
            let of_node = NodeEvent { kind: Warning, reason, message: message.to_owned() };
            self.node_events.record(of_node);
            report.event(Warning, reason, format!("pod: {:?}. {message}", described(pod)));
        }
        for message in dns.cut {
            report.event(Warning, "DNSConfigForming", message);
        }
        Ok(dns.config)
    }

    /// The user namespace of the pod: its own only if it requests one and the runtime supports it.
    async fn users(&self, pod: &Pod, handler: &str) -> Result<UserNamespace, UserNamespaceError> {
        if !has_user_namespace(pod) {
            return Ok(UserNamespace::Node);
        }
        let (uid, files) = (view::uid(pod), &*self.files);
        if let Some(mapping) = self.user_namespaces.get(&uid, files).await? {
            return Ok(UserNamespace::Pod(mapping));
        }
        let status = self.runtime.info.status().await;
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

    /// Whether a pod that needs them can have recursive read-only mounts.
    pub(super) async fn recursive_read_only(&self, pod: &Pod) -> bool {
        requests_recursive_read_only(pod) && self.mounts_recursively_read_only(pod).await
    }

    /// Whether the runtime supports recursive read-only mounts for the pod.
    pub(crate) async fn mounts_recursively_read_only(&self, pod: &Pod) -> bool {
        let Ok(handler) = self.runtime_handler(pod).await else { return false };
        let Ok(status) = self.runtime.info.status().await else { return false };
        let of_pod = status.handlers.iter().find(|one| one.name == handler);
        of_pod.is_some_and(|handler| handler.recursive_read_only_mounts)
    }

    /// The runtime handler of the pod's class; empty for the default one.
    pub(super) async fn runtime_handler(&self, pod: &Pod) -> Result<String, ObjectError> {
        let class = view::spec(pod).and_then(|spec| spec.runtime_class_name.as_deref());
        match (&self.classes, class.unwrap_or_default()) {
            (None, _) | (_, "") => Ok(String::new()),
            (Some(classes), class) => classes.handler(class).await,
        }
    }

    /// Releases the user IDs of a terminated pod.
    pub(crate) async fn release_users(&self, pod: &Pod) -> Result<(), ReleaseError> {
        if !has_user_namespace(pod) {
            return Ok(());
        }
        let released = self.user_namespaces.release(&view::uid(pod), &*self.files).await;
        released.map_err(ReleaseError::UserNamespace)
    }
}

/// Whether the pod has its own user namespace.
pub(crate) fn has_user_namespace(pod: &Pod) -> bool {
    view::spec(pod).and_then(|spec| spec.host_users) == Some(false)
}
