//! What the environment says of proxies, as every program of a machine hears it.

use cluster::ProxyVariables;

/// The variables of this process.
pub(crate) fn proxies() -> ProxyVariables {
    ProxyVariables {
        http: either("HTTP_PROXY", "http_proxy"),
        https: either("HTTPS_PROXY", "https_proxy"),
        none_for: either("NO_PROXY", "no_proxy"),
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "which proxy there is says the machine's environment"
)]
fn either(name: &str, other: &str) -> Option<String> {
    let said = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    said(name).or_else(|| said(other))
}
