//! Who is told what on the port of our Pod GC controller, by the real API server's word, and next to it on
//! that of the controller manager.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use e2e::cluster::Cluster;
use e2e::node::PATIENCE;
use e2e::plane::with_controllers;
use http_body_util::BodyExt as _;
use hyper::Request;
use kube::client::Body;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde_json::{Value, json};
use testbed::{User, wait};
use tokio::runtime::Runtime;

use crate::collector::{deployed, start_pod_gc};

const NAMESPACE: &str = "pod-gc";
const ANSWER: Duration = Duration::from_secs(20);
/// Where the two listen.
const OURS: u16 = 10299;
const THEIRS: u16 = 10257;

/// With which credentials somebody asks.
#[derive(Debug, Clone)]
enum Who {
    Nobody,
    Token(String),
    Certificate(PathBuf),
}

/// A way to a port.
struct Port<'a> {
    cluster: &'a Cluster,
    tasks: Runtime,
    number: u16,
}

impl<'a> Port<'a> {
    fn new(cluster: &'a Cluster, number: u16) -> Result<Self> {
        let tasks = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .context("start a runtime for the client")?;
        Ok(Self { cluster, tasks, number })
    }

    /// A kubeconfig of somebody, for the API server.
    fn kubeconfig(&self, who: &Who) -> Result<Kubeconfig> {
        let user = match who {
            Who::Certificate(path) => return Ok(Kubeconfig::read_from(path)?),
            Who::Nobody => json!({}),
            Who::Token(token) => json!({ "token": token }),
        };
        let config = json!({
            "clusters": [{ "name": "c", "cluster": {
                "server": self.cluster.control_plane().server(),
                "certificate-authority": file(self.cluster, "ca.crt"),
            }}],
            "users": [{ "name": "u", "user": user }],
            "contexts": [{ "name": "c", "context": { "cluster": "c", "user": "u" }}],
            "current-context": "c",
        });
        Ok(serde_json::from_value(config)?)
    }

    /// The status and the text that somebody is answered.
    fn get(&self, who: &Who, path: &str) -> Result<(u16, String)> {
        let kubeconfig = self.kubeconfig(who)?;
        let url = format!("https://{}:{}", self.cluster.instance().node_ip(), self.number);
        self.tasks.block_on(async {
            let options = KubeConfigOptions::default();
            let mut config = Config::from_custom_kubeconfig(kubeconfig, &options).await?;
            config.cluster_url = url.parse()?;
            config.read_timeout = Some(ANSWER);
            let client = Client::try_from(config)?;
            let request = Request::get(path).body(Body::empty())?;
            let answer = client.send(request).await.with_context(|| format!("{url}{path}"))?;
            let status = answer.status().as_u16();
            let text = answer.into_body().collect().await?.to_bytes();
            Ok((status, String::from_utf8_lossy(&text).into_owned()))
        })
    }

    fn statuses(&self, whos: &[Who], path: &str) -> Result<Vec<u16>> {
        whos.iter().map(|who| Ok(self.get(who, path)?.0)).collect()
    }
}

/// A file of the authority.
fn file(cluster: &Cluster, name: &str) -> String {
    let dir = cluster.control_plane().admin_kubeconfig().parent().map(|dir| dir.join(name));
    dir.unwrap_or_default().display().to_string()
}

/// Makes a service account and a token for it.
fn token(cluster: &Cluster, name: &str) -> Result<Who> {
    let accounts = format!("/api/v1/namespaces/{NAMESPACE}/serviceaccounts");
    let account = json!({
        "apiVersion": "v1", "kind": "ServiceAccount", "metadata": { "name": name },
    });
    cluster.api().create(&accounts, &account)?;
    let ask = json!({
        "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {},
    });
    let made = cluster.api().create(&format!("{accounts}/{name}/token"), &ask)?;
    Ok(Who::Token(made["status"]["token"].as_str().context("a token")?.to_owned()))
}

/// Lets a user and a service account of that name see metrics and settings.
fn let_see(cluster: &Cluster, name: &str) -> Result<()> {
    let group = "rbac.authorization.k8s.io";
    let kind = |kind: &str| json!({ "apiVersion": format!("{group}/v1"), "kind": kind, "metadata": { "name": "seer" } });
    let mut role = kind("ClusterRole");
    role["rules"] = json!([{ "nonResourceURLs": ["/metrics", "/configz"], "verbs": ["get"] }]);
    let mut binding = kind("ClusterRoleBinding");
    binding["roleRef"] = json!({ "apiGroup": group, "kind": "ClusterRole", "name": "seer" });
    binding["subjects"] = json!([
        { "kind": "ServiceAccount", "name": name, "namespace": NAMESPACE },
        { "kind": "User", "apiGroup": group, "name": name },
    ]);
    let path = |kind: &str| format!("/apis/{group}/v1/{kind}");
    cluster.api().create(&path("clusterroles"), &role)?;
    cluster.api().create(&path("clusterrolebindings"), &binding)?;
    Ok(())
}

fn whos(cluster: &Cluster) -> Result<Vec<Who>> {
    let_see(cluster, "reader")?;
    let certificate =
        |user: &User| -> Result<Who> { Ok(Who::Certificate(cluster.kubeconfig(user)?)) };
    Ok(vec![
        Who::Nobody,
        Who::Token("nonsense".to_owned()),
        token(cluster, "stranger")?,
        token(cluster, "reader")?,
        certificate(&User::new("stranger"))?,
        certificate(&User::new("reader"))?,
        certificate(&User::admin())?,
    ])
}

// behaviour: PGC-100, PGC-101, PGC-102
#[test]
fn the_port_tells_health_to_everybody_and_the_rest_to_whom_the_api_server_lets() -> Result<()> {
    let cluster = Cluster::start(&with_controllers(&["pod-garbage-collector-controller"]))?;
    cluster.make_namespace(NAMESPACE)?;
    let kubeconfig = deployed(&cluster)?;
    let flags = [
        format!("--secure-port={OURS}"),
        format!("--client-ca-file={}", file(&cluster, "ca.crt")),
        format!("--tls-cert-file={}", file(&cluster, "server.crt")),
        format!("--tls-private-key-file={}", file(&cluster, "server.key")),
    ];
    let flags = flags.each_ref().map(String::as_str);
    let process = start_pod_gc(&cluster, "pod-gc", &kubeconfig, &flags)?;
    let (ours, theirs) = (Port::new(&cluster, OURS)?, Port::new(&cluster, THEIRS)?);
    wait::until("it is ready", PATIENCE, || {
        let answer = ours.get(&Who::Nobody, "/readyz");
        Ok(match answer {
            Ok((200, text)) if text == "ok" => Ok(()),
            other => Err(format!("{other:?}")),
        })
    })
    .with_context(|| process.log())?;

    let whos = whos(&cluster)?;
    for path in ["/healthz", "/livez", "/readyz"] {
        assert_eq!(ours.statuses(&whos, path)?, [200; 7], "{path}");
    }
    for path in ["/metrics", "/configz"] {
        let seen = ours.statuses(&whos, path)?;
        assert_eq!(seen, [403, 401, 403, 200, 403, 200, 200], "{path}");
        assert_eq!(theirs.statuses(&whos, path)?, seen, "upstream's {path}");
    }
    let reader = &whos[3];
    let (_, metrics) = ours.get(reader, "/metrics")?;
    for line in [
        "leader_election_master_status{name=\"ferrolet-pod-gc\"} 1",
        "running_managed_controllers{manager=\"ferrolet-pod-gc\",name=\"pod-garbage-collector-controller\"} 1",
        "rest_client_requests_total{code=\"201\"",
        "rest_client_request_duration_seconds_count{",
        "workqueue_depth{name=\"orphaned_pods_nodes\"} 0",
        "workqueue_unfinished_work_seconds{name=\"orphaned_pods_nodes\"} 0",
        "workqueue_longest_running_processor_seconds{name=\"orphaned_pods_nodes\"} 0",
    ] {
        ensure!(metrics.contains(line), "{line} is not in {metrics}");
    }
    // What both were told, under the same names.
    let settings = |port: &Port<'_>| -> Result<Value> {
        let text = port.get(reader, "/configz")?.1;
        let all: Value = serde_json::from_str(&text).with_context(|| text.clone())?;
        Ok(all["kubecontrollermanager.config.k8s.io"].clone())
    };
    let (mine, other) = (settings(&ours)?, settings(&theirs)?);
    for part in ["kind", "apiVersion", "PodGCController"] {
        assert_eq!(mine[part], other[part], "{part}");
    }
    cluster.stop()
}
