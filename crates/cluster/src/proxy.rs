//! The proxy for the API server, from the kubeconfig or else from the environment.

use std::net::IpAddr;
use std::task::{Context, Poll};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures_util::future::BoxFuture;
use http::{HeaderValue, Uri};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::connect::proxy::Tunnel;
use hyper_util::rt::TokioIo;
use kube::config::Kubeconfig;
use tokio::net::TcpStream;
use tower::{BoxError, Service};

use crate::names::Names;

/// The proxy settings of the environment.
#[derive(Debug, Clone, Default)]
pub struct ProxyVariables {
    /// `HTTP_PROXY` or `http_proxy`: for servers without TLS.
    pub http: Option<String>,
    /// `HTTPS_PROXY` or `https_proxy`: for servers with TLS.
    pub https: Option<String>,
    /// `NO_PROXY` or `no_proxy`: servers that are reached without a proxy.
    pub none_for: Option<String>,
}

/// An unusable proxy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProxyError {
    /// It is not a URL.
    #[error("proxy {0:?} ({1}) is not a URL")]
    Url(String, &'static str),
    /// Its scheme is not `http`.
    #[error("proxy {0:?} ({1}) does not use http://, the only supported scheme")]
    Scheme(String, &'static str),
}

/// The proxy of a server, if any. As in the kubelet, the proxy of a kubeconfig overrides the environment.
pub(crate) fn proxy(
    configured: Option<&str>,
    variables: &ProxyVariables,
    server: &Uri,
) -> Result<Option<Uri>, ProxyError> {
    let said = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
    if let Some(url) = configured.filter(|url| !url.is_empty()) {
        return parsed(url, "proxy-url of the kubeconfig").map(Some);
    }
    let (url, whence) = if server.scheme_str() == Some("http") {
        (said(&variables.http), "HTTP_PROXY")
    } else {
        (said(&variables.https), "HTTPS_PROXY")
    };
    let is_direct = is_direct(server, variables.none_for.as_deref().unwrap_or_default());
    url.filter(|_| !is_direct).map(|url| parsed(&url, whence)).transpose()
}

/// The proxy of the cluster of a kubeconfig.
pub(crate) fn of_kubeconfig(config: &Kubeconfig) -> Option<&str> {
    let name = config.current_context.as_ref()?;
    let context = config.contexts.iter().find(|one| one.name == *name)?.context.as_ref()?;
    let cluster = config.clusters.iter().find(|one| one.name == context.cluster)?;
    cluster.cluster.as_ref()?.proxy_url.as_deref()
}

fn parsed(text: &str, whence: &'static str) -> Result<Uri, ProxyError> {
    let with_scheme = if text.contains("://") { text.to_owned() } else { format!("http://{text}") };
    let url: Uri = with_scheme.parse().map_err(|_| ProxyError::Url(shown(text), whence))?;
    match url.scheme_str() {
        Some("http") if url.host().is_some() => Ok(url),
        _ => Err(ProxyError::Scheme(shown(text), whence)),
    }
}

/// A URL for logs, without credentials.
fn shown(text: &str) -> String {
    let Some((before, host)) = text.rsplit_once('@') else { return text.to_owned() };
    before
        .split_once("://")
        .map_or_else(|| host.to_owned(), |(scheme, _)| format!("{scheme}://{host}"))
}

/// Whether a server is reached without a proxy: local addresses are, and those that match a list of names,
/// domains, addresses and networks.
fn is_direct(server: &Uri, list: &str) -> bool {
    let host = server.host().unwrap_or_default().trim_matches(['[', ']']).to_lowercase();
    let address: Option<IpAddr> = host.parse().ok();
    let usual = if server.scheme_str() == Some("http") { 80 } else { 443 };
    let port = server.port_u16().unwrap_or(usual);
    if host == "localhost" || address.is_some_and(|ip| ip.is_loopback()) {
        return true;
    }
    let mut all = list.split(',').map(|one| one.trim().to_lowercase());
    all.any(|one| one == "*" || is_meant(&one, &host, address, port))
}

fn is_meant(entry: &str, host: &str, address: Option<IpAddr>, port: u16) -> bool {
    if let Some((network, bits)) = entry.split_once('/') {
        let (Ok(network), Ok(bits)) = (network.parse::<IpAddr>(), bits.parse()) else {
            return false;
        };
        return address.is_some_and(|ip| is_within(ip, network, bits));
    }
    let (name, of_port) = match entry.rsplit_once(':') {
        Some((name, text)) if entry.parse::<IpAddr>().is_err() => (name, text.parse::<u16>().ok()),
        _ => (entry, None),
    };
    let name = name.trim_matches(['[', ']']);
    if name.is_empty() || of_port.is_some_and(|wanted| wanted != port) {
        return false;
    }
    if let Ok(wanted) = name.parse::<IpAddr>() {
        return address == Some(wanted);
    }
    match name.strip_prefix("*.").or_else(|| name.strip_prefix('.')) {
        Some(domain) => host.strip_suffix(domain).is_some_and(|rest| rest.ends_with('.')),
        None => host.strip_suffix(name).is_some_and(|rest| rest.is_empty() || rest.ends_with('.')),
    }
}

fn is_within(ip: IpAddr, network: IpAddr, bits: u32) -> bool {
    match (ip, network) {
        (IpAddr::V4(ip), IpAddr::V4(network)) if bits <= 32 => {
            let mask = u32::MAX.checked_shl(32 - bits).unwrap_or(0);
            ip.to_bits() & mask == network.to_bits() & mask
        }
        (IpAddr::V6(ip), IpAddr::V6(network)) if bits <= 128 => {
            let mask = u128::MAX.checked_shl(128 - bits).unwrap_or(0);
            ip.to_bits() & mask == network.to_bits() & mask
        }
        _ => false,
    }
}

/// Creates connections, through a proxy if there is one.
#[derive(Debug, Clone)]
pub(crate) enum Dialer {
    Direct(HttpConnector<Names>),
    Through(Tunnel<HttpConnector<Names>>),
}

impl Dialer {
    pub(crate) fn new(http: HttpConnector<Names>, proxy: Option<Uri>) -> Self {
        let Some(proxy) = proxy else { return Self::Direct(http) };
        let credentials = credentials(&proxy);
        let tunnel = Tunnel::new(proxy, http);
        Self::Through(match credentials {
            Some(header) => tunnel.with_auth(header),
            None => tunnel,
        })
    }
}

/// The credentials for a proxy, if its URL has them.
fn credentials(proxy: &Uri) -> Option<HeaderValue> {
    let (user, _) = proxy.authority()?.as_str().rsplit_once('@')?;
    HeaderValue::try_from(format!("Basic {}", STANDARD.encode(unescaped(user)))).ok()
}

/// Decodes percent escapes.
fn unescaped(text: &str) -> Vec<u8> {
    let (mut found, mut rest) = (Vec::new(), text.as_bytes());
    while let [first, tail @ ..] = rest {
        let digit = |at: usize| tail.get(at).and_then(|one| char::from(*one).to_digit(16));
        let escaped = (*first == b'%').then(|| Some(digit(0)? * 16 + digit(1)?)).flatten();
        let escaped = escaped.and_then(|value| u8::try_from(value).ok());
        found.push(escaped.unwrap_or(*first));
        rest = if escaped.is_some() { &tail[2..] } else { tail };
    }
    found
}

impl Service<Uri> for Dialer {
    type Response = TokioIo<TcpStream>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, BoxError>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        match self {
            Self::Direct(http) => http.poll_ready(context).map_err(Into::into),
            Self::Through(tunnel) => tunnel.poll_ready(context).map_err(Into::into),
        }
    }

    fn call(&mut self, server: Uri) -> Self::Future {
        match self {
            Self::Direct(http) => {
                let dialing = http.call(server);
                Box::pin(async move { Ok(dialing.await?) })
            }
            Self::Through(tunnel) => {
                let dialing = tunnel.call(server);
                Box::pin(async move { Ok(dialing.await?) })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(text: &str) -> Uri {
        text.parse().unwrap()
    }

    // behaviour: NODE-40
    #[test]
    fn kubeconfig_proxy_overrides_the_environment() {
        let variables = ProxyVariables {
            http: Some("http://plain:1".to_owned()),
            https: Some("tls.example:2".to_owned()),
            none_for: Some("near.example".to_owned()),
        };
        let none = ProxyVariables::default();
        let rows = [
            (None, &none, "https://far.example", None),
            (Some("http://own:3128"), &none, "https://far.example", Some("http://own:3128/")),
            (Some("http://own:3128"), &variables, "https://near.example", Some("http://own:3128/")),
            (Some(""), &variables, "https://far.example:6443", Some("http://tls.example:2/")),
            (None, &variables, "http://far.example", Some("http://plain:1/")),
            (None, &variables, "https://near.example", None),
            (None, &variables, "https://127.0.0.1:6443", None),
        ];
        for (configured, variables, to, expected) in rows {
            let found = proxy(configured, variables, &server(to)).unwrap();
            let found = found.map(|found| found.to_string());
            assert_eq!(found.as_deref(), expected, "{configured:?} {to}");
        }
        let with_password = ["socks5://me:secret@own:1", "me:secret@own:a b"];
        for wrong in
            ["socks5://own:1", "https://own:1", "http://", "a b"].into_iter().chain(with_password)
        {
            let error = proxy(Some(wrong), &none, &server("https://far.example")).unwrap_err();
            assert!(error.to_string().contains("proxy-url of the kubeconfig"), "{error}");
            assert!(!error.to_string().contains("secret"), "{error}");
        }
    }

    // behaviour: NODE-40
    #[test]
    fn no_proxy_matches_hosts_domains_addresses_and_networks() {
        let rows = [
            ("", "https://far.example", false),
            ("*", "https://far.example", true),
            ("far.example", "https://far.example", true),
            (" other , FAR.example", "https://far.example", true),
            ("example", "https://far.example", true),
            ("r.example", "https://far.example", false),
            (".far.example", "https://far.example", false),
            (".far.example", "https://api.far.example", true),
            ("*.far.example", "https://api.far.example", true),
            ("far.example:6443", "https://far.example:6443", true),
            ("far.example:6443", "https://far.example", false),
            ("far.example:443", "https://far.example", true),
            ("10.0.0.1", "https://10.0.0.1:6443", true),
            ("10.0.0.2", "https://10.0.0.1:6443", false),
            ("10.0.0.0/8", "https://10.9.9.9:6443", true),
            ("10.0.0.0/8", "https://11.9.9.9:6443", false),
            ("0.0.0.0/0", "https://11.9.9.9:6443", true),
            ("10.0.0.0/8", "https://far.example", false),
            ("fd00::/8", "https://[fd00::1]:6443", true),
            ("fd00::1", "https://[fd00::1]:6443", true),
            ("[fd00::1]:443", "https://[fd00::1]:6443", false),
            ("", "https://localhost:6443", true),
            ("", "https://[::1]:6443", true),
        ];
        for (list, to, expected) in rows {
            assert_eq!(is_direct(&server(to), list), expected, "{list:?} {to}");
        }
    }

    #[test]
    fn proxy_credentials_are_read_from_its_url() {
        assert_eq!(credentials(&server("http://proxy:1")), None);
        let header = credentials(&server("http://user:p%40ss%@proxy:1")).unwrap();
        let expected = format!("Basic {}", STANDARD.encode("user:p@ss%"));
        assert_eq!(header.to_str().unwrap(), expected);
    }
}
