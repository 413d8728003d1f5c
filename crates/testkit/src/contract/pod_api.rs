//! What every API server does with the pods of a node.

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
    /// Those of all nodes.
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

/// How the server would be asked to remove a pod as it was seen.
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
    /// A pod of a node, to be made.
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

/// Holds for an API server.
pub async fn pod_contract(server: &Server<'_>) -> Result<()> {
    let nobody = server.pods.node_uid("nobody").await?;
    ensure!(nobody.is_none(), "a node that nobody made: {nobody:?}");
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

/// What a status is patched with is merged: by their keys the elements of those lists that have some, in the order that is said.
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
    let told = serde_json::to_value(&after.status)?;
    ensure!(told["phase"] == "Running" && told.get("message").is_none(), "{told}");
    ensure!(told["podIPs"] == json!([{ "ip": "10.0.0.2" }]), "{told}");
    let conditions = told["conditions"].as_array().context("conditions")?;
    let of = |kind: &str| conditions.iter().find(|one| one["type"] == kind);
    let (one, two) = (of("ferrolet.test/one").context("one")?, of("ferrolet.test/two"));
    ensure!(one["status"] == "True" && one.get("reason").is_none(), "{told}");
    ensure!(two.is_some_and(|two| two["status"] == "True"), "{told}");
    let types =
        conditions.iter().filter_map(|one| one["type"].as_str()?.strip_prefix("ferrolet.test/"));
    let types: Vec<&str> = types.collect();
    ensure!(types == ["three", "two", "one"], "{told}");
    Ok(after)
}

/// Nothing is written to another pod, or another version of it, than was meant.
async fn refusals(server: &Server<'_>, made: &Pod, last: &Pod) -> Result<()> {
    const ANOTHER: &str = "00112233-4455-6677-8899-aabbccddeeff";
    for metadata in
        [json!({ "uid": ANOTHER }), json!({ "uid": uid(made)?, "resourceVersion": version(made)? })]
    {
        let body = json!({ "metadata": metadata, "status": { "message": "not meant" } });
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
struct Heard(mpsc::UnboundedSender<Change<Arc<Pod>, PodUid>>);

impl Sink<Arc<Pod>, PodUid> for Heard {
    fn hear(&self, change: Change<Arc<Pod>, PodUid>) {
        // Nobody listens any more when the case is over.
        drop(self.0.send(change));
    }
}

/// Who follows the pods of a node is told those of that node, and then what changes, until they are gone.
async fn following(server: &Server<'_>, pod: &Pod) -> Result<()> {
    server.pods.create_pod(&server.pod("elsewhere", "another-node")).await?;
    let (sender, mut heard) = mpsc::unbounded_channel();
    let sink = Heard(sender);
    let story = async {
        let (mut told, mut is_removed) = (Vec::new(), false);
        loop {
            match heard.recv().await.context("the feed goes on")? {
                Change::Restarted => told.clear(),
                Change::Applied(one) => {
                    ensure!(uid(&one)? == uid(pod)?, "{:?} is not of this node", one.metadata.name);
                    let message = one.status.as_ref().and_then(|status| status.message.as_deref());
                    // A server may tell of its end before it is gone.
                    if message == Some("heard") && !is_removed {
                        let removed = server.remove(&target(&one)?).await?;
                        ensure!(removed == PodRemoved::Gone, "it goes");
                        is_removed = true;
                    }
                    told.push(one);
                }
                Change::Unread(uid) => bail!("{uid} is not understood"),
                Change::Complete => {
                    ensure!(told.len() == 1, "{told:?}");
                    let status = json!({ "message": "heard" });
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
        () = server.pods.follow_pods_of(server.node, &sink) => bail!("the feed ended"),
        outcome = story => outcome,
        () = tokio::time::sleep(Duration::from_secs(30)) => bail!("nothing was told"),
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
