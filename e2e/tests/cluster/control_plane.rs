//! The control plane itself: without it working, no test here says anything.

use std::time::Duration;

use anyhow::{Context, Result};
use e2e::api::{Patch, status_code};
use e2e::cluster::Cluster;
use serde_json::json;
use testbed::{ControlPlaneOptions, User};

use crate::objects::{node, pod};

/// The controller looks every 20 s, and a node must be missing for 40 s.
const ORPHAN: Duration = Duration::from_mins(3);

#[test]
fn objects_live_and_the_controller_manager_deletes_the_orphans_of_a_deleted_node() -> Result<()> {
    let flags = ["--controllers=pod-garbage-collector-controller,serviceaccount-controller"];
    let options = ControlPlaneOptions {
        controller_manager: Some(flags.map(ToOwned::to_owned).to_vec()),
        scheduler: Some(Vec::new()),
        ..ControlPlaneOptions::default()
    };
    let cluster = Cluster::start(&options)?;
    let api = cluster.api();
    cluster.make_namespace("first")?;
    let pods = "/api/v1/namespaces/first/pods";
    for name in ["gone", "stays"] {
        api.create("/api/v1/nodes", &node(name))?;
    }
    api.create(pods, &pod("orphan", Some("gone")))?;
    api.create(pods, &pod("kept", Some("stays")))?;
    assert_eq!(api.list(pods)?.len(), 2);
    let refused = api.create(pods, &pod("kept", None)).unwrap_err();
    assert_eq!(status_code(&refused), Some(409), "{refused:#}");

    // A node's user may report of its own pods alone.
    let kubeconfig = cluster.kubeconfig(&User::node("stays"))?;
    let agent = e2e::api::Api::new(&kubeconfig)?;
    let running = json!({ "status": { "phase": "Running" } });
    agent.patch(&format!("{pods}/kept/status"), Patch::Merge, &running)?;
    let refused = agent.patch(&format!("{pods}/orphan/status"), Patch::Merge, &running);
    assert_eq!(status_code(&refused.unwrap_err()), Some(403));

    // The scheduler finds the one node that is ready.
    let ready = json!({ "status": {
        "conditions": [{ "type": "Ready", "status": "True" }],
        "allocatable": { "cpu": "1", "memory": "1Gi", "pods": "10" },
    }});
    agent.patch("/api/v1/nodes/stays/status", Patch::Merge, &ready)?;
    api.patch("/api/v1/nodes/stays", Patch::Merge, &json!({ "spec": { "taints": null } }))?;
    api.create(pods, &pod("placed", None))?;
    let placed =
        api.wait(&format!("{pods}/placed"), "the pod is bound", Duration::from_mins(1), |pod| {
            Some(pod?["spec"]["nodeName"].as_str()?.to_owned())
        })?;
    assert_eq!(placed, "stays");

    let printed = cluster.kubectl(&["get", "pods", "-n", "first", "-o", "name"])?;
    assert_eq!(printed, "pod/kept\npod/orphan\npod/placed\n");
    let version = cluster.kubectl(&["version", "-o", "json"])?;
    let version: serde_json::Value = serde_json::from_str(&version)?;
    for of in ["clientVersion", "serverVersion"] {
        assert_eq!(version[of]["gitVersion"], "v1.36.3");
    }

    api.delete("/api/v1/nodes/gone")?;
    api.wait_gone(&format!("{pods}/orphan"), ORPHAN)?;
    api.get(&format!("{pods}/kept"))?.context("the pod of a node that is there")?;
    cluster.stop()
}
