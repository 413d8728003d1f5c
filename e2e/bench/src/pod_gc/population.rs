//! Creation and deletion of many pods on an API server.

use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result};
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use serde_json::{Value, json};

use crate::api::{AT_A_TIME, Api, call, calls};

/// The namespace of pods that stay.
const LIVING: &str = "living";
/// The number of pods of each node.
const OF_A_NODE: usize = 100;
/// The size of a page of names.
const PAGE: usize = 500;

/// The pods of a cluster.
#[derive(Debug)]
pub(super) struct Population {
    api: Api,
    pods: usize,
    nodes: usize,
    terminated: usize,
}

impl Population {
    /// An empty cluster with the pods' namespaces.
    pub(super) fn new(kubeconfig: &Path) -> Result<Self> {
        let api = Api::new(kubeconfig)?;
        for name in [LIVING, super::DONE] {
            api.make_namespace(name)?;
        }
        Ok(Self { api, pods: 0, nodes: 0, terminated: 0 })
    }

    /// Creates pods, and nodes for them, up to this number.
    pub(super) fn grow(&mut self, pods: usize) -> Result<()> {
        let nodes = pods.div_ceil(OF_A_NODE);
        let nodes = std::mem::replace(&mut self.nodes, nodes)..nodes;
        let numbers = std::mem::replace(&mut self.pods, pods)..pods;
        let client = &self.api.client;
        self.api.tasks.block_on(async {
            let made = nodes.map(|number| ("POST", "/api/v1/nodes".to_owned(), node(number)));
            calls(client, made).await.context("make nodes")?;
            let path = format!("/api/v1/namespaces/{LIVING}/pods");
            let made = numbers.map(|number| ("POST", path.clone(), pod(number)));
            calls(client, made).await.context("make pods")
        })
    }

    /// Creates this many terminated pods.
    pub(super) fn terminated(&mut self, namespace: &str, count: usize) -> Result<()> {
        let numbers = self.terminated..self.terminated + count;
        self.terminated += count;
        let path = format!("/api/v1/namespaces/{namespace}/pods");
        let (client, path) = (&self.api.client, path.as_str());
        let ended = json!({ "status": { "phase": "Succeeded" } });
        let ended = &ended;
        self.api.tasks.block_on(async {
            let made = stream::iter(numbers.map(|number| async move {
                let pod = pod(number);
                call(client, "POST", path, &pod).await?;
                let name = pod["metadata"]["name"].as_str().context("a pod has a name")?;
                call(client, "PATCH", &format!("{path}/{name}/status"), ended).await?;
                anyhow::Ok(())
            }));
            made.buffer_unordered(AT_A_TIME).try_collect::<()>().await
        })
    }

    /// The number of pods in a namespace.
    pub(super) fn count(&self, namespace: &str) -> Result<usize> {
        let path = format!("/api/v1/namespaces/{namespace}/pods?limit=1");
        let list = self.api.call("GET", &path, &Value::Null)?;
        let shown = list["items"].as_array().map_or(0, Vec::len);
        let more = list["metadata"]["remainingItemCount"].as_u64().unwrap_or(0);
        Ok(shown + usize::try_from(more)?)
    }

    /// Deletes all pods of a namespace as fast as the server takes it; returns the seconds.
    pub(super) fn delete_all(&self, namespace: &str) -> Result<f64> {
        let begun = Instant::now();
        let path = format!("/api/v1/namespaces/{namespace}/pods");
        let (client, path) = (&self.api.client, path.as_str());
        let at_once = json!({ "gracePeriodSeconds": 0 });
        self.api.tasks.block_on(async {
            loop {
                let page = format!("{path}?limit={PAGE}");
                let list = call(client, "GET", &page, &Value::Null).await?;
                let names: Vec<String> = list["items"]
                    .as_array()
                    .into_iter()
                    .flatten()
                    .filter_map(|pod| pod["metadata"]["name"].as_str().map(str::to_owned))
                    .collect();
                if names.is_empty() {
                    return anyhow::Ok(());
                }
                let deleted = names
                    .into_iter()
                    .map(|name| ("DELETE", format!("{path}/{name}"), at_once.clone()));
                calls(client, deleted).await?;
            }
        })?;
        Ok(begun.elapsed().as_secs_f64())
    }
}

fn node_name(number: usize) -> String {
    format!("node-{number:05}")
}

fn node(number: usize) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": { "name": node_name(number) },
        "status": { "conditions": [{ "type": "Ready", "status": "True" }] },
    })
}

/// A pod as clusters have them, with some kilobytes that most programs never read.
fn pod(number: usize) -> Value {
    let variables: Vec<Value> = (0..12)
        .map(|at| json!({ "name": format!("SETTING_NUMBER_{at}"), "value": format!("value-{at}-of-pod-{number}") }))
        .collect();
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": format!("web-frontend-7d9c6b5f4-{number:06}"),
            "labels": {
                "app.kubernetes.io/name": "web-frontend",
                "app.kubernetes.io/instance": "production",
                "app.kubernetes.io/version": "1.42.0",
                "app.kubernetes.io/managed-by": "somebody",
                "pod-template-hash": "7d9c6b5f4",
            },
            "annotations": {
                "prometheus.io/scrape": "true",
                "prometheus.io/port": "9090",
                "example.com/configuration": "x".repeat(1500),
            },
        },
        "spec": {
            "nodeName": node_name(number / OF_A_NODE),
            "automountServiceAccountToken": false,
            "containers": [{
                "name": "main",
                "image": "registry.example.com/team/web-frontend:1.42.0",
                "env": variables,
                "resources": {
                    "requests": { "cpu": "100m", "memory": "128Mi" },
                    "limits": { "cpu": "500m", "memory": "256Mi" },
                },
                "ports": [{ "name": "http", "containerPort": 8080 }],
                "livenessProbe": { "httpGet": { "path": "/healthz", "port": "http" } },
                "readinessProbe": { "httpGet": { "path": "/readyz", "port": "http" } },
            }],
            "tolerations": [{ "key": "dedicated", "operator": "Exists" }],
        },
    })
}
