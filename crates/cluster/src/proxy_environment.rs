//! The proxy variables of the environment.

use crate::proxy::ProxyVariables;

impl ProxyVariables {
    /// The variables of this process.
    pub fn from_environment() -> Self {
        Self {
            http: either("HTTP_PROXY", "http_proxy"),
            https: either("HTTPS_PROXY", "https_proxy"),
            none_for: either("NO_PROXY", "no_proxy"),
        }
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "proxies are set by the environment, as for any program"
)]
fn either(name: &str, other: &str) -> Option<String> {
    let value = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    value(name).or_else(|| value(other))
}
