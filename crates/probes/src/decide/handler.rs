//! What a probe requests.

use k8s_openapi::api::core::v1::{Container, HTTPGetAction, Probe};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use model::go_path::requested;
use model::ports::probes::{GrpcProbe, HttpProbe, NetworkProbe, TcpProbe, USER_AGENT};
use podspec::expansion::expand;

/// A request of a probe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProbeRequest {
    /// A command in the container.
    Exec(Vec<String>),
    /// A request over the network.
    Network(NetworkProbe),
}

/// Whether a probe needs the IP address of its pod.
pub fn needs_pod_ip(probe: &Probe) -> bool {
    let is_empty = |host: &Option<String>| host.as_deref().unwrap_or_default().is_empty();
    match probe {
        Probe { exec: Some(_), .. } => false,
        Probe { http_get: Some(http), .. } => is_empty(&http.host),
        Probe { tcp_socket: Some(tcp), .. } => is_empty(&tcp.host),
        _ => probe.grpc.is_some(),
    }
}

/// The request of a container's probe. `pod` names the pod in errors.
pub fn request(
    probe: &Probe,
    container: &Container,
    pod: &str,
    pod_ip: &str,
) -> Result<ProbeRequest, String> {
    if let Some(exec) = &probe.exec {
        let words = exec.command.iter().flatten();
        return Ok(ProbeRequest::Exec(words.map(|word| expanded(word, container)).collect()));
    }
    let host = |host: &Option<String>| {
        let host = host.as_deref().filter(|host| !host.is_empty());
        host.unwrap_or(pod_ip).to_owned()
    };
    let network = if let Some(http) = &probe.http_get {
        NetworkProbe::Http(http_probe(http, &host(&http.host), port(&http.port, container)?))
    } else if let Some(tcp) = &probe.tcp_socket {
        NetworkProbe::Tcp(TcpProbe { host: host(&tcp.host), port: port(&tcp.port, container)? })
    } else if let Some(grpc) = &probe.grpc {
        NetworkProbe::Grpc(GrpcProbe {
            host: pod_ip.to_owned(),
            port: valid_port(grpc.port)?,
            service: grpc.service.clone().unwrap_or_default(),
        })
    } else {
        return Err(format!("missing probe handler for {pod}:{}", container.name));
    };
    Ok(ProbeRequest::Network(network))
}

/// A word of a command. Variables whose values come from elsewhere stay as written.
fn expanded(word: &str, container: &Container) -> String {
    let variables = || container.env.iter().flatten().filter(|one| one.value_from.is_none());
    let value = |name: &str| {
        let variable = variables().rfind(|one| one.name == name)?;
        Some(variable.value.as_deref().unwrap_or_default())
    };
    expand(word, value).unwrap_or_else(|| word.to_owned())
}

fn port(port: &IntOrString, container: &Container) -> Result<u16, String> {
    match port {
        IntOrString::Int(number) => valid_port(*number),
        IntOrString::String(name) => {
            let mut ports = container.ports.iter().flatten();
            let named = ports.find(|port| port.name.as_deref() == Some(name));
            let number = named.map(|port| port.container_port).or_else(|| name.parse().ok());
            let syntax = || format!("strconv.Atoi: parsing {name:?}: invalid syntax");
            valid_port(number.ok_or_else(syntax)?)
        }
    }
}

fn valid_port(number: i32) -> Result<u16, String> {
    let valid = u16::try_from(number).ok().filter(|number| *number > 0);
    valid.ok_or_else(|| format!("invalid port number: {number}"))
}

fn http_probe(http: &HTTPGetAction, host: &str, port: u16) -> HttpProbe {
    let scheme = http.scheme.as_deref().filter(|scheme| !scheme.is_empty());
    let scheme = scheme.unwrap_or("http").to_ascii_lowercase();
    let host = if host.contains(':') && !host.starts_with('[') {
        format!("[{host}]")
    } else {
        host.to_owned()
    };
    let path = requested(http.path.as_deref().unwrap_or_default());
    let given = http.http_headers.iter().flatten();
    let mut headers: Vec<(String, String)> =
        given.map(|header| (header.name.clone(), header.value.clone())).collect();
    for (name, value) in [("User-Agent", USER_AGENT), ("Accept", "*/*")] {
        if !headers.iter().any(|(given, _)| given.eq_ignore_ascii_case(name)) {
            headers.push((name.to_owned(), value.to_owned()));
        }
    }
    // Without a value they are not sent.
    let is_removed =
        |name: &str| name.eq_ignore_ascii_case("user-agent") || name.eq_ignore_ascii_case("accept");
    headers.retain(|(name, value)| !(value.is_empty() && is_removed(name)));
    HttpProbe { url: format!("{scheme}://{host}:{port}{path}"), headers }
}

#[cfg(test)]
#[path = "handler_tests.rs"]
mod tests;
