//! The `PodResources` API of the node, as exporters of metrics and network plugins call it.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use hyper_util::rt::TokioIo;
use proto::podresources_v1::pod_resources_lister_client::PodResourcesListerClient;
use proto::podresources_v1::{
    AllocatableResourcesRequest, AllocatableResourcesResponse, ContainerResources,
    GetPodResourcesRequest, ListPodResourcesRequest, PodResources,
};
use proto::podresources_v1alpha1 as v1alpha1;
use serde_json::json;
use testbed::wait;
use tokio::net::UnixStream;
use tokio::task::JoinSet;
use tonic::Code;
use tonic::transport::{Channel, Uri};
use tower::service_fn;
use v1alpha1::pod_resources_lister_client::PodResourcesListerClient as OldClient;

use super::mirror::MANIFEST;
use crate::cluster_node::{ClusterNode, IMAGE, NAMESPACE, PODS, pod};
use crate::node::{NODE_NAME, PATIENCE};

/// More calls than the rate limit permits.
const TOO_MANY: usize = 100;

/// The pause between calls while waiting: below the rate limit.
const PAUSE: Duration = Duration::from_millis(200);

/// Calls the API on the node's socket.
fn call_api<T>(
    cluster: &ClusterNode,
    question: impl AsyncFnOnce(Channel) -> Result<T>,
) -> Result<T> {
    let path = cluster.node().root_dir().join("pod-resources/kubelet.sock");
    let calls = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let calls = calls.context("start a runtime for calls")?;
    calls.block_on(async {
        let socket = path.clone();
        let dial = service_fn(move |_: Uri| {
            let socket = socket.clone();
            async move { UnixStream::connect(socket).await.map(TokioIo::new) }
        });
        // The address is never used.
        let channel = Channel::builder(Uri::from_static("http://localhost"));
        let channel = channel.connect_with_connector(dial).await;
        question(channel.with_context(|| format!("connect to {}", path.display()))?).await
    })
}

/// The listed pods, as `namespace/name`, with their containers.
type ListedPods = BTreeMap<String, Vec<String>>;

/// A pod and its containers. They must have nothing but names.
fn listed_pod(pod: PodResources) -> Result<(String, Vec<String>)> {
    let mut names = Vec::new();
    for container in pod.containers {
        let name = container.name.clone();
        let nothing = ContainerResources { name: name.clone(), ..ContainerResources::default() };
        ensure!(container == nothing, "it has resources: {container:?}");
        names.push(name);
    }
    Ok((format!("{}/{}", pod.namespace, pod.name), names))
}

fn list(cluster: &ClusterNode) -> Result<ListedPods> {
    call_api(cluster, async |channel| {
        let mut client = PodResourcesListerClient::new(channel);
        let answer = client.list(ListPodResourcesRequest {}).await?;
        answer.into_inner().pod_resources.into_iter().map(listed_pod).collect()
    })
}

fn old_list(cluster: &ClusterNode) -> Result<ListedPods> {
    call_api(cluster, async |channel| {
        let answer = OldClient::new(channel).list(v1alpha1::ListPodResourcesRequest {}).await?;
        let pods = answer.into_inner().pod_resources.into_iter();
        Ok(pods
            .map(|pod| {
                let names = pod.containers.into_iter().map(|container| container.name);
                (format!("{}/{}", pod.namespace, pod.name), names.collect())
            })
            .collect())
    })
}

/// The containers of one pod, or the error.
fn get(cluster: &ClusterNode, name: &str) -> Result<Result<Vec<String>, (Code, String)>> {
    let request = GetPodResourcesRequest { pod_name: name.into(), pod_namespace: NAMESPACE.into() };
    call_api(cluster, async |channel| {
        match PodResourcesListerClient::new(channel).get(request).await {
            Ok(answer) => {
                let pod = answer.into_inner().pod_resources.context("an answer has a pod")?;
                Ok(Ok(listed_pod(pod)?.1))
            }
            Err(status) => Ok(Err((status.code(), status.message().to_owned()))),
        }
    })
}

/// Calls the API above its rate limit; returns how many calls were rejected.
fn hurry(cluster: &ClusterNode) -> Result<usize> {
    call_api(cluster, async |channel| {
        // After a response both sides know the limit of concurrent calls; before, a call above it is aborted.
        let mut first = PodResourcesListerClient::new(channel.clone());
        first.list(ListPodResourcesRequest {}).await?;
        let mut calls = JoinSet::new();
        for _ in 0..TOO_MANY {
            let mut client = PodResourcesListerClient::new(channel.clone());
            calls.spawn(async move { client.list(ListPodResourcesRequest {}).await });
        }
        let mut refused = 0;
        while let Some(call) = calls.join_next().await {
            let Err(status) = call? else { continue };
            let error = (status.code(), status.message());
            ensure!(error == (Code::ResourceExhausted, "rejected by rate limit"), "{status}");
            refused += 1;
        }
        Ok(refused)
    })
}

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

/// Running pods are listed with sidecars and containers. Only the old version of the API lists a pod that has ended.
pub(super) fn pod_resources(cluster: &ClusterNode) -> Result<()> {
    let container =
        |name: &str, args: &[&str]| json!({ "name": name, "image": IMAGE, "args": args });
    let mut accompanied = pod("with-sidecar", &["sleep", "forever"]);
    let mut beside = container("beside", &["sleep", "forever"]);
    beside["restartPolicy"] = "Always".into();
    accompanied["spec"]["initContainers"] = json!([container("first", &["exit", "0"]), beside]);
    cluster.api().create(PODS, &accompanied)?;
    let mut over = pod("over", &["exit", "0"]);
    over["spec"]["restartPolicy"] = "Never".into();
    cluster.api().create(PODS, &over)?;
    // With another name than the earlier static pod.
    cluster
        .node()
        .write_manifest("lasting.yaml", &MANIFEST.replace("name: fixed", "name: lasting"))?;
    let mirror = format!("/api/v1/namespaces/default/pods/lasting-{NODE_NAME}");
    cluster.wait_ready(&mirror)?;
    cluster.wait_ready(&ClusterNode::pod_path("with-sidecar"))?;
    cluster.wait_over(&ClusterNode::pod_path("over"))?;

    let lasting = (format!("default/lasting-{NODE_NAME}"), names(&["main"]));
    let active = ListedPods::from([
        lasting.clone(),
        ("shop/with-sidecar".to_owned(), names(&["beside", "main"])),
    ]);
    // A pod may be listed for a moment after its status says that it is over.
    wait::every(PAUSE, "the pods that run are listed", PATIENCE, || {
        let seen = list(cluster)?;
        Ok(if seen == active { Ok(()) } else { Err(format!("{seen:?}")) })
    })?;
    let all = ListedPods::from([
        lasting,
        ("shop/over".to_owned(), names(&["main"])),
        ("shop/with-sidecar".to_owned(), names(&["main"])),
    ]);
    let seen = old_list(cluster)?;
    ensure!(seen == all, "from the old version of the API: {seen:?}");
    let seen = get(cluster, "with-sidecar")?;
    ensure!(seen == Ok(names(&["beside", "main"])), "one alone: {seen:?}");
    for name in ["over", "missing"] {
        let text = format!("pod {name} in namespace shop not found");
        let seen = get(cluster, name)?;
        ensure!(seen == Err((Code::Unknown, text)), "{name}: {seen:?}");
    }
    let allocatable = call_api(cluster, async |channel| {
        let mut client = PodResourcesListerClient::new(channel);
        let answer = client.get_allocatable_resources(AllocatableResourcesRequest {}).await?;
        Ok(answer.into_inner())
    })?;
    ensure!(allocatable == AllocatableResourcesResponse::default(), "{allocatable:?}");
    ensure!(hurry(cluster)? > 0, "no call was rejected");

    cluster.node().remove_manifest("lasting.yaml")?;
    cluster.remove_pods(&["with-sidecar", "over"])?;
    cluster.wait_gone(&mirror, PATIENCE)
}
