//! The certificates of the node: the client certificate before and after the connection to the API server, and the
//! serving certificate of its API.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use certificates::decide::{AddressKind, CertificatePair, NodeAddress, Role, Template};
use certificates::{
    CertificateMetrics, CertificateStore, CertificateTask, CertificateTaskParts, ClientServers,
    NodeCertificate, parse_pair,
};
use cluster::{
    ClientPair, Cluster, Connection, Exclusion, ProxyVariables, Rate, Source, client_pair,
    node_kubeconfig,
};
use hostfs::Host;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use model::ports::clock::WallClock as _;
use model::ports::files::HostFiles as _;
use model::ports::signing::{ReloadIdentity, SigningRequests};
use node::NodeHandle;
use process::clock::SystemClock;
use process::log_events::LoggedEvents;
use process::tasks::Tasks;
use process::version::USER_AGENT;
use tokio::sync::watch;
use tracing::{info, warn};

use crate::wiring::{Ports, Settings};

/// The largest file of certificates.
const LONGEST: u64 = 1 << 20;
/// How long a start without rotation waits for the first certificate, like upstream.
const BOOTSTRAP_PATIENCE: Duration = Duration::from_hours(1);

/// The settings of the node's certificates.
#[derive(Debug, Clone)]
pub(crate) struct CertificateSettings {
    /// `--bootstrap-kubeconfig`.
    pub(crate) bootstrap: Option<PathBuf>,
    /// `--cert-dir`.
    pub(crate) directory: PathBuf,
    /// `rotateCertificates`.
    pub(crate) rotates: bool,
    /// `serverTLSBootstrap`, if the node's API is served.
    pub(crate) serves: bool,
    /// The feature gate `AllowDNSOnlyNodeCSR`.
    pub(crate) allows_dns_only: bool,
}

impl CertificateSettings {
    /// The link to the serving certificate, if it is issued by the cluster.
    pub(crate) fn serving_file(&self) -> Option<PathBuf> {
        self.serves.then(|| self.store(Role::Serving).current_path())
    }

    /// Without a kubeconfig, a node cannot join.
    pub(crate) fn none_needed(&self) -> Result<()> {
        if self.bootstrap.is_some() {
            bail!("--bootstrap-kubeconfig needs --kubeconfig: the path of the kubeconfig to write");
        }
        Ok(())
    }

    fn store(&self, role: Role) -> CertificateStore {
        CertificateStore::new(Arc::new(Host::default()), self.directory.clone(), role)
    }
}

/// The node's certificates that the agent maintains.
#[derive(Debug, Clone)]
pub struct OwnCertificates {
    settings: CertificateSettings,
    server: Arc<dyn SigningRequests>,
    reload: Arc<dyn ReloadIdentity>,
    identity: Identity,
}

impl OwnCertificates {
    /// The certificates of a connected node.
    pub(crate) fn new(
        settings: CertificateSettings,
        cluster: &Arc<Cluster>,
        identity: Identity,
    ) -> Self {
        let (server, reload) = (Arc::clone(cluster) as _, Arc::clone(cluster) as _);
        Self { settings, server, reload, identity }
    }
}

/// How the node identifies itself.
#[derive(Debug, Clone, Default)]
pub(crate) struct Identity {
    /// The file of the client certificate, in place of the credentials of the kubeconfig.
    pub(crate) file: Option<PathBuf>,
    /// Where a node without a valid client certificate requests one.
    bootstrap: Option<Arc<dyn SigningRequests>>,
    /// Whether a certificate is requested immediately to replace the one of the kubeconfig.
    is_forced: bool,
}

/// Prepares the client certificate of a kubeconfig. Without rotation, waits until a first one is issued.
pub(crate) async fn prepare_identity(
    kubeconfig: &Path,
    settings: &CertificateSettings,
    node: &str,
) -> Result<Identity> {
    let now = SystemClock.now();
    let found = pair_of(kubeconfig).await;
    let is_valid = found.as_ref().is_some_and(|found| found.pair.is_valid(now));
    let mut identity = Identity::default();
    if let Some(path) = &settings.bootstrap {
        let server = client(path).await.context("connect with the bootstrap kubeconfig");
        match (is_valid, server) {
            (true, server) => {
                info!(kubeconfig = %kubeconfig.display(), "Current kubeconfig file contents are still valid, no bootstrap necessary");
                // For a certificate that expires while the agent runs.
                identity.bootstrap = server.ok();
            }
            (false, server) => {
                let server = server?;
                bootstrap(kubeconfig, path, settings, node, &server).await?;
                identity.bootstrap = Some(server);
            }
        }
    }
    if !settings.rotates {
        return Ok(Identity::default());
    }
    let store = settings.store(Role::Client);
    identity.file = Some(store.current_path());
    import(&store, found, now, &mut identity).await;
    if identity.bootstrap.is_none() && client_pair(kubeconfig).is_ok_and(|pair| pair.is_none()) {
        // A token or a plugin only authenticates the request for the first certificate; all other
        // calls use the certificate.
        identity.bootstrap = Some(client(kubeconfig).await.context("connect with the kubeconfig")?);
    }
    Ok(identity)
}

/// Writes the kubeconfig of a node that joins, after its first certificate is stored if it will not rotate.
async fn bootstrap(
    kubeconfig: &Path,
    path: &Path,
    settings: &CertificateSettings,
    node: &str,
    server: &Arc<dyn SigningRequests>,
) -> Result<()> {
    info!(bootstrap = %path.display(), "Using bootstrap kubeconfig to generate TLS client cert, key and kubeconfig file");
    let store = settings.store(Role::Client);
    let text = node_kubeconfig(path, &store.current_path());
    let text = text.context("read the server of the bootstrap kubeconfig")?;
    let is_stored = store.current().await.ok().flatten();
    let is_stored = is_stored.is_some_and(|pair| pair.is_valid(SystemClock.now()));
    if !settings.rotates && !is_stored {
        let servers =
            ClientServers { node: Arc::clone(server), bootstrap: Some(Arc::clone(server)) };
        let task = CertificateTask::new(CertificateTaskParts {
            role: Role::Client,
            servers,
            store,
            templates: fixed(Template::client(node)),
            is_forced: false,
            clock: Arc::new(SystemClock),
            events: Arc::new(LoggedEvents),
            reload: None,
            metrics: None,
            certificate: NodeCertificate::default(),
        });
        task.issue_once(BOOTSTRAP_PATIENCE).await.context("request the first certificate")?;
    }
    hostfs::replace_with_mode(kubeconfig, text.as_bytes(), 0o600)
        .with_context(|| format!("write the kubeconfig {}", kubeconfig.display()))
}

/// A certificate of a kubeconfig.
struct KubeconfigCertificate {
    pair: CertificatePair,
    /// Whether it is in the kubeconfig itself.
    is_inline: bool,
}

/// The client certificate of a kubeconfig, if it can be used.
async fn pair_of(kubeconfig: &Path) -> Option<KubeconfigCertificate> {
    let files = Host::default();
    let read = async |path: &Path| {
        let content = files.read(path, LONGEST).await.ok()?;
        String::from_utf8(content).ok()
    };
    let (text, is_inline) = match client_pair(kubeconfig).ok()?? {
        ClientPair::Inline(text) => (text, true),
        ClientPair::Files { certificate, key } if certificate == key => {
            (read(&certificate).await?, false)
        }
        ClientPair::Files { certificate, key } => {
            (format!("{}\n{}", read(&certificate).await?, read(&key).await?), false)
        }
    };
    Some(KubeconfigCertificate { pair: parse_pair(text).ok()?, is_inline })
}

/// Stores the certificate of the kubeconfig, unless a valid one is stored: calls use the stored one from now on. One
/// that the kubeconfig contains is an administrator's, and replaced at once, like upstream.
async fn import(
    store: &CertificateStore,
    found: Option<KubeconfigCertificate>,
    now: Timestamp,
    identity: &mut Identity,
) {
    let stored = store.current().await.ok().flatten();
    if stored.is_some_and(|pair| pair.is_valid(now)) {
        return;
    }
    let Some(found) = found.filter(|found| found.pair.is_valid(now)) else { return };
    identity.is_forced = found.is_inline;
    if let Err(error) = store.update(&found.pair, now).await {
        warn!(%error, "Unable to set the cert/key pair to the bootstrap certificate");
        // The connection keeps the credentials of the kubeconfig.
        identity.file = None;
    }
}

/// A client of the server of a kubeconfig, for signing requests only.
async fn client(kubeconfig: &Path) -> Result<Arc<dyn SigningRequests>> {
    let proxies = ProxyVariables::from_environment();
    let path = Some(kubeconfig.to_owned());
    let connection = Connection::find_through(path, None, USER_AGENT, &proxies).await?;
    let (exclusion, source) = (Exclusion::default(), Source::default());
    Ok(Arc::new(Cluster::new(connection, Rate::UNLIMITED, exclusion, source)))
}

/// A template that stays.
fn fixed(template: Template) -> watch::Receiver<Option<Template>> {
    watch::channel(Some(template)).1
}

/// Starts the tasks that maintain the node's certificates.
pub(crate) fn start_node_certificates(
    settings: &Settings,
    ports: &Ports,
    node: Option<&NodeHandle>,
    tasks: &mut Tasks,
) {
    let own = ports.cluster.as_ref().and_then(|cluster| cluster.own_certificates.clone());
    let Some(own) = own else { return };
    let name = settings.node_name.clone();
    if own.identity.file.is_some() {
        let templates = fixed(Template::client(&name));
        let task = task(&own, ports, Role::Client, templates);
        tasks.spawn_fallible("client certificate", |stop| task.run(stop));
    }
    if let Some(node) = node.filter(|_| own.settings.serves) {
        let (sender, templates) = watch::channel(None);
        let task = task(&own, ports, Role::Serving, templates);
        tasks.spawn_fallible("serving certificate", |stop| task.run(stop));
        let (node, dns_only) = (node.clone(), own.settings.allows_dns_only);
        tasks.spawn("addresses of the serving certificate", |stop| async move {
            stop.run_until_cancelled(follow_addresses(&node, &name, dns_only, &sender)).await;
        });
    }
}

fn task(
    own: &OwnCertificates,
    ports: &Ports,
    role: Role,
    templates: watch::Receiver<Option<Template>>,
) -> CertificateTask {
    let (certificate, clock) = (NodeCertificate::default(), Arc::clone(&ports.clock));
    let metrics = CertificateMetrics::new(&ports.metrics, role, &certificate, clock);
    let is_client = role == Role::Client;
    CertificateTask::new(CertificateTaskParts {
        role,
        servers: ClientServers {
            node: Arc::clone(&own.server),
            bootstrap: own.identity.bootstrap.clone().filter(|_| is_client),
        },
        store: own.settings.store(role),
        templates,
        is_forced: is_client && own.identity.is_forced,
        clock: Arc::clone(&ports.clock),
        events: Arc::clone(&ports.node_events),
        reload: is_client.then(|| Arc::clone(&own.reload)),
        metrics: Some(metrics.expect("no other part counts certificates")),
        certificate,
    })
}

/// Sends the template of the serving certificate for every change of the node's addresses. Never returns.
async fn follow_addresses(
    node: &NodeHandle,
    name: &str,
    dns_only: bool,
    templates: &watch::Sender<Option<Template>>,
) {
    let template = |node: &Node| Template::serving(name, &addresses(node), dns_only);
    loop {
        let known = templates.borrow().clone();
        let other = node.wait_for_node(|node| template(node) != known).await;
        templates.send_replace(template(&other));
    }
}

/// The addresses of a node object.
fn addresses(node: &Node) -> Vec<NodeAddress> {
    let published = node.status.as_ref().and_then(|status| status.addresses.as_deref());
    let address = |one: &k8s_openapi::api::core::v1::NodeAddress| {
        let kind = AddressKind::of(&one.type_)?;
        Some(NodeAddress { kind, address: one.address.clone() })
    };
    published.unwrap_or_default().iter().filter_map(address).collect()
}
