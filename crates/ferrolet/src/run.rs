//! `ferrolet run`: reads the configuration, waits for the runtime, and runs until a signal.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use config::{CgroupDriver as Configured, KubeletConfiguration};
use cri::{CriRuntime, Deadlines, Endpoint, Operations};
use fetch::{Fetcher, ProbeDialer};
use hostfs::{HostPacketFilter, HostPrograms, HostSegments, Pool};
use images::ProviderSettings;
use model::cgroup::CgroupDriver;
use model::log_throttle::LogThrottle;
use model::ports::cgroups::Cgroups;
use model::ports::clock::WallClock as _;
use model::ports::runtime::{Runtime, RuntimeFeatures, RuntimeInfo};
use process::clock::SystemClock;
use process::klog;
use process::log_events::{EarlyEvents, LoggedEvents};
use process::memory;
use process::run_async;
use process::signals::Signals;
use process::systemd;
use process::traces::{self, Traces};
use process::version::USER_AGENT;
use runtime::decide::NodeSettings;
use tokio::net::UnixListener;
use tokio::time::Instant;
use tracing::{info, warn};

use crate::cgroup_driver::{DriverAnswer, cgroup_driver};
use crate::cgroup_metrics::TimedCgroups;
use crate::cluster_mode::{
    CertificateSettings, NodeInputs, connect, own_node, report_setup_failed,
};
use crate::decide::former_devices::former_devices;
use crate::decide::node::{admission_node, go_arch};
use crate::decide::node_resources::{check_reserved, node_resources};
use crate::decide::swap::check_swap;
use crate::feature_metrics::{register_features, register_losing_support};
use crate::kernel_settings::set_kernel;
use crate::node_cgroups;
use crate::node_settings::{node_ips, node_settings, parse_node_ips, with_ids_of_pods};
use crate::pod_cidr::set_pod_cidr;
use crate::run_args::{ProviderPaths, RunArgs};
use crate::runtime_note::{CgroupsNote, RuntimeNote};
use crate::start_settings::{RuntimeFacts, StartInputs, at_least, healthz_address};
use crate::wiring::node_api::{NodeApiOptions, NodeApiPorts};
use crate::wiring::{
    Agent, ClusterPorts, Local, NodeCgroups, PodResourcesSocket, Ports, Registry, Settings,
    UsagePorts,
};

/// How long to wait between attempts to reach the runtime at the start.
const RUNTIME_RETRY: Duration = Duration::from_secs(1);

/// How long the start waits for the features of the runtime, which few pods need.
const FEATURES_PATIENCE: Duration = Duration::from_secs(2);

/// The journal of removals, below the root directory.
pub const JOURNAL: &str = "ferrolet/journal";

/// How long a killed agent may take to exit. After that, a running agent is reported.
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
    set_oom_score_adj(config.oom_score_adj);
    allow_open_files(config.max_open_files);
    let machine = hostfs::machine().context("read facts of the machine")?;
    check_swap(&config, &machine)?;
    let disk = hostfs::disk_bytes(&args.root_dir).context("read the size of the disk")?;
    let capacity = node_resources(&config, args.node, &machine, disk).capacity;
    check_reserved(&config, args.node, &capacity)?;
    let requested_ips = parse_node_ips(&args.node_ip)?;
    let node = node_settings(&config, args.node, &args.root_dir, machine, disk);
    let mut node = with_ids_of_pods(node, config.max_pods)?;
    node.requested_ips.clone_from(&requested_ips);
    let (arch, allocatable) = (go_arch(std::env::consts::ARCH), node.allocatable.clone());
    let admission = admission_node(&config, &node_name, arch, &args.node_labels, allocatable);
    check_sources(&config, args.kubeconfig.as_deref())?;
    let inputs = StartInputs {
        config: &config,
        own: &args.own,
        collection: args.collection,
        host_ips: node_ips(&requested_ips, &node_name, &hostfs::by_default_route()),
        healthz: healthz_address(&config),
        own_node: args.kubeconfig.is_some().then(|| {
            let given = NodeInputs {
                name: node_name.clone(),
                labels: args.node_labels,
                ips: requested_ips,
                external_cloud: args.external_cloud,
                capacity,
                former_devices: former(),
            };
            own_node(&config, &node, given)
        }),
        node_name,
        node,
        admission,
    };
    let socket = hostfs::listen(&args.root_dir.join("ferrolet/agent.sock"))
        .context("open the agent's socket")?;
    hostfs::share_one_heap();
    let start_context = StartContext {
        root_dir: &args.root_dir,
        kubeconfig: args.kubeconfig,
        certificates: args.certificates,
        socket: &socket,
        verbosity,
        traces,
        watchdog,
        generates_certificate: args.generates_certificate,
        flags: &args.flags,
        provider_paths: &args.provider_paths,
    };
    run_async(serve(&inputs, start_context)).context("start the async runtime")?
}

/// A failure is only logged. The kernel is then more likely to kill the agent when memory is short.
fn set_oom_score_adj(wanted: i32) {
    if let Err(error) = hostfs::set_oom_score_adj(wanted) {
        warn!(%error, wanted, "Cannot set OOM score of the agent");
    }
}

/// The resources that device plugins registered with an upstream kubelet on this node, if there was one.
fn former() -> BTreeSet<String> {
    let found = hostfs::device_checkpoint().context("read it");
    let names = found.and_then(|note| {
        note.map_or(Ok(BTreeSet::new()), |note| former_devices(&note).context("understand it"))
    });
    names.unwrap_or_else(|error| {
        warn!(%error, "Cannot read device plugin checkpoint, keeping the published amounts");
        BTreeSet::new()
    })
}

/// Sets the limit of open files. The agent also runs with a lower limit; zero would stop it.
fn allow_open_files(wanted: i64) {
    let Some(most) = u64::try_from(wanted).ok().filter(|most| *most > 0) else { return };
    match hostfs::set_open_files(most) {
        Ok(may) if may == most => {}
        Ok(may) => warn!(wanted, may, "Open files limit is lower than maxOpenFiles"),
        Err(error) => warn!(wanted, %error, "Cannot set open files limit"),
    }
}

/// Requires a source of pods.
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

/// The node's name: `--hostname-override`, else the machine's host name; always lower case.
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

/// The agent's directories and connections on this machine.
struct StartContext<'a> {
    root_dir: &'a Path,
    kubeconfig: Option<PathBuf>,
    certificates: CertificateSettings,
    socket: &'a hostfs::Socket,
    verbosity: klog::Verbosity,
    traces: Option<Traces>,
    /// The watchdog period of the service manager.
    watchdog: Option<Duration>,
    /// Whether no certificate for the node's API is configured.
    generates_certificate: bool,
    /// The flags of the command line.
    flags: &'a [(String, String)],
    provider_paths: &'a ProviderPaths,
}

impl<'a> StartContext<'a> {
    async fn connect(&self, inputs: &StartInputs<'_>) -> Result<Option<ClusterPorts>> {
        let (kubeconfig, certificates) = (self.kubeconfig.clone(), self.certificates.clone());
        connect(kubeconfig, inputs.config, certificates, &inputs.node_name).await
    }

    fn node_api(&self, inputs: &'a StartInputs<'_>) -> NodeApiOptions<'a> {
        NodeApiOptions {
            config: inputs.config,
            own: inputs.own,
            node: &inputs.node_name,
            in_cluster: self.kubeconfig.is_some(),
            generates_certificate: self.generates_certificate,
            issued_certificate: self.certificates.serving_file(),
            root_dir: self.root_dir,
            flags: self.flags,
        }
    }
}

async fn serve(inputs: &StartInputs<'_>, mut start_context: StartContext<'_>) -> Result<()> {
    let mut signals = Signals::listen()?;
    let traces = traces::send(start_context.traces.take())?;
    // Biased here and below: a signal comes once and ends the agent in any state.
    let cluster = tokio::select! {
        biased;
        name = signals.received() => {
            info!(signal = name, "Received signal, stopping");
            return Ok(());
        }
        cluster = start_context.connect(inputs) => cluster?,
    };
    let early = EarlyEvents::default();
    let prepared = tokio::select! {
        biased;
        name = signals.received() => {
            info!(signal = name, "Received signal, stopping");
            return Ok(());
        }
        prepared = prepare(inputs, &start_context, &early, cluster.clone()) => prepared,
    };
    if let (Err(error), Some(cluster)) = (&prepared, &cluster) {
        let (server, now) = (&*cluster.events, SystemClock.now());
        report_setup_failed(server, &inputs.node_name, early.into_kept(), error, now).await;
    }
    let Prepared { settings, ports, local } = prepared?;
    let mut agent = Agent::start(&settings, ports, Some(local));
    systemd::ready("keeps the pods of this node");
    let alive = systemd::stay_alive(start_context.watchdog, agent.health());
    let memory = memory::when_quiet(agent.changes(), hostfs::return_freed_memory);
    tokio::select! {
        biased;
        name = signals.received() => {
            info!(signal = name, "Received signal, stopping; pods are left running");
            systemd::stopping("pods are left running");
            agent.stop().await;
            Ok(())
        }
        ended = agent.task_ended() => Err(ended.into()),
        () = alive => unreachable!("it reports without end"),
        () = memory => unreachable!("it watches without end"),
        () = traces => unreachable!("it sends without end"),
    }
}

/// The inputs of the agent.
struct Prepared {
    settings: Settings,
    ports: Ports,
    local: Local,
}

/// Waits for the runtime, and prepares the inputs of the agent.
async fn prepare(
    inputs: &StartInputs<'_>,
    start_context: &StartContext<'_>,
    early: &EarlyEvents,
    cluster: Option<ClusterPorts>,
) -> Result<Prepared> {
    let (config, metrics) = (inputs.config, Registry::new());
    let host = hostfs::Host::default();
    let providers = providers(&host, config, start_context.provider_paths).await?;
    register_features(&metrics, config).context("register the metric of features")?;
    let (endpoint, runtime) = runtime(config, inputs.own.images.pull_timeout.to_std(), &metrics)?;
    let name = wait_for_runtime(&*runtime, endpoint.path()).await;
    set_pod_cidr(&*runtime, &config.pod_cidr).await;
    let in_user_namespace = hostfs::in_user_namespace();
    set_kernel(config, &hostfs::KernelSettings::default(), in_user_namespace)?;
    let opened = open_cgroups(config, &inputs.node, &runtime, &metrics).await?;
    if let Some(port) = &opened.port {
        node_cgroups::prepare(&**port, &opened.settings, early).await?;
    }
    let features = runtime_features(&*runtime).await;
    let facts = RuntimeFacts { name, features, providers, cgroups: opened.settings };
    let settings = Settings::resolve(inputs, facts);
    info!(node = settings.node_name, manifests = ?settings.manifests, "Started ferrolet");
    let note = runtime_note(&settings, &endpoint, opened.port.as_deref());
    note.write(&host, start_context.root_dir).await.context("write the runtime note")?;
    let listener = start_context.socket.listener().context("listen on the agent's socket")?;
    let local = Local {
        listener: UnixListener::from_std(listener).context("listen on the agent's socket")?,
        verbosity: Arc::new(start_context.verbosity.clone()),
        pod_resources: PodResourcesSocket::of(start_context.root_dir, config),
        node_api: NodeApiPorts::open(start_context.node_api(inputs)).await?,
        streaming: Arc::clone(&runtime) as _,
    };
    let packet_filter = packet_filter(config);
    let mut pools = vec![host.pool().clone()];
    let programs = HostPrograms::default();
    pools.push(programs.pool().clone());
    pools.extend(opened.pool);
    let usage = UsagePorts::of_machine(&host, &mut pools)?;
    pools.extend(packet_filter.iter().map(|filter| filter.pool().clone()));
    let ports = Ports {
        runtime: Runtime::new(runtime),
        files: Arc::new(host.clone()),
        volumes: Arc::new(host.volumes()),
        http: Arc::new(Fetcher::new(USER_AGENT)),
        pod_http: Arc::new(Fetcher::trusting_any_server(USER_AGENT)),
        probes: Arc::new(ProbeDialer::default()),
        logs: Arc::new(host.logs()),
        log_files: Some(Arc::new(host.logs())),
        programs: Arc::new(programs),
        clock: Arc::new(SystemClock),
        events: Arc::new(LoggedEvents),
        journal: Arc::new(HostSegments::new(start_context.root_dir.join(JOURNAL))),
        node_events: Arc::new(LoggedEvents),
        pools,
        disks: Arc::new(host),
        cgroups: opened.port,
        usage: Some(usage),
        packet_filter: packet_filter.map(|filter| filter as _),
        cluster,
        metrics,
        probe_metrics: Registry::new(),
    };
    Ok(Prepared { settings, ports, local })
}

/// The credential providers that the flags name. A configuration that cannot be used keeps the agent from starting.
async fn providers(
    host: &hostfs::Host,
    config: &KubeletConfiguration,
    paths: &ProviderPaths,
) -> Result<Option<ProviderSettings>> {
    let allows_tokens =
        config.features().enabled("KubeletServiceAccountTokenForCredentialProviders");
    let ProviderPaths { config, bin_dir } = paths;
    Ok(images::read_providers(host, [config, bin_dir], allows_tokens).await?)
}

/// The packet filter, if the agent maintains its chains.
fn packet_filter(config: &KubeletConfiguration) -> Option<Arc<HostPacketFilter>> {
    config.make_iptables_util_chains.then(Arc::default)
}

/// The runtime note of this agent: `node clean` needs it when no agent runs.
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

/// The container runtime and its socket.
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

/// The features of the runtime. If it does not answer in time they are unknown until its next status.
async fn runtime_features(runtime: &dyn RuntimeInfo) -> RuntimeFeatures {
    match tokio::time::timeout(FEATURES_PATIENCE, runtime.status()).await {
        Ok(Ok(status)) => return status.features,
        Ok(Err(error)) => warn!(%error, "Cannot read the features of the runtime"),
        Err(_) => warn!("Runtime is slow to report its features"),
    }
    RuntimeFeatures::default()
}

/// The cgroups that the agent manages.
struct OpenedCgroups {
    settings: NodeCgroups,
    /// None if the agent manages no cgroups.
    port: Option<Arc<dyn Cgroups>>,
    /// The threads of the port.
    pool: Option<Pool>,
}

/// Opens the cgroups with the runtime's driver; an error aborts the start.
async fn open_cgroups(
    config: &KubeletConfiguration,
    node: &NodeSettings,
    runtime: &CriRuntime,
    metrics: &Registry,
) -> Result<OpenedCgroups> {
    let requested = cgroup_driver(async || runtime.cgroup_driver().await).await;
    let requested = requested.context("request the cgroup driver of the runtime")?;
    if requested == DriverAnswer::CannotSay {
        register_losing_support(metrics).context("register the metric of the runtime's support")?;
    }
    let driver = requested.named().unwrap_or(match config.cgroup_driver {
        Configured::Cgroupfs => CgroupDriver::Cgroupfs,
        Configured::Systemd => CgroupDriver::Systemd,
    });
    let settings = NodeCgroups::new(config, &node.machine, &node.limits, driver)?;
    if !settings.is_any() {
        return Ok(OpenedCgroups { settings, port: None, pool: None });
    }
    let (port, pool) = node_cgroups::open(driver)?;
    let port =
        TimedCgroups::new(port, metrics).context("register the metrics of cgroup operations")?;
    Ok(OpenedCgroups { settings, port: Some(Arc::new(port)), pool: Some(pool) })
}

/// The settings of pod cgroups for the runtime.
fn cgroups_note(settings: &Settings, port: Option<&dyn Cgroups>) -> Option<CgroupsNote> {
    let root = settings.cgroups.per_pod.then(|| settings.cgroups.pods.root.to_string())?;
    Some(CgroupsNote { root, systemd: port?.driver() == CgroupDriver::Systemd })
}

/// Waits until the runtime answers: the runtime of a node may start after the agent.
async fn wait_for_runtime(runtime: &dyn RuntimeInfo, socket: &Path) -> String {
    let mut throttle = LogThrottle::default();
    loop {
        match runtime.version().await {
            Ok(version) => {
                let (name, version) = (version.name, version.version);
                let after = throttle.recovered(Instant::now().into_std()).unwrap_or_default();
                info!(socket = %socket.display(), %name, version, ?after, "Container runtime found");
                return name;
            }
            Err(error) => {
                if throttle.failed(Instant::now().into_std()) {
                    warn!(socket = %socket.display(), %error, "Container runtime does not answer, retrying");
                    systemd::waiting(&format!("waits for the runtime at {}", socket.display()));
                }
                tokio::time::sleep(RUNTIME_RETRY).await;
            }
        }
    }
}
