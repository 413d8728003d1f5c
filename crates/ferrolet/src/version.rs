//! Which versions this is.

use server::wire::Version;

/// The version of Kubernetes whose behaviour the agent has.
pub(crate) const KUBERNETES: &str = "v1.36.3";
/// The agent's own version.
pub(crate) const FERROLET: &str = env!("CARGO_PKG_VERSION");

/// How the agent presents itself to servers.
pub(crate) const USER_AGENT: &str = concat!("kubelet/v1.36.3 ferrolet/", env!("CARGO_PKG_VERSION"));

/// Both, as the local server tells them.
pub(crate) fn version() -> Version {
    Version { kubernetes: KUBERNETES.to_owned(), ferrolet: FERROLET.to_owned() }
}

/// Both, for people. The first line is what scripts expect of a kubelet.
pub(crate) fn text() -> String {
    format!("Kubernetes {KUBERNETES}\nferrolet {FERROLET}\n")
}
