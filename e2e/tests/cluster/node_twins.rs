//! Our node and the upstream kubelet's, on the same machine and the same runtime: what their objects say.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use config::KubeletConfiguration;
use cri::{CriRuntime, Deadlines, Endpoint};
use e2e::api::Api;
use e2e::cluster::Cluster;
use e2e::differences::{Known, differences, is_time, leaves};
use e2e::node::{PATIENCE, program};
use e2e::plane::with_controllers;
use serde_json::Value;
use testbed::{Cache, Command, User, wait};

use crate::our_node::{OurNode, Who};

/// Where our node is not as upstream's, and why that is right.
const DIFFERENT: &[Known] = &[
    Known {
        path: "/metadata/labels/kubernetes.io~1hostname",
        ours: "ours",
        upstream: "theirs",
        why: "two nodes, two names",
    },
    Known {
        path: "/status/addresses/1/address",
        ours: "ours",
        upstream: "theirs",
        why: "two nodes, two names",
    },
    Known {
        path: "/status/nodeInfo/kubeletVersion",
        ours: "v1.36.3+ferrolet.*",
        upstream: "v1.36.3",
        why: "promised in docs/behaviour/node.md, NODE-16: one sees which agent a node has",
    },
    Known {
        path: "/status/declaredFeatures/*",
        ours: "",
        upstream: "*",
        why: "each declares what it has; this test declares nothing",
    },
];

/// What says when and by whom an object was written, and nothing about the node.
const NOT_COMPARED: &[&str] = &[
    "/metadata/name",
    "/metadata/uid",
    "/metadata/resourceVersion",
    "/metadata/creationTimestamp",
    "/metadata/managedFields",
];

fn told(node: &Value) -> BTreeMap<String, String> {
    let mut all = leaves(node);
    all.retain(|path, _| !is_time(path) && !NOT_COMPARED.iter().any(|skip| path.starts_with(skip)));
    all
}

fn is_ready(node: &Value) -> bool {
    let all = node["status"]["conditions"].as_array().into_iter().flatten();
    all.into_iter().any(|one| one["type"] == "Ready" && one["status"] == "True")
}

fn ready(api: &Api, name: &str) -> Result<Value> {
    let path = format!("/api/v1/nodes/{name}");
    api.wait(&path, &format!("{name} is ready"), PATIENCE, |node| {
        // Taints of the node's beginning are the controller's business.
        let node = node.filter(|node| is_ready(node) && node["spec"]["taints"].is_null())?;
        Some(node.clone())
    })
}

fn configuration(socket: &str) -> String {
    format!(
        "apiVersion: kubelet.config.k8s.io/v1beta1\n\
         kind: KubeletConfiguration\n\
         containerRuntimeEndpoint: unix://{socket}\n\
         cgroupDriver: cgroupfs\n\
         failCgroupV1: false\n\
         failSwapOn: false\n\
         cgroupsPerQOS: false\n\
         enforceNodeAllocatable: []\n\
         authentication: {{anonymous: {{enabled: true}}, webhook: {{enabled: false}}}}\n\
         authorization: {{mode: AlwaysAllow}}\n\
         evictionHard: {{imagefs.available: 0%}}\n"
    )
}

#[test]
fn our_node_says_what_upstreams_says() -> Result<()> {
    let options = with_controllers(&["node-lifecycle-controller"]);
    let cluster = Cluster::start(&options)?;
    let instance = cluster.instance();
    let socket = instance.dir().join("hollow.sock").display().to_string();
    let hollow = Command::new(program("hollow")?.display().to_string()).args(["--socket", &socket]);
    let hollow = instance.spawn("hollow", &hollow)?;
    wait::until("the in-memory runtime listens", PATIENCE, || {
        let log = hollow.log();
        Ok(if log.contains("hollow: ready") { Ok(()) } else { Err(log) })
    })?;
    let root = instance.dir().join("kubelet");
    let file = instance.dir().join("kubelet.yaml");
    std::fs::write(&file, configuration(&socket)).context("write the configuration")?;
    let kubelet = Cache::from_env()?.parts().program("kubelet");
    let kubeconfig = cluster.kubeconfig(&User::node("theirs"))?.display().to_string();
    let (file, directory) = (file.display().to_string(), root.display().to_string());
    let ip = instance.node_ip().to_string();
    let kubelet = Command::new(kubelet.display().to_string())
        .args(["--config", &file, "--kubeconfig", &kubeconfig, "--root-dir", &directory])
        .args(["--cert-dir", &format!("{directory}/pki"), "--hostname-override", "theirs"])
        .args(["--node-ip", &ip, "--node-labels", "example.com/rack=7"]);
    let kubelet = instance.spawn("kubelet", &kubelet)?;
    let last_words = || {
        let log = kubelet.log();
        let lines: Vec<&str> = log.lines().filter(|line| !line.contains("FLAG:")).collect();
        lines[lines.len().saturating_sub(12)..].join("\n")
    };
    let theirs = ready(cluster.api(), "theirs").with_context(last_words)?;

    let endpoint = Endpoint::parse(&format!("unix://{socket}"))?;
    let kubeconfig = cluster.kubeconfig(&User::node("ours"))?;
    let who = Who { name: "ours", address: ip, root: &root, labels: &[("example.com/rack", "7")] };
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let runtime = runtime.context("start a runtime")?;
    let _node = runtime.block_on(async {
        let cri = CriRuntime::new(&endpoint, &endpoint, Deadlines::default());
        let config = KubeletConfiguration::default();
        OurNode::start(&kubeconfig, &who, &config, Arc::new(cri)).await
    })?;
    let ours = ready(cluster.api(), "ours")?;
    eprintln!("{} values compared", told(&ours).len());
    let found = differences(&told(&ours), &told(&theirs), DIFFERENT);
    ensure!(found.is_empty(), "{}\n\nours: {ours}\n\nupstream's: {theirs}", found.join("\n"));
    kubelet.kill()?;
    cluster.stop()
}
