//! The parts of an agent in a cluster: the source of pods, the writer of statuses and the mirror pods.

mod event_writer;
mod host_ips;
mod node_certificates;
mod objects;
mod own_node;
mod setup_failed;
mod start_times;

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, Result};
use cluster::{Cluster, Connection, Exclusion, ProxyVariables, Rate, Rates, Source};
use config::KubeletConfiguration;
use hostfs::HostAddresses;
use k8s_openapi::api::core::v1::Pod;
use model::ids::PodUid;
use model::panics::PanicGuard;
use model::ports::addresses::Addresses;
use model::ports::cluster::{ClusterEvents, PodWrites, Reviews};
use model::ports::node_api::{CsiNodes, NodeApi, NodeLeases};
use model::ports::objects::{
    CertificateRequests, ObjectReads, RuntimeClassFeed, ServiceAccountReads, ServiceFeed,
    StorageReads, TokenRequests, TrustBundleFeed,
};
use model::ports::pod_api::PodApi;
use node::NodeHandle;
use pods::WorkerStates;
use pods::decide::mirror::StaticPods;
use pods::mirrors::{MirrorParts, Mirrors};
use pods::source::SourceWatch;
use pods::source::api::{ApiCopies, ApiSource, api_source};
use process::tasks::Tasks;
use process::version::USER_AGENT;
use status::store::StatusReader;
use status::writer::{ApiView, Writer, WriterParts};
use tokio::sync::watch;
use tracing::info;

use crate::wiring::{Ports, Settings};

pub(crate) use event_writer::start_event_writer;
pub(crate) use host_ips::{follow_host_ips, host_ips};
pub use node_certificates::OwnCertificates;
pub(crate) use node_certificates::{
    CertificateSettings, prepare_identity, start_node_certificates,
};
pub(crate) use objects::start_object_store;
pub(crate) use own_node::{NodeInputs, settings as own_node, start_node};
pub(crate) use setup_failed::report_setup_failed;
pub(crate) use start_times::StartTimer;

/// The component name in events.
const COMPONENT: &str = "kubelet";

/// The API server ports of the agent.
#[derive(Debug, Clone)]
pub struct ClusterPorts {
    /// The pods of this node.
    pub pods: Arc<dyn PodApi>,
    /// Deletes pods.
    pub pod_writes: Arc<dyn PodWrites>,
    /// The Node object.
    pub node: Arc<dyn NodeApi>,
    /// The node's lease.
    pub leases: Arc<dyn NodeLeases>,
    /// The `CSINode` object.
    pub csi_nodes: Arc<dyn CsiNodes>,
    /// The addresses of the machine.
    pub addresses: Arc<dyn Addresses>,
    /// Secrets and config maps.
    pub objects: Arc<dyn ObjectReads>,
    /// Service accounts.
    pub accounts: Arc<dyn ServiceAccountReads>,
    /// Tokens of service accounts.
    pub tokens: Arc<dyn TokenRequests>,
    /// Trust bundles.
    pub trust_bundles: Arc<dyn TrustBundleFeed>,
    /// Certificates of pods.
    pub certificates: Arc<dyn CertificateRequests>,
    /// Claims and persistent volumes.
    pub storage: Arc<dyn StorageReads>,
    /// Services.
    pub services: Arc<dyn ServiceFeed>,
    /// Runtime classes.
    pub classes: Arc<dyn RuntimeClassFeed>,
    /// Events.
    pub events: Arc<dyn ClusterEvents>,
    /// Authentication and authorisation of clients of the node's API.
    pub reviews: Arc<dyn Reviews>,
    /// The certificates of the node, if the agent maintains them.
    pub own_certificates: Option<OwnCertificates>,
}

/// Builds the connection to the API server, if one is configured. Only a node that joins sends requests yet.
pub(crate) async fn connect(
    kubeconfig: Option<PathBuf>,
    config: &KubeletConfiguration,
    certificates: CertificateSettings,
    node: &str,
) -> Result<Option<ClusterPorts>> {
    let Some(kubeconfig) = kubeconfig else { return certificates.none_needed().map(|()| None) };
    let proxies = ProxyVariables::from_environment();
    let identity = prepare_identity(&kubeconfig, &certificates, node).await?;
    let connection = match &identity.file {
        Some(file) => Connection::find_as_node(kubeconfig, USER_AGENT, &proxies, file).await,
        None => Connection::find_through(Some(kubeconfig), None, USER_AGENT, &proxies).await,
    };
    let connection = connection.context("find the API server")?;
    info!(server = connection.address(), node, "Node uses an API server");
    let calls = Rate { per_second: config.kube_api_qps.into(), burst: config.kube_api_burst };
    let events = Rate { per_second: config.event_record_qps.into(), burst: config.event_burst };
    let source = Source { component: COMPONENT, host: node.to_owned() };
    let rates = Rates { calls, events };
    let cluster = Arc::new(Cluster::new(connection, rates, Exclusion::default(), source));
    Ok(Some(ClusterPorts {
        pods: Arc::clone(&cluster) as _,
        pod_writes: Arc::clone(&cluster) as _,
        node: Arc::clone(&cluster) as _,
        leases: Arc::clone(&cluster) as _,
        csi_nodes: Arc::clone(&cluster) as _,
        addresses: Arc::new(HostAddresses::default()),
        objects: Arc::clone(&cluster) as _,
        accounts: Arc::clone(&cluster) as _,
        tokens: Arc::clone(&cluster) as _,
        trust_bundles: Arc::clone(&cluster) as _,
        certificates: Arc::clone(&cluster) as _,
        storage: Arc::clone(&cluster) as _,
        services: Arc::clone(&cluster) as _,
        classes: Arc::clone(&cluster) as _,
        events: Arc::clone(&cluster) as _,
        own_certificates: Some(OwnCertificates::new(certificates, &cluster, identity)),
        reviews: cluster,
    }))
}

/// Starts the source of API server pods, in a cluster.
pub(crate) fn start_api_source(
    settings: &Settings,
    ports: &Ports,
    node: Option<&NodeHandle>,
    tasks: &mut Tasks,
) -> Option<(SourceWatch, ApiCopies)> {
    let cluster = ports.cluster.as_ref()?;
    let (source, pods, copies) = api_source(settings.node_name.clone(), Arc::clone(&cluster.pods));
    if !settings.invalid_restart_rules_have_upstream_errors {
        source.drop_restart_rules();
    }
    let node = node.cloned();
    tasks.spawn("pods of the API server", |stop| async move {
        stop.run_until_cancelled(follow_pods(&source, node.as_ref())).await;
    });
    Some((pods, copies))
}

/// Watches the pods for ever.
async fn follow_pods(source: &ApiSource, node: Option<&NodeHandle>) {
    let Some(node) = node else { return source.follow().await };
    // Admission needs the Node object, so pods are not reported before it is known.
    node.known().await;
    let mut uid = node.node().and_then(|node| node.metadata.uid.clone());
    loop {
        // Biased: the node is rarely recreated, and the other branch does not end.
        tokio::select! {
            biased;
            () = recreated(node, &mut uid) => info!("Node object was recreated, listing all pods again"),
            () = source.follow() => {}
        }
    }
}

/// Waits until the Node object has another uid. The API server's store may have been replaced too, so that the
/// watched state is no longer valid. If the new store has reached the same resource version, the watch does
/// not fail.
async fn recreated(node: &NodeHandle, uid: &mut Option<String>) {
    loop {
        let other = node.wait_for_node(|node| node.metadata.uid != *uid).await;
        // The first object is not a recreated one.
        if std::mem::replace(uid, other.metadata.uid.clone()).is_some() {
            return;
        }
    }
}

/// The inputs of the status writer and the mirror pods.
#[derive(Debug)]
pub(crate) struct WriterInputs<'a> {
    /// The pods as the API server returned them.
    pub(crate) copies: Option<ApiCopies>,
    pub(crate) states: WorkerStates,
    /// Measures pod starts and status writes.
    pub(crate) timer: Option<StartTimer>,
    pub(crate) statuses: &'a StatusReader,
}

/// Starts the status writer and the mirror pods; returns the channel that takes the static pods.
pub(crate) fn start_status_writer(
    settings: &Settings,
    ports: &Ports,
    inputs: WriterInputs<'_>,
    panics: &PanicGuard,
    tasks: &mut Tasks,
) -> Option<watch::Sender<StaticPods>> {
    let WriterInputs { copies, states, timer, statuses } = inputs;
    let (cluster, copies) = ports.cluster.as_ref().zip(copies)?;
    let StartTimer { times: starts, metrics } = timer?;
    let writer = Writer::new(WriterParts {
        api: Arc::clone(&cluster.pods),
        writes: Arc::clone(&cluster.pod_writes),
        copies: Arc::new(KnownCopies {
            copies: copies.clone(),
            states,
            statuses: statuses.clone(),
        }),
        statuses: statuses.clone(),
        clock: Arc::clone(&ports.clock),
        starts,
        metrics,
        panics: panics.clone(),
    });
    tasks.spawn("statuses", |stop| writer.run(stop));
    let (statics, pods) = watch::channel(StaticPods::default());
    let mirrors = Mirrors::new(MirrorParts {
        api: Arc::clone(&cluster.pods),
        writes: Arc::clone(&cluster.pod_writes),
        copies,
        pods,
        node: settings.node_name.clone(),
        clock: Arc::clone(&ports.clock),
        panics: panics.clone(),
    });
    tasks.spawn("mirror pods", |stop| mirrors.run(stop));
    Some(statics)
}

/// The pods as the source and the workers have them, for the status writer.
#[derive(Debug)]
struct KnownCopies {
    copies: ApiCopies,
    states: WorkerStates,
    statuses: StatusReader,
}

impl ApiView for KnownCopies {
    fn copy(&self, uid: &PodUid) -> Option<Arc<Pod>> {
        self.copies.copy(uid, self.statuses.static_pod(uid).as_ref())
    }

    fn changed_since(&self, change: u64) -> (Vec<PodUid>, u64) {
        self.copies.changed_since(change)
    }

    fn changes(&self) -> watch::Receiver<u64> {
        self.copies.changes()
    }

    fn listings(&self) -> u64 {
        self.copies.listings()
    }

    fn may_run(&self, uid: &PodUid) -> bool {
        // Only a pod with a worker or a rejected one has a status.
        self.states.get(uid).is_some_and(|state| !state.terminated)
    }
}
