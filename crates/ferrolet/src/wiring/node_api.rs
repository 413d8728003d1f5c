//! The node's API: its ports, and the thread that serves them.
//!
//! Streams and large responses must not slow the agent, whose runtime has one thread. So the API has its own thread
//! and runtime. It reads snapshots; the agent's runtime makes reviews, because it has the connections to the API
//! server.

use std::io;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use async_trait::async_trait;
use config::{AuthorizationMode, FerroletConfiguration, KubeletConfiguration, TlsVersion};
use hostfs::{Host, Journalctl, OpenedLog, open_system_log};
use k8s_openapi::api::core::v1::{Container, Pod, PodSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use model::cluster::{AccessRequest, User};
use model::ids::{PodName, PodUid};
use model::observed::ContainerState;
use model::ports::clock::WallClock;
use model::ports::cluster::{ApiError, Reviews};
use model::ports::files::HostFiles as _;
use process::clock::SystemClock;
use process::tasks::Tasks;
use serde_json::json;
use server::decide::RouteSettings;
use server::https::listen;
use server::node_api::{
    ContainerEndpoints, HttpMetrics, JournalRun, NodeAccess, NodeAccessSettings, NodeApi,
    NodeApiParts, NodeLogs, RunningPods, ServiceJournal, SystemLog, SystemLogs, serve_node_api,
    serve_read_only,
};
use server::streaming::{Checkpoints, Streams};
use server::tls::{Certificates, ClientVerification, TlsSettings, generate};
use server::{HealthChecks, LogParts, ReviewSettings, Tries, Verbosity};
use stats::Statistics;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::{Local, Ports};
use crate::metrics_text::Metrics;
use crate::runtime_logs::RuntimeLogs;
use crate::served_pods::ServedPods;
use crate::statistics::StatisticsPages;
use crate::version::version;

/// The system's log directory.
const LOGS: &str = "/var/log";
/// The threads for files of the API.
const BLOCKING_THREADS: usize = 16;
/// How long responses in progress may take at a stop.
const END: Duration = Duration::from_secs(1);
/// The largest certificate file.
const LARGEST_FILE: u64 = 1 << 20;

/// The inputs of the API from the configuration and the command line.
#[derive(Debug, Clone)]
pub struct NodeApiOptions<'a> {
    /// The configuration.
    pub config: &'a KubeletConfiguration,
    /// The agent's own settings.
    pub own: &'a FerroletConfiguration,
    /// The name of the node.
    pub node: &'a str,
    /// Whether there is an API server.
    pub in_cluster: bool,
    /// Whether no certificate is configured, so that one is generated.
    pub generates_certificate: bool,
    /// The file of a certificate that the cluster issues, which may not exist yet.
    pub issued_certificate: Option<PathBuf>,
    /// The root directory of the agent, where checkpoints are written.
    pub root_dir: &'a Path,
    /// The flags of the command line, for `/flagz`.
    pub flags: &'a [(String, String)],
}

/// The ports of the API, open but not served yet.
#[derive(Debug)]
pub struct NodeApiPorts {
    secure: Option<(TcpListener, Certificates)>,
    read_only: Option<TcpListener>,
    routes: RouteSettings,
    access: NodeAccessSettings,
    cached: ReviewSettings,
    /// Whether `/logs/` answers log queries.
    log_query: bool,
    /// The feature gate `PodLogsQuerySplitStreams`.
    split_streams: bool,
    root_dir: PathBuf,
    configz: String,
    flags: Vec<(String, String)>,
}

impl NodeApiPorts {
    /// Opens the ports that are configured.
    pub async fn open(options: NodeApiOptions<'_>) -> Result<Option<Self>> {
        let NodeApiOptions { config, own, node, .. } = options.clone();
        let access = NodeAccessSettings {
            node: node.to_owned(),
            tokens: config.authentication.webhook.enabled,
            anonymous: config.authentication.anonymous.enabled,
            webhook: config.authorization.mode == AuthorizationMode::Webhook,
        };
        let secure = open_secure(&options, &access).await?;
        let read_only = match config.read_only_port {
            0 => None,
            port => Some(bind(config, port, "readOnlyPort").await?),
        };
        if secure.is_none() && read_only.is_none() {
            return Ok(None);
        }
        let authorization = &config.authorization.webhook;
        Ok(Some(Self {
            secure,
            read_only,
            routes: RouteSettings {
                debugging: config.enable_debugging_handlers,
                system_logs: config.enable_system_log_handler,
                debug_flags: config.enable_debug_flags_handler,
                get_allows_streams: own.server.get_nodes_proxy_allows_exec,
            },
            access,
            cached: ReviewSettings {
                token_ttl: config.authentication.webhook.cache_ttl.to_std(),
                allowed_ttl: authorization.cache_authorized_ttl.to_std(),
                denied_ttl: authorization.cache_unauthorized_ttl.to_std(),
                tries: Tries::Five,
            },
            // The feature gate NodeLogQuery cannot be switched off.
            log_query: config.enable_system_log_query,
            split_streams: config.features().enabled("PodLogsQuerySplitStreams"),
            root_dir: options.root_dir.to_owned(),
            configz: json!({ "kubeletconfig": config.to_document() }).to_string(),
            flags: options.flags.to_vec(),
        }))
    }
}

async fn open_secure(
    options: &NodeApiOptions<'_>,
    access: &NodeAccessSettings,
) -> Result<Option<(TcpListener, Certificates)>> {
    let config = options.config;
    if !config.enable_server {
        return Ok(None);
    }
    if !options.in_cluster && (access.tokens || access.webhook) {
        warn!(
            port = config.port,
            "Not opening the port: authentication or authorization by webhook needs an API server (--kubeconfig)"
        );
        return Ok(None);
    }
    let has_clients = !config.authentication.x509.client_ca_file.is_empty();
    if !has_clients && !access.tokens && !access.anonymous {
        bail!("authentication: no authentication method configured");
    }
    if config.tls_cert_file.is_empty() != config.tls_private_key_file.is_empty() {
        bail!("tlsCertFile and tlsPrivateKeyFile must be set together");
    }
    if options.generates_certificate {
        keep_certificate(config, options.node).await?;
    }
    let (files, clock) = (Arc::new(Host::default()), Arc::new(SystemClock));
    let certificates = Certificates::read(tls_settings(options), options.node, files, clock).await;
    let certificates = certificates.context("certificates of the node's API")?;
    let listener = bind(config, config.port, "port").await?;
    info!(address = %config.address, port = config.port, "Starting to listen");
    Ok(Some((listener, certificates)))
}

async fn bind(
    config: &KubeletConfiguration,
    port: u16,
    field: &'static str,
) -> Result<TcpListener> {
    let address = config.address.to_string();
    let failed = || format!("listen on {address} port {port} ({field})");
    let listener = listen(&address, port).await.with_context(failed)?;
    listener.into_std().with_context(failed)
}

fn tls_settings(options: &NodeApiOptions<'_>) -> TlsSettings {
    let (config, issued) = (options.config, &options.issued_certificate);
    let path =
        |text: &String| Some(PathBuf::from(text)).filter(|path| !path.as_os_str().is_empty());
    TlsSettings {
        cert_file: issued.clone().or_else(|| path(&config.tls_cert_file)),
        key_file: issued.clone().or_else(|| path(&config.tls_private_key_file)),
        is_issued_later: issued.is_some(),
        client_ca_file: path(&config.authentication.x509.client_ca_file),
        newest_tls_only: config.tls_min_version == Some(TlsVersion::Tls13),
        cipher_suites: config.tls_cipher_suites.clone(),
        curves: config.tls_curve_preferences.clone(),
        http2: true,
        client_verification: ClientVerification::Request,
    }
}

/// Generates a certificate, unless an earlier agent did.
async fn keep_certificate(config: &KubeletConfiguration, node: &str) -> Result<()> {
    let (cert, key) = (Path::new(&config.tls_cert_file), Path::new(&config.tls_private_key_file));
    let files = Host::default();
    if files.read(cert, LARGEST_FILE).await.is_ok() && files.read(key, LARGEST_FILE).await.is_ok() {
        return Ok(());
    }
    let made = generate(node, SystemClock.now()).context("generate a certificate")?;
    hostfs::replace_with_mode(key, made.key.as_bytes(), 0o600)
        .with_context(|| format!("write {}", key.display()))?;
    hostfs::replace_with_mode(cert, made.chain.as_bytes(), 0o644)
        .with_context(|| format!("write {}", cert.display()))?;
    info!(file = %cert.display(), "Using self-signed cert");
    Ok(())
}

/// The parts of the agent that the API shows.
#[derive(Debug)]
pub(crate) struct AgentParts<'a> {
    pub(crate) ports: &'a Ports,
    pub(crate) pods: &'a Arc<ServedPods>,
    pub(crate) cache: &'a pleg::cache::Reader,
    pub(crate) health: &'a Arc<dyn HealthChecks>,
    pub(crate) streams: &'a Arc<Streams>,
    pub(crate) statistics: Option<&'a Statistics>,
}

impl AgentParts<'_> {
    fn api_parts(&self, verbosity: Arc<dyn Verbosity>, open: &mut NodeApiPorts) -> NodeApiParts {
        let clock = &self.ports.clock;
        let logs = LogParts {
            pods: Arc::clone(self.pods) as _,
            log_paths: Arc::new(RuntimeLogs(self.cache.clone())),
            logs: Arc::clone(&self.ports.logs),
            clock: Arc::clone(clock),
        };
        let containers = ContainerEndpoints {
            streams: Arc::clone(self.streams),
            logs,
            checkpoints: Checkpoints::new(
                std::mem::take(&mut open.root_dir),
                Arc::clone(&self.ports.files),
                Arc::clone(clock),
            ),
            split_streams: open.split_streams,
        };
        NodeApiParts {
            pods: Arc::clone(self.pods) as _,
            running: Arc::new(RunningInRuntime(self.cache.clone())),
            containers: Arc::new(containers),
            health: Arc::clone(self.health),
            metrics: Arc::new(Metrics(self.ports.metrics.clone())),
            probe_metrics: Arc::new(Metrics(self.ports.probe_metrics.clone())),
            usage: Arc::new(StatisticsPages(self.statistics.cloned())),
            verbosity,
            system_logs: Arc::new(HostSystemLogs),
            node_logs: open.log_query.then(|| NodeLogs::new(Arc::new(HostJournal::default()))),
            configz: std::mem::take(&mut open.configz),
            flags: std::mem::take(&mut open.flags),
            started: clock.now(),
            clock: Arc::clone(clock),
            version: version(),
        }
    }
}

/// Serves the ports, if any are open, from a thread of their own. Must be called inside the agent's runtime.
pub(crate) fn start(local: &mut Local, agent: &AgentParts<'_>, tasks: &mut Tasks) {
    let Some(mut open) = local.node_api.take() else { return };
    let parts = agent.api_parts(Arc::clone(&local.verbosity), &mut open);
    let reviews = agent.ports.cluster.as_ref().map(|cluster| -> Arc<dyn Reviews> {
        Arc::new(AgentReviews { agent: Handle::current(), inner: Arc::clone(&cluster.reviews) })
    });
    let access = NodeAccess::new(open.access, reviews, open.cached);
    let metrics = HttpMetrics::new(&agent.ports.metrics).expect("no other part counts requests");
    let api = Arc::new(NodeApi::new(Arc::new(parts), open.routes, access, metrics));
    let (secure, read_only) = (open.secure, open.read_only);
    tasks.spawn_fallible("node API", |stop| {
        on_own_thread(move || serve(api, secure, read_only, stop))
    });
}

/// Serves the ports until the stop.
async fn serve(
    api: Arc<NodeApi>,
    secure: Option<(TcpListener, Certificates)>,
    read_only: Option<TcpListener>,
    stop: CancellationToken,
) -> io::Result<()> {
    let secured = async {
        if let Some((listener, certificates)) = secure {
            let listener = tokio::net::TcpListener::from_std(listener)?;
            let (api, certificates) = (Arc::clone(&api), Arc::new(certificates));
            serve_node_api(api, listener, certificates, stop.clone()).await;
        }
        io::Result::Ok(())
    };
    let plain = async {
        if let Some(listener) = read_only {
            let listener = tokio::net::TcpListener::from_std(listener)?;
            serve_read_only(Arc::new(api.read_only()), listener, stop.clone()).await;
        }
        io::Result::Ok(())
    };
    tokio::try_join!(secured, plain).map(drop)
}

/// Runs a future on a thread with a runtime of its own, until it ends.
async fn on_own_thread<F>(work: impl FnOnce() -> F + Send + 'static) -> io::Result<()>
where
    F: Future<Output = io::Result<()>>,
{
    let (sender, ended) = oneshot::channel();
    thread::Builder::new().name("node-api".to_owned()).spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .max_blocking_threads(BLOCKING_THREADS)
            .build();
        let result = runtime.and_then(|runtime| {
            let result = runtime.block_on(work());
            runtime.shutdown_timeout(END);
            result
        });
        // The agent does not wait for it while it stops.
        drop(sender.send(result));
    })?;
    ended.await.unwrap_or_else(|_| Err(io::Error::other("the thread panicked")))
}

/// Runs access reviews on the agent's async runtime, which has the connections to the API server.
#[derive(Debug)]
struct AgentReviews {
    agent: Handle,
    inner: Arc<dyn Reviews>,
}

impl AgentReviews {
    async fn made<T: Send + 'static>(
        &self,
        review: impl Future<Output = Result<T, ApiError>> + Send + 'static,
    ) -> Result<T, ApiError> {
        let made = self.agent.spawn(review).await;
        made.unwrap_or_else(|error| Err(ApiError::Unreachable(Box::new(error))))
    }
}

#[async_trait]
impl Reviews for AgentReviews {
    async fn token_owner(&self, token: &str) -> Result<Option<User>, ApiError> {
        let (inner, token) = (Arc::clone(&self.inner), token.to_owned());
        self.made(async move { inner.token_owner(&token).await }).await
    }

    async fn is_allowed(&self, user: &User, request: &AccessRequest) -> Result<bool, ApiError> {
        let (inner, user, request) = (Arc::clone(&self.inner), user.clone(), request.clone());
        self.made(async move { inner.is_allowed(&user, &request).await }).await
    }
}

/// The system's log directory of this machine.
#[derive(Debug)]
struct HostSystemLogs;

impl SystemLogs for HostSystemLogs {
    fn open(&self, below: &Path) -> io::Result<SystemLog> {
        Ok(match open_system_log(Path::new(LOGS), below)? {
            OpenedLog::File(file) => SystemLog::File(file),
            OpenedLog::Directory(names) => SystemLog::Directory(names),
        })
    }
}

/// The journal of this machine.
#[derive(Debug, Default)]
struct HostJournal(Journalctl);

impl ServiceJournal for HostJournal {
    fn start(&self, arguments: &[String]) -> io::Result<JournalRun> {
        let (output, guard) = self.0.start(arguments)?;
        Ok(JournalRun { output: Box::new(output), guard: Box::new(guard) })
    }
}

/// The pods that the PLEG saw running.
#[derive(Debug)]
struct RunningInRuntime(pleg::cache::Reader);

impl RunningPods for RunningInRuntime {
    fn running_pods(&self) -> Vec<Pod> {
        let pod = |(uid, name): (&PodUid, &PodName)| {
            let status = self.0.get(uid).ok();
            let containers = status.iter().flat_map(|status| &status.containers);
            let running = containers.filter(|found| found.state == ContainerState::Running);
            let containers = running.map(|found| Container {
                name: found.name.to_string(),
                image: Some(found.image.to_string()),
                ..Container::default()
            });
            Pod {
                metadata: ObjectMeta {
                    name: Some(name.name.to_string()),
                    namespace: Some(name.namespace.to_string()),
                    uid: Some(uid.to_string()),
                    ..ObjectMeta::default()
                },
                spec: Some(PodSpec { containers: containers.collect(), ..PodSpec::default() }),
                ..Pod::default()
            }
        };
        self.0.all_live().iter().map(pod).collect()
    }
}

#[cfg(test)]
#[path = "node_api_tests.rs"]
mod tests;
