//! What the agent is given: the outside, and what it is told.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use allocation::decide::admission::Node;
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
use crate::decide::node::roomy;
use crate::image_access_settings::ImageAccessSettings;
use crate::image_gc::ImageRules;
use crate::node_cgroups::NodeCgroups;

/// The outside, as the agent reaches it.
#[derive(Debug, Clone)]
pub struct Ports {
    /// The container runtime.
    pub runtime: Runtime,
    /// The host's files.
    pub files: Arc<dyn HostFiles>,
    /// Mounts and volume directories.
    pub volumes: Arc<dyn VolumeHost>,
    /// The web.
    pub http: Arc<dyn HttpGet>,
    /// What the pods of this node serve, whoever vouches for them.
    pub pod_http: Arc<dyn HttpGet>,
    /// Sends probe requests to containers.
    pub probes: Arc<dyn ProbeClient>,
    /// The logs of containers.
    pub logs: Arc<dyn ContainerLogs>,
    /// Their files, to be rotated; none where there are none.
    pub log_files: Option<Arc<dyn LogFiles>>,
    /// Runs credential provider plugins.
    pub programs: Arc<dyn Programs>,
    /// The time of day.
    pub clock: Arc<dyn WallClock>,
    /// Whom people hear from.
    pub events: Arc<dyn Events>,
    /// What the journal of removals is kept in.
    pub journal: Arc<dyn Segments>,
    /// Whom they hear from of the node itself.
    pub node_events: Arc<dyn NodeEvents>,
    /// What measures disks.
    pub disks: Arc<dyn Disks>,
    /// The host's cgroups; none when the node looks after none.
    pub cgroups: Option<Arc<dyn Cgroups>>,
    /// The packet filter; none where nothing is to be made in it.
    pub packet_filter: Option<Arc<dyn PacketFilter>>,
    /// The API server; none where the node stands alone.
    pub cluster: Option<ClusterPorts>,
    /// The threads for files and whatever else blocks, so that calls that do not return are reported.
    pub pools: Vec<Pool>,
    /// What is counted on the way there; what the agent itself counts comes beside it.
    pub metrics: Registry,
    /// The metrics of probes, which have an endpoint of their own.
    pub probe_metrics: Registry,
}

/// What the agent is told.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The name of this node.
    pub node_name: String,
    /// The name of the container runtime, which is part of container ids.
    pub runtime_name: String,
    /// Where manifests are, if anywhere.
    pub manifests: Option<PathBuf>,
    /// How often manifests are looked at.
    pub manifests_period: Duration,
    /// The URL that serves manifests, if there is one.
    pub manifest_url: Option<ManifestUrl>,
    /// Where logs of pods are.
    pub pod_logs: PathBuf,
    /// Where links to logs are.
    pub container_links: PathBuf,
    /// How logs are rotated.
    pub log_rotation: logs::Settings,
    /// How often a pod is looked at without need.
    pub resync: Duration,
    /// The node, as it is configured and found.
    pub node: NodeSettings,
    /// Its addresses as they were at the start; in a cluster its object says later ones.
    pub host_ips: Vec<IpAddr>,
    /// What pods meet on it.
    pub admission: Node,
    /// Whether containers may have policies and rules of their own about when they are restarted.
    pub restart_rules: bool,
    /// Kernel parameters that pods may set besides those that are safe.
    pub unsafe_sysctls: Vec<String>,
    /// How long a container waits that keeps failing.
    pub restart_backoff: BackoffLimits,
    /// Whether probed containers that already run at the start count as not ready until their probes pass again.
    pub resets_on_restart: bool,
    /// How the runtime is observed.
    pub pleg: pleg::Settings,
    /// How many events are kept.
    pub events: EventLimits,
    /// How many bytes the journal of removals takes at most.
    pub journal_bytes: u64,
    /// How many dead containers are kept, and for how long.
    pub container_gc: ContainerPolicy,
    /// Which images go.
    pub images: ImageRules,
    /// Credentials of pulls, and which pods may use which images.
    pub image_access: ImageAccessSettings,
    /// Which cgroups there are.
    pub cgroups: NodeCgroups,
    /// Where it is told whether the agent is well.
    pub healthz: Option<SocketAddr>,
    /// What the node says of itself, where it is one of a cluster.
    pub own_node: Option<node::Settings>,
    /// How the objects that pods refer to are read.
    pub objects: objects::Settings,
    /// Which certificates volumes can have.
    pub projections: Projections,
}

/// Which certificates projected volumes can have. Upstream's feature gates are off unless they are set.
#[derive(Debug, Clone, Copy, Default)]
pub struct Projections {
    /// Those of cluster trust bundles.
    pub trust_bundles: bool,
    /// Those that signers issue for pods.
    pub pod_certificates: bool,
}

impl Settings {
    /// Those of a node without a source of pods and with room for all that come, as upstream has them where it is not told otherwise.
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
            admission: roomy(node_name),
            restart_rules: true,
            unsafe_sysctls: Vec::new(),
            restart_backoff: BackoffLimits::up_to(Duration::from_mins(5)),
            resets_on_restart: false,
            pleg: pleg::Settings::default(),
            events: EventLimits::default(),
            journal_bytes: SMALLEST,
            container_gc: ContainerPolicy::default(),
            images: ImageRules::default(),
            image_access: ImageAccessSettings::default(),
            cgroups: NodeCgroups::default(),
            healthz: None,
            own_node: None,
            objects: objects::Settings::default(),
            projections: Projections::default(),
        }
    }

    /// Where the agent keeps what must survive it.
    pub fn state(&self) -> PathBuf {
        self.node.root_dir.join("ferrolet/state")
    }

    /// Where each pod has a directory of its own.
    pub fn pods(&self) -> PathBuf {
        self.node.root_dir.join("pods")
    }
}

/// A URL that serves manifests.
#[derive(Debug, Clone)]
pub struct ManifestUrl {
    /// The URL itself.
    pub url: String,
    /// What is sent along.
    pub headers: Headers,
    /// How often it is asked.
    pub period: Duration,
}
