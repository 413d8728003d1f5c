//! The API requests of an agent from its start until its node is ready and pods run.

use anyhow::{Result, ensure};
use hyper::Method;
use testbed::{ControlPlaneOptions, Options, wait};

use crate::agent::Agent;
use crate::api_proxy::RecordedRequest;
use crate::cluster_node::ClusterNode;
use crate::node::{NODE_NAME, PATIENCE};
use crate::scenarios::MANIFEST;

/// Pairs of requests in their required order, with the reason. The order is the same for both
/// agents.
const ORDER: [(&str, &str, &str); 5] = [
    ("follow node", "follow pods", "admission uses the node's object"),
    ("make node", "make lease", "the lease has the node as its owner"),
    ("make node", "make mirror", "a mirror has the node as its owner"),
    ("follow pods", "make mirror", "there may be a mirror already"),
    ("follow pods", "report web", "the status of a pod is written only after the pod was received"),
];

/// A short name of a request; nothing if it has no place in the order, or was refused.
fn short(requested: &RecordedRequest) -> Option<String> {
    let (path, query) = requested.path.split_once('?').unwrap_or((&requested.path, ""));
    if !requested.status.is_some_and(|status| status.is_success()) {
        return None;
    }
    let parts: Vec<&str> = path.trim_start_matches('/').split('/').collect();
    let what = match (&requested.method, &*parts) {
        (&Method::GET, ["api", "v1", "nodes"]) => "follow node",
        (&Method::POST, ["api", "v1", "nodes"]) => "make node",
        (&Method::GET, ["api", "v1", "pods"]) if query.contains("spec.nodeName") => "follow pods",
        (&Method::POST, ["apis", "coordination.k8s.io", "v1", .., "leases"]) => "make lease",
        (&Method::POST, ["api", "v1", "namespaces", "default", "pods"]) => "make mirror",
        (&Method::PATCH, ["api", "v1", "namespaces", _, "pods", name, "status"]) => {
            return Some(format!("report {name}"));
        }
        _ => return None,
    };
    Some(what.to_owned())
}

/// Starts an agent with a static pod and an API pod that wait for it, and checks the order of its requests.
pub fn in_order(agent: Agent) -> Result<()> {
    let options = ControlPlaneOptions::default();
    let mut cluster = ClusterNode::start_with(&Options::default(), &options, agent)?;
    let proxy = cluster.put_proxy_before_api()?;
    cluster.node().write_manifest("fixed.yaml", MANIFEST)?;
    cluster.make_pod("web", &["sleep", "forever"])?;
    cluster.start_agent()?;
    cluster.wait_node_ready()?;
    cluster.wait_ready(&ClusterNode::pod_path("web"))?;
    let mirror = format!("/api/v1/namespaces/default/pods/fixed-{NODE_NAME}");
    cluster.wait_ready(&mirror)?;
    let first = |all: &[String], what: &str| all.iter().position(|one| one == what);
    let all = wait::until("all requests were sent", PATIENCE, || {
        let all: Vec<String> = proxy.requested().iter().filter_map(short).collect();
        let is_there = |what: &str| first(&all, what).is_some();
        let are_there = ORDER.iter().all(|(one, then, _)| is_there(one) && is_there(then));
        Ok(if are_there { Ok(all) } else { Err(format!("{all:?}")) })
    })?;
    println!("{}: {}", agent.name(), all.join(", "));
    for (one, then, why) in ORDER {
        let is_so = first(&all, one) < first(&all, then);
        ensure!(is_so, "{}: {one} is not before {then}, but {why}: {all:?}", agent.name());
    }
    cluster.stop()
}
