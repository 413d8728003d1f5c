//! The part of our agent that maintains the node, without the rest.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result};
use cluster::{Cluster as ApiServer, Connection, Exclusion, Rate, Source};
use config::KubeletConfiguration;
use model::ports::runtime::Runtime;
use node::{NodeHandle, NodeParameters, NodePorts, Settings};
use podspec::quantity::Quantity;
use podspec::resources::Amounts;
use testkit::addresses::MemoryAddresses;
use testkit::clock::VirtualClock;
use testkit::events::KeptNodeEvents;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// A node that runs in this process. It ends when it is dropped.
#[derive(Debug)]
pub(crate) struct OurNode {
    pub(crate) handle: NodeHandle,
    pub(crate) events: Arc<KeptNodeEvents>,
    _tasks: JoinSet<()>,
}

/// A client of the API server of a kubeconfig.
pub(crate) async fn api_server(kubeconfig: &Path) -> Result<ApiServer> {
    let connection = Connection::find(Some(kubeconfig.to_owned()), None, "kubelet/v1.36.3");
    let connection = connection.await.context("connect to the API server")?;
    let rate = Rate { per_second: 50.0, burst: 100 };
    Ok(ApiServer::new(connection, rate, Exclusion::default(), Source::default()))
}

/// The resources of this machine, all of them allocatable.
fn amounts(root: &Path) -> Result<Amounts> {
    let machine = hostfs::machine()?;
    let mut all = vec![
        ("cpu".to_owned(), machine.cpus.to_string()),
        ("memory".to_owned(), machine.memory.to_string()),
        ("pods".to_owned(), "110".to_owned()),
        ("ephemeral-storage".to_owned(), hostfs::disk_bytes(root)?.to_string()),
    ];
    let name = |size: u64| match size {
        size if size.is_multiple_of(1 << 30) => format!("hugepages-{}Gi", size >> 30),
        size if size.is_multiple_of(1 << 20) => format!("hugepages-{}Mi", size >> 20),
        size => format!("hugepages-{}Ki", size >> 10),
    };
    let pages = machine.huge_pages.iter();
    all.extend(pages.map(|pages| (name(pages.size), (pages.size * pages.count).to_string())));
    all.into_iter().map(|(name, text)| Ok((name, Quantity::parse(&text)?))).collect()
}

/// The identity of a node.
#[derive(Debug)]
pub(crate) struct NodeUser<'a> {
    pub(crate) name: &'a str,
    pub(crate) address: String,
    pub(crate) root: &'a Path,
    pub(crate) labels: &'a [(&'a str, &'a str)],
}

pub(crate) fn settings(who: &NodeUser<'_>, config: &KubeletConfiguration) -> Result<Settings> {
    let labels = who.labels.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    let own = NodeParameters {
        name: who.name.to_owned(),
        hostname: who.name.to_owned(),
        architecture: "amd64".to_owned(),
        labels: labels.collect(),
        ips: vec![who.address.parse()?],
        kubelet_version: "v1.36.3+ferrolet.0.1.0".to_owned(),
        identity: hostfs::identity(),
        capacity: amounts(who.root)?,
        allocatable: amounts(who.root)?,
        ..NodeParameters::default()
    };
    Ok(Settings::new(config, own))
}

impl OurNode {
    pub(crate) async fn start(
        kubeconfig: &Path,
        who: &NodeUser<'_>,
        config: &KubeletConfiguration,
        runtime: Runtime,
    ) -> Result<Self> {
        let server = Arc::new(api_server(kubeconfig).await?);
        let events = Arc::<KeptNodeEvents>::default();
        let ports = NodePorts {
            metrics: node::Metrics::new(&prometheus::Registry::new())?,
            api: server.clone(),
            leases: server.clone(),
            csi_nodes: server,
            runtime,
            addresses: Arc::new(MemoryAddresses::one(&who.address)),
            events: events.clone(),
            clock: Arc::new(VirtualClock::starting_at(jiff::Timestamp::now())),
            checks: Vec::new(),
        };
        let (tasks, handle) = node::node(settings(who, config)?, ports);
        let stop = CancellationToken::new();
        let mut set = JoinSet::new();
        set.spawn(tasks.feed.run(stop.clone()));
        set.spawn(tasks.observer.run(stop.clone()));
        set.spawn(tasks.check.run(stop.clone()));
        set.spawn(tasks.status.run(stop.clone()));
        set.spawn(tasks.lease.run(stop.clone()));
        set.spawn(tasks.csi_node.run(stop.clone()));
        set.spawn(tasks.pod_cidrs.run(stop));
        Ok(Self { handle, events, _tasks: set })
    }
}
