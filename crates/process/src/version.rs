//! The versions of the programs.

/// The version of Kubernetes whose behaviour the programs have.
pub const KUBERNETES: &str = "v1.36.3";
/// The version of ferrolet.
pub const FERROLET: &str = env!("CARGO_PKG_VERSION");

/// The user agent of the node agent in requests to servers.
pub const USER_AGENT: &str = concat!("kubelet/v1.36.3 ferrolet/", env!("CARGO_PKG_VERSION"));

/// Both versions as text. The first line is the one that scripts expect of a kubelet.
pub fn text() -> String {
    format!("Kubernetes {KUBERNETES}\nferrolet {FERROLET}\n")
}
