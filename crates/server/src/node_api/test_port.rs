//! A port of the API for tests, with many kinds of clients.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Mutex;
use std::time::Duration;

use async_trait::async_trait;
use k8s_openapi::api::core::v1::Container;
use model::cluster::{AccessRequest, User};
use model::ports::cluster::{ApiError, Reviews};
use model::program::Check;
use testkit::clock::VirtualClock;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::node_logs::tests::Journal;
use super::*;
use crate::decide::PodEndpoint;
use crate::parts::PodAndStatus;
use crate::reviews::{ReviewSettings, Tries};
use crate::test_tls::{Authority, Identity, status};
use crate::tls::{Certificates, ClientVerification, TlsSettings};
use crate::wire::RefusedManifest;

/// The API server: tokens are user names, except `bad`; users have the listed permissions.
#[derive(Debug, Default)]
pub(super) struct Reviewer {
    pub(super) allowed: Vec<(&'static str, &'static str, &'static str)>,
    pub(super) is_away: bool,
    pub(super) asked: Mutex<Vec<String>>,
    /// Counts reviews that never end.
    pub(super) hung: watch::Sender<usize>,
}

#[async_trait]
impl Reviews for Reviewer {
    async fn token_owner(&self, token: &str) -> Result<Option<User>, ApiError> {
        if self.is_away {
            return Err(ApiError::Unreachable("no route".into()));
        }
        if token.starts_with("hung") {
            self.hung.send_modify(|count| *count += 1);
            return std::future::pending().await;
        }
        Ok((token != "bad").then(|| User { name: token.to_owned(), ..User::default() }))
    }

    async fn is_allowed(&self, user: &User, request: &AccessRequest) -> Result<bool, ApiError> {
        if self.is_away {
            return Err(ApiError::Unreachable("no route".into()));
        }
        let AccessRequest::Node { node, verb, subresource } = request else { return Ok(false) };
        let text = format!("{} {} {verb} {subresource}", user.name, user.groups.join(","));
        self.asked.lock().unwrap().push(text);
        Ok(node == "node-1" && self.allowed.contains(&(&user.name, verb, subresource)))
    }
}

/// The data behind the endpoints.
#[derive(Debug, Default)]
pub(super) struct Behind {
    pub(super) is_stuck: bool,
    pub(super) set: Mutex<Vec<u32>>,
    pub(super) changes: watch::Sender<u64>,
}

impl PodView for Behind {
    fn pods(&self) -> Vec<PodAndStatus> {
        let mut pod = Pod::default();
        pod.metadata.name = Some("web".to_owned());
        vec![PodAndStatus { pod: Arc::new(pod), status: None }]
    }

    fn refused(&self) -> Vec<RefusedManifest> {
        Vec::new()
    }

    fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }
}

impl RunningPods for Behind {
    fn running_pods(&self) -> Vec<Pod> {
        let mut pod = Pod::default();
        pod.spec.get_or_insert_default().containers =
            vec![Container { name: "main".to_owned(), ..Container::default() }];
        vec![pod]
    }
}

impl HealthChecks for Behind {
    fn checks(&self) -> Vec<Check> {
        let syncloop = if self.is_stuck { Err("stuck for 6m".to_owned()) } else { Ok(()) };
        vec![Check { name: "ping", result: Ok(()) }, Check { name: "syncloop", result: syncloop }]
    }
}

impl MetricsText for Behind {
    fn text(&self) -> String {
        "up 1\n".to_owned()
    }
}

#[async_trait]
impl UsagePages for Behind {
    async fn summary(&self, only_cpu_and_memory: bool) -> Result<String, String> {
        if self.is_stuck {
            return Err("read cgroups: no such file".to_owned());
        }
        Ok(format!("{{\"onlyCpuAndMemory\":{only_cpu_and_memory}}}"))
    }

    async fn resource_metrics(&self) -> String {
        "node 1 1000\n".to_owned()
    }

    async fn cadvisor_metrics(&self) -> String {
        "container 1 1000\n".to_owned()
    }
}

impl Verbosity for Behind {
    fn set(&self, level: u32) -> Result<(), String> {
        self.set.lock().unwrap().push(level);
        Ok(())
    }
}

impl SystemLogs for Behind {
    fn open(&self, below: &Path) -> std::io::Result<SystemLog> {
        match below.to_str().unwrap() {
            "" => Ok(SystemLog::Directory(vec!["a<b".to_owned(), "pods/".to_owned()])),
            "pods" => Ok(SystemLog::Directory(Vec::new())),
            "syslog" => {
                let mut file = tempfile::tempfile()?;
                std::io::Write::write_all(&mut file, &b"line\n".repeat(50_000))?;
                std::io::Seek::rewind(&mut file)?;
                Ok(SystemLog::File(file))
            }
            _ => Err(std::io::ErrorKind::NotFound.into()),
        }
    }
}

#[async_trait]
impl PodEndpoints for Behind {
    async fn answer(
        &self,
        endpoint: PodEndpoint,
        request: Request<Incoming>,
        by: &Client,
    ) -> Answer {
        let has_token = request.headers().contains_key("authorization");
        error_text(StatusCode::OK, format!("{endpoint:?} {} {has_token}", by.user))
    }
}

/// Differences from the default port.
pub(super) struct Options {
    pub(super) reviewer: Reviewer,
    pub(super) behind: Behind,
    pub(super) anonymous: bool,
    pub(super) webhook: bool,
    pub(super) debugging: bool,
    /// With one, `enableSystemLogQuery` is set.
    pub(super) journal: Option<Arc<Journal>>,
}

impl Default for Options {
    fn default() -> Self {
        let allowed = vec![
            ("admin", "get", "proxy"),
            ("admin", "create", "proxy"),
            ("admin", "update", "proxy"),
            ("admin", "get", "metrics"),
            ("admin", "delete", "metrics"),
            ("admin", "get", "stats"),
            ("admin", "get", "log"),
            ("admin", "get", "statusz"),
            ("admin", "get", "configz"),
            ("reader", "get", "proxy"),
            ("scraper", "get", "metrics"),
            ("prober", "get", "healthz"),
        ];
        Self {
            reviewer: Reviewer { allowed, ..Reviewer::default() },
            behind: Behind::default(),
            anonymous: false,
            webhook: true,
            debugging: true,
            journal: None,
        }
    }
}

/// A served port.
pub(super) struct Port {
    pub(super) address: SocketAddr,
    pub(super) read_only: SocketAddr,
    pub(super) authority: Authority,
    pub(super) reviewer: Arc<Reviewer>,
    pub(super) behind: Arc<Behind>,
    pub(super) metrics: Registry,
    _tasks: JoinSet<()>,
}

/// TLS with client certificates that are requested and not required.
fn tls_settings() -> TlsSettings {
    TlsSettings {
        cert_file: Some("/tls/cert".into()),
        key_file: Some("/tls/key".into()),
        client_ca_file: Some("/tls/ca".into()),
        http2: true,
        client_verification: ClientVerification::Request,
        ..TlsSettings::default()
    }
}

impl Port {
    pub(super) async fn open(options: Options) -> Self {
        let (reviewer, behind) = (Arc::new(options.reviewer), Arc::new(options.behind));
        let clock = Arc::new(VirtualClock::new());
        let started = clock.now();
        let parts = NodeApiParts {
            pods: Arc::clone(&behind) as _,
            running: Arc::clone(&behind) as _,
            containers: Arc::clone(&behind) as _,
            health: Arc::clone(&behind) as _,
            metrics: Arc::clone(&behind) as _,
            probe_metrics: Arc::clone(&behind) as _,
            usage: Arc::clone(&behind) as _,
            verbosity: Arc::clone(&behind) as _,
            system_logs: Arc::clone(&behind) as _,
            node_logs: options.journal.map(|journal| NodeLogs::new(journal)),
            configz: r#"{"kubeletconfig":{}}"#.to_owned(),
            flags: vec![("root-dir".to_owned(), "/r".to_owned())],
            clock: Arc::clone(&clock) as _,
            started,
            version: Version { kubernetes: "v1.36.3".to_owned(), ferrolet: "0".to_owned() },
        };
        let routes = RouteSettings {
            debugging: options.debugging,
            system_logs: true,
            debug_flags: true,
            get_allows_streams: false,
        };
        let access = NodeAccessSettings {
            node: "node-1".to_owned(),
            tokens: true,
            anonymous: options.anonymous,
            webhook: options.webhook,
        };
        let ttl = Duration::from_secs(100);
        let cached = ReviewSettings {
            token_ttl: ttl,
            allowed_ttl: ttl,
            denied_ttl: ttl,
            tries: Tries::Once,
        };
        let access = NodeAccess::new(access, Some(Arc::clone(&reviewer) as _), cached);
        let metrics = Registry::new();
        let http = HttpMetrics::new(&metrics).unwrap();
        let api = NodeApi::new(Arc::new(parts), routes, access, http);
        let authority = Authority::new();
        let tls = tls_settings();
        let files = authority.server_files();
        let certificates = Certificates::read(tls, "localhost", files, clock).await.unwrap();
        let (secure, plain) = (
            TcpListener::bind("127.0.0.1:0").await.unwrap(),
            TcpListener::bind("127.0.0.1:0").await.unwrap(),
        );
        let (address, read_only) = (secure.local_addr().unwrap(), plain.local_addr().unwrap());
        let (mut tasks, stop) = (JoinSet::new(), CancellationToken::new());
        tasks.spawn(serve_read_only(Arc::new(api.read_only()), plain, stop.clone()));
        tasks.spawn(serve_node_api(Arc::new(api), secure, Arc::new(certificates), stop));
        Self { address, read_only, authority, reviewer, behind, metrics, _tasks: tasks }
    }

    pub(super) async fn ask(&self, who: Who<'_>, method: &str, path: &str) -> (u16, String) {
        self.ask_with(who, method, path, "").await
    }

    /// Sends a request with further header lines or a body.
    pub(super) async fn ask_with(
        &self,
        who: Who<'_>,
        method: &str,
        path: &str,
        more: &str,
    ) -> (u16, String) {
        let (identity, token) = match who {
            Who::Anonymous => (None, String::new()),
            Who::Token(token) => (None, format!("authorization: Bearer {token}\r\n")),
            Who::Certificate(identity) => (Some(identity), String::new()),
            Who::Both(identity, token) => {
                (Some(identity), format!("authorization: Bearer {token}\r\n"))
            }
        };
        let more = if more.is_empty() { "\r\n" } else { more };
        let request = format!(
            "{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{token}{more}"
        );
        let versions = rustls::DEFAULT_VERSIONS;
        let answer = self.authority.exchange(self.address, versions, identity, &request).await;
        let answer = answer.unwrap();
        (status(&answer), answer)
    }

    pub(super) async fn ask_read_only(&self, method: &str, path: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(self.read_only).await.unwrap();
        let request =
            format!("{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        (status(&answer), answer)
    }
}

/// The credentials of a client.
#[derive(Clone, Copy)]
pub(super) enum Who<'a> {
    Anonymous,
    Token(&'a str),
    Certificate(&'a Identity),
    Both(&'a Identity, &'a str),
}

pub(super) fn body(answer: &str) -> &str {
    answer.split_once("\r\n\r\n").unwrap().1
}
