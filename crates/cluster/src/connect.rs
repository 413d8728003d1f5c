//! Finds the API server and connects to it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use blocking::{Flights, Resolver};
use http::header::{AUTHORIZATION, USER_AGENT};
use http::{HeaderValue, Request, Response, StatusCode, Uri};
use hyper_util::client::legacy::connect::HttpConnector;
use kube::client::{AuthError, Body, ConfigExt as _};
use kube::config::{AuthInfo, KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use model::chain::Chain;
use tokio::time::Instant;
use tower::{BoxError, ServiceBuilder};
use tracing::{info, warn};

use crate::client_identity::ClientIdentity;
use crate::connections::{CallKind, ConnectionPool, Connector, PING};
use crate::names::Names;
use crate::plugin::{Identity, Plugin};
use crate::proxy::{Dialer, ProxyError, ProxyVariables, of_kubeconfig, proxy};
use crate::token_file::TokenFile;

/// The timeout of a connection.
const CONNECT: Duration = Duration::from_secs(10);
/// The timeout of reading certificate files.
const READ: Duration = Duration::from_secs(10);

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The kubeconfig cannot be used.
    #[error("read the kubeconfig {}", path.display())]
    Kubeconfig {
        /// Its path.
        path: PathBuf,
        /// The cause.
        #[source]
        source: Box<kube::config::KubeconfigError>,
    },
    /// There is no kubeconfig, and the process does not run in a pod.
    #[error("no kubeconfig is given, and the process does not run in a pod with a service account")]
    InCluster(#[source] Box<kube::config::InClusterError>),
    /// The server address is invalid.
    #[error("invalid server address {address:?}")]
    Address {
        /// The address.
        address: String,
        /// The cause.
        #[source]
        source: http::uri::InvalidUri,
    },
    /// The credentials cannot be used.
    #[error("use the credentials for the API server")]
    Credentials(#[source] Box<kube::Error>),
    /// The token file cannot be used.
    #[error("read the token of {}", path.display())]
    Token {
        /// Its path.
        path: PathBuf,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
    /// The credential plugin of the kubeconfig cannot be used.
    #[error("use the credential plugin of the kubeconfig")]
    Plugin(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The proxy cannot be used.
    #[error("reach the API server through a proxy")]
    Proxy(#[source] ProxyError),
}

/// A reachable API server, with as many connections as needed.
#[derive(Clone)]
pub struct Connection {
    client: Client,
    /// The token file, if there is one.
    token: Option<Arc<TokenFile>>,
    /// The inputs of new connections, if the client certificate is in files.
    certificate: Option<Arc<Certificate>>,
    ways: ConnectionPool,
    /// The credential plugin, if there is one.
    plugin: Option<Arc<Plugin>>,
    address: String,
}

/// A client certificate in files, and the other inputs of a connection.
struct Certificate {
    files: ClientIdentity,
    config: Config,
    proxy: Option<Uri>,
    names: Names,
    /// One thread reads the files.
    make: Flights<Result<Connector, String>>,
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connection").field("address", &self.address).finish_non_exhaustive()
    }
}

impl Connection {
    /// Finds the server by a kubeconfig, by its address only, or by the service account of this pod. An address
    /// given with a kubeconfig replaces the one in it.
    pub async fn find(
        kubeconfig: Option<PathBuf>,
        master: Option<&str>,
        user_agent: &'static str,
    ) -> Result<Self, ConnectError> {
        let no_proxy = ProxyVariables::default();
        Self::find_through(kubeconfig, master, user_agent, &no_proxy).await
    }

    /// Like [`Self::find`], with the proxy settings of the environment.
    pub async fn find_through(
        kubeconfig: Option<PathBuf>,
        master: Option<&str>,
        user_agent: &'static str,
        proxies: &ProxyVariables,
    ) -> Result<Self, ConnectError> {
        Self::find_with(kubeconfig, master, user_agent, proxies, None).await
    }

    /// Finds the server by a kubeconfig, and uses the client certificate and key of this file in place of the
    /// credentials of the kubeconfig. Calls are anonymous while the file cannot be used.
    pub async fn find_as_node(
        kubeconfig: PathBuf,
        user_agent: &'static str,
        proxies: &ProxyVariables,
        identity: &Path,
    ) -> Result<Self, ConnectError> {
        Self::find_with(Some(kubeconfig), None, user_agent, proxies, Some(identity)).await
    }

    async fn find_with(
        kubeconfig: Option<PathBuf>,
        master: Option<&str>,
        user_agent: &'static str,
        proxies: &ProxyVariables,
        identity: Option<&Path>,
    ) -> Result<Self, ConnectError> {
        let mut own_proxy = None;
        let mut config = match (kubeconfig, master) {
            (Some(path), _) => {
                let failed = |error| ConnectError::Kubeconfig { path: path.clone(), source: error };
                let read = Kubeconfig::read_from(&path).map_err(|error| failed(Box::new(error)))?;
                own_proxy = of_kubeconfig(&read).map(ToOwned::to_owned);
                let options = KubeConfigOptions::default();
                let config = Config::from_custom_kubeconfig(read, &options).await;
                config.map_err(|error| failed(Box::new(error)))?
            }
            (None, Some(address)) => Config::new(address_of(address)?),
            (None, None) => {
                Config::incluster().map_err(|error| ConnectError::InCluster(Box::new(error)))?
            }
        };
        if let Some(address) = master {
            config.cluster_url = address_of(address)?;
        }
        if let Some(identity) = identity {
            config.auth_info = in_file(identity);
        }
        config.headers.push((USER_AGENT, HeaderValue::from_static(user_agent)));
        let proxy = proxy(own_proxy.as_deref(), proxies, &config.cluster_url);
        let proxy = proxy.map_err(ConnectError::Proxy)?;
        if let Some(proxy) = &proxy {
            info!(host = proxy.host(), "Connecting to the API server through a proxy");
        }
        // A token file takes precedence over an inline token, as in the kubelet.
        let token = match config.auth_info.token_file.take().map(PathBuf::from) {
            Some(path) => {
                config.auth_info.token = None;
                let opened = TokenFile::open(path.clone()).await;
                Some(Arc::new(opened.map_err(|source| ConnectError::Token { path, source })?))
            }
            None => None,
        };
        if token.is_some() {
            config.auth_info.exec = None;
        }
        let plugin = by_plugin(&mut config).await.map_err(ConnectError::Plugin)?.map(Arc::new);
        let connection = Self::with(config, proxy, Names::default(), identity.is_some());
        let connection = connection.map_err(|error| ConnectError::Credentials(Box::new(error)))?;
        Ok(Self { token, plugin, ..connection })
    }

    /// The server at an address without credentials, with another resolver.
    pub fn resolved_by(resolver: Resolver, address: &str) -> Result<Self, ConnectError> {
        let config = Config::new(address_of(address)?);
        let connection = Self::with(config, None, Names(resolver), false);
        connection.map_err(|error| ConnectError::Credentials(Box::new(error)))
    }

    fn with(
        config: Config,
        proxy: Option<Uri>,
        names: Names,
        may_lack_identity: bool,
    ) -> Result<Self, kube::Error> {
        // Before the files are read, so that later changes are found.
        let files = ClientIdentity::of(&config.auth_info);
        let usable = connector(&config, proxy.clone(), names.clone());
        let usable = match usable {
            Err(error) if may_lack_identity => {
                let error = Chain(&error);
                info!(%error, "Client certificate cannot be used yet, calls are anonymous");
                connector(&anonymous(&config), proxy.clone(), names.clone())
            }
            usable => usable,
        };
        let ways = ConnectionPool::new(usable?);
        let service = ServiceBuilder::new()
            .layer(config.base_uri_layer())
            .option_layer(config.auth_layer()?)
            .layer(config.extra_headers_layer()?)
            .map_err(BoxError::from)
            .service(ways.clone());
        let client = Client::new(service, config.default_namespace.clone());
        let address = config.cluster_url.to_string();
        let make = Flights::new(1);
        let certificate =
            files.map(|files| Arc::new(Certificate { files, config, proxy, names, make }));
        Ok(Self { client, token: None, certificate, ways, plugin: None, address })
    }

    /// The address of the server.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// The file of the client certificate changed: the next call reads it.
    pub(crate) fn reload_identity(&self) {
        if let Some(certificate) = &self.certificate {
            certificate.files.check_again();
        }
    }

    pub(crate) async fn send(
        &self,
        mut request: Request<Vec<u8>>,
        way: CallKind,
    ) -> Result<Response<Body>, kube::Error> {
        request.extensions_mut().insert(way);
        let begun = Instant::now();
        if let Some(certificate) = &self.certificate {
            certificate.refresh(&self.ways).await;
        }
        if let Some(token) = &self.token {
            request.headers_mut().insert(AUTHORIZATION, token.header().await);
        }
        if let Some(plugin) = &self.plugin {
            let header = plugin.header().await;
            let failed = |error| kube::Error::Auth(AuthError::AuthExec(Chain(&error).to_string()));
            if let Some(header) = header.map_err(failed)? {
                request.headers_mut().insert(AUTHORIZATION, header);
            }
        }
        let answer = self.client.send(request.map(Body::from)).await?;
        if answer.status() == StatusCode::UNAUTHORIZED {
            self.token.iter().for_each(|token| token.refused(begun));
            self.plugin.iter().for_each(|plugin| plugin.refused(begun));
        }
        if let Some(certificate) = &self.certificate
            && answer.status() == StatusCode::UNAUTHORIZED
        {
            certificate.files.refused(begun);
        }
        Ok(answer)
    }
}

impl Certificate {
    /// Uses changed certificate files for new connections. Unusable files, such as a certificate whose key is
    /// not written yet, change nothing; the next check finds them again.
    async fn refresh(self: &Arc<Self>, ways: &ConnectionPool) {
        let Some(versions) = self.files.changed().await else { return };
        let this = Arc::clone(self);
        let work = move || {
            let made = connector(&this.config, this.proxy.clone(), this.names.clone());
            made.map_err(|error| Chain(&error).to_string())
        };
        let made = match self.make.join("", work) {
            Some(flight) => flight.wait(READ).await,
            None => None,
        };
        match made.unwrap_or_else(|| Err("its files cannot be read in time".to_owned())) {
            Ok(connector) => {
                ways.renew(connector);
                self.files.use_versions(versions);
                info!("Client certificate changed, using it for new connections");
            }
            Err(error) => {
                warn!(error, "Cannot use the changed client certificate, keeping the last one");
            }
        }
    }
}

/// The credentials of a client certificate and key in one file.
fn in_file(path: &Path) -> AuthInfo {
    let path = Some(path.display().to_string());
    AuthInfo { client_certificate: path.clone(), client_key: path, ..AuthInfo::default() }
}

/// Like `in_file`, without credentials.
fn anonymous(config: &Config) -> Config {
    let mut config = config.clone();
    config.auth_info = AuthInfo::default();
    config
}

/// Creates connections to a server with its credentials. Reads credential files.
fn connector(config: &Config, proxy: Option<Uri>, names: Names) -> Result<Connector, kube::Error> {
    let mut http = HttpConnector::new_with_resolver(names);
    http.enforce_http(false);
    http.set_nodelay(true);
    http.set_connect_timeout(Some(CONNECT));
    http.set_keepalive(Some(PING));
    let https = hyper_rustls::HttpsConnectorBuilder::new()
        .with_tls_config(config.rustls_client_config()?)
        .https_or_http();
    let https = match &config.tls_server_name {
        Some(name) => {
            let name = name.clone();
            https.with_server_name_resolver(move |_: &_| {
                name.clone().try_into().map_err(|error| -> BoxError { Box::new(error) })
            })
        }
        None => https,
    };
    Ok(https.enable_all_versions().wrap_connector(Dialer::new(http, proxy)))
}

/// The credential plugin of a kubeconfig, if it has one that is used. Its client certificate replaces that of
/// the kubeconfig. Plugins are run only here: the client library would block the async runtime.
async fn by_plugin(config: &mut Config) -> Result<Option<Plugin>, BoxError> {
    let user = &mut config.auth_info;
    if user.auth_provider.as_ref().is_some_and(|old| old.config.contains_key("cmd-path")) {
        return Err("auth-provider with cmd-path is not supported: use users[].exec".into());
    }
    let Some((plugin, identity)) = Plugin::open(user).await? else { return Ok(None) };
    if let Some(Identity { certificate, key }) = identity {
        user.client_certificate_data = Some(STANDARD.encode(certificate));
        user.client_key_data = Some(STANDARD.encode(key).into());
    }
    Ok(Some(plugin))
}

fn address_of(address: &str) -> Result<Uri, ConnectError> {
    let parsed = address.parse();
    parsed.map_err(|source| ConnectError::Address { address: address.to_owned(), source })
}

#[cfg(test)]
#[path = "connect_tests.rs"]
mod tests;
