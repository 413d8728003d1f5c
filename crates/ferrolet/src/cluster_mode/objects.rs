//! The API objects that pods need: secrets, config maps, services and runtime classes.

use std::sync::Arc;

use ::objects::decide::time_to_live;
use ::objects::{ObjectStore, RuntimeClasses, Services};
use k8s_openapi::api::core::v1::Node;
use node::NodeHandle;
use process::tasks::Tasks;
use runtime::ApiParts;

use crate::wiring::{Ports, Settings};

/// Starts the stores of these objects, in a cluster.
pub(crate) fn start_object_store(
    settings: &Settings,
    ports: &Ports,
    node: Option<&NodeHandle>,
    tasks: &mut Tasks,
) -> Option<ApiObjects> {
    let cluster = ports.cluster.as_ref()?;
    let objects = ObjectStore::new(Arc::clone(&cluster.objects), settings.objects);
    let followed = objects.clone();
    tasks.spawn("objects of pods", |stop| followed.run(stop));
    if let Some(node) = node.cloned() {
        let objects = objects.clone();
        tasks.spawn("time to live of objects", |stop| async move {
            stop.run_until_cancelled(follow_time_to_live(&objects, &node)).await;
        });
    }
    let services = Services::default();
    let (followed, feed) = (services.clone(), Arc::clone(&cluster.services));
    tasks.spawn("services", |stop| followed.run(feed, stop));
    let classes = RuntimeClasses::default();
    let (followed, feed) = (classes.clone(), Arc::clone(&cluster.classes));
    tasks.spawn("runtime classes", |stop| followed.run(feed, stop));
    let (services, classes) = (Arc::new(services), Arc::new(classes));
    let api = ApiParts { objects: Arc::new(objects.clone()), services, classes };
    Some(ApiObjects { parts: api, objects })
}

/// The objects of the API that pods need.
pub(crate) struct ApiObjects {
    /// The objects as containers need them.
    pub(crate) parts: ApiParts,
    /// Secrets and config maps.
    pub(crate) objects: ObjectStore,
}

/// Sets the TTL of stored objects from the node's annotation. Never returns.
async fn follow_time_to_live(objects: &ObjectStore, node: &NodeHandle) {
    let ttl = |node: &Node| time_to_live(node.metadata.annotations.as_ref());
    let mut known = None;
    loop {
        let node = node.wait_for_node(|node| ttl(node) != known).await;
        known = ttl(&node);
        objects.set_time_to_live(known);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use ::objects::Settings as ObjectSettings;
    use config::{ChangeDetectionStrategy, KubeletConfiguration};
    use model::objects::ObjectKey;
    use model::ports::objects::PodObjects as _;
    use model::ports::runtime::Runtime;
    use node::{NodeParameters, NodePorts};
    use testkit::addresses::MemoryAddresses;
    use testkit::clock::VirtualClock;
    use testkit::cluster::node_api::MemoryNodeApi;
    use testkit::cluster::{ApiCall, MemoryCluster, object};
    use testkit::events::KeptNodeEvents;
    use testkit::runtime::MemoryRuntime;
    use tokio::task::JoinSet;
    use tokio::time::sleep;
    use tokio_util::sync::CancellationToken;

    use super::*;

    /// Handles a new version of the Node object.
    fn hearing(api: &MemoryNodeApi, tasks: &mut JoinSet<()>) -> NodeHandle {
        let clock = Arc::new(VirtualClock::new());
        let ports = NodePorts {
            metrics: node::Metrics::new(&prometheus::Registry::new()).unwrap(),
            api: Arc::new(api.clone()),
            leases: Arc::new(api.clone()),
            csi_nodes: Arc::new(api.clone()),
            runtime: Runtime::new(Arc::new(MemoryRuntime::new(clock.clone()))),
            addresses: Arc::new(MemoryAddresses::one("192.0.2.1")),
            events: Arc::<KeptNodeEvents>::default(),
            clock,
            checks: Vec::new(),
        };
        let own = NodeParameters { name: "n".to_owned(), ..NodeParameters::default() };
        let (node, handle) =
            node::node(node::Settings::new(&KubeletConfiguration::default(), own), ports);
        tasks.spawn(node.feed.run(CancellationToken::new()));
        handle
    }

    // behaviour: OBJ-15
    #[tokio::test(start_paused = true)]
    async fn object_cache_ttl_is_from_the_node_annotation() {
        let (cluster, api, mut tasks) = <(MemoryCluster, MemoryNodeApi, JoinSet<()>)>::default();
        let strategy = ChangeDetectionStrategy::Cache;
        let settings = ObjectSettings { strategy, ..ObjectSettings::default() };
        let store = ObjectStore::new(Arc::new(cluster.clone()), settings);
        let (node, followed) = (hearing(&api, &mut tasks), store.clone());
        tasks.spawn(async move { follow_time_to_live(&followed, &node).await });
        let key = ObjectKey::secret("ns", "a");
        cluster.put_object(&key, object([("k", "1")]));
        store.register(&"pod".into(), [key.clone()].into());
        let reads = async |pause: Duration| {
            sleep(pause).await;
            let before = cluster.calls_of(ApiCall::Object).len();
            store.get(&key).await.unwrap();
            cluster.calls_of(ApiCall::Object).len() - before
        };
        let second = Duration::from_secs(1);
        assert_eq!((reads(second).await, reads(second).await), (1, 0));
        let mut ttl = Node::default();
        ttl.metadata.name = Some("n".to_owned());
        let annotation = ("node.alpha.kubernetes.io/ttl".to_owned(), "0".to_owned());
        ttl.metadata.annotations = Some([annotation].into());
        api.put_node(ttl);
        assert_eq!((reads(second).await, reads(second).await), (1, 1), "TTL 0: read every time");
        api.update_node("n", |node| node.metadata.annotations = None);
        assert_eq!(reads(second).await, 0, "without annotation: a minute");
        assert_eq!(reads(Duration::from_mins(1)).await, 1);
    }
}
