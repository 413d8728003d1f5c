//! The settings of an agent on a real machine.

use std::net::{IpAddr, SocketAddr, ToSocketAddrs as _};
use std::path::PathBuf;
use std::time::Duration;

use config::{FerroletConfiguration, GoDuration, KubeletConfiguration};
use eviction::EvictionSettings;
use images::ProviderSettings;
use model::ports::http::Headers;
use model::ports::runtime::RuntimeFeatures;
use runtime::decide::{BackoffLimits, NodeSettings};
use server::EventLimits;
use tracing::{error, warn};

use crate::collection_rules::CollectionRules;
use crate::wiring::{
    ImageAccessSettings, ManifestUrl, Node, NodeCgroups, Projections, Settings, StatisticsRules,
};

/// The shortest period of repeated work.
const SHORTEST_PERIOD: Duration = Duration::from_millis(100);

/// The inputs of the settings that are collected before the runtime is reached.
#[derive(Debug)]
pub(crate) struct StartInputs<'a> {
    pub(crate) config: &'a KubeletConfiguration,
    /// The settings of our own.
    pub(crate) own: &'a FerroletConfiguration,
    /// Rules of garbage collection, from flags and both configurations.
    pub(crate) collection: CollectionRules,
    pub(crate) node_name: String,
    pub(crate) node: NodeSettings,
    /// The node as admission sees it; the runtime's features are not known yet.
    pub(crate) admission: Node,
    /// The node's addresses at the start.
    pub(crate) host_ips: Vec<IpAddr>,
    /// The address of the health endpoint.
    pub(crate) healthz: Option<SocketAddr>,
    /// The Node object; `None` without a cluster.
    pub(crate) own_node: Option<node::Settings>,
}

/// The inputs of the settings that are collected while the agent starts.
#[derive(Debug)]
pub(crate) struct RuntimeFacts {
    /// Its name, which is part of container ids.
    pub(crate) name: String,
    pub(crate) features: RuntimeFeatures,
    /// The credential providers that the flags name.
    pub(crate) providers: Option<ProviderSettings>,
    /// The node's cgroups, by the driver that the runtime uses.
    pub(crate) cgroups: NodeCgroups,
}

impl Settings {
    /// The complete settings.
    pub(crate) fn resolve(inputs: &StartInputs<'_>, runtime: RuntimeFacts) -> Self {
        let StartInputs { config, own, collection, .. } = inputs;
        let (back_off, gates) = (config.restart_back_off(), config.features());
        Self {
            node_name: inputs.node_name.clone(),
            runtime_name: runtime.name,
            manifests: Some(PathBuf::from(&config.static_pod_path))
                .filter(|path| !path.as_os_str().is_empty()),
            manifests_period: at_least(
                "fileCheckFrequency",
                config.file_check_frequency,
                SHORTEST_PERIOD,
            ),
            manifest_url: manifest_url(config),
            pod_logs: PathBuf::from(&config.pod_logs_dir),
            container_links: PathBuf::from(&own.container_links_dir),
            log_rotation: log_rotation(config, own),
            resync: at_least("syncFrequency", config.sync_frequency, Duration::from_secs(1)),
            node: inputs.node.clone(),
            host_ips: inputs.host_ips.clone(),
            admission: Node { runtime: runtime.features, ..inputs.admission.clone() },
            invalid_restart_rules_have_upstream_errors: gates.enabled("ContainerRestartRules"),
            resets_on_restart: gates.enabled("ChangeContainerStatusOnKubeletRestart"),
            unsafe_sysctls: config.allowed_unsafe_sysctls.clone(),
            restart_backoff: BackoffLimits { base: back_off.initial, max: back_off.max },
            pleg: pleg_settings(config, own),
            events: EventLimits {
                per_pod: count(own.events.per_pod),
                in_all: count(own.events.in_all),
            },
            journal_bytes: own.gc.journal.max_bytes.into(),
            container_gc: collection.containers,
            images: collection.images.clone(),
            image_access: ImageAccessSettings {
                providers: runtime.providers,
                ..ImageAccessSettings::new(config, &inputs.node.root_dir)
            },
            cgroups: runtime.cgroups,
            healthz: inputs.healthz,
            own_node: inputs.own_node.clone(),
            objects: objects::Settings::of(config),
            projections: Projections {
                pod_certificates: gates.enabled("PodCertificateRequest"),
                trust_bundles: gates.enabled("ClusterTrustBundleProjection"),
            },
            statistics: statistics_rules(config),
            eviction: EvictionSettings::new(config),
        }
    }
}

/// Volumes are not measured with a period of zero or less, as upstream.
fn statistics_rules(config: &KubeletConfiguration) -> StatisticsRules {
    StatisticsRules {
        volume_period: Some(config.volume_stats_agg_period.to_std())
            .filter(|period| !period.is_zero()),
        own_cgroup: hostfs::own_cgroup(),
        identity: hostfs::identity(),
    }
}

fn log_rotation(config: &KubeletConfiguration, own: &FerroletConfiguration) -> logs::Settings {
    let whole = |number: i32| usize::try_from(number).unwrap_or(1);
    logs::Settings {
        // A negative size turns rotation off, like upstream.
        max_size: u64::try_from(config.container_log_max_size.value()).ok(),
        max_files: whole(config.container_log_max_files),
        workers: whole(config.container_log_max_workers),
        monitor_interval: config.container_log_monitor_interval.to_std(),
        max_bytes_per_pod: u64::try_from(own.logs.max_bytes_per_pod).ok().filter(|max| *max > 0),
    }
}

fn pleg_settings(config: &KubeletConfiguration, own: &FerroletConfiguration) -> pleg::Settings {
    let pleg = &own.pleg;
    pleg::Settings {
        // Runtime events are enabled by default; without the gate, there are only relists.
        hints: config.features().explicit_value("EventedPLEG") != Some(false),
        relist_period: pleg.relist_period.to_std(),
        relist_period_with_hints: pleg.relist_period_with_hints.to_std(),
        relist_threshold: pleg.relist_threshold.to_std(),
        inspection_deadline: pleg.inspection_deadline.to_std(),
        parallel_inspections: count(pleg.parallel_inspections),
    }
}

fn count(count: u32) -> usize {
    usize::try_from(count).unwrap_or(usize::MAX)
}

/// The address of the health endpoint. As with the kubelet, an address that cannot be resolved does not stop the agent.
pub(crate) fn healthz_address(config: &KubeletConfiguration) -> Option<SocketAddr> {
    let (host, port) = (config.healthz_bind_address.as_str(), config.healthz_port);
    if port == 0 {
        return None;
    }
    match (host, port).to_socket_addrs() {
        Ok(mut addresses) => addresses.next(),
        Err(error) => {
            error!(host, %error, "Cannot resolve healthzBindAddress, health is not served");
            None
        }
    }
}

fn manifest_url(config: &KubeletConfiguration) -> Option<ManifestUrl> {
    let url = Some(config.static_pod_url.clone()).filter(|url| !url.is_empty())?;
    let headers = Headers(config.static_pod_url_header.clone().into_iter().collect());
    let period = at_least("httpCheckFrequency", config.http_check_frequency, SHORTEST_PERIOD);
    Some(ManifestUrl { url, headers, period })
}

/// A duration with a lower limit. Upstream takes any; a period of zero would keep
/// the node busy for nothing.
pub(crate) fn at_least(field: &'static str, wanted: GoDuration, least: Duration) -> Duration {
    let wanted = wanted.to_std();
    if wanted < least {
        warn!(field, ?wanted, ?least, "Duration is too short, using the minimum");
    }
    wanted.max(least)
}
