//! A client of HTTPS ports.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use crate::plane::Plane;
use anyhow::{Context, Result};
use http_body_util::BodyExt as _;
use hyper::Request;
use kube::client::Body;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

const ANSWER: Duration = Duration::from_secs(20);

/// The credentials of a client.
#[derive(Debug, Clone)]
pub enum Credentials {
    /// None.
    Anonymous,
    /// A bearer token.
    Token(String),
    /// The client certificate of a kubeconfig.
    Certificate(PathBuf),
}

/// The answer to a request.
#[derive(Debug, Clone)]
pub struct Reply {
    pub status: u16,
    /// By lower-case names; the last value of a repeated header.
    pub headers: BTreeMap<String, String>,
    pub body: String,
}

/// A client of one port.
#[derive(Debug)]
pub struct Port<'a> {
    plane: &'a Plane,
    tasks: Runtime,
    address: SocketAddr,
    /// Whether its certificate is not verified.
    is_self_signed: bool,
}

impl<'a> Port<'a> {
    /// A client of the port at this address.
    pub fn new(plane: &'a Plane, address: SocketAddr) -> Result<Self> {
        let tasks = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .context("start a runtime for the client")?;
        Ok(Self { plane, tasks, address, is_self_signed: false })
    }

    /// Like `new`, for a port whose certificate is not verified.
    #[must_use]
    pub fn self_signed(self) -> Self {
        Self { is_self_signed: true, ..self }
    }

    /// A kubeconfig with these credentials.
    fn kubeconfig(&self, who: &Credentials) -> Result<Kubeconfig> {
        let user = match who {
            Credentials::Certificate(path) => return Ok(Kubeconfig::read_from(path)?),
            Credentials::Anonymous => json!({}),
            Credentials::Token(token) => json!({ "token": token }),
        };
        let config = json!({
            "clusters": [{ "name": "c", "cluster": {
                "server": self.plane.control_plane().server(),
                "certificate-authority": file(self.plane, "ca.crt"),
            }}],
            "users": [{ "name": "u", "user": user }],
            "contexts": [{ "name": "c", "context": { "cluster": "c", "user": "u" }}],
            "current-context": "c",
        });
        Ok(serde_json::from_value(config)?)
    }

    /// Gets a path; returns the status and the body.
    pub fn get(&self, who: &Credentials, path: &str) -> Result<(u16, String)> {
        let reply = self.send(who, "GET", path)?;
        Ok((reply.status, reply.body))
    }

    /// Sends a request without a body.
    pub fn send(&self, who: &Credentials, method: &str, path: &str) -> Result<Reply> {
        let kubeconfig = self.kubeconfig(who)?;
        let url = format!("https://{}", self.address);
        self.tasks.block_on(async {
            let options = KubeConfigOptions::default();
            let mut config = Config::from_custom_kubeconfig(kubeconfig, &options).await?;
            config.cluster_url = url.parse()?;
            config.read_timeout = Some(ANSWER);
            config.accept_invalid_certs = self.is_self_signed;
            let client = Client::try_from(config)?;
            let request = Request::builder().method(method).uri(path).body(Body::empty())?;
            let answer = client.send(request).await.with_context(|| format!("{url}{path}"))?;
            let (head, body) = answer.into_parts();
            let mut headers = BTreeMap::new();
            for (name, value) in &head.headers {
                let value = String::from_utf8_lossy(value.as_bytes()).into_owned();
                headers.insert(name.as_str().to_owned(), value);
            }
            let body = body.collect().await?.to_bytes();
            let body = String::from_utf8_lossy(&body).into_owned();
            Ok(Reply { status: head.status.as_u16(), headers, body })
        })
    }

    /// The status of a path for each client.
    pub fn statuses(&self, whos: &[Credentials], path: &str) -> Result<Vec<u16>> {
        whos.iter().map(|who| Ok(self.get(who, path)?.0)).collect()
    }
}

/// A file of the authority.
pub fn file(plane: &Plane, name: &str) -> String {
    let dir = plane.control_plane().admin_kubeconfig().parent().map(|dir| dir.join(name));
    dir.unwrap_or_default().display().to_string()
}

/// Makes a token for the service account with that path, as `spec` says.
pub fn token(plane: &Plane, account: &str, spec: &Value) -> Result<String> {
    let token_request = json!({
        "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec,
    });
    let made = plane.api().create(&format!("{account}/token"), &token_request)?;
    Ok(made["status"]["token"].as_str().context("a token")?.to_owned())
}

/// Lets the owner of a service account use subresources of nodes with these verbs.
pub fn let_use_nodes(
    plane: &Plane,
    namespace: &str,
    account: &str,
    verbs: &[&str],
    subresources: &[&str],
) -> Result<()> {
    let group = "rbac.authorization.k8s.io";
    let role = json!({
        "apiVersion": format!("{group}/v1"), "kind": "ClusterRole",
        "metadata": { "name": account },
        "rules": [{ "apiGroups": [""], "resources": subresources, "verbs": verbs }],
    });
    let binding = json!({
        "apiVersion": format!("{group}/v1"), "kind": "ClusterRoleBinding",
        "metadata": { "name": account },
        "roleRef": { "apiGroup": group, "kind": "ClusterRole", "name": account },
        "subjects": [{ "kind": "ServiceAccount", "name": account, "namespace": namespace }],
    });
    plane.api().create(&format!("/apis/{group}/v1/clusterroles"), &role)?;
    plane.api().create(&format!("/apis/{group}/v1/clusterrolebindings"), &binding)?;
    Ok(())
}

/// Creates a service account and returns its path.
pub fn make_account(plane: &Plane, namespace: &str, name: &str) -> Result<String> {
    let accounts = format!("/api/v1/namespaces/{namespace}/serviceaccounts");
    let account = json!({
        "apiVersion": "v1", "kind": "ServiceAccount", "metadata": { "name": name },
    });
    plane.api().create(&accounts, &account)?;
    Ok(format!("{accounts}/{name}"))
}
