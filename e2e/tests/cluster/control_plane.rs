//! The control plane itself: the other tests here rely on it.

use anyhow::Result;
use e2e::api::{Api, Patch, status_code};
use e2e::api_proxy::ApiProxy;
use e2e::cluster::Cluster;
use e2e::node::PATIENCE;
use e2e::plane::with_controllers;
use hyper::{Method, StatusCode};
use serde_json::json;
use testbed::{Command, ControlPlaneOptions, User, wait};

use crate::objects::{node, pod};

#[test]
fn control_plane_serves_objects_controllers_and_users() -> Result<()> {
    let options = ControlPlaneOptions {
        scheduler: Some(Vec::new()),
        ..with_controllers(&["serviceaccount-controller"])
    };
    let cluster = Cluster::start(&options)?;
    let api = cluster.api();
    cluster.make_namespace("first")?;
    let pods = "/api/v1/namespaces/first/pods";
    for name in ["mine", "other"] {
        api.create("/api/v1/nodes", &node(name))?;
    }
    api.create(pods, &pod("here", Some("mine")))?;
    api.create(pods, &pod("elsewhere", Some("other")))?;
    assert_eq!(api.list(pods)?.len(), 2);
    let refused = api.create(pods, &pod("here", None)).unwrap_err();
    assert_eq!(status_code(&refused), Some(409), "{refused:#}");

    // The user of a node may change only the status of its own pods.
    let kubeconfig = cluster.kubeconfig(&User::node("mine"))?;
    let agent = Api::new(&kubeconfig)?;
    let running = json!({ "status": { "phase": "Running" } });
    agent.patch(&format!("{pods}/here/status"), Patch::Merge, &running)?;
    let refused = agent.patch(&format!("{pods}/elsewhere/status"), Patch::Merge, &running);
    assert_eq!(status_code(&refused.unwrap_err()), Some(403));

    // The scheduler finds the only ready node.
    let ready = json!({ "status": {
        "conditions": [{ "type": "Ready", "status": "True" }],
        "allocatable": { "cpu": "1", "memory": "1Gi", "pods": "10" },
    }});
    agent.patch("/api/v1/nodes/mine/status", Patch::Merge, &ready)?;
    api.patch("/api/v1/nodes/mine", Patch::Merge, &json!({ "spec": { "taints": null } }))?;
    api.create(pods, &pod("placed", None))?;
    let placed = api.wait(&format!("{pods}/placed"), "the pod is bound", PATIENCE, |pod| {
        Some(pod?["spec"]["nodeName"].as_str()?.to_owned())
    })?;
    assert_eq!(placed, "mine");

    let printed = cluster.kubectl(&["get", "pods", "-n", "first", "-o", "name"])?;
    assert_eq!(printed, "pod/elsewhere\npod/here\npod/placed\n");
    let version = cluster.kubectl(&["version", "-o", "json"])?;
    let version: serde_json::Value = serde_json::from_str(&version)?;
    for of in ["clientVersion", "serverVersion"] {
        assert_eq!(version[of]["gitVersion"], "v1.36.3");
    }

    // The controller manager creates the default objects of a namespace.
    let account = "/api/v1/namespaces/default/serviceaccounts/default";
    api.wait(account, "the service account is made", PATIENCE, |account| account.map(drop))?;
    cluster.stop()
}

#[test]
fn proxy_records_requests_and_can_hold_them_back() -> Result<()> {
    let cluster = Cluster::start(&ControlPlaneOptions::default())?;
    cluster.make_namespace("first")?;
    let own = Api::new(cluster.control_plane().admin_kubeconfig())?;
    let proxy =
        ApiProxy::start(cluster.instance().host_ip(), cluster.control_plane().admin_kubeconfig())?;
    let kubeconfig = cluster.instance().dir().join("proxy.kubeconfig");
    proxy.write_kubeconfig(&kubeconfig)?;
    let api = Api::new(&kubeconfig)?;
    let pods = "/api/v1/namespaces/first/pods";
    proxy.before(Method::POST, "/pods", move || {
        own.create(pods, &pod("a", None)).expect("the name is free");
    });
    let refused = api.create(pods, &pod("a", None)).unwrap_err();
    assert_eq!(status_code(&refused), Some(409), "{refused:#}");
    api.create(pods, &pod("b", None))?;
    let requested: Vec<_> =
        proxy.requested().into_iter().map(|requested| requested.status).collect();
    assert_eq!(requested, [Some(StatusCode::CONFLICT), Some(StatusCode::CREATED)]);
    assert_eq!(proxy.requested()[1].body["metadata"]["name"], "b");
    // From inside the instance, with a long-running response.
    let kubectl = testbed::Cache::from_env()?.parts().program("kubectl").display().to_string();
    let watch = Command::new(kubectl)
        .args(["--kubeconfig", &kubeconfig.display().to_string(), "get", "pods", "-n", "first"])
        .args(["--watch", "--output", "name"]);
    let watch = cluster.instance().spawn("watch", &watch)?;
    let seen = |name: &str| {
        wait::until(&format!("{name} is seen"), PATIENCE, || {
            let log = watch.log();
            Ok(if log.contains(name) { Ok(()) } else { Err(log) })
        })
    };
    seen("pod/a")?;
    api.create(pods, &pod("c", None))?;
    seen("pod/c")?;
    cluster.stop()
}
