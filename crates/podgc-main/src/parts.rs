//! The parts that the tasks of the program share.

use std::hash::{BuildHasher as _, RandomState};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result};
use cluster::{Cluster, Connection, Exclusion, ProxyVariables, Rate, Source};
use config::pod_gc::{Election as Elected, PodGcArguments};
use hostfs::HostSegments;
use journal::{DiskJournal, Ledger};
use podgc::cache::{Cache, SharedCache};
use podgc::election::{Election, ElectionPorts, ElectionSettings};
use podgc::metrics::Metrics;
use podgc::plan::Order;
use process::clock::SystemClock;
use process::version::FERROLET;
use prometheus::Registry;

/// The user agent. The API server uses the part before the slash as the manager of the fields that are written.
const USER_AGENT: &str = concat!("ferrolet-pod-gc/", env!("CARGO_PKG_VERSION"));
/// The component that writes events.
const COMPONENT: &str = "ferrolet-pod-gc";

/// The journal in a state directory.
pub fn journal_dir(state_dir: &Path) -> PathBuf {
    state_dir.join("journal")
}

/// The shared parts.
pub(crate) struct Parts {
    pub(crate) cluster: Arc<Cluster>,
    pub(crate) cache: Arc<SharedCache>,
    pub(crate) registry: Registry,
    pub(crate) metrics: Metrics,
    pub(crate) journal: Arc<DiskJournal>,
    pub(crate) ledger: Arc<Ledger>,
    pub(crate) election: Option<Arc<Election>>,
}

impl Parts {
    /// Connects to the API server and builds the parts.
    pub(crate) async fn new(args: &PodGcArguments) -> Result<Self> {
        let registry = Registry::new();
        let metrics = Metrics::new(&registry).context("count deletions")?;
        let cluster = Arc::new(cluster(args, &registry).await?);
        let order = if args.terminated.by_finish { Order::Finish } else { Order::Creation };
        let cache = Arc::new(SharedCache::new(Cache::new(order, args.terminated.ttl.is_some())));
        let segments = Arc::new(HostSegments::new(journal_dir(&args.state_dir)));
        let clock = Arc::new(SystemClock);
        let journal = Arc::new(DiskJournal::new(segments, clock, FERROLET, args.journal_bytes));
        let ledger = Ledger::new(Arc::clone(&journal) as _, &registry);
        let ledger = Arc::new(ledger.context("count deletions")?);
        let election = args.election.as_ref();
        let election = election.map(|elected| Arc::new(election_of(elected, &cluster, &metrics)));
        Ok(Self { cluster, cache, registry, metrics, journal, ledger, election })
    }
}

async fn cluster(args: &PodGcArguments, registry: &Registry) -> Result<Cluster> {
    let server = &args.server;
    let (kubeconfig, master, proxies) =
        (server.kubeconfig.clone(), server.master.as_deref(), ProxyVariables::from_environment());
    let found = Connection::find_through(kubeconfig, master, USER_AGENT, &proxies);
    let connection = found.await.context("find the API server")?;
    let exclusion = Exclusion {
        labels: args.exclude_labels.clone(),
        annotations: args.exclude_annotations.clone(),
    };
    let rate = Rate { per_second: server.qps, burst: server.burst };
    let source = Source { component: COMPONENT, host: host_name() };
    let cluster = Cluster::new(connection, rate, exclusion, source);
    cluster.count_calls(registry).context("count calls")?;
    Ok(cluster)
}

fn election_of(elected: &Elected, cluster: &Arc<Cluster>, metrics: &Metrics) -> Election {
    let identity = format!("{}_{}", host_name(), random_uuid());
    let settings = ElectionSettings::new(elected, identity);
    let ports = ElectionPorts::new(cluster, Arc::new(SystemClock));
    Election::new(settings, ports, metrics.clone())
}

/// The name of this machine.
pub(crate) fn host_name() -> String {
    let name = rustix::system::uname().nodename().to_string_lossy().trim().to_lowercase();
    if name.is_empty() { "localhost".to_owned() } else { name }
}

/// Distinguishes processes, also successive ones on one machine.
fn random_uuid() -> String {
    let half = || RandomState::new().hash_one(std::process::id());
    let (first, second) = (half(), half());
    format!(
        "{:08x}-{:04x}-4{:03x}-{:04x}-{:012x}",
        first >> 32,
        (first >> 16) & 0xffff,
        first & 0xfff,
        0x8000 | ((second >> 48) & 0x3fff),
        second & 0xffff_ffff_ffff,
    )
}
