//! `ferrolet run`: reads the configuration, finds the runtime, and runs until told to stop.

use std::collections::BTreeSet;
use std::net::{SocketAddr, ToSocketAddrs as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use config::{CgroupDriver as Configured, FerroletConfiguration, GoDuration, KubeletConfiguration};
use cri::{CriRuntime, Deadlines, Endpoint, Operations};
use fetch::Fetcher;
use gc::policy::ContainerPolicy;
use hostfs::{HostPacketFilter, HostSegments, Pool};
use model::cgroup::CgroupDriver;
use model::ports::cgroups::Cgroups;
use model::ports::clock::WallClock as _;
use model::ports::events::NodeEvents;
use model::ports::http::Headers;
use model::ports::runtime::{Runtime, RuntimeFeatures, RuntimeInfo};
use model::trouble::Trouble;
use process::clock::SystemClock;
use process::klog;
use process::log_events::{EarlyEvents, LoggedEvents};
use process::memory;
use process::run_async;
use process::signals::Signals;
use process::systemd;
use process::traces::{self, Traces};
use process::version::USER_AGENT;
use runtime::decide::{BackoffLimits, NodeSettings};
use server::EventLimits;
use tokio::net::UnixListener;
use tokio::time::Instant;
use tracing::{error, info, warn};

use crate::cgroup_driver::{DriverAnswer, cgroup_driver};
use crate::cgroup_metrics::TimedCgroups;
use crate::cluster_mode::{GivenNode, connect, own_node, tell_setup_failed};
use crate::decide::former_devices::former_devices;
use crate::decide::node::{admission_node, go_arch};
use crate::decide::node_resources::{check_reserved, node_resources};
use crate::decide::swap::check_swap;
use crate::feature_metrics::{tell_features, tell_losing_support};
use crate::kernel_settings::set_kernel;
use crate::node_cgroups;
use crate::node_settings::{asked_ips, node_ips, node_settings, with_ids_of_pods};
use crate::pod_cidr::tell_pod_cidr;
use crate::run_args::RunArgs;
use crate::runtime_note::{CgroupsNote, RuntimeNote};
use crate::wiring::node_api::{NodeApiOptions, NodeApiPorts};
use crate::wiring::{
    Agent, ImageRules, Local, ManifestUrl, Node, NodeCgroups, PodResourcesSocket, Ports, Registry,
    Settings,
};

/// How long to wait between two tries to reach the runtime at the start.
const RUNTIME_RETRY: Duration = Duration::from_secs(1);

/// How long the start waits for what the runtime can do, which hardly any pod asks for.
const FEATURES_PATIENCE: Duration = Duration::from_secs(2);

/// The shortest period at which anything is done again and again.
const SHORTEST_PERIOD: Duration = Duration::from_millis(100);

/// Where the journal of removals is, below the root directory.
pub const JOURNAL: &str = "ferrolet/journal";

/// How long an agent that was killed may take to be gone. Another one that goes on is told of after it.
const LAST_AGENT: Duration = Duration::from_secs(3);

/// Runs the agent.
pub fn run(args: RunArgs, verbosity: klog::Verbosity, traces: Option<Traces>) -> Result<()> {
    args.warn_of_settings();
    let config = args.config;
    let watchdog = systemd::watchdog()?;
    let node_name = node_name(args.hostname_override.as_deref())?;
    hostfs::lay_out(&args.root_dir)
        .with_context(|| format!("set up the root directory {}", args.root_dir.display()))?;
    let _lock = hostfs::claim_within(&args.root_dir.join("ferrolet"), LAST_AGENT)
        .with_context(|| format!("use the root directory {}", args.root_dir.display()))?;
    if let Err(error) = hostfs::set_oom_score_adj(config.oom_score_adj) {
        warn!(%error, wanted = config.oom_score_adj, "the kernel may kill the agent before others when memory is short");
    }
    allow_open_files(config.max_open_files);
    let machine = hostfs::machine().context("look at the machine")?;
    check_swap(&config, &machine)?;
    let disk = hostfs::disk_bytes(&args.root_dir).context("look at the disk")?;
    let capacity = node_resources(&config, args.node, &machine, disk).capacity;
    check_reserved(&config, args.node, &capacity)?;
    let asked_ips = asked_ips(&args.node_ip)?;
    let node = node_settings(&config, args.node, &args.root_dir, machine, disk);
    let mut node = with_ids_of_pods(node, config.max_pods)?;
    node.asked_ips.clone_from(&asked_ips);
    let (arch, allocatable) = (go_arch(std::env::consts::ARCH), node.allocatable.clone());
    let admission = admission_node(&config, &node_name, arch, &args.node_labels, allocatable);
    check_sources(&config, args.kubeconfig.as_deref())?;
    let mut settings = settings(&config, node_name, node, admission);
    settings.host_ips = node_ips(&asked_ips, &settings.node_name, &hostfs::by_default_route());
    if args.kubeconfig.is_some() {
        let told = GivenNode {
            labels: args.node_labels,
            ips: asked_ips,
            external_cloud: args.external_cloud,
            capacity,
            former_devices: former(),
        };
        settings.own_node = Some(own_node(&config, &settings, told));
    }
    settings.apply(&args.own);
    settings.container_gc = args.collection.containers;
    settings.images = args.collection.images;
    let socket = hostfs::listen(&args.root_dir.join("ferrolet/agent.sock"))
        .context("open the agent's socket")?;
    hostfs::share_one_heap();
    let here = Here {
        root_dir: &args.root_dir,
        kubeconfig: args.kubeconfig,
        socket: &socket,
        verbosity,
        traces,
        watchdog,
        own: &args.own,
        generates_certificate: args.generates_certificate,
        flags: &args.flags,
    };
    run_async(serve(&config, settings, here)).context("start the async runtime")?
}

/// The resources that device plugins gave to an upstream kubelet, if there was one here before.
fn former() -> BTreeSet<String> {
    let found = hostfs::device_checkpoint().context("read it");
    let names = found.and_then(|note| {
        note.map_or(Ok(BTreeSet::new()), |note| former_devices(&note).context("understand it"))
    });
    names.unwrap_or_else(|error| {
        warn!(%error, "the checkpoint of devices cannot be used: their numbers stay as they are");
        BTreeSet::new()
    })
}

/// Lets the agent have so many files open. It runs with fewer, too; with none it could not.
fn allow_open_files(wanted: i64) {
    let Some(most) = u64::try_from(wanted).ok().filter(|most| *most > 0) else { return };
    match hostfs::set_open_files(most) {
        Ok(may) if may == most => {}
        Ok(may) => warn!(wanted, may, "the agent may not have so many files open"),
        Err(error) => warn!(wanted, %error, "cannot say how many files the agent may have open"),
    }
}

/// Pods must come from somewhere.
fn check_sources(config: &KubeletConfiguration, kubeconfig: Option<&Path>) -> Result<()> {
    let has_manifests = !config.static_pod_path.is_empty() || !config.static_pod_url.is_empty();
    if !has_manifests && kubeconfig.is_none() {
        bail!(
            "neither staticPodPath nor staticPodURL is set: \
             without them and without an API server (--kubeconfig) there are no pods"
        );
    }
    Ok(())
}

/// The node's name: as asked for, else the machine's host name; lower case in any case.
pub fn node_name(wanted: Option<&str>) -> Result<String> {
    let uname = rustix::system::uname();
    let name = match wanted {
        Some(name) => name,
        None => uname.nodename().to_str().context("the machine's host name is not text")?,
    };
    let name = name.trim().to_lowercase();
    if name.is_empty() {
        bail!("the node has no name: give the machine a host name or use --hostname-override");
    }
    Ok(name)
}

fn settings(
    config: &KubeletConfiguration,
    node_name: String,
    node: NodeSettings,
    admission: Node,
) -> Settings {
    let back_off = config.restart_back_off();
    let gates = config.features();
    Settings {
        node_name,
        // Asked of the runtime before anything starts.
        runtime_name: String::new(),
        manifests: Some(PathBuf::from(&config.static_pod_path))
            .filter(|path| !path.as_os_str().is_empty()),
        manifests_period: at_least(
            "fileCheckFrequency",
            config.file_check_frequency,
            SHORTEST_PERIOD,
        ),
        manifest_url: manifest_url(config),
        admission,
        node,
        // What was found out of the machine says.
        host_ips: Vec::new(),
        restart_rules: gates.enabled("ContainerRestartRules"),
        unsafe_sysctls: config.allowed_unsafe_sysctls.clone(),
        pod_logs: PathBuf::from(&config.pod_logs_dir),
        // These and how events are kept: the agent's own settings say.
        container_links: PathBuf::new(),
        events: EventLimits::default(),
        journal_bytes: 0,
        // So do these, and flags.
        container_gc: ContainerPolicy::default(),
        // So do these in part.
        images: ImageRules::default(),
        // Only a node of a cluster says anything of itself.
        own_node: None,
        objects: objects::Settings::of(config),
        // The runtime says who makes them.
        cgroups: NodeCgroups::default(),
        resync: at_least("syncFrequency", config.sync_frequency, Duration::from_secs(1)),
        healthz: healthz_address(config),
        restart_backoff: BackoffLimits { base: back_off.initial, max: back_off.max },
        pleg: pleg::Settings {
            // Hints are on by default; whoever turns the gate off gets the plain relist.
            hints: gates.asked("EventedPLEG") != Some(false),
            ..pleg::Settings::default()
        },
    }
}

impl Settings {
    /// Takes over what the agent's own settings say.
    fn apply(&mut self, own: &FerroletConfiguration) {
        // The runtime's client and the node's API have settings of their own.
        let FerroletConfiguration { pleg, events, gc, container_links_dir, .. } = own;
        let count = |count: u32| usize::try_from(count).unwrap_or(usize::MAX);
        self.container_links = PathBuf::from(container_links_dir);
        self.journal_bytes = gc.journal.max_bytes.into();
        self.events = EventLimits { per_pod: count(events.per_pod), in_all: count(events.in_all) };
        self.pleg = pleg::Settings {
            hints: self.pleg.hints,
            relist_period: pleg.relist_period.to_std(),
            relist_period_with_hints: pleg.relist_period_with_hints.to_std(),
            relist_threshold: pleg.relist_threshold.to_std(),
            inspection_deadline: pleg.inspection_deadline.to_std(),
            parallel_inspections: count(pleg.parallel_inspections),
        };
    }
}

/// Where health is told. As with the kubelet, an address that leads nowhere does not stop the agent.
fn healthz_address(config: &KubeletConfiguration) -> Option<SocketAddr> {
    let (host, port) = (config.healthz_bind_address.as_str(), config.healthz_port);
    if port == 0 {
        return None;
    }
    match (host, port).to_socket_addrs() {
        Ok(mut addresses) => addresses.next(),
        Err(error) => {
            error!(host, %error, "healthzBindAddress leads nowhere; health is not told");
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

/// A duration that is not shorter than makes sense. Upstream takes any; a period of nothing would keep
/// the node busy with nothing else.
fn at_least(field: &'static str, wanted: GoDuration, least: Duration) -> Duration {
    let wanted = wanted.to_std();
    if wanted < least {
        warn!(field, ?wanted, ?least, "too short; using the least");
    }
    wanted.max(least)
}

/// Where the agent is asked, and where it leaves its notes.
struct Here<'a> {
    root_dir: &'a Path,
    kubeconfig: Option<PathBuf>,
    socket: &'a hostfs::Socket,
    verbosity: klog::Verbosity,
    traces: Option<Traces>,
    /// How often the service manager wants to hear that the agent is well.
    watchdog: Option<Duration>,
    /// The settings of our own.
    own: &'a FerroletConfiguration,
    /// Whether no certificate for the node's API is configured.
    generates_certificate: bool,
    /// The flags of the command line.
    flags: &'a [(String, String)],
}

impl<'a> Here<'a> {
    fn node_api(&self, config: &'a KubeletConfiguration, node: &'a str) -> NodeApiOptions<'a> {
        NodeApiOptions {
            config,
            own: self.own,
            node,
            in_cluster: self.kubeconfig.is_some(),
            generates_certificate: self.generates_certificate,
            root_dir: self.root_dir,
            flags: self.flags,
        }
    }
}

async fn serve(
    config: &KubeletConfiguration,
    mut settings: Settings,
    mut here: Here<'_>,
) -> Result<()> {
    let mut signals = Signals::listen()?;
    let traces = traces::send(here.traces.take())?;
    // Biased here and below: a signal comes once and ends the agent, whatever it waits for.
    let cluster = tokio::select! {
        biased;
        name = signals.received() => {
            info!(signal = name, "Received signal, stopping");
            return Ok(());
        }
        cluster = connect(here.kubeconfig.clone(), config, &settings.node_name) => cluster?,
    };
    let early = EarlyEvents::default();
    let prepared = tokio::select! {
        biased;
        name = signals.received() => {
            info!(signal = name, "Received signal, stopping");
            return Ok(());
        }
        prepared = prepare(config, &mut settings, &here, &early) => prepared,
    };
    if let (Err(error), Some(cluster)) = (&prepared, &cluster) {
        let (server, now) = (&*cluster.events, SystemClock.now());
        tell_setup_failed(server, &settings.node_name, early.into_kept(), error, now).await;
    }
    let (ports, local) = prepared?;
    let mut agent = Agent::start(&settings, Ports { cluster, ..ports }, Some(local));
    systemd::ready("keeps the pods of this node");
    let alive = systemd::stay_alive(here.watchdog, agent.health());
    let memory = memory::when_quiet(agent.changes(), hostfs::give_back);
    tokio::select! {
        biased;
        name = signals.received() => {
            info!(signal = name, "Received signal, stopping; pods are left running");
            systemd::stopping("pods are left running");
            agent.stop().await;
            Ok(())
        }
        broken = agent.broken() => Err(broken.into()),
        () = alive => unreachable!("it tells without end"),
        () = memory => unreachable!("it watches without end"),
        () = traces => unreachable!("it sends without end"),
    }
}

/// What the agent needs before it can start: the runtime, and what is made with its help.
async fn prepare(
    config: &KubeletConfiguration,
    settings: &mut Settings,
    here: &Here<'_>,
    early: &EarlyEvents,
) -> Result<(Ports, Local)> {
    let metrics = Registry::new();
    tell_features(&metrics, config).context("tell which features are on")?;
    let (endpoint, runtime) = runtime(config, here.own.images.pull_timeout.to_std(), &metrics)?;
    settings.runtime_name = wait_for_runtime(&*runtime, endpoint.path()).await;
    let cgroups = prepare_with_runtime(config, settings, &runtime, &metrics, early).await?;
    let (cgroups, cgroup_pool) = cgroups.unzip();
    info!(node = settings.node_name, manifests = ?settings.manifests, "ferrolet runs");
    let host = hostfs::Host::default();
    let note = runtime_note(settings, &endpoint, cgroups.as_deref());
    note.write(&host, here.root_dir).await.context("note which runtime is used")?;
    let listener = here.socket.listener().context("listen on the agent's socket")?;
    let local = Local {
        listener: UnixListener::from_std(listener).context("listen on the agent's socket")?,
        verbosity: Arc::new(here.verbosity.clone()),
        pod_resources: PodResourcesSocket::of(here.root_dir, config),
        node_api: NodeApiPorts::open(here.node_api(config, &settings.node_name)).await?,
        streaming: Arc::clone(&runtime) as _,
    };
    let packet_filter = packet_filter(config);
    let mut pools = vec![host.pool().clone()];
    pools.extend(cgroup_pool);
    pools.extend(packet_filter.iter().map(|filter| filter.pool().clone()));
    let ports = Ports {
        runtime: Runtime::new(runtime),
        files: Arc::new(host.clone()),
        volumes: Arc::new(host.volumes()),
        http: Arc::new(Fetcher::new(USER_AGENT)),
        pod_http: Arc::new(Fetcher::trusting_anybody(USER_AGENT)),
        logs: Arc::new(host.logs()),
        clock: Arc::new(SystemClock),
        events: Arc::new(LoggedEvents),
        journal: Arc::new(HostSegments::new(here.root_dir.join(JOURNAL))),
        node_events: Arc::new(LoggedEvents),
        pools,
        disks: Arc::new(host),
        cgroups,
        packet_filter: packet_filter.map(|filter| filter as _),
        // Found before all this.
        cluster: None,
        metrics,
    };
    Ok((ports, local))
}

/// The packet filter, if others are to find in it what they expect of a node.
fn packet_filter(config: &KubeletConfiguration) -> Option<Arc<HostPacketFilter>> {
    config.make_iptables_util_chains.then(Arc::default)
}

/// Whoever cleans up after this agent must find the runtime without it.
fn runtime_note(
    settings: &Settings,
    endpoint: &Endpoint,
    cgroups: Option<&dyn Cgroups>,
) -> RuntimeNote {
    let socket = format!("unix://{}", endpoint.path().display());
    let note =
        RuntimeNote::new(socket, settings.pod_logs.clone(), settings.container_links.clone());
    note.with_cgroups(cgroups_note(settings, cgroups))
}

/// The container runtime, and where it listens.
fn runtime(
    config: &KubeletConfiguration,
    pull: Duration,
    metrics: &Registry,
) -> Result<(Endpoint, Arc<CriRuntime>)> {
    let endpoint =
        Endpoint::parse(&config.container_runtime_endpoint).context("containerRuntimeEndpoint")?;
    let image_endpoint =
        Endpoint::parse(config.image_endpoint()).context("imageServiceEndpoint")?;
    let timeout = config.runtime_request_timeout;
    let request = at_least("runtimeRequestTimeout", timeout, Duration::from_secs(1));
    let operations = Operations::new(metrics).context("count calls of the runtime")?;
    let deadlines = Deadlines { request, pull };
    let runtime = CriRuntime::new(&endpoint, &image_endpoint, deadlines);
    Ok((endpoint, Arc::new(runtime.counted(&operations))))
}

/// Reads from the runtime what pods depend on, and creates the cgroups above theirs.
async fn prepare_with_runtime(
    config: &KubeletConfiguration,
    settings: &mut Settings,
    runtime: &CriRuntime,
    metrics: &Registry,
    events: &dyn NodeEvents,
) -> Result<Option<(Arc<dyn Cgroups>, Pool)>> {
    tell_pod_cidr(runtime, &config.pod_cidr).await;
    let in_user_namespace = hostfs::in_user_namespace();
    set_kernel(config, &hostfs::KernelSettings::default(), in_user_namespace)?;
    let cgroups = cgroups(config, settings, runtime, metrics, events).await?;
    settings.admission.runtime = runtime_features(runtime).await;
    Ok(cgroups)
}

/// What the runtime can do. One that does not say in time can do nothing besides what all can, until
/// it is asked again.
async fn runtime_features(runtime: &dyn RuntimeInfo) -> RuntimeFeatures {
    match tokio::time::timeout(FEATURES_PATIENCE, runtime.status()).await {
        Ok(Ok(status)) => return status.features,
        Ok(Err(error)) => warn!(%error, "the runtime does not say what it can do"),
        Err(_) => warn!("the runtime takes long to say what it can do"),
    }
    RuntimeFeatures::default()
}

/// The node's cgroups, if it looks after any: those above the pods' are made, whatever is in the way
/// keeps the agent from starting.
async fn cgroups(
    config: &KubeletConfiguration,
    settings: &mut Settings,
    runtime: &CriRuntime,
    metrics: &Registry,
    events: &dyn NodeEvents,
) -> Result<Option<(Arc<dyn Cgroups>, Pool)>> {
    let asked = cgroup_driver(async || runtime.cgroup_driver().await).await;
    let asked = asked.context("ask the runtime for its cgroup driver")?;
    if asked == DriverAnswer::CannotSay {
        tell_losing_support(metrics)
            .context("tell that the runtime is too old for later versions")?;
    }
    let driver = asked.named().unwrap_or(match config.cgroup_driver {
        Configured::Cgroupfs => CgroupDriver::Cgroupfs,
        Configured::Systemd => CgroupDriver::Systemd,
    });
    let node = &settings.node;
    settings.cgroups = NodeCgroups::new(config, &node.machine, &node.limits, driver)?;
    if !settings.cgroups.is_any() {
        return Ok(None);
    }
    let (port, pool) = node_cgroups::open(driver)?;
    let port = TimedCgroups::new(port, metrics);
    let port: Arc<dyn Cgroups> = Arc::new(port.context("time what is done to cgroups")?);
    node_cgroups::prepare(&*port, &settings.cgroups, events).await?;
    Ok(Some((port, pool)))
}

/// Where whoever cleans up after this agent finds the cgroups of its pods.
fn cgroups_note(settings: &Settings, port: Option<&dyn Cgroups>) -> Option<CgroupsNote> {
    let root = settings.cgroups.per_pod.then(|| settings.cgroups.pods.root.to_string())?;
    Some(CgroupsNote { root, systemd: port?.driver() == CgroupDriver::Systemd })
}

/// Waits until the runtime answers. A node whose runtime comes up late must not need a second start.
async fn wait_for_runtime(runtime: &dyn RuntimeInfo, socket: &Path) -> String {
    let mut trouble = Trouble::default();
    loop {
        match runtime.version().await {
            Ok(version) => {
                let (name, version) = (version.name, version.version);
                let after = trouble.over(Instant::now().into_std()).unwrap_or_default();
                info!(socket = %socket.display(), %name, version, ?after, "container runtime found");
                return name;
            }
            Err(error) => {
                if trouble.failed(Instant::now().into_std()) {
                    warn!(socket = %socket.display(), %error, "container runtime does not answer; trying again");
                    systemd::waiting(&format!("waits for the runtime at {}", socket.display()));
                }
                tokio::time::sleep(RUNTIME_RETRY).await;
            }
        }
    }
}
