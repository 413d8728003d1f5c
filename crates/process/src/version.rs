//! The versions of the programs.

/// The version of Kubernetes whose behaviour the programs have.
pub const KUBERNETES: &str = "v1.36.3";
/// The version of ferrolet.
pub const FERROLET: &str = env!("CARGO_PKG_VERSION");

/// The user agent of the node agent in requests to servers.
pub const USER_AGENT: &str = concat!("kubelet/v1.36.3 ferrolet/", env!("CARGO_PKG_VERSION"));

/// Both versions as text.
pub fn text() -> String {
    format!("{}ferrolet {FERROLET}\n", kubelet_text())
}

/// The output of `kubelet --version`. kubeadm accepts this line only, without another one.
pub fn kubelet_text() -> String {
    format!("Kubernetes {KUBERNETES}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kubelet_version_is_a_single_line() {
        assert_eq!(kubelet_text(), "Kubernetes v1.36.3\n");
        assert!(text().starts_with(&kubelet_text()));
    }
}
