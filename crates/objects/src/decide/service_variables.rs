//! The environment variables of services, with upstream's names.

use model::objects::{ServicePort, ServiceRecord};

/// The service that every container gets variables of: the API server.
const MASTER: (&str, &str) = ("default", "kubernetes");

/// The variables of a pod in `namespace`. A pod without `enableServiceLinks` gets only those of the API
/// server. Of two services with one name, the one in the pod's namespace counts.
pub fn service_variables<'a>(
    services: impl Iterator<Item = &'a ServiceRecord>,
    namespace: &str,
    links: bool,
) -> Vec<(String, String)> {
    let mut own = Vec::new();
    let mut master = None;
    for service in services.filter(|service| service.has_address()) {
        let name = (&*service.name.namespace, &*service.name.name);
        if name == MASTER {
            master = Some(service);
        } else if name.0 == namespace && links {
            own.push(service);
        }
    }
    let is_hidden = own.iter().any(|service| &*service.name.name == MASTER.1);
    let visible = master.filter(|_| !is_hidden).into_iter().chain(own);
    visible.flat_map(variables).collect()
}

fn variables(service: &ServiceRecord) -> Vec<(String, String)> {
    let name = variable_name(&service.name.name);
    let ip = &*service.cluster_ip;
    let mut all = vec![(format!("{name}_SERVICE_HOST"), ip.to_owned())];
    if let Some(first) = service.ports.first() {
        all.push((format!("{name}_SERVICE_PORT"), first.port.to_string()));
    }
    for port in service.ports.iter().filter(|port| !port.name.is_empty()) {
        let of_port = format!("{name}_SERVICE_PORT_{}", variable_name(&port.name));
        all.push((of_port, port.port.to_string()));
    }
    for (index, port) in service.ports.iter().enumerate() {
        let url = url(ip, port);
        if index == 0 {
            all.push((format!("{name}_PORT"), url.clone()));
        }
        let of_port = format!("{name}_PORT_{}_{}", port.port, port.protocol.to_uppercase());
        all.push((format!("{of_port}_PROTO"), port.protocol.to_lowercase()));
        all.push((format!("{of_port}_PORT"), port.port.to_string()));
        all.push((format!("{of_port}_ADDR"), ip.to_owned()));
        all.push((of_port, url));
    }
    all
}

fn url(ip: &str, port: &ServicePort) -> String {
    let protocol = port.protocol.to_lowercase();
    let number = port.port;
    if ip.contains(':') {
        format!("{protocol}://[{ip}]:{number}")
    } else {
        format!("{protocol}://{ip}:{number}")
    }
}

fn variable_name(name: &str) -> String {
    name.replace('-', "_").to_uppercase()
}

#[cfg(test)]
mod tests {
    use model::objects::ServiceName;

    use super::*;

    fn service(name: &str, ip: &str, ports: &[(&str, &str, i32)]) -> ServiceRecord {
        let (namespace, name) = name.split_once('/').unwrap();
        let port = |(name, protocol, port): &(&str, &str, i32)| ServicePort {
            name: (*name).into(),
            protocol: (*protocol).into(),
            port: *port,
        };
        ServiceRecord {
            name: ServiceName { namespace: namespace.into(), name: name.into() },
            cluster_ip: ip.into(),
            ports: ports.iter().map(port).collect(),
        }
    }

    fn names(services: &[ServiceRecord], namespace: &str, links: bool) -> Vec<String> {
        let all = service_variables(services.iter(), namespace, links);
        let hosts = all.into_iter().filter(|(name, _)| name.ends_with("_SERVICE_HOST"));
        hosts.map(|(name, value)| format!("{name}={value}")).collect()
    }

    // behaviour: OBJ-16
    #[test]
    fn service_has_variables_for_its_address_and_ports() {
        let services =
            [service("ns/my-web", "10.0.0.5", &[("http", "TCP", 80), ("dns-udp", "UDP", 53)])];
        let mut variables = service_variables(services.iter(), "ns", true);
        variables.sort();
        let expected = [
            ("MY_WEB_PORT", "tcp://10.0.0.5:80"),
            ("MY_WEB_PORT_53_UDP", "udp://10.0.0.5:53"),
            ("MY_WEB_PORT_53_UDP_ADDR", "10.0.0.5"),
            ("MY_WEB_PORT_53_UDP_PORT", "53"),
            ("MY_WEB_PORT_53_UDP_PROTO", "udp"),
            ("MY_WEB_PORT_80_TCP", "tcp://10.0.0.5:80"),
            ("MY_WEB_PORT_80_TCP_ADDR", "10.0.0.5"),
            ("MY_WEB_PORT_80_TCP_PORT", "80"),
            ("MY_WEB_PORT_80_TCP_PROTO", "tcp"),
            ("MY_WEB_SERVICE_HOST", "10.0.0.5"),
            ("MY_WEB_SERVICE_PORT", "80"),
            ("MY_WEB_SERVICE_PORT_DNS_UDP", "53"),
            ("MY_WEB_SERVICE_PORT_HTTP", "80"),
        ];
        let expected: Vec<_> =
            expected.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        assert_eq!(variables, expected);
        let six = [service("ns/six", "fd00::1", &[("", "TCP", 443)])];
        let variables = service_variables(six.iter(), "ns", true);
        assert!(variables.contains(&("SIX_PORT".to_owned(), "tcp://[fd00::1]:443".to_owned())));
    }

    // behaviour: OBJ-17
    #[test]
    fn pod_gets_services_of_its_namespace_and_always_the_api_server() {
        let port = &[("", "TCP", 1)];
        let services = [
            service("default/kubernetes", "10.0.0.1", port),
            service("default/other", "10.0.0.2", port),
            service("ns/own", "10.0.0.3", port),
            service("ns/headless", "None", port),
            service("ns/without", "", port),
            service("hides/kubernetes", "10.0.0.9", port),
        ];
        let api = "KUBERNETES_SERVICE_HOST=10.0.0.1";
        assert_eq!(names(&services, "ns", true), [api, "OWN_SERVICE_HOST=10.0.0.3"]);
        assert_eq!(names(&services, "ns", false), [api]);
        assert_eq!(names(&services, "default", true), [api, "OTHER_SERVICE_HOST=10.0.0.2"]);
        assert_eq!(names(&services, "default", false), [api]);
        assert_eq!(names(&services, "hides", true), ["KUBERNETES_SERVICE_HOST=10.0.0.9"]);
        assert_eq!(names(&services, "hides", false), [api]);
    }
}
