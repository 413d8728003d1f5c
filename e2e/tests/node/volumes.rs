//! A default pod of a cluster, with its token and with content that changes.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use e2e::api::Patch;
use e2e::cluster_node::{ClusterNode, NAMESPACE, pod};
use e2e::container_files::{ContainerFiles, pod_mounts};
use e2e::node::PATIENCE;
use serde_json::{Value, json};
use testbed::{ControlPlaneOptions, wait};

/// The timeout until a container sees a change. On an idle machine it is a fraction of a second.
const UPDATE: Duration = Duration::from_secs(5);
const TOKEN: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

fn make_objects(cluster: &ClusterNode) -> Result<()> {
    let objects = [
        ("configmaps", "ConfigMap", "settings", json!({ "data": { "colour": "red" } })),
        // In a complete cluster a controller creates this one.
        (
            "configmaps",
            "ConfigMap",
            "kube-root-ca.crt",
            json!({ "data": { "ca.crt": "the root" } }),
        ),
        ("secrets", "Secret", "keys", json!({ "stringData": { "key": "s3cret" } })),
    ];
    for (resource, kind, name, mut object) in objects {
        object["apiVersion"] = "v1".into();
        object["kind"] = kind.into();
        object["metadata"] = json!({ "name": name });
        cluster.api().create(&format!("/api/v1/namespaces/{NAMESPACE}/{resource}"), &object)?;
    }
    Ok(())
}

/// A pod as `kubectl create deployment` makes it, with a volume of every kind.
fn default_pod() -> Value {
    let mut pod = pod("web", &["sleep", "forever"]);
    pod["metadata"]["labels"] = json!({ "app": "web" });
    let labels = json!([{ "path": "labels", "fieldRef": { "fieldPath": "metadata.labels" } }]);
    let spec = &mut pod["spec"];
    spec.as_object_mut().map(|spec| spec.remove("automountServiceAccountToken"));
    spec["securityContext"] = json!({ "fsGroup": 2000 });
    let token = json!({ "audience": "vault", "expirationSeconds": 600, "path": "token" });
    spec["volumes"] = json!([
        { "name": "scratch", "emptyDir": {} },
        { "name": "settings", "configMap": { "name": "settings" } },
        { "name": "none", "configMap": { "name": "none", "optional": true } },
        { "name": "keys", "secret": { "secretName": "keys", "defaultMode": 0o400 } },
        { "name": "fields", "downwardAPI": { "items": labels } },
        { "name": "all", "projected": { "sources": [
            { "configMap": { "name": "settings", "items": [{ "key": "colour", "path": "a/colour" }] } },
            { "secret": { "name": "keys" } },
            { "serviceAccountToken": token },
        ] } },
    ]);
    let mounts = ["scratch", "settings", "none", "keys", "fields", "all"];
    let mounts = mounts.map(|name| json!({ "name": name, "mountPath": format!("/{name}") }));
    spec["containers"][0]["volumeMounts"] = mounts.as_slice().into();
    pod
}

/// Checks that the API server accepts a token for this audience as one of the pod.
fn token_is_valid(cluster: &ClusterNode, token: &str, audience: Option<&str>) -> Result<()> {
    let mut spec = json!({ "token": token });
    if let Some(audience) = audience {
        spec["audiences"] = json!([audience]);
    }
    let review =
        json!({ "apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": spec });
    let review = cluster.api().create("/apis/authentication.k8s.io/v1/tokenreviews", &review)?;
    let status = &review["status"];
    ensure!(status["authenticated"] == true, "{status}");
    ensure!(
        status["user"]["username"] == format!("system:serviceaccount:{NAMESPACE}:default"),
        "{status}"
    );
    let pod = &status["user"]["extra"]["authentication.kubernetes.io/pod-name"];
    ensure!(*pod == json!(["web"]), "{status}");
    Ok(())
}

fn has_content(cluster: &ClusterNode, files: ContainerFiles<'_>) -> Result<()> {
    let expected = [
        ("/settings/colour", "red", "644 0:2000"),
        ("/keys/key", "s3cret", "440 0:2000"),
        ("/fields/labels", "app=\"web\"", "644 0:2000"),
        ("/all/a/colour", "red", "644 0:2000"),
        ("/all/key", "s3cret", "644 0:2000"),
    ];
    for (path, content, mode) in expected {
        let found = (files.read(path)?, files.mode(path)?);
        ensure!(found == (content.to_owned(), mode.to_owned()), "{path} is {found:?}");
    }
    ensure!(files.mode("/scratch")? == "2777 0:2000", "{}", files.mode("/scratch")?);
    for path in ["/keys", "/all", TOKEN] {
        let mount = files.mount(path)?;
        ensure!(mount.starts_with("tmpfs ro"), "{path}: {mount}");
    }
    ensure!(files.read(&format!("{TOKEN}/ca.crt"))? == "the root");
    ensure!(files.read(&format!("{TOKEN}/namespace"))? == NAMESPACE);
    let token = format!("{TOKEN}/token");
    ensure!(files.mode(&token)? == "640 0:2000", "{}", files.mode(&token)?);
    token_is_valid(cluster, &files.read(&token)?, None)?;
    token_is_valid(cluster, &files.read("/all/token")?, Some("vault"))
}

fn set_colour(cluster: &ClusterNode, colour: &str) -> Result<()> {
    let path = format!("/api/v1/namespaces/{NAMESPACE}/configmaps/settings");
    let change = json!({ "data": { "colour": colour } });
    cluster.api().patch(&path, Patch::Merge, &change).map(drop)
}

/// Waits until a file of a container has this content.
fn wait_content(
    cluster: &ClusterNode,
    pid: u32,
    path: &str,
    content: &str,
    time: Duration,
) -> Result<()> {
    let files = ContainerFiles::of(cluster.node(), pid);
    cluster.node().explained(wait::until(&format!("{path} is {content}"), time, || {
        let found = files.read(path)?;
        Ok(if found == content { Ok(()) } else { Err(found) })
    }))
}

// behaviour: VOL-72, VOL-73, VOL-74
#[test]
fn default_pod_has_its_token_and_updated_volumes_after_a_crash() -> Result<()> {
    let mut cluster = ClusterNode::start(&ControlPlaneOptions::default())?;
    make_objects(&cluster)?;
    cluster.start_agent()?;
    cluster.wait_node_ready()?;
    let path = ClusterNode::pod_path("web");
    let made =
        cluster.api().create(&format!("/api/v1/namespaces/{NAMESPACE}/pods"), &default_pod())?;
    let uid = made["metadata"]["uid"].as_str().context("a pod has a uid")?.to_owned();
    cluster.wait_ready(&path)?;
    let container = cluster.running("web")?;
    let files = ContainerFiles::of(cluster.node(), container.pid);
    cluster.node().explained(has_content(&cluster, files))?;
    files.write("/scratch/file", "kept")?;

    set_colour(&cluster, "green")?;
    for path in ["/settings/colour", "/all/a/colour"] {
        wait_content(&cluster, container.pid, path, "green", UPDATE)?;
    }
    let labels = json!({ "metadata": { "labels": { "app": "shop" } } });
    cluster.api().patch(&path, Patch::Merge, &labels)?;
    wait_content(&cluster, container.pid, "/fields/labels", "app=\"shop\"", UPDATE)?;

    cluster.kill_agent()?;
    let mounts = pod_mounts(cluster.node())?;
    set_colour(&cluster, "blue")?;
    cluster.start_agent()?;
    wait_content(&cluster, container.pid, "/settings/colour", "blue", PATIENCE)?;
    set_colour(&cluster, "white")?;
    wait_content(&cluster, container.pid, "/settings/colour", "white", UPDATE)?;
    ensure!(cluster.running("web")?.id == container.id, "the container was restarted");
    let now = pod_mounts(cluster.node())?;
    ensure!(now == mounts, "{mounts:#?} became {now:#?}");
    ensure!(ContainerFiles::of(cluster.node(), container.pid).read("/scratch/file")? == "kept");

    cluster.api().delete(&path)?;
    cluster.wait_gone(&path, PATIENCE)?;
    let pods = cluster.node().root_dir().join("pods").display().to_string();
    cluster.node().explained(wait::until("no directory of the pod is left", PATIENCE, || {
        let left = cluster.node().names_in(&pods)?;
        Ok(if left.contains(&uid) { Err(format!("{left:?}")) } else { Ok(()) })
    }))?;
    ensure!(pod_mounts(cluster.node())?.is_empty(), "{:#?}", pod_mounts(cluster.node())?);
    cluster.stop()
}
