//! The start of the agent: its requests to the API server and to the runtime, and their order.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, Pod};
use model::cluster::ClusterEvent;
use model::ids::{PodName, PodUid};
use model::objects::{ServiceName, ServiceRecord};
use model::ports::cluster::{ApiError, ClusterEvents, Sink};
use model::ports::node_api::{NodeApi, NodeLeases};
use model::ports::objects::ServiceFeed;
use model::ports::pod_api::PodApi;
use testkit::cluster::node_api::MemoryNodeApi;
use testkit::cluster::{MemoryCluster, MemoryPods};
use testkit::pods::pod;
use testkit::runtime::MemoryRuntime;
use tokio::time::sleep;

use crate::harness::Harness;

/// The delay of the server: a request that does not wait for its predecessor comes too early.
const LATE: Duration = Duration::from_millis(50);

/// An API server that records its requests and the runtime calls between them.
#[derive(Debug, Clone)]
struct CallLog {
    pods: MemoryPods,
    node: MemoryNodeApi,
    rest: MemoryCluster,
    runtime: Arc<MemoryRuntime>,
    /// The requests so far, and how many of them are runtime calls.
    requested: Arc<Mutex<(Vec<String>, usize)>>,
}

impl CallLog {
    /// Wraps the API server of a node.
    fn before(harness: &Harness, pods: &MemoryPods, node: &MemoryNodeApi) -> Self {
        Self {
            pods: pods.clone(),
            node: node.clone(),
            rest: harness.rest.clone(),
            runtime: Arc::clone(&harness.runtime),
            requested: Arc::default(),
        }
    }

    fn note(&self, what: impl Into<String>) {
        self.take_in().0.push(what.into());
    }

    fn take_in(&self) -> std::sync::MutexGuard<'_, (Vec<String>, usize)> {
        let mut requested = self.requested.lock().expect("no thread panicked with it");
        let calls = self.runtime.calls();
        for call in &calls[requested.1..] {
            requested.0.push(format!("{} {}", call.method, call.object).trim_end().to_owned());
        }
        requested.1 = calls.len();
        requested
    }

    fn all(&self) -> Vec<String> {
        self.take_in().0.clone()
    }
}

#[async_trait]
impl NodeApi for CallLog {
    async fn follow_own_node(&self, name: &str, sink: &dyn Sink<Node, ()>) {
        self.note("follow node");
        sleep(LATE).await;
        self.note("node sent");
        self.node.follow_own_node(name, sink).await;
    }

    async fn own_node(&self, name: &str) -> Result<Option<Node>, ApiError> {
        self.note("get node");
        self.node.own_node(name).await
    }

    async fn create_node(&self, node: &Node) -> Result<Node, ApiError> {
        self.note("create node");
        sleep(LATE).await;
        let made = self.node.create_node(node).await?;
        // Mirrors have it as their owner.
        self.pods.register_node("node");
        self.note("node made");
        Ok(made)
    }

    async fn patch_node_status(&self, name: &str, patch: String) -> Result<Node, ApiError> {
        self.note("patch node");
        self.node.patch_node_status(name, patch).await
    }
}

#[async_trait]
impl NodeLeases for CallLog {
    async fn node_lease(&self, name: &str) -> Result<Option<Lease>, ApiError> {
        self.note("get lease");
        self.node.node_lease(name).await
    }

    async fn create_node_lease(&self, lease: &Lease) -> Result<Lease, ApiError> {
        self.note("create lease");
        self.node.create_node_lease(lease).await
    }

    async fn update_node_lease(&self, lease: &Lease) -> Result<Lease, ApiError> {
        self.note("update lease");
        self.node.update_node_lease(lease).await
    }
}

#[async_trait]
impl PodApi for CallLog {
    async fn follow_pods_of(&self, node: &str, sink: &dyn Sink<Arc<Pod>, PodUid>) {
        self.note("follow pods");
        sleep(LATE).await;
        self.note("pods sent");
        self.pods.follow_pods_of(node, sink).await;
    }

    async fn patch_status(&self, pod: &PodName, patch: String) -> Result<Arc<Pod>, ApiError> {
        self.note(format!("patch {pod}"));
        self.pods.patch_status(pod, patch).await
    }

    async fn create_pod(&self, pod: &Pod) -> Result<Arc<Pod>, ApiError> {
        self.note(format!("create {}", pod.metadata.name.as_deref().unwrap_or_default()));
        self.pods.create_pod(pod).await
    }

    async fn node_uid(&self, node: &str) -> Result<Option<String>, ApiError> {
        self.pods.node_uid(node).await
    }
}

#[async_trait]
impl ServiceFeed for CallLog {
    async fn follow_services(&self, sink: &dyn Sink<ServiceRecord, ServiceName>) {
        self.note("follow services");
        sleep(LATE).await;
        self.note("services sent");
        self.rest.follow_services(sink).await;
    }
}

#[async_trait]
impl ClusterEvents for CallLog {
    async fn write_event(&self, event: &ClusterEvent) -> Result<(), ApiError> {
        self.note(format!("event {}", event.reason));
        self.rest.write_event(event).await
    }

    async fn count_event(&self, event: &ClusterEvent) -> Result<(), ApiError> {
        self.rest.count_event(event).await
    }
}

/// Pairs of requests in their order, and the reason.
const ORDER: &[(&str, &str, &str)] = &[
    ("Status", "create node", "a healthy node is created as ready"),
    ("node sent", "create node", "an existing node is not created"),
    ("node sent", "follow pods", "admission needs the Node object"),
    ("node made", "create lease", "the lease has the node as its owner"),
    ("node made", "create fixed-node", "a mirror has the node as its owner"),
    ("pods sent", "create fixed-node", "there may be a mirror already"),
    ("pods sent", "patch default/web", "an unknown pod has no status"),
    ("Status", "RunPodSandbox default/fixed-node", "a runtime that is not ready gets no calls"),
    ("ListPodSandbox", "RunPodSandbox default/fixed-node", "the pod may run already"),
    ("pods sent", "RunPodSandbox default/web", "it is unknown before"),
    ("services sent", "CreateContainer main of default/web", "it has variables of services"),
    (
        "event Starting",
        "event NodeHasSufficientMemory",
        "the agent starts, then the node is healthy",
    ),
    ("event Starting", "event Started", "the agent starts, then containers do"),
];

// behaviour: NODE-50, API-31
#[tokio::test(start_paused = true)]
async fn start_steps_run_in_dependency_order() {
    let (pods, node) = (MemoryPods::default(), MemoryNodeApi::default());
    let mut harness = Harness::new();
    (harness.api, harness.own_node) = (Some(pods.clone()), Some(node.clone()));
    let noting = CallLog::before(&harness, &pods, &node);
    let api = Arc::new(noting.clone());
    harness.through = harness.cluster_ports().map(|mut ports| {
        (ports.node, ports.leases, ports.pods) = (api.clone(), api.clone(), api.clone());
        (ports.services, ports.events) = (api.clone(), api);
        ports
    });
    let web = pod("web").on_node("node").restart_policy("Always");
    pods.make(web.container("main", "ferrolet.test/workload:1", ["sleep", "forever"]).build());
    harness.write_manifest("fixed", "Always", "[sleep, forever]");
    let _agent = harness.start();
    let last = ORDER.iter().map(|(first, then, _)| [*first, *then]).collect::<Vec<_>>().concat();
    let all_asked = |_: &Harness| {
        let requested = noting.all();
        last.iter().all(|one| requested.iter().any(|requested| requested == one)).then_some(())
    };
    let waited = tokio::time::timeout(
        Duration::from_mins(1),
        harness.until("all requests are made", all_asked),
    );
    assert!(waited.await.is_ok(), "{:#?}", noting.all());
    let requested = noting.all();
    let at = |what: &str| requested.iter().position(|requested| requested == what);
    for (first, then, why) in ORDER {
        assert!(at(first) < at(then), "{first} comes after {then}, but {why}: {requested:#?}");
    }
    let count = |what: &str| requested.iter().filter(|requested| *requested == what).count();
    for once in ["follow node", "create node", "create lease", "follow pods", "create fixed-node"] {
        assert_eq!(count(once), 1, "{once}: {requested:#?}");
    }
    let ready = node.node("node").and_then(|node| node.status?.conditions).unwrap_or_default();
    assert!(ready.iter().any(|one| one.type_ == "Ready" && one.status == "True"), "{ready:?}");
    assert_eq!(count("patch node"), 0, "it is created as ready: {requested:#?}");
}
