//! The contract of the in-memory API server, on the real one.

use std::path::Path;

use ::cluster::{Cluster as Adapter, Connection, Exclusion, Rate, Source};
use anyhow::{Context, Result};
use async_trait::async_trait;
use e2e::api::Patch;
use e2e::cluster::Cluster;
use model::cluster::{PodPhase, PodTarget, Version};
use model::ports::cluster::{Leases, Nodes, PodWrites};
use model::ports::objects::StorageReads;
use model::storage::ClaimName;
use serde_json::{Value, json};
use testbed::ControlPlaneOptions;
use testkit::contract::assert_kept;
use testkit::contract::cluster::{Harness, play_all};
use testkit::contract::pod_api::{Server, pod_contract};
use tokio::task::block_in_place;

use crate::objects::{node, pod};

const NAMESPACE: &str = "contract";

/// A real API server, and its client.
struct Real {
    cluster: Cluster,
    adapter: Adapter,
}

fn path(name: &str) -> String {
    format!("/api/v1/namespaces/{NAMESPACE}/pods/{name}")
}

impl Real {
    fn replace(&self, name: &str, is_held: bool) -> Result<Value> {
        let api = self.cluster.api();
        if api.get(&path(name))?.is_some() {
            api.delete_with_grace(&path(name), 0)?;
        }
        let mut object = pod(name, Some("contract-node"));
        if is_held {
            object["metadata"]["finalizers"] = json!(["ferrolet.test/kept"]);
        }
        api.create(&format!("/api/v1/namespaces/{NAMESPACE}/pods"), &object)?;
        let running = json!({ "status": { "phase": "Running" } });
        api.patch(&format!("{}/status", path(name)), Patch::Merge, &running)
    }
}

impl Real {
    /// There is no controller to bind them, so each names the other from the start.
    fn claim_with_volume(&self, name: &str) -> Result<()> {
        let api = self.cluster.api();
        let (size, modes) = (json!({ "storage": "1Mi" }), json!(["ReadWriteOnce"]));
        let claim = json!({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": { "name": name },
            "spec": { "accessModes": modes, "resources": { "requests": size },
                      "storageClassName": "", "volumeName": name },
        });
        let claims = format!("/api/v1/namespaces/{NAMESPACE}/persistentvolumeclaims");
        let made = api.create(&claims, &claim)?;
        let affinity = json!({ "key": "kubernetes.io/hostname", "operator": "Exists" });
        let volume = json!({
            "apiVersion": "v1", "kind": "PersistentVolume", "metadata": { "name": name },
            "spec": { "accessModes": modes, "capacity": size, "local": { "path": "/disk" },
                      "claimRef": { "namespace": NAMESPACE, "name": name, "uid": made["metadata"]["uid"] },
                      "nodeAffinity": { "required": { "nodeSelectorTerms": [
                          { "matchExpressions": [affinity] } ] } } },
        });
        api.create("/api/v1/persistentvolumes", &volume).map(drop)
    }
}

#[async_trait]
impl Harness for Real {
    fn pods(&self) -> &dyn PodWrites {
        &self.adapter
    }

    fn nodes(&self) -> &dyn Nodes {
        &self.adapter
    }

    fn leases(&self) -> &dyn Leases {
        &self.adapter
    }

    async fn make_pod(&self, name: &str, is_held: bool) -> Result<PodTarget> {
        let made = block_in_place(|| self.replace(name, is_held))?;
        let text = |field: &str| made["metadata"][field].as_str().context("a pod has it");
        Ok(PodTarget {
            namespace: NAMESPACE.into(),
            name: name.into(),
            uid: text("uid")?.into(),
            version: Version::from(text("resourceVersion")?),
        })
    }

    async fn phase(&self, name: &str) -> Result<Option<PodPhase>> {
        let found = block_in_place(|| self.cluster.api().get(&path(name)))?;
        let phase = |pod: Value| PodPhase::named(pod["status"]["phase"].as_str().unwrap_or(""));
        Ok(found.map(phase))
    }

    async fn make_node(&self, name: &str) -> Result<()> {
        block_in_place(|| self.cluster.api().create("/api/v1/nodes", &node(name))).map(drop)
    }

    fn storage(&self) -> &dyn StorageReads {
        &self.adapter
    }

    async fn make_claim(&self, name: &str) -> Result<ClaimName> {
        block_in_place(|| self.claim_with_volume(name))?;
        Ok(ClaimName { namespace: NAMESPACE.into(), name: name.into() })
    }
}

async fn adapter(kubeconfig: &Path) -> Result<Adapter> {
    let connection = Connection::find(Some(kubeconfig.to_owned()), None, "ferrolet-test/1").await?;
    let rate = Rate { per_second: 0.0, burst: 0 };
    Ok(Adapter::new(connection, rate, Exclusion::default(), Source::default()))
}

#[test]
fn real_api_server_passes_the_contract() -> Result<()> {
    let cluster = Cluster::start(&ControlPlaneOptions::default())?;
    cluster.make_namespace(NAMESPACE)?;
    let tasks = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .context("start a runtime for the adapter")?;
    let adapter = tasks.block_on(adapter(cluster.control_plane().admin_kubeconfig()))?;
    let real = Real { cluster, adapter };
    let reports = tasks.block_on(play_all(&real));
    assert_eq!(assert_kept(&reports), []);
    real.cluster.api().create("/api/v1/nodes", &node("pods"))?;
    let pods = &real.adapter;
    let server = Server { pods, writes: pods, namespace: NAMESPACE, node: "pods" };
    tasks.block_on(pod_contract(&server))?;
    drop(tasks);
    real.cluster.stop()
}
