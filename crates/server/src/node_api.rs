//! The node API: used by kubectl, the API server's proxy and Prometheus on ports 10250 and 10255.
//!
//! ```text
//!  connection ──> slot ──> TLS ──> request ──> route ──> authenticate ──> authorise ──> endpoint
//!                                    400, 404, 307       401, 429         403, 500
//! ```
//!
//! Routes and their rules are in [`crate::decide`]: an endpoint is only returned with its rule. The read-only
//! port has neither TLS nor authentication, and few endpoints.

mod access;
mod connection;
mod credentials;
mod health;
mod http_metrics;
mod node_logs;
mod pages;
mod pod_endpoints;
mod pod_list;
mod system_logs;
mod usage;

use std::fmt::Debug;
use std::sync::Arc;

use hyper::body::Incoming;
use hyper::header::{ALLOW, HeaderValue, LOCATION, RETRY_AFTER};
use hyper::{Method, Request, StatusCode};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use model::ports::clock::WallClock;
use model::program::{HealthChecks, Verbosity};
use prometheus::Registry;

pub use access::{NodeAccess, NodeAccessSettings};
pub use connection::{serve_node_api, serve_read_only};
pub use http_metrics::HttpMetrics;
pub use node_logs::{JournalRun, NodeLogs, ServiceJournal};
pub use pod_endpoints::{Client, ContainerEndpoints, PodEndpoints};
pub use system_logs::{SystemLog, SystemLogs};
pub use usage::UsagePages;

use self::access::Refusal;
use self::connection::Peer;
use self::health::Slis;
use crate::decide::{Endpoint, Route, RouteSettings, Rule, labels, route};
use crate::parts::{MetricsText, PodView};
use crate::respond::{Answer, error_text, text};
use crate::wire::Version;

/// The running pods of the runtime.
pub trait RunningPods: Debug + Send + Sync {
    /// The running pods, with names and images of their running containers.
    fn running_pods(&self) -> Vec<Pod>;
}

/// The dependencies of the endpoints.
#[derive(Debug)]
pub struct NodeApiParts {
    /// The pods of the node.
    pub pods: Arc<dyn PodView>,
    /// The running pods of the runtime.
    pub running: Arc<dyn RunningPods>,
    /// Logs, exec, attach, port-forward and run.
    pub containers: Arc<dyn PodEndpoints>,
    /// The checks of `/healthz`.
    pub health: Arc<dyn HealthChecks>,
    /// The agent's metrics.
    pub metrics: Arc<dyn MetricsText>,
    /// The metrics of probes.
    pub probe_metrics: Arc<dyn MetricsText>,
    /// Resource usage.
    pub usage: Arc<dyn UsagePages>,
    /// The log verbosity.
    pub verbosity: Arc<dyn Verbosity>,
    /// The system's log directory.
    pub system_logs: Arc<dyn SystemLogs>,
    /// The logs of system services; `None` without `enableSystemLogQuery`.
    pub node_logs: Option<NodeLogs>,
    /// The configuration in effect, as JSON.
    pub configz: String,
    /// The flags of the command line.
    pub flags: Vec<(String, String)>,
    /// The wall clock.
    pub clock: Arc<dyn WallClock>,
    /// The start of the agent.
    pub started: Timestamp,
    /// The version of the agent.
    pub version: Version,
}

/// The API of one port.
#[derive(Debug)]
pub struct NodeApi {
    parts: Arc<NodeApiParts>,
    routes: RouteSettings,
    /// `None` on the read-only port.
    access: Option<NodeAccess>,
    http: HttpMetrics,
    slis: Arc<Slis>,
}

impl NodeApi {
    /// The API with authentication and authorisation.
    pub fn new(
        parts: Arc<NodeApiParts>,
        routes: RouteSettings,
        access: NodeAccess,
        http: HttpMetrics,
    ) -> Self {
        Self {
            parts,
            routes,
            access: Some(access),
            http,
            slis: Arc::new(Slis::new(Registry::new())),
        }
    }

    /// The API of the read-only port, with the same dependencies.
    #[must_use]
    pub fn read_only(&self) -> Self {
        Self {
            parts: Arc::clone(&self.parts),
            routes: RouteSettings { debugging: false, ..self.routes },
            access: None,
            http: self.http.clone(),
            slis: Arc::clone(&self.slis),
        }
    }

    /// Answers a request.
    async fn answer(&self, request: Request<Incoming>, peer: &Peer) -> Answer {
        let labels = labels(request.method().as_str(), request.uri().path(), self.routes);
        let server = if self.access.is_some() { "readwrite" } else { "readonly" };
        let measured = self.http.begin(labels, server);
        let answer = self.routed(request, peer).await;
        http_metrics::measured(answer, measured)
    }

    async fn routed(&self, mut request: Request<Incoming>, peer: &Peer) -> Answer {
        let (rule, endpoint) =
            match route(request.method().as_str(), request.uri().path(), self.routes) {
                Route::Undecodable => {
                    return error_text(StatusCode::BAD_REQUEST, "400 Bad Request");
                }
                Route::NotFound => return not_found(),
                Route::Moved(path) => return moved(request.method(), &path, request.uri().query()),
                Route::Guarded(rule, endpoint) => (rule, endpoint),
            };
        match self.let_in(rule, &mut request, peer).await {
            Ok(client) => self.served(endpoint, request, &client).await,
            Err(refusal) => refused(refusal),
        }
    }

    /// Authenticates and authorises a request.
    async fn let_in(
        &self,
        rule: Rule,
        request: &mut Request<Incoming>,
        peer: &Peer,
    ) -> Result<Client, Refusal> {
        let address = peer.address();
        let Some(access) = &self.access else {
            return Ok(Client { user: String::new(), address });
        };
        let credentials = credentials::take(request.headers_mut(), peer.certificate().await);
        let caller = access.authenticate(credentials).await?;
        if caller.is_known {
            peer.authenticated();
        }
        access.authorize(rule, &caller).await?;
        Ok(Client { user: caller.user.name, address })
    }

    async fn served(
        &self,
        endpoint: Endpoint,
        request: Request<Incoming>,
        client: &Client,
    ) -> Answer {
        let parts = &*self.parts;
        let query = request.uri().query();
        match endpoint {
            Endpoint::Healthz => self.slis.healthz(&*parts.health, query),
            Endpoint::HealthCheck(name) => Slis::check(&*parts.health, &name),
            Endpoint::Pods => pod_list::pods(&*parts.pods),
            Endpoint::RunningPods => pod_list::running(&*parts.running),
            Endpoint::Metrics => pages::metrics(parts.metrics.text(), parts.started),
            Endpoint::MetricsProbes => pages::metrics(parts.probe_metrics.text(), parts.started),
            Endpoint::MetricsSlis => self.slis.page(request.method(), parts.started),
            Endpoint::StatsSummary => usage::summary(&*parts.usage, query).await,
            Endpoint::MetricsResource => {
                pages::metrics(parts.usage.resource_metrics().await, parts.started)
            }
            Endpoint::MetricsCadvisor => {
                pages::metrics(parts.usage.cadvisor_metrics().await, parts.started)
            }
            Endpoint::Configz => pages::json(parts.configz.clone()),
            Endpoint::Statusz => pages::statusz(parts, request.headers()),
            Endpoint::Flagz => pages::flagz(&parts.flags, request.headers()),
            Endpoint::DebugFlags => pages::set_verbosity(&*parts.verbosity, request).await,
            Endpoint::SystemLogs(path) => {
                let files = Arc::clone(&parts.system_logs);
                match &parts.node_logs {
                    Some(logs) => logs.page(files, path, query, request.headers()).await,
                    None => system_logs::page(files, path).await,
                }
            }
            Endpoint::Pod(endpoint) => parts.containers.answer(endpoint, request, client).await,
            Endpoint::Disabled(text) => plain_error(StatusCode::METHOD_NOT_ALLOWED, text),
            Endpoint::OtherMethod(allowed) => {
                let text = "405: Method Not Allowed";
                let mut answer = error_text(StatusCode::METHOD_NOT_ALLOWED, text);
                answer.headers_mut().insert(ALLOW, HeaderValue::from_static(allowed));
                answer
            }
            Endpoint::Unknown => error_text(StatusCode::NOT_FOUND, "404: Page Not Found"),
            Endpoint::NoPage => not_found(),
        }
    }
}

/// An error in the form of Go's `http.Error`: on its own line.
fn plain_error(status: StatusCode, text: &str) -> Answer {
    let mut answer = error_text(status, format!("{text}\n"));
    pages::no_sniffing(&mut answer);
    answer
}

fn not_found() -> Answer {
    plain_error(StatusCode::NOT_FOUND, "404 page not found")
}

/// A redirect to a clean path, in the form of Go's `http.Redirect`.
fn moved(method: &Method, path: &str, query: Option<&str>) -> Answer {
    let location = match query {
        Some(query) => format!("{path}?{query}"),
        None => path.to_owned(),
    };
    let link = system_logs::escaped(&location);
    let page = match *method {
        Method::GET => format!("<a href=\"{link}\">Temporary Redirect</a>.\n\n"),
        _ => String::new(),
    };
    let mut answer = text(StatusCode::TEMPORARY_REDIRECT, system_logs::HTML, page);
    if let Ok(location) = HeaderValue::from_str(&location) {
        answer.headers_mut().insert(LOCATION, location);
    }
    answer
}

fn refused(refusal: Refusal) -> Answer {
    match refusal {
        Refusal::Unauthorized => error_text(StatusCode::UNAUTHORIZED, "Unauthorized"),
        Refusal::Forbidden(text) => error_text(StatusCode::FORBIDDEN, text),
        Refusal::Failed(text) => error_text(StatusCode::INTERNAL_SERVER_ERROR, text),
        Refusal::Busy => {
            let mut answer = plain_error(StatusCode::TOO_MANY_REQUESTS, "Too Many Requests");
            answer.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
            answer
        }
    }
}

#[cfg(test)]
#[path = "node_api/flood_tests.rs"]
mod flood_tests;
#[cfg(test)]
#[path = "node_api/test_port.rs"]
mod test_port;
#[cfg(test)]
#[path = "node_api/tests.rs"]
mod tests;
