//! Pods and nodes in every state that the Pod GC controller distinguishes, from a seed.
//!
//! The same seed makes the same objects in any cluster, in an order in which age and name agree: the times of objects
//! have whole seconds.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anyhow::Result;
use e2e::api::{Api, Patch};
use e2e::cluster::Cluster;
use serde_json::{Value, json};
use testkit::random::Random;

use crate::objects::{node, pod};

/// Keeps a deleted pod, so that its last state can be seen.
pub(crate) const FINALIZER: &str = "ferrolet.test/kept";

/// How long a node stays without an agent: longer than any test.
const GRACE: u32 = 3600;

/// A node, in the state that the controller finds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum NodeKind {
    /// The node existed when its pods were created, and was deleted.
    Gone,
    Ready,
    NotReady,
    /// Not ready, with the out-of-service taint.
    OutOfService,
    /// With the taint, and ready again.
    BackInService,
}

impl NodeKind {
    const ALL: [Self; 5] =
        [Self::Gone, Self::Ready, Self::NotReady, Self::OutOfService, Self::BackInService];
}

#[derive(Debug)]
struct Pod {
    name: String,
    /// The index of the node.
    node: Option<usize>,
    phase: &'static str,
    reason: Option<&'static str>,
    is_terminating: bool,
    has_finalizer: bool,
}

/// Nodes and pods of one namespace.
#[derive(Debug)]
pub(crate) struct Scenario {
    namespace: String,
    nodes: Vec<(String, NodeKind)>,
    pods: Vec<Pod>,
}

/// The state of a pod after the controller's work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PodState {
    phase: String,
    is_terminating: bool,
    is_forced: bool,
    observed_generation: Option<i64>,
    /// The `DisruptionTarget` condition without its time.
    disruption: Value,
}

impl Scenario {
    pub(crate) fn from_seed(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let nodes: Vec<(String, NodeKind)> = (0..6)
            .map(|index| {
                // One node of each kind, and another one.
                let kind = NodeKind::ALL.get(index).copied();
                let kind = kind.unwrap_or_else(|| random.pick(&NodeKind::ALL));
                (format!("s{seed}-node-{index}"), kind)
            })
            .collect();
        let pods = (0..40)
            .map(|index| Pod::random(format!("s{seed}-p{index:02}"), nodes.len(), &mut random));
        let pods = pods.collect();
        Self { namespace: format!("s{seed}"), nodes, pods }
    }

    pub(crate) fn collection(&self) -> String {
        format!("/api/v1/namespaces/{}/pods", self.namespace)
    }

    /// Creates everything, and then deletes the nodes of the kind `Gone`.
    pub(crate) fn make(&self, cluster: &Cluster) -> Result<()> {
        let api = cluster.api();
        cluster.make_namespace(&self.namespace)?;
        for (name, kind) in &self.nodes {
            make_node(api, name, *kind)?;
        }
        for pod in &self.pods {
            self.make_pod(api, pod)?;
        }
        for (name, _) in self.nodes.iter().filter(|(_, kind)| *kind == NodeKind::Gone) {
            api.delete(&format!("/api/v1/nodes/{name}"))?;
        }
        Ok(())
    }

    fn make_pod(&self, api: &Api, plan: &Pod) -> Result<()> {
        let node = plan.node.map(|index| self.nodes[index].0.as_str());
        let mut object = pod(&plan.name, node);
        object["spec"]["terminationGracePeriodSeconds"] = json!(GRACE);
        if plan.has_finalizer {
            object["metadata"]["finalizers"] = json!([FINALIZER]);
        }
        api.create(&self.collection(), &object)?;
        let path = format!("{}/{}", self.collection(), plan.name);
        // Deleted while it runs, because a terminated pod would be deleted at once.
        if plan.is_terminating {
            api.delete(&path)?;
        }
        let status = json!({ "status": { "phase": plan.phase, "reason": plan.reason } });
        api.patch(&format!("{path}/status"), Patch::Merge, &status)?;
        Ok(())
    }

    /// Waits until each pod of a missing node is deleted, or marked as failed.
    pub(crate) fn wait_orphans(&self, api: &Api, time: Duration) -> Result<()> {
        let orphans = self
            .pods
            .iter()
            .filter(|pod| pod.node.is_some_and(|index| self.nodes[index].1 == NodeKind::Gone));
        for orphan in orphans {
            let path = format!("{}/{}", self.collection(), orphan.name);
            let what = format!("{path} is collected");
            api.wait(&path, &what, time, |pod| match pod {
                None => Some(()),
                Some(pod) => is_forced(pod).then_some(()),
            })?;
        }
        Ok(())
    }

    /// All remaining pods.
    pub(crate) fn seen(&self, api: &Api) -> Result<BTreeMap<String, PodState>> {
        let pods = api.list(&self.collection())?;
        Ok(pods.iter().map(|pod| (text(&pod["metadata"]["name"]), PodState::of(pod))).collect())
    }

    pub(crate) fn names(&self) -> BTreeSet<String> {
        self.pods.iter().map(|pod| pod.name.clone()).collect()
    }
}

impl Pod {
    fn random(name: String, nodes: usize, random: &mut Random) -> Self {
        let node = random.pick(&[true, true, true, false]).then(|| random.place(nodes));
        let (phase, reason) = random.pick(&[
            ("Pending", None),
            ("Running", None),
            ("Running", None),
            ("Succeeded", None),
            ("Failed", None),
            ("Failed", Some("Evicted")),
        ]);
        let is_terminating = random.pick(&[true, false]);
        // Without a node and a finalizer, it is gone as soon as it is deleted.
        let has_finalizer =
            random.pick(&[true, false, false]) || (is_terminating && node.is_none());
        Self { name, node, phase, reason, is_terminating, has_finalizer }
    }
}

impl PodState {
    fn of(pod: &Value) -> Self {
        let mut conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
        let mut disruption = conditions
            .find(|condition| condition["type"] == "DisruptionTarget")
            .cloned()
            .unwrap_or_default();
        if let Some(condition) = disruption.as_object_mut() {
            condition.remove("lastTransitionTime");
        }
        Self {
            phase: text(&pod["status"]["phase"]),
            is_terminating: pod["metadata"]["deletionTimestamp"].is_string(),
            is_forced: is_forced(pod),
            observed_generation: pod["status"]["observedGeneration"].as_i64(),
            disruption,
        }
    }
}

/// Whether it was deleted without a grace period; only a finalizer keeps it then.
fn is_forced(pod: &Value) -> bool {
    pod["metadata"]["deletionGracePeriodSeconds"] == 0
}

fn make_node(api: &Api, name: &str, kind: NodeKind) -> Result<()> {
    let mut object = node(name);
    if matches!(kind, NodeKind::OutOfService | NodeKind::BackInService) {
        let taint = json!({
            "key": "node.kubernetes.io/out-of-service", "value": "nodeshutdown", "effect": "NoExecute",
        });
        object["spec"] = json!({ "taints": [taint] });
    }
    api.create("/api/v1/nodes", &object)?;
    let ready = match kind {
        NodeKind::Ready | NodeKind::BackInService => "True",
        NodeKind::NotReady | NodeKind::OutOfService => "Unknown",
        NodeKind::Gone => "False",
    };
    let status = json!({ "status": { "conditions": [{ "type": "Ready", "status": ready }] } });
    api.patch(&format!("/api/v1/nodes/{name}/status"), Patch::Merge, &status)?;
    Ok(())
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
