//! The contract of an API server for the pods of a node.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use k8s_openapi::api::core::v1::Pod;
use model::cluster::{PodRemoved, PodTarget, Version};
use model::ids::{PodName, PodUid};
use model::ports::cluster::{ApiError, Change, PodWrites, Sink};
use model::ports::pod_api::PodApi;
use model::verdict::Subject;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::wanted::removal;

/// An API server without pods.
#[derive(Debug, Clone, Copy)]
pub struct Server<'a> {
    /// The pods of a node.
    pub pods: &'a dyn PodApi,
    /// The pods of all nodes.
    pub writes: &'a dyn PodWrites,
    /// A namespace that exists.
    pub namespace: &'a str,
    /// A node that exists.
    pub node: &'a str,
}

fn is_conflict<T>(answer: &Result<T, ApiError>) -> bool {
    matches!(answer, Err(ApiError::Conflict(_)))
}

fn uid(pod: &Pod) -> Result<&str> {
    pod.metadata.uid.as_deref().context("a uid")
}

fn version(pod: &Pod) -> Result<&str> {
    pod.metadata.resource_version.as_deref().context("a version")
}

/// The request to delete a pod in its current version.
fn target(pod: &Pod) -> Result<PodTarget> {
    let text = |field: &Option<String>| field.clone().unwrap_or_default();
    Ok(PodTarget {
        namespace: text(&pod.metadata.namespace).into(),
        name: text(&pod.metadata.name).into(),
        uid: uid(pod)?.into(),
        version: Version::from(version(pod)?),
    })
}

impl Server<'_> {
    /// A pod to create on a node.
    fn pod(&self, name: &str, node: &str) -> Pod {
        let pod = crate::pods::pod(name).namespace(self.namespace).on_node(node);
        let pod = pod.container("main", "ferrolet.test/workload:1", []);
        let pod = pod.spec(|spec| spec.automount_service_account_token = Some(false));
        pod.with(|pod| pod.metadata.uid = None).build()
    }

    async fn patch(&self, name: &str, body: &Value) -> Result<Arc<Pod>, ApiError> {
        self.pods.patch_status(&PodName::new(self.namespace, name), body.to_string()).await
    }

    async fn remove(&self, pod: &PodTarget) -> Result<PodRemoved, ApiError> {
        let verdict = removal(Subject::Pod(pod.uid.to_string().into()));
        self.writes.remove_pod(pod, &verdict).await
    }
}

/// Checks an API server.
pub async fn pod_contract(server: &Server<'_>) -> Result<()> {
    let missing = server.pods.node_uid("missing").await?;
    ensure!(missing.is_none(), "the UID of a missing node: {missing:?}");
    let node = server.pods.node_uid(server.node).await?;
    ensure!(node.is_some_and(|uid| !uid.is_empty()), "the uid of a node");
    let made = making(server).await?;
    let patched = patching(server, &made).await?;
    refusals(server, &made, &patched).await?;
    following(server, &patched).await
}

async fn making(server: &Server<'_>) -> Result<Arc<Pod>> {
    let wanted = server.pod("contract", server.node);
    let made = server.pods.create_pod(&wanted).await?;
    ensure!(!uid(&made)?.is_empty() && !version(&made)?.is_empty(), "{made:?}");
    let phase = made.status.as_ref().and_then(|status| status.phase.as_deref());
    ensure!(phase == Some("Pending"), "{phase:?}");
    let again = server.pods.create_pod(&wanted).await;
    ensure!(is_conflict(&again), "{again:?}");
    Ok(made)
}

/// A status patch is merged: lists with a merge key by element, in the order of the directive.
async fn patching(server: &Server<'_>, made: &Pod) -> Result<Arc<Pod>> {
    let first = json!({
        "metadata": { "uid": uid(made)? },
        "status": {
            "phase": "Running",
            "message": "m",
            "podIP": "10.0.0.1",
            "podIPs": [{ "ip": "10.0.0.1" }],
            "conditions": [
                { "type": "ferrolet.test/one", "status": "False", "reason": "r" },
                { "type": "ferrolet.test/two", "status": "True" },
            ],
        },
    });
    let second = json!({
        "metadata": { "uid": uid(made)? },
        "status": {
            "message": null,
            "podIP": "10.0.0.2",
            "podIPs": [{ "ip": "10.0.0.2" }, { "$patch": "replace" }],
            "$setElementOrder/conditions": [
                { "type": "ferrolet.test/three" },
                { "type": "ferrolet.test/two" },
                { "type": "ferrolet.test/one" },
            ],
            "conditions": [
                { "type": "ferrolet.test/three", "status": "True" },
                { "type": "ferrolet.test/one", "status": "True", "reason": null },
            ],
        },
    });
    let before = server.patch("contract", &first).await?;
    let after = server.patch("contract", &second).await?;
    let versions = [version(made)?, version(&before)?, version(&after)?].map(Version::from);
    ensure!(versions[0] < versions[1] && versions[1] < versions[2], "{versions:?}");
    let status = serde_json::to_value(&after.status)?;
    ensure!(status["phase"] == "Running" && status.get("message").is_none(), "{status}");
    ensure!(status["podIPs"] == json!([{ "ip": "10.0.0.2" }]), "{status}");
    let conditions = status["conditions"].as_array().context("conditions")?;
    let of = |kind: &str| conditions.iter().find(|one| one["type"] == kind);
    let (one, two) = (of("ferrolet.test/one").context("one")?, of("ferrolet.test/two"));
    ensure!(one["status"] == "True" && one.get("reason").is_none(), "{status}");
    ensure!(two.is_some_and(|two| two["status"] == "True"), "{status}");
    let types =
        conditions.iter().filter_map(|one| one["type"].as_str()?.strip_prefix("ferrolet.test/"));
    let types: Vec<&str> = types.collect();
    ensure!(types == ["three", "two", "one"], "{status}");
    Ok(after)
}

/// A patch for another UID or version of a pod changes nothing.
async fn refusals(server: &Server<'_>, made: &Pod, last: &Pod) -> Result<()> {
    const ANOTHER: &str = "00112233-4455-6677-8899-aabbccddeeff";
    for metadata in
        [json!({ "uid": ANOTHER }), json!({ "uid": uid(made)?, "resourceVersion": version(made)? })]
    {
        let body = json!({ "metadata": metadata, "status": { "message": "for another version" } });
        let refused = server.patch("contract", &body).await;
        ensure!(is_conflict(&refused), "{metadata}: {refused:?}");
    }
    let missing = server.patch("missing", &json!({ "status": { "message": "m" } })).await;
    ensure!(matches!(missing, Err(ApiError::NotFound)), "{missing:?}");
    for wrong in [target(made)?, PodTarget { uid: ANOTHER.into(), ..target(last)? }] {
        let refused = server.remove(&wrong).await;
        ensure!(is_conflict(&refused), "{wrong:?}: {refused:?}");
    }
    Ok(())
}

#[derive(Debug)]
struct ChangeSender(mpsc::UnboundedSender<Change<Arc<Pod>, PodUid>>);

impl Sink<Arc<Pod>, PodUid> for ChangeSender {
    fn receive(&self, change: Change<Arc<Pod>, PodUid>) {
        // The receiver is dropped at the end of the case.
        drop(self.0.send(change));
    }
}

/// A watch of a node's pods sends those of that node, and then their changes until their removal.
async fn following(server: &Server<'_>, pod: &Pod) -> Result<()> {
    server.pods.create_pod(&server.pod("elsewhere", "another-node")).await?;
    let (sender, mut changes) = mpsc::unbounded_channel();
    let sink = ChangeSender(sender);
    let story = async {
        let (mut applied, mut is_removed) = (Vec::new(), false);
        loop {
            match changes.recv().await.context("the watch ended")? {
                Change::Restarted => applied.clear(),
                Change::Applied(one) => {
                    ensure!(uid(&one)? == uid(pod)?, "{:?} is not of this node", one.metadata.name);
                    let message = one.status.as_ref().and_then(|status| status.message.as_deref());
                    // A server may send the deletion before the pod is removed.
                    if message == Some("seen") && !is_removed {
                        let removed = server.remove(&target(&one)?).await?;
                        ensure!(removed == PodRemoved::Gone, "removed");
                        is_removed = true;
                    }
                    applied.push(one);
                }
                Change::Unread(uid) => bail!("{uid} cannot be decoded"),
                Change::Complete => {
                    ensure!(applied.len() == 1, "{applied:?}");
                    let status = json!({ "message": "seen" });
                    server.patch("contract", &json!({ "status": status })).await?;
                }
                Change::Gone(gone) => {
                    ensure!(gone.as_str() == uid(pod)?, "{gone}");
                    break;
                }
            }
        }
        let gone = server.remove(&target(pod)?).await;
        ensure!(matches!(gone, Err(ApiError::NotFound)), "{gone:?}");
        Ok(())
    };
    tokio::select! {
        biased;
        () = server.pods.follow_pods_of(server.node, &sink) => bail!("the watch ended"),
        outcome = story => outcome,
        () = tokio::time::sleep(Duration::from_secs(30)) => bail!("no change arrived"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::MemoryPods;

    #[tokio::test(start_paused = true)]
    async fn memory_pods_pass_the_contract() {
        let pods = MemoryPods::default();
        pods.register_node("n");
        let (pods, namespace) = (&pods, "default");
        pod_contract(&Server { pods, writes: pods, namespace, node: "n" }).await.unwrap();
    }
}
