//! The addresses of a pod and of its node.

use std::net::IpAddr;

use k8s_openapi::api::core::v1::{HostIP, PodIP, PodStatus};
use podspec::view;

use crate::decide::input::StatusInput;

/// Sets `podIP`, `podIPs`, `hostIP` and `hostIPs`.
pub(crate) fn set(input: &StatusInput<'_>, status: &mut PodStatus) {
    let hosts = &input.node.host_ips;
    let v6_first = hosts.first().is_some_and(IpAddr::is_ipv6);
    let mut ips = one_of_each_family(&input.observed.ips, input.node.prefers_v6);
    if view::host_network(input.pod) {
        // An address of a family that the node gets later is added; existing addresses of the pod
        // stay.
        for host in one_of_each_family(hosts, v6_first) {
            if ips.iter().all(|ip| ip.is_ipv6() != host.is_ipv6()) {
                ips.push(host);
            }
        }
    }
    let texts = |ips: &[IpAddr]| ips.iter().map(ToString::to_string).collect::<Vec<String>>();
    let pod_ips = texts(&ips);
    let host_ips = texts(&one_of_each_family(hosts, v6_first));
    status.pod_ip = pod_ips.first().cloned();
    status.pod_ips = non_empty(pod_ips.into_iter().map(|ip| PodIP { ip }).collect());
    status.host_ip = host_ips.first().cloned();
    status.host_ips = non_empty(host_ips.into_iter().map(|ip| HostIP { ip }).collect());
}

/// The first address of the preferred family, then the first of the other.
fn one_of_each_family(ips: &[IpAddr], v6_first: bool) -> Vec<IpAddr> {
    let first_of = |v6: bool| ips.iter().find(|ip| ip.is_ipv6() == v6).copied();
    [first_of(v6_first), first_of(!v6_first)].into_iter().flatten().collect()
}

fn non_empty<T>(list: Vec<T>) -> Option<Vec<T>> {
    (!list.is_empty()).then_some(list)
}
