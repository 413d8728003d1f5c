//! The configuration of a pod's sandbox.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Pod;
use model::labels;
use model::wanted::{DnsConfig, NamespaceMode, SandboxConfig, UserNamespace};
use podspec::{Allocation, view};

use crate::decide::{
    ConfigError, NodeSettings, kernel_hostname, overhead_resources, pod_hostname, pod_sysctls,
    port_mappings, sandbox_resources, sandbox_security,
};
use model::log_layout::LogLayout;

/// The inputs of a sandbox in addition to the pod spec.
#[derive(Debug)]
pub(crate) struct SandboxFacts {
    /// The attempt number.
    pub(crate) attempt: u32,
    /// The runtime handler; empty for the default one.
    pub(crate) runtime_handler: String,
    /// The DNS configuration.
    pub(crate) dns: DnsConfig,
    /// The user namespace.
    pub(crate) users: UserNamespace,
    /// The cgroup parent; empty leaves it to the runtime.
    pub(crate) cgroup_parent: String,
}

/// The configuration for the runtime.
pub(crate) fn sandbox_config(
    pod: &Pod,
    facts: SandboxFacts,
    logs: &LogLayout,
    node: &NodeSettings,
) -> Result<SandboxConfig, ConfigError> {
    let uid = view::uid(pod);
    let name = view::pod_name(pod);
    let host_network = view::host_network(pod);
    let spec = view::spec(pod);
    let mut labels: BTreeMap<String, String> = pod.metadata.labels.clone().unwrap_or_default();
    labels.extend(pod_labels(pod));
    let hostname =
        if host_network { String::new() } else { kernel_hostname(pod, pod_hostname(pod, node))? };
    Ok(SandboxConfig {
        runtime_handler: facts.runtime_handler,
        hostname,
        log_directory: logs.pod_directory(&name, &uid).to_string_lossy().into_owned(),
        labels,
        annotations: annotations(pod),
        dns: facts.dns,
        port_mappings: port_mappings(pod),
        network: if host_network { NamespaceMode::Node } else { NamespaceMode::Pod },
        pid: pid_mode(pod),
        ipc: match spec.and_then(|spec| spec.host_ipc) {
            Some(true) => NamespaceMode::Node,
            _ => NamespaceMode::Pod,
        },
        users: facts.users,
        security: sandbox_security(pod)?,
        sysctls: pod_sysctls(pod),
        resources: sandbox_resources(pod, &node.limits, &node.machine),
        overhead: overhead_resources(pod, &node.limits, &node.machine),
        cgroup_parent: facts.cgroup_parent,
        pod_uid: uid,
        pod: name,
        attempt: facts.attempt,
    })
}

/// The pod's annotations, and its allocated resources: the allocation checkpoint may be written later than this.
fn annotations(pod: &Pod) -> BTreeMap<String, String> {
    let mut annotations = pod.metadata.annotations.clone().unwrap_or_default();
    annotations.insert(labels::POD_SIZES.to_owned(), Allocation::of(pod).note());
    annotations
}

/// The PID namespace of the pod's containers.
pub(crate) fn pid_mode(pod: &Pod) -> NamespaceMode {
    let Some(spec) = view::spec(pod) else { return NamespaceMode::Container };
    if spec.host_pid == Some(true) {
        NamespaceMode::Node
    } else if spec.share_process_namespace == Some(true) {
        NamespaceMode::Pod
    } else {
        NamespaceMode::Container
    }
}

/// The labels by which the objects of a pod are found.
pub(crate) fn pod_labels(pod: &Pod) -> BTreeMap<String, String> {
    let name = view::pod_name(pod);
    BTreeMap::from([
        (labels::POD_NAME.to_owned(), name.name.to_string()),
        (labels::POD_NAMESPACE.to_owned(), name.namespace.to_string()),
        (labels::POD_UID.to_owned(), view::uid(pod).to_string()),
    ])
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::PodSpec;

    use super::*;

    fn pod(name: &str, spec: PodSpec) -> Pod {
        let mut pod = Pod { spec: Some(spec), ..Pod::default() };
        pod.metadata.name = Some(name.to_owned());
        pod.metadata.namespace = Some("default".to_owned());
        pod.metadata.uid = Some("uid".to_owned());
        pod
    }

    fn config(pod: &Pod) -> SandboxConfig {
        let logs = LogLayout { pod_logs: "/logs".into(), container_links: "/links".into() };
        let facts = SandboxFacts {
            attempt: 2,
            runtime_handler: String::new(),
            dns: DnsConfig::default(),
            users: UserNamespace::Node,
            cgroup_parent: String::new(),
        };
        sandbox_config(pod, facts, &logs, &NodeSettings::default()).unwrap()
    }

    // behaviour: CON-11
    #[test]
    fn agent_labels_override_pod_labels() {
        let mut pod = pod("web", PodSpec::default());
        pod.metadata.labels = Some(BTreeMap::from([
            ("app".to_owned(), "web".to_owned()),
            (labels::POD_UID.to_owned(), "forged".to_owned()),
        ]));
        let config = config(&pod);
        assert_eq!(config.labels["app"], "web");
        assert_eq!(config.labels[labels::POD_UID], "uid");
        assert_eq!(config.log_directory, "/logs/default_web_uid");
        assert_eq!(config.attempt, 2);
    }

    // behaviour: RSZ-30
    #[test]
    fn sandbox_annotation_has_the_allocated_resources() {
        let mut pod = pod("web", PodSpec::default());
        pod.metadata.annotations = Some(BTreeMap::from([
            ("note".to_owned(), "own".to_owned()),
            (labels::POD_SIZES.to_owned(), "forged".to_owned()),
        ]));
        let annotations = config(&pod).annotations;
        assert_eq!(annotations["note"], "own");
        let given = Allocation::noted(&annotations[labels::POD_SIZES]);
        assert_eq!(given, Some(Allocation::of(&pod)));
    }

    // behaviour: CON-15
    #[test]
    fn namespaces_follow_the_spec() {
        let rows = [
            (PodSpec::default(), NamespaceMode::Pod, NamespaceMode::Container),
            (
                PodSpec { host_network: Some(true), ..PodSpec::default() },
                NamespaceMode::Node,
                NamespaceMode::Container,
            ),
            (
                PodSpec { host_pid: Some(true), ..PodSpec::default() },
                NamespaceMode::Pod,
                NamespaceMode::Node,
            ),
            (
                PodSpec { share_process_namespace: Some(true), ..PodSpec::default() },
                NamespaceMode::Pod,
                NamespaceMode::Pod,
            ),
        ];
        for (spec, network, pid) in rows {
            let config = config(&pod("web", spec));
            assert_eq!((config.network, config.pid), (network, pid));
            assert_eq!(config.hostname.is_empty(), network == NamespaceMode::Node);
        }
    }
}
