//! The programs of a control plane: their flags and readiness endpoints.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use super::pki::{Pki, PkiError, User};

/// A program of a control plane. Each can be stopped and started separately.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Component {
    Etcd,
    ApiServer,
    ControllerManager,
    Scheduler,
}

/// The port of the API server.
pub(crate) const API_SERVER_PORT: u16 = 6443;
/// The range of service addresses, and the first of them, the API server's own.
const SERVICES: &str = "10.96.0.0/16";
pub(crate) const API_SERVICE: &str = "10.96.0.1";
/// The name of the components' server certificate.
pub(crate) const SERVER: &str = "server";

impl Component {
    /// In the order in which they start.
    pub const ALL: [Self; 4] =
        [Self::Etcd, Self::ApiServer, Self::ControllerManager, Self::Scheduler];

    /// The name of the program, and of its log.
    pub fn program(self) -> &'static str {
        match self {
            Self::Etcd => "etcd",
            Self::ApiServer => "kube-apiserver",
            Self::ControllerManager => "kube-controller-manager",
            Self::Scheduler => "kube-scheduler",
        }
    }

    /// Its readiness endpoint. Only etcd has one without TLS: on a separate port.
    pub(crate) fn health(self, address: Ipv4Addr) -> (SocketAddr, &'static str) {
        let (port, path) = match self {
            Self::Etcd => (2381, "/readyz"),
            Self::ApiServer => (API_SERVER_PORT, "/readyz"),
            Self::ControllerManager => (10257, "/healthz"),
            Self::Scheduler => (10259, "/readyz"),
        };
        (SocketAddr::from((address, port)), path)
    }

    pub(crate) fn speaks_tls(self) -> bool {
        self != Self::Etcd
    }
}

/// The values in a component's flags.
pub(crate) struct Flags<'a> {
    pub(crate) pki: &'a Pki,
    pub(crate) address: Ipv4Addr,
    pub(crate) data: &'a Path,
    pub(crate) server: &'a str,
}

impl Flags<'_> {
    pub(crate) fn of(&self, component: Component) -> Result<Vec<String>, PkiError> {
        match component {
            Component::Etcd => Ok(self.etcd()),
            Component::ApiServer => self.api_server(),
            Component::ControllerManager => self.controller_manager(),
            Component::Scheduler => self.client("system:kube-scheduler"),
        }
    }

    /// A crash of the machine ends the instance, so nothing is synced to disk.
    fn etcd(&self) -> Vec<String> {
        vec![
            flag("data-dir", self.data.display()),
            flag("listen-client-urls", "http://127.0.0.1:2379"),
            flag("advertise-client-urls", "http://127.0.0.1:2379"),
            flag("listen-peer-urls", "http://127.0.0.1:2380"),
            flag("listen-metrics-urls", format!("http://{}:2381", self.address)),
            flag("unsafe-no-fsync", true),
            flag("log-level", "warn"),
        ]
    }

    fn api_server(&self) -> Result<Vec<String>, PkiError> {
        let to_nodes = User::new("kube-apiserver-kubelet-client").in_group("system:masters");
        let (certificate, key) = self.pki.write_client(&to_nodes)?;
        let mut flags = self.serving();
        flags.extend([
            flag("etcd-servers", "http://127.0.0.1:2379"),
            flag("secure-port", API_SERVER_PORT),
            flag("advertise-address", self.address),
            // There is one API server, so the list of them is not needed.
            flag("endpoint-reconciler-type", "none"),
            flag("client-ca-file", self.file("ca.crt").display()),
            // Other programs request this as the API server starts; no certificate has that name.
            flag("requestheader-client-ca-file", self.file("ca.crt").display()),
            flag("requestheader-allowed-names", "front-proxy-client"),
            flag("requestheader-username-headers", "X-Remote-User"),
            flag("requestheader-group-headers", "X-Remote-Group"),
            flag("requestheader-extra-headers-prefix", "X-Remote-Extra-"),
            flag("service-account-key-file", self.file("sa.pub").display()),
            flag("service-account-signing-key-file", self.file("sa.key").display()),
            flag("service-account-issuer", "https://kubernetes.default.svc"),
            flag("service-cluster-ip-range", SERVICES),
            flag("authorization-mode", "Node,RBAC"),
            flag("enable-admission-plugins", "NodeRestriction"),
            flag("allow-privileged", true),
            flag("kubelet-client-certificate", certificate.display()),
            flag("kubelet-client-key", key.display()),
            flag("kubelet-preferred-address-types", "InternalIP"),
        ]);
        Ok(flags)
    }

    fn controller_manager(&self) -> Result<Vec<String>, PkiError> {
        let mut flags = self.client("system:kube-controller-manager")?;
        flags.extend([
            flag("service-account-private-key-file", self.file("sa.key").display()),
            flag("root-ca-file", self.file("ca.crt").display()),
            flag("cluster-signing-cert-file", self.file("ca.crt").display()),
            flag("cluster-signing-key-file", self.file("ca.key").display()),
            flag("use-service-account-credentials", true),
        ]);
        Ok(flags)
    }

    /// The flags of a client of the API server that serves its own health. There is one of each.
    fn client(&self, user: &str) -> Result<Vec<String>, PkiError> {
        let kubeconfig = self.pki.write_kubeconfig(&User::new(user), self.server)?;
        let mut flags = self.serving();
        for name in ["kubeconfig", "authentication-kubeconfig", "authorization-kubeconfig"] {
            flags.push(flag(name, kubeconfig.display()));
        }
        flags.push(flag("leader-elect", false));
        Ok(flags)
    }

    fn serving(&self) -> Vec<String> {
        let file = |extension: &str| self.file(&format!("{SERVER}.{extension}"));
        vec![
            flag("bind-address", "0.0.0.0"),
            flag("tls-cert-file", file("crt").display()),
            flag("tls-private-key-file", file("key").display()),
        ]
    }

    fn file(&self, name: &str) -> PathBuf {
        self.pki.file(name)
    }
}

fn flag(name: &str, value: impl std::fmt::Display) -> String {
    format!("--{name}={value}")
}
