//! Lifecycle hooks as actions.

use std::net::IpAddr;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Container, HTTPGetAction, LifecycleHandler, TCPSocketAction};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use model::ports::http::Headers;

use super::go_path::requested;
use super::go_text::quoted;

/// The user agent of hooks.
const USER_AGENT: &str = "kube-lifecycle/1.36";

/// A hook, ready to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Hook {
    /// A command in the container.
    Exec(Vec<String>),
    /// An HTTP request to the container.
    Http(HttpHook),
    /// A pause.
    Sleep(Duration),
}

/// The HTTP request of a hook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpHook {
    /// Whether it uses TLS.
    pub secure: bool,
    /// Host and port.
    pub authority: String,
    /// Path and query.
    pub path: String,
    /// Headers to send.
    pub headers: Headers,
}

impl HttpHook {
    /// The URL, with or without TLS.
    pub fn url(&self, secure: bool) -> String {
        let scheme = if secure { "https" } else { "http" };
        format!("{scheme}://{}{}", self.authority, self.path)
    }

    /// The headers for the fallback without TLS: no secrets.
    pub fn plain_headers(&self) -> Headers {
        let public =
            |(name, _): &&(String, Vec<String>)| !name.eq_ignore_ascii_case("authorization");
        Headers(self.headers.0.iter().filter(public).cloned().collect())
    }
}

/// Why a hook cannot run.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum HookError {
    /// It has no supported action; `tcpSocket` is not supported.
    #[error(
        "invalid handler: &LifecycleHandler{{Exec:nil,HTTPGet:nil,TCPSocket:{},Sleep:nil,}}",
        socket(.0.as_ref())
    )]
    Nothing(Option<TCPSocketAction>),
    /// The pod has no address.
    #[error("the pod has no address")]
    NoAddress,
    /// The container has no port of that name.
    #[error("strconv.Atoi: parsing {}: invalid syntax", quoted(.0))]
    NoPort(String),
}

/// A socket as Go prints it.
fn socket(socket: Option<&TCPSocketAction>) -> String {
    let Some(TCPSocketAction { host, port }) = socket else { return "nil".to_owned() };
    let port = match port {
        IntOrString::Int(port) => format!("{{0 {port} }}"),
        IntOrString::String(name) => format!("{{1 0 {name}}}"),
    };
    format!("&TCPSocketAction{{Port:{port},Host:{},}}", host.as_deref().unwrap_or_default())
}

/// Whether the hook needs the pod's address.
pub fn needs_address(handler: &LifecycleHandler) -> bool {
    let http = handler.http_get.as_ref().filter(|_| handler.exec.is_none());
    http.is_some_and(|http| http.host.as_deref().unwrap_or_default().is_empty())
}

/// Whether the hook is a pause.
pub fn sleeps(handler: &LifecycleHandler) -> bool {
    handler.sleep.is_some() && handler.exec.is_none() && handler.http_get.is_none()
}

/// The action of a handler; `address` is the pod's.
pub fn hook(
    handler: &LifecycleHandler,
    container: &Container,
    address: Option<IpAddr>,
) -> Result<Hook, HookError> {
    if let Some(exec) = &handler.exec {
        return Ok(Hook::Exec(exec.command.clone().unwrap_or_default()));
    }
    if let Some(http) = &handler.http_get {
        return http_hook(http, container, address).map(Hook::Http);
    }
    if let Some(sleep) = &handler.sleep {
        return Ok(Hook::Sleep(Duration::from_secs(u64::try_from(sleep.seconds).unwrap_or(0))));
    }
    // The API accepts a TCP socket, but it was never implemented.
    Err(HookError::Nothing(handler.tcp_socket.clone()))
}

fn http_hook(
    http: &HTTPGetAction,
    container: &Container,
    address: Option<IpAddr>,
) -> Result<HttpHook, HookError> {
    let port = match &http.port {
        IntOrString::Int(port) => *port,
        IntOrString::String(name) => {
            let ports = container.ports.iter().flatten();
            let named = ports.filter(|port| port.name.as_deref() == Some(name));
            let number = named.map(|port| port.container_port).next();
            number.or_else(|| name.parse().ok()).ok_or_else(|| HookError::NoPort(name.clone()))?
        }
    };
    let host = match http.host.as_deref().filter(|host| !host.is_empty()) {
        Some(host) if host.contains(':') && !host.starts_with('[') => format!("[{host}]"),
        Some(host) => host.to_owned(),
        None => match address.ok_or(HookError::NoAddress)? {
            IpAddr::V4(address) => address.to_string(),
            IpAddr::V6(address) => format!("[{address}]"),
        },
    };
    Ok(HttpHook {
        secure: http.scheme.as_deref().is_some_and(|scheme| scheme.eq_ignore_ascii_case("https")),
        authority: format!("{host}:{port}"),
        path: requested(http.path.as_deref().unwrap_or_default()),
        headers: headers(http),
    })
}

/// The headers of the hook, and ours if it does not set them; an empty `Accept` removes it.
fn headers(http: &HTTPGetAction) -> Headers {
    let mut headers: Vec<(String, Vec<String>)> = Vec::new();
    for header in http.http_headers.iter().flatten() {
        let same = headers.iter_mut().find(|(name, _)| name.eq_ignore_ascii_case(&header.name));
        match same {
            Some((_, values)) => values.push(header.value.clone()),
            None => headers.push((header.name.clone(), vec![header.value.clone()])),
        }
    }
    for (name, value) in [("User-Agent", USER_AGENT), ("Accept", "*/*")] {
        if !headers.iter().any(|(given, _)| given.eq_ignore_ascii_case(name)) {
            headers.push((name.to_owned(), vec![value.to_owned()]));
        }
    }
    headers.retain(|(name, values)| {
        !name.eq_ignore_ascii_case("accept") || values.iter().any(|value| !value.is_empty())
    });
    Headers(headers)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{ContainerPort, ExecAction, HTTPHeader, SleepAction};

    use super::*;

    fn http(http: HTTPGetAction) -> LifecycleHandler {
        LifecycleHandler { http_get: Some(http), ..LifecycleHandler::default() }
    }

    fn url(action: HTTPGetAction, address: Option<&str>) -> Result<String, HookError> {
        let ports = vec![ContainerPort {
            name: Some("web".to_owned()),
            container_port: 8080,
            ..ContainerPort::default()
        }];
        let container = Container { ports: Some(ports), ..Container::default() };
        let address = address.map(|address| address.parse().unwrap());
        match hook(&http(action), &container, address)? {
            Hook::Http(hook) => Ok(hook.url(hook.secure)),
            other => panic!("{other:?}"),
        }
    }

    // behaviour: ACT-80
    #[test]
    fn hook_is_exec_http_or_sleep() {
        let container = Container::default();
        let exec = LifecycleHandler {
            exec: Some(ExecAction { command: Some(vec!["a".to_owned(), "b".to_owned()]) }),
            ..LifecycleHandler::default()
        };
        assert_eq!(hook(&exec, &container, None), Ok(Hook::Exec(vec!["a".into(), "b".into()])));
        let sleep = LifecycleHandler {
            sleep: Some(SleepAction { seconds: 3 }),
            ..LifecycleHandler::default()
        };
        assert_eq!(hook(&sleep, &container, None), Ok(Hook::Sleep(Duration::from_secs(3))));
        let error_of = |host: Option<&str>, port| {
            let action = TCPSocketAction { host: host.map(ToOwned::to_owned), port };
            let socket =
                LifecycleHandler { tcp_socket: Some(action), ..LifecycleHandler::default() };
            hook(&socket, &container, None).unwrap_err().to_string()
        };
        let of = |socket: &str| {
            let rest = "Sleep:nil,}";
            format!(
                "invalid handler: &LifecycleHandler{{Exec:nil,HTTPGet:nil,TCPSocket:{socket},{rest}"
            )
        };
        let numbered = of("&TCPSocketAction{Port:{0 80 },Host:,}");
        assert_eq!(error_of(None, IntOrString::Int(80)), numbered);
        let named = of("&TCPSocketAction{Port:{1 0 web},Host:x,}");
        assert_eq!(error_of(Some("x"), IntOrString::String("web".to_owned())), named);
        let nothing = hook(&LifecycleHandler::default(), &container, None).unwrap_err();
        assert_eq!(nothing.to_string(), of("nil"));
    }

    // behaviour: ACT-81
    #[test]
    fn http_hook_is_sent_to_the_pod_unless_a_host_is_set() {
        let to = |port: IntOrString| HTTPGetAction { port, ..HTTPGetAction::default() };
        let port = || IntOrString::Int(80);
        let named = |name: &str| IntOrString::String(name.to_owned());
        let here = Some("10.0.0.1");
        assert_eq!(url(to(port()), here).unwrap(), "http://10.0.0.1:80/");
        assert_eq!(url(to(port()), Some("fd00::1")).unwrap(), "http://[fd00::1]:80/");
        assert_eq!(url(to(named("web")), here).unwrap(), "http://10.0.0.1:8080/");
        assert_eq!(url(to(named("7070")), here).unwrap(), "http://10.0.0.1:7070/");
        assert_eq!(url(to(named("db")), here), Err(HookError::NoPort("db".to_owned())));
        assert_eq!(url(to(port()), None), Err(HookError::NoAddress));
        let elsewhere = HTTPGetAction {
            host: Some("example.test".to_owned()),
            path: Some("bye?now=1".to_owned()),
            scheme: Some("HTTPS".to_owned()),
            ..to(port())
        };
        assert!(!needs_address(&http(elsewhere.clone())));
        assert_eq!(url(elsewhere, None).unwrap(), "https://example.test:80/bye?now=1");
    }

    #[test]
    fn http_hook_headers_override_the_defaults() {
        let header =
            |name: &str, value: &str| HTTPHeader { name: name.into(), value: value.into() };
        let given = vec![header("X-A", "1"), header("x-a", "2"), header("accept", "")];
        let action = HTTPGetAction { http_headers: Some(given), ..HTTPGetAction::default() };
        let expected = vec![
            ("X-A".to_owned(), vec!["1".to_owned(), "2".to_owned()]),
            ("User-Agent".to_owned(), vec!["kube-lifecycle/1.36".to_owned()]),
        ];
        assert_eq!(headers(&action), Headers(expected));
    }
}
