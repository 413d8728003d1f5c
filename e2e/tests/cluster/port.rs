//! Authentication and authorization on the port of our Pod GC controller, with the real API server, compared with the
//! port of the controller manager.

use anyhow::{Context, Result, ensure};
use e2e::cluster::Cluster;
use e2e::https::{Credentials, Port, file, make_account, token};
use e2e::node::PATIENCE;
use e2e::plane::with_controllers;
use serde_json::{Value, json};
use testbed::{User, wait};

use crate::collector::{deployed, start_pod_gc};

const NAMESPACE: &str = "pod-gc";
/// The ports of both controllers.
const OURS: u16 = 10299;
const THEIRS: u16 = 10257;

/// Makes a service account and a token for it.
fn token_of_new(cluster: &Cluster, name: &str) -> Result<Credentials> {
    let account = make_account(cluster, NAMESPACE, name)?;
    Ok(Credentials::Token(token(cluster, &account, &json!({}))?))
}

/// Permits a user and a service account of that name to read metrics and settings.
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

fn whos(cluster: &Cluster) -> Result<Vec<Credentials>> {
    let_see(cluster, "reader")?;
    let certificate = |user: &User| -> Result<Credentials> {
        Ok(Credentials::Certificate(cluster.kubeconfig(user)?))
    };
    Ok(vec![
        Credentials::Anonymous,
        Credentials::Token("nonsense".to_owned()),
        token_of_new(cluster, "unauthorized")?,
        token_of_new(cluster, "reader")?,
        certificate(&User::new("unauthorized"))?,
        certificate(&User::new("reader"))?,
        certificate(&User::admin())?,
    ])
}

// behaviour: PGC-100, PGC-101, PGC-102
#[test]
fn healthz_is_public_and_other_paths_need_authorization() -> Result<()> {
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
    let port = |number: u16| Port::new(&cluster, (cluster.instance().node_ip(), number).into());
    let (ours, theirs) = (port(OURS)?, port(THEIRS)?);
    wait::until("it is ready", PATIENCE, || {
        let answer = ours.get(&Credentials::Anonymous, "/readyz");
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
    // Both have the same settings, under the same names.
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
