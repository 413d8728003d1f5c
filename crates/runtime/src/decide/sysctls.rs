//! The kernel parameters of a pod.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Pod;
use model::sysctl::dotted;
use podspec::view;

/// The parameters for the runtime, by their names with dots.
pub fn pod_sysctls(pod: &Pod) -> BTreeMap<String, String> {
    let context = view::spec(pod).and_then(|spec| spec.security_context.as_ref());
    let wanted = context.and_then(|context| context.sysctls.as_ref()).into_iter().flatten();
    wanted.map(|sysctl| (dotted(&sysctl.name), sysctl.value.clone())).collect()
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

    // behaviour: CON-63
    #[test]
    fn sysctl_names_are_passed_with_dots() {
        let sysctls =
            pod_sysctls(&pod(&["net/ipv4/conf/eth0.1/forwarding", "kernel.sem"], false, false));
        let names: Vec<&str> = sysctls.keys().map(String::as_str).collect();
        assert_eq!(names, ["kernel.sem", "net.ipv4.conf.eth0/1.forwarding"]);
    }
}
