//! Port mappings of a pod.

use std::collections::BTreeSet;
use std::net::IpAddr;

use k8s_openapi::api::core::v1::{ContainerPort, Pod};
use model::wanted::{PortMapping, Protocol};
use podspec::view;

/// The ports of a pod's regular containers. Within a container, the first of equal ones
/// counts.
pub fn port_mappings(pod: &Pod) -> Vec<PortMapping> {
    let mut mappings = Vec::new();
    for container in view::containers(pod) {
        let mut seen = BTreeSet::new();
        let new = container.ports.iter().flatten().filter(|port| seen.insert(identity(port)));
        mappings.extend(new.map(mapping));
    }
    mappings
}

fn mapping(port: &ContainerPort) -> PortMapping {
    let protocol = match port.protocol.as_deref() {
        Some("UDP") => Protocol::Udp,
        Some("SCTP") => Protocol::Sctp,
        _ => Protocol::Tcp,
    };
    PortMapping {
        protocol,
        container_port: port.container_port,
        host_port: port.host_port.unwrap_or(0),
        host_ip: port.host_ip.clone().unwrap_or_default(),
    }
}

/// The identity of a port within its container: its name, or all its fields.
fn identity(port: &ContainerPort) -> String {
    if let Some(name) = port.name.as_deref().filter(|name| !name.is_empty()) {
        return name.to_owned();
    }
    let ip = port.host_ip.as_deref().unwrap_or_default();
    let family = match ip.parse::<IpAddr>() {
        Ok(ip) if ip.is_ipv6() => "v6",
        _ if ip.is_empty() => "any",
        _ => "v4",
    };
    let protocol = port.protocol.as_deref().unwrap_or_default();
    let (inside, outside) = (port.container_port, port.host_port.unwrap_or(0));
    format!("{family}-{protocol}-{ip}:{inside}:{outside}")
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Container;
    use testkit::pods;

    use super::*;

    fn port(name: &str, protocol: &str, inside: i32, outside: i32, ip: &str) -> ContainerPort {
        ContainerPort {
            name: (!name.is_empty()).then(|| name.to_owned()),
            protocol: Some(protocol.to_owned()),
            container_port: inside,
            host_port: (outside != 0).then_some(outside),
            host_ip: (!ip.is_empty()).then(|| ip.to_owned()),
        }
    }

    // behaviour: CON-25
    #[test]
    fn port_mappings_of_all_containers_are_unique() {
        let one = vec![
            port("", "TCP", 80, 8080, ""),
            port("", "TCP", 80, 8080, ""),
            port("dns", "UDP", 53, 0, ""),
            port("dns", "UDP", 54, 0, ""),
            port("", "TCP", 80, 8080, "127.0.0.1"),
            port("", "TCP", 80, 8080, "::1"),
        ];
        let two = vec![port("", "SCTP", 9, 0, "")];
        let mut pod = pods::pod("web").build();
        pod.spec.as_mut().unwrap().containers =
            [one, two].map(|ports| Container { ports: Some(ports), ..Container::default() }).into();
        let published = port_mappings(&pod);
        let published: Vec<_> = published
            .iter()
            .map(|m| (m.protocol, m.container_port, m.host_port, m.host_ip.as_str()))
            .collect();
        let expected = [
            (Protocol::Tcp, 80, 8080, ""),
            (Protocol::Udp, 53, 0, ""),
            (Protocol::Tcp, 80, 8080, "127.0.0.1"),
            (Protocol::Tcp, 80, 8080, "::1"),
            (Protocol::Sctp, 9, 0, ""),
        ];
        assert_eq!(published, expected);
    }

    // behaviour: CON-25
    #[test]
    fn init_containers_and_sidecars_have_no_port_mappings() {
        let with = |container: &mut Container, number| {
            container.ports = Some(vec![port("", "TCP", number, number, "")]);
        };
        let mut pod = pods::pod("web")
            .init_container("first", "image", [])
            .sidecar("side", "image", [])
            .container("main", "image", [])
            .build();
        let spec = pod.spec.as_mut().unwrap();
        let inits = spec.init_containers.as_mut().unwrap();
        with(&mut inits[0], 81);
        with(&mut inits[1], 82);
        assert_eq!(port_mappings(&pod), []);
        with(&mut pod.spec.as_mut().unwrap().containers[0], 80);
        let published: Vec<_> =
            port_mappings(&pod).iter().map(|port| port.container_port).collect();
        assert_eq!(published, [80]);
    }
}
