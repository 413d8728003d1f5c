//! Checks the sysctls of a pod.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Pod;
use model::sysctl::{Namespace, dotted};
use podspec::view;

/// Safe sysctls, with the kernel version since which they are namespaced.
const SAFE: [(&str, (u32, u32)); 12] = [
    ("kernel.shm_rmid_forced", (0, 0)),
    ("net.ipv4.ip_local_port_range", (0, 0)),
    ("net.ipv4.tcp_syncookies", (0, 0)),
    ("net.ipv4.ping_group_range", (0, 0)),
    ("net.ipv4.ip_unprivileged_port_start", (0, 0)),
    ("net.ipv4.ip_local_reserved_ports", (3, 16)),
    ("net.ipv4.tcp_keepalive_time", (4, 5)),
    ("net.ipv4.tcp_fin_timeout", (4, 6)),
    ("net.ipv4.tcp_keepalive_intvl", (4, 5)),
    ("net.ipv4.tcp_keepalive_probes", (4, 5)),
    ("net.ipv4.tcp_rmem", (4, 15)),
    ("net.ipv4.tcp_wmem", (4, 15)),
];

/// The allowed sysctls of this node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AllowedSysctls {
    /// Complete names.
    names: BTreeMap<String, Namespace>,
    /// Prefixes.
    prefixes: BTreeMap<String, Namespace>,
}

/// A sysctl that a pod must not set.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ForbiddenSysctl {
    /// It is not allowed.
    #[error("forbidden sysctl: {0:?} not allowlisted")]
    NotAllowed(String),
    /// The pod shares the namespace with the host.
    #[error("forbidden sysctl: {name:?} not allowed with host {namespace} enabled")]
    HostNamespace {
        /// The sysctl.
        name: String,
        /// `IPC` or `Net`.
        namespace: &'static str,
    },
}

impl AllowedSysctls {
    /// The safe sysctls of this kernel, and the configured ones: names, or prefixes followed
    /// by a star. Sysctls that are not namespaced are never allowed.
    pub fn new(kernel: (u32, u32), unsafe_ones: &[String]) -> Self {
        let safe = SAFE.iter().filter(|(_, since)| kernel >= *since);
        let patterns = safe.map(|(name, _)| *name).chain(unsafe_ones.iter().map(String::as_str));
        let mut allowed = Self { names: BTreeMap::new(), prefixes: BTreeMap::new() };
        for pattern in patterns {
            let name = dotted(pattern);
            let (name, list) = match name.split_once('*') {
                Some((prefix, _)) => (prefix.to_owned(), &mut allowed.prefixes),
                None => (name, &mut allowed.names),
            };
            if let Some(namespace) = Namespace::of(&name) {
                list.insert(name, namespace);
            }
        }
        allowed
    }

    /// Checks the sysctls of a pod.
    pub fn admit(&self, pod: &Pod) -> Result<(), ForbiddenSysctl> {
        let Some(spec) = view::spec(pod) else { return Ok(()) };
        let (host_net, host_ipc) = (spec.host_network == Some(true), spec.host_ipc == Some(true));
        let wanted = spec.security_context.as_ref().and_then(|context| context.sysctls.as_ref());
        for sysctl in wanted.into_iter().flatten() {
            let name = dotted(&sysctl.name);
            let by_prefix = || self.prefixes.iter().find(|(prefix, _)| name.starts_with(*prefix));
            let found = self.names.get(&name).or_else(|| by_prefix().map(|(_, found)| found));
            let shared = match found {
                None => return Err(ForbiddenSysctl::NotAllowed(name)),
                Some(Namespace::Ipc) => host_ipc,
                Some(Namespace::Net) => host_net,
            };
            if let Some(namespace) = found.filter(|_| shared) {
                return Err(ForbiddenSysctl::HostNamespace { name, namespace: namespace.name() });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{PodSecurityContext, Sysctl};
    use testkit::pods;

    use super::*;

    fn pod(sysctls: &[&str], host_network: bool, host_ipc: bool) -> Pod {
        let mut pod = pods::pod("web").build();
        let spec = pod.spec.as_mut().unwrap();
        spec.host_network = Some(host_network);
        spec.host_ipc = Some(host_ipc);
        let sysctls =
            sysctls.iter().map(|name| Sysctl { name: (*name).to_owned(), value: "1".to_owned() });
        spec.security_context = Some(PodSecurityContext {
            sysctls: Some(sysctls.collect()),
            ..PodSecurityContext::default()
        });
        pod
    }

    // behaviour: CON-60, CON-61, CON-62
    #[test]
    fn pod_sets_namespaced_and_allowed_sysctls() {
        let unsafe_ones = ["kernel.msg*", "net.core.somaxconn", "net/ipv4/conf/*", "vm.swappiness"];
        let allowed = AllowedSysctls::new((6, 1), &unsafe_ones.map(ToOwned::to_owned));
        let rows = [
            ("net.ipv4.tcp_syncookies", false, false, ""),
            ("net/ipv4/tcp_syncookies", false, false, ""),
            ("net.ipv4.tcp_rmem", false, false, ""),
            ("net.core.somaxconn", false, false, ""),
            ("net.ipv4.conf.eth0/1.forwarding", false, false, ""),
            ("kernel.msgmax", false, false, ""),
            ("net.core.rmem_max", false, false, "\"net.core.rmem_max\" not allowlisted"),
            ("net/core/rmem_max", false, false, "\"net.core.rmem_max\" not allowlisted"),
            // Allowed by the configuration, but not namespaced.
            ("vm.swappiness", false, false, "\"vm.swappiness\" not allowlisted"),
            (
                "net.ipv4.tcp_syncookies",
                true,
                false,
                "\"net.ipv4.tcp_syncookies\" not allowed with host Net enabled",
            ),
            ("kernel.msgmax", false, true, "\"kernel.msgmax\" not allowed with host IPC enabled"),
            ("kernel.msgmax", true, false, ""),
        ];
        for (name, host_network, host_ipc, refusal) in rows {
            let admitted = allowed.admit(&pod(&[name], host_network, host_ipc));
            let said = admitted.err().map(|error| error.to_string()).unwrap_or_default();
            let expected = match refusal {
                "" => String::new(),
                refusal => format!("forbidden sysctl: {refusal}"),
            };
            assert_eq!(said, expected, "{name}");
        }
    }

    #[test]
    fn old_kernel_has_fewer_namespaced_sysctls() {
        let old = AllowedSysctls::new((4, 14), &[]);
        assert!(old.admit(&pod(&["net.ipv4.tcp_rmem"], false, false)).is_err());
        assert!(old.admit(&pod(&["net.ipv4.tcp_fin_timeout"], false, false)).is_ok());
        assert!(old.admit(&pods::pod("web").build()).is_ok());
    }
}
