//! Kubeconfigs of a node that joins a cluster.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kube::config::{AuthInfo, Cluster, Kubeconfig, KubeconfigError};
use serde_json::Value;

use crate::ConnectError;

/// The client certificate of a kubeconfig and its key. Keys are never printed.
#[derive(Clone, PartialEq, Eq)]
pub enum ClientPair {
    /// Both are in files.
    Files {
        /// The certificate.
        certificate: PathBuf,
        /// Its key.
        key: PathBuf,
    },
    /// Both are in the kubeconfig, in PEM.
    Inline(String),
}

impl std::fmt::Debug for ClientPair {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Files { certificate, .. } => write!(f, "Files({})", certificate.display()),
            Self::Inline(_) => f.write_str("Inline"),
        }
    }
}

fn read(path: &Path) -> Result<Kubeconfig, ConnectError> {
    Kubeconfig::read_from(path).map_err(|error| unusable(path, error))
}

fn unusable(path: &Path, error: KubeconfigError) -> ConnectError {
    ConnectError::Kubeconfig { path: path.to_owned(), source: Box::new(error) }
}

/// The user and the cluster of the current context.
fn current(config: Kubeconfig) -> (Option<AuthInfo>, Option<Cluster>) {
    let name = config.current_context.unwrap_or_default();
    let context = config.contexts.into_iter().find(|context| context.name == name);
    let Some(context) = context.and_then(|context| context.context) else { return (None, None) };
    let user = context.user.unwrap_or_default();
    let user = config.auth_infos.into_iter().find(|one| one.name == user);
    let cluster = config.clusters.into_iter().find(|one| one.name == context.cluster);
    (user.and_then(|user| user.auth_info), cluster.and_then(|cluster| cluster.cluster))
}

/// The client certificate of a kubeconfig, if it has one.
pub fn client_pair(kubeconfig: &Path) -> Result<Option<ClientPair>, ConnectError> {
    Ok(current(read(kubeconfig)?).0.and_then(pair))
}

fn pair(user: AuthInfo) -> Option<ClientPair> {
    let decoded = |data: &str| {
        let compact: String = data.split_whitespace().collect();
        String::from_utf8(STANDARD.decode(compact).ok()?).ok()
    };
    // Inline data takes precedence over files.
    let certificate = user.client_certificate_data.as_deref().and_then(decoded);
    // The type of the key is printed and read nowhere but here, as a kubeconfig has it.
    let fields = serde_json::to_value(&user).unwrap_or_default();
    let key = fields["client-key-data"].as_str().and_then(decoded);
    if let (Some(certificate), Some(key)) = (certificate, key) {
        return Some(ClientPair::Inline(format!("{}\n{key}", certificate.trim_end())));
    }
    Some(ClientPair::Files {
        certificate: user.client_certificate?.into(),
        key: user.client_key?.into(),
    })
}

/// A kubeconfig for the server of a bootstrap kubeconfig, with the client certificate and key of one file. Names
/// are upstream's.
pub fn node_kubeconfig(bootstrap: &Path, identity: &Path) -> Result<String, ConnectError> {
    let cluster = current(read(bootstrap)?).1;
    let cluster = cluster.filter(|cluster| cluster.server.is_some());
    let cluster = cluster.ok_or_else(|| unusable(bootstrap, KubeconfigError::MissingClusterUrl))?;
    Ok(text(&cluster, identity))
}

fn text(cluster: &Cluster, identity: &Path) -> String {
    let mut text = "apiVersion: v1\nclusters:\n- cluster:\n".to_owned();
    let mut field = |name: &str, value: Option<&str>| {
        let Some(value) = value else { return };
        // A JSON string is a YAML string.
        let value = Value::from(value);
        writeln!(text, "    {name}: {value}").expect("a string takes every text");
    };
    let file = cluster.certificate_authority.as_deref();
    field("certificate-authority", file);
    let data = cluster.certificate_authority_data.as_deref().filter(|_| file.is_none());
    field("certificate-authority-data", data);
    // Upstream drops these two, so that a bootstrapped node cannot reach its server.
    field("proxy-url", cluster.proxy_url.as_deref());
    field("tls-server-name", cluster.tls_server_name.as_deref());
    field("server", cluster.server.as_deref());
    if cluster.insecure_skip_tls_verify == Some(true) {
        text.push_str("    insecure-skip-tls-verify: true\n");
    }
    let identity = Value::from(identity.display().to_string());
    write!(
        text,
        "  name: default-cluster\ncontexts:\n- context:\n    cluster: default-cluster\n    namespace: default\n    \
         user: default-auth\n  name: default-context\ncurrent-context: default-context\nkind: Config\n\
         users:\n- name: default-auth\n  user:\n    client-certificate: {identity}\n    client-key: {identity}\n"
    )
    .expect("a string takes every text");
    text
}

#[cfg(test)]
mod tests {
    #![expect(clippy::disallowed_methods, reason = "kubeconfigs are files")]

    use super::*;

    const BOOTSTRAP: &str = "apiVersion: v1\nkind: Config\ncurrent-context: b\n\
        clusters: [{name: c, cluster: {server: 'https://10.0.0.1:6443', certificate-authority: ca.crt, tls-server-name: api}}]\n\
        contexts: [{name: b, context: {cluster: c, user: u}}]\n\
        users: [{name: u, user: {token: abcdef.0123456789abcdef}}]\n";

    // behaviour: CERT-3
    #[test]
    fn written_kubeconfig_has_the_server_of_the_bootstrap_kubeconfig_and_the_certificate_file() {
        let place = tempfile::tempdir().unwrap();
        let bootstrap = place.path().join("bootstrap.conf");
        std::fs::write(&bootstrap, BOOTSTRAP).unwrap();
        assert_eq!(client_pair(&bootstrap).unwrap(), None, "it has a token only");
        let identity = Path::new("/pki/kubelet-client-current.pem");
        let written = place.path().join("kubelet.conf");
        std::fs::write(&written, node_kubeconfig(&bootstrap, identity).unwrap()).unwrap();

        let (user, cluster) = current(Kubeconfig::read_from(&written).unwrap());
        let (user, cluster) = (user.unwrap(), cluster.unwrap());
        assert_eq!(cluster.server.as_deref(), Some("https://10.0.0.1:6443"));
        let authority = place.path().join("ca.crt").display().to_string();
        assert_eq!(cluster.certificate_authority, Some(authority), "relative to its own folder");
        assert_eq!(cluster.tls_server_name.as_deref(), Some("api"));
        assert!(user.token.is_none() && user.client_key_data.is_none());
        let (certificate, key) = (identity.to_owned(), identity.to_owned());
        assert_eq!(client_pair(&written).unwrap(), Some(ClientPair::Files { certificate, key }));
    }

    #[test]
    fn inline_certificate_takes_precedence_over_files() {
        let user = AuthInfo {
            client_certificate: Some("/a".to_owned()),
            client_key: Some("/b".to_owned()),
            client_certificate_data: Some("Q0VSVA==".to_owned()),
            client_key_data: Some("S0VZ".to_owned().into()),
            ..AuthInfo::default()
        };
        assert_eq!(pair(user), Some(ClientPair::Inline("CERT\nKEY".to_owned())));
    }
}
