//! The inputs of the agent: its ports and settings.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use allocation::decide::admission::Node;
use eviction::EvictionSettings;
use gc::policy::ContainerPolicy;
use hostfs::Pool;
use journal::SMALLEST;
use model::ports::cgroups::Cgroups;
use model::ports::clock::WallClock;
use model::ports::disk::Disks;
use model::ports::events::{Events, NodeEvents};
use model::ports::files::HostFiles;
use model::ports::http::{Headers, HttpGet};
use model::ports::log_files::LogFiles;
use model::ports::logs::ContainerLogs;
use model::ports::packet_filter::PacketFilter;
use model::ports::probes::ProbeClient;
use model::ports::programs::Programs;
use model::ports::runtime::Runtime;
use model::ports::segments::Segments;
use model::ports::volumes::VolumeHost;
use prometheus::Registry;
use runtime::decide::{BackoffLimits, NodeSettings};
use server::EventLimits;

use crate::cluster_mode::ClusterPorts;
use crate::decide::node::unlimited_node;
use crate::image_access_settings::ImageAccessSettings;
use crate::image_gc::ImageRules;
use crate::node_cgroups::NodeCgroups;
use crate::statistics::UsagePorts;
use crate::wiring::statistics::StatisticsRules;

/// The ports of the agent.
#[derive(Debug, Clone)]
pub struct Ports {
    /// The container runtime.
    pub runtime: Runtime,
    /// The host's files.
    pub files: Arc<dyn HostFiles>,
    /// Mounts and volume directories.
    pub volumes: Arc<dyn VolumeHost>,
    /// HTTP requests.
    pub http: Arc<dyn HttpGet>,
    /// HTTP requests to pods of this node, with any certificate.
    pub pod_http: Arc<dyn HttpGet>,
    /// Sends probe requests to containers.
    pub probes: Arc<dyn ProbeClient>,
    /// The logs of containers.
    pub logs: Arc<dyn ContainerLogs>,
    /// The log files of containers, for rotation; `None` where there are no files.
    pub log_files: Option<Arc<dyn LogFiles>>,
    /// Runs credential provider plugins.
    pub programs: Arc<dyn Programs>,
    /// The wall clock.
    pub clock: Arc<dyn WallClock>,
    /// Receives pod events.
    pub events: Arc<dyn Events>,
    /// Stores the journal of removals.
    pub journal: Arc<dyn Segments>,
    /// Receives node events.
    pub node_events: Arc<dyn NodeEvents>,
    /// Measures disks.
    pub disks: Arc<dyn Disks>,
    /// The host's cgroups; `None` if the agent manages none.
    pub cgroups: Option<Arc<dyn Cgroups>>,
    /// Measures the machine and its cgroups; `None` without a real machine.
    pub usage: Option<UsagePorts>,
    /// The packet filter; `None` if the agent maintains no chains.
    pub packet_filter: Option<Arc<dyn PacketFilter>>,
    /// The API server; `None` without a cluster.
    pub cluster: Option<ClusterPorts>,
    /// The threads for blocking calls, so that stuck calls are reported.
    pub pools: Vec<Pool>,
    /// The registry with the metrics of the ports; the agent adds its own.
    pub metrics: Registry,
    /// The registry of the probe metrics, which have a separate endpoint.
    pub probe_metrics: Registry,
}

/// The settings of the agent.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The name of this node.
    pub node_name: String,
    /// The name of the container runtime, which is part of container ids.
    pub runtime_name: String,
    /// The path of manifests, if any.
    pub manifests: Option<PathBuf>,
    /// How often manifests are read again.
    pub manifests_period: Duration,
    /// The URL that serves manifests, if there is one.
    pub manifest_url: Option<ManifestUrl>,
    /// The directory of container logs.
    pub pod_logs: PathBuf,
    /// The directory of symlinks to container logs.
    pub container_links: PathBuf,
    /// The rules of log rotation.
    pub log_rotation: logs::Settings,
    /// How often a pod is synced without an event.
    pub resync: Duration,
    /// The node's settings for pods.
    pub node: NodeSettings,
    /// The node's addresses at the start; in a cluster its object has later ones.
    pub host_ips: Vec<IpAddr>,
    /// The node as admission sees it.
    pub admission: Node,
    /// Whether containers may have their own restart policies and rules.
    pub invalid_restart_rules_have_upstream_errors: bool,
    /// Sysctls that pods may set in addition to the safe ones.
    pub unsafe_sysctls: Vec<String>,
    /// The back-off of failing containers.
    pub restart_backoff: BackoffLimits,
    /// Whether probed containers that already run at the start count as not ready until their probes pass again.
    pub resets_on_restart: bool,
    /// The PLEG's periods and limits.
    pub pleg: pleg::Settings,
    /// How many events are stored.
    pub events: EventLimits,
    /// The maximum size of the journal in bytes.
    pub journal_bytes: u64,
    /// How many dead containers are kept, and for how long.
    pub container_gc: ContainerPolicy,
    /// The rules of image garbage collection.
    pub images: ImageRules,
    /// When pods are evicted.
    pub eviction: EvictionSettings,
    /// Credentials of pulls, and which pods may use which images.
    pub image_access: ImageAccessSettings,
    /// The cgroups of the node.
    pub cgroups: NodeCgroups,
    /// The address of the health endpoint.
    pub healthz: Option<SocketAddr>,
    /// The settings of the Node object; `None` without a cluster.
    pub own_node: Option<node::Settings>,
    /// How objects that pods refer to are read.
    pub objects: objects::Settings,
    /// Which certificates projected volumes support.
    pub projections: Projections,
    /// What statistics measure.
    pub statistics: StatisticsRules,
}

/// Which certificates projected volumes support. Upstream's feature gates are off by default.
#[derive(Debug, Clone, Copy, Default)]
pub struct Projections {
    /// Cluster trust bundles.
    pub trust_bundles: bool,
    /// Pod certificates.
    pub pod_certificates: bool,
}

impl Settings {
    /// The settings of a node without a source of pods and without limits, with upstream's defaults otherwise.
    pub fn new(node_name: &str, runtime_name: &str, node: NodeSettings) -> Self {
        Self {
            node_name: node_name.to_owned(),
            runtime_name: runtime_name.to_owned(),
            manifests: None,
            manifests_period: Duration::from_secs(20),
            manifest_url: None,
            pod_logs: "/var/log/pods".into(),
            container_links: "/var/log/containers".into(),
            log_rotation: logs::Settings::default(),
            resync: Duration::from_mins(1),
            node,
            host_ips: Vec::new(),
            admission: unlimited_node(node_name),
            invalid_restart_rules_have_upstream_errors: true,
            unsafe_sysctls: Vec::new(),
            restart_backoff: BackoffLimits::up_to(Duration::from_mins(5)),
            resets_on_restart: false,
            pleg: pleg::Settings::default(),
            events: EventLimits::default(),
            journal_bytes: SMALLEST,
            container_gc: ContainerPolicy::default(),
            images: ImageRules::default(),
            eviction: EvictionSettings::default(),
            image_access: ImageAccessSettings::default(),
            cgroups: NodeCgroups::default(),
            healthz: None,
            own_node: None,
            objects: objects::Settings::default(),
            projections: Projections::default(),
            statistics: StatisticsRules::default(),
        }
    }

    /// The directory of the agent's checkpoints.
    pub fn state(&self) -> PathBuf {
        self.node.root_dir.join("ferrolet/state")
    }

    /// The parent of the pod directories.
    pub fn pods(&self) -> PathBuf {
        self.node.root_dir.join("pods")
    }
}

/// A URL that serves manifests.
#[derive(Debug, Clone)]
pub struct ManifestUrl {
    /// The URL itself.
    pub url: String,
    /// The headers of the request.
    pub headers: Headers,
    /// How often it is requested.
    pub period: Duration,
}
