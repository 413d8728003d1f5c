//! A server with scripted views, and a client.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::StreamExt as _;
use futures_util::stream::BoxStream;
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use journal::{DiskJournal, Inputs, Query, SMALLEST, SearchResult, find_incidents};
use k8s_openapi::api::core::v1::{
    ContainerState, ContainerStateRunning, ContainerStateTerminated, ContainerStatus, PodStatus,
};
use model::ids::{ContainerId, PodName, PodUid};
use model::ports::events::{EventType, Events, PodEvent};
use model::ports::files::FileError;
use model::ports::logs::{ContainerLogs, Ended, LogRequest, LogText};
use server::wire::{
    EvictPlan, GcDone, GcItem, GcLine, GcPlan, GcSource, Problem, RefusedManifest, Version,
};
use server::{
    Check, Collector, EventBook, EventLimits, EvictionView, HealthChecks, LogPaths, MetricsText,
    Parts, PodAndStatus, PodView, Removals, Verbosity,
};
use testkit::clock::VirtualClock;
use testkit::events::KeptEvents;
use testkit::segments::MemorySegments;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// The timeout of any step.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// The pods of a node, set by the test.
#[derive(Debug)]
pub(crate) struct Pods {
    all: Mutex<BTreeMap<PodUid, PodAndStatus>>,
    refused: Mutex<Vec<RefusedManifest>>,
    changes: watch::Sender<u64>,
    shut: Mutex<Option<watch::Receiver<u64>>>,
}

impl Pods {
    pub(crate) fn set(&self, name: &str, status: PodStatus) {
        let pod = testkit::pods::pod(name).container("main", "image", [""; 0]).build();
        let uid = PodUid::from(pod.metadata.uid.as_deref().unwrap());
        let pod = PodAndStatus { pod: Arc::new(pod), status: Some(Arc::new(status)) };
        self.all.lock().unwrap().insert(uid, pod);
        self.changes.send_modify(|count| *count += 1);
    }

    pub(crate) fn remove(&self, name: &str) {
        self.all.lock().unwrap().remove(&*format!("uid-of-{name}"));
        self.changes.send_modify(|count| *count += 1);
    }

    /// Reports these manifests as refused.
    pub(crate) fn refuse(&self, manifests: &[&str]) {
        let refused = manifests.iter().map(|manifest| RefusedManifest {
            manifest: (*manifest).to_owned(),
            message: "bad".to_owned(),
            pod: None,
            last_good_stays: false,
        });
        *self.refused.lock().unwrap() = refused.collect();
        self.changes.send_modify(|count| *count += 1);
    }

    /// From now on, watches find the agent ended.
    pub(crate) fn shut(&self) {
        let (_, closed) = watch::channel(0);
        *self.shut.lock().unwrap() = Some(closed);
    }
}

impl PodView for Pods {
    fn pods(&self) -> Vec<PodAndStatus> {
        self.all.lock().unwrap().values().cloned().collect()
    }

    fn refused(&self) -> Vec<RefusedManifest> {
        self.refused.lock().unwrap().clone()
    }

    fn changes(&self) -> watch::Receiver<u64> {
        self.shut.lock().unwrap().clone().unwrap_or_else(|| self.changes.subscribe())
    }
}

/// A status with one running container, `main`, with this id.
pub(crate) fn running(id: &str) -> PodStatus {
    let state = ContainerState {
        running: Some(ContainerStateRunning::default()),
        ..ContainerState::default()
    };
    container_in(id, state)
}

/// A status with one terminated container, `main`.
pub(crate) fn ended(id: &str) -> PodStatus {
    let ended = ContainerStateTerminated {
        container_id: Some(format!("containerd://{id}")),
        ..ContainerStateTerminated::default()
    };
    container_in(id, ContainerState { terminated: Some(ended), ..ContainerState::default() })
}

fn container_in(id: &str, state: ContainerState) -> PodStatus {
    let status = ContainerStatus {
        name: "main".to_owned(),
        container_id: Some(format!("containerd://{id}")),
        state: Some(state),
        ..ContainerStatus::default()
    };
    PodStatus { container_statuses: Some(vec![status]), ..PodStatus::default() }
}

/// Logs that contain their query, and with `follow` go on until the end is announced.
#[derive(Debug, Default)]
pub(crate) struct Logs;

#[async_trait]
impl ContainerLogs for Logs {
    async fn open(
        &self,
        path: &Path,
        request: &LogRequest,
        follow: Option<Ended>,
    ) -> Result<LogText, FileError> {
        if path.ends_with("broken") {
            let source = std::io::Error::other("on fire");
            return Err(FileError { operation: "read", path: path.to_owned(), source });
        }
        let first = format!("{} {request:?}\n", path.display());
        let last = futures_util::stream::once(async move {
            if let Some(ended) = follow {
                ended.await;
            }
            Ok(b"end\n".to_vec())
        });
        Ok(futures_util::stream::iter([Ok(first.into_bytes())]).chain(last).boxed())
    }
}

impl LogPaths for Logs {
    fn log_path(&self, pod: &PodUid, container: &ContainerId) -> Option<PathBuf> {
        let known = container.as_str() != "unknown";
        known.then(|| format!("/logs/{pod}/{container}").into())
    }
}

/// The agent's health, metrics and verbosity.
#[derive(Debug, Default)]
pub(crate) struct Agent {
    pub(crate) problem: Mutex<Option<String>>,
    pub(crate) level: Mutex<u32>,
    /// Records of removals.
    pub(crate) journal: MemorySegments,
    /// The items of plans.
    pub(crate) items: Mutex<Vec<GcItem>>,
}

impl HealthChecks for Agent {
    fn checks(&self) -> Vec<Check> {
        let result = self.problem.lock().unwrap().clone().map_or(Ok(()), Err);
        vec![Check { name: "ping", result: Ok(()) }, Check { name: "relist", result }]
    }
}

impl MetricsText for Agent {
    fn text(&self) -> String {
        "up 1\n".to_owned()
    }
}

impl Verbosity for Agent {
    fn set(&self, level: u32) -> Result<(), String> {
        *self.level.lock().unwrap() = level;
        Ok(())
    }
}

#[async_trait]
impl Removals for Agent {
    async fn why(&self, query: Query, limit: usize) -> Result<SearchResult, String> {
        if let Some(problem) = self.problem.lock().unwrap().clone() {
            return Err(problem);
        }
        let clock = Arc::new(VirtualClock::new());
        let journal = DiskJournal::new(Arc::new(self.journal.clone()), clock, "0.1.0", SMALLEST);
        journal.find(&query, limit).map_err(|error| error.to_string())
    }

    async fn history(&self, query: Query, limit: usize) -> Result<SearchResult, String> {
        let found = self.why(query.clone(), limit).await?;
        let incidents = find_incidents(&self.journal, &query, limit);
        Ok(found.merged_with(incidents.map_err(|error| error.to_string())?))
    }
}

#[async_trait]
impl Collector for Agent {
    async fn plan(&self) -> GcPlan {
        GcPlan {
            generated_at: jiff::Timestamp::UNIX_EPOCH,
            source: GcSource::Agent,
            policy: Inputs::default(),
            items: self.items.lock().unwrap().clone(),
            warnings: Vec::new(),
            problems: Vec::new(),
        }
    }

    async fn run(&self) -> BoxStream<'static, GcLine> {
        let items = std::mem::take(&mut *self.items.lock().unwrap());
        let removed = BTreeMap::from([("container".to_owned(), items.len() as u64)]);
        let lines = items.into_iter().map(|item| GcLine::Removed { item });
        let done = GcLine::Done(GcDone { removed, ..GcDone::default() });
        futures_util::stream::iter(lines.chain([done]).collect::<Vec<_>>()).boxed()
    }
}

#[async_trait]
impl EvictionView for Agent {
    async fn plan(&self) -> EvictPlan {
        EvictPlan { conditions: vec!["DiskPressure".to_owned()], ..EvictPlan::default() }
    }
}

pub(crate) struct Harness {
    pub(crate) pods: Arc<Pods>,
    pub(crate) agent: Arc<Agent>,
    pub(crate) events: Arc<EventBook>,
    pub(crate) socket: PathBuf,
    pub(crate) stop: CancellationToken,
    pub(crate) tasks: JoinSet<()>,
    _directory: tempfile::TempDir,
}

impl Harness {
    pub(crate) fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("agent.sock");
        let pods = Arc::new(Pods {
            all: Mutex::default(),
            refused: Mutex::default(),
            changes: watch::Sender::new(0),
            shut: Mutex::default(),
        });
        let agent = Arc::new(Agent::default());
        let clock = Arc::new(VirtualClock::new());
        let quiet = Arc::new(KeptEvents::default());
        let events =
            Arc::new(EventBook::new(Arc::clone(&clock) as _, EventLimits::default(), quiet));
        let parts = Parts {
            pods: Arc::clone(&pods) as _,
            events: Arc::clone(&events),
            log_paths: Arc::new(Logs),
            logs: Arc::new(Logs),
            health: Arc::clone(&agent) as _,
            metrics: Arc::clone(&agent) as _,
            removals: Arc::clone(&agent) as _,
            collector: Arc::clone(&agent) as _,
            eviction: Arc::clone(&agent) as _,
            streams: None,
            verbosity: Arc::clone(&agent) as _,
            clock,
            version: Version { kubernetes: "v1.36.3".to_owned(), ferrolet: "0.1.0".to_owned() },
        };
        let (mut tasks, stop) = (JoinSet::new(), CancellationToken::new());
        let listener = UnixListener::bind(&socket).unwrap();
        tasks.spawn(server::serve(Arc::new(parts), listener, stop.clone()));
        Self { pods, agent, events, socket, stop, tasks, _directory: directory }
    }

    pub(crate) fn record_event(&self, pod: &str, reason: &'static str) {
        Events::record(
            &*self.events,
            PodEvent {
                pod_uid: format!("uid-of-{pod}").into(),
                pod: PodName::new("default", pod),
                field_path: "".into(),
                kind: EventType::Normal,
                reason: reason.into(),
                message: "recorded".to_owned(),
                annotations: Vec::new(),
            },
        );
    }

    /// Sends a request and returns the head of the response.
    pub(crate) async fn send(&self, method: &str, path: &str, body: &str) -> Response<Incoming> {
        let stream = UnixStream::connect(&self.socket).await.unwrap();
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
        let body = Full::new(Bytes::from(body.to_owned()));
        let request = Request::builder().method(method).uri(path).header("host", "agent");
        let request = request.body(body).unwrap();
        let mut driver = JoinSet::new();
        driver.spawn(async move { drop(connection.await) });
        driver.detach_all();
        sender.send_request(request).await.unwrap()
    }

    /// Status and content of a finite response.
    pub(crate) async fn send_text(
        &self,
        method: &str,
        path: &str,
        body: &str,
    ) -> (StatusCode, String) {
        let answer = self.send(method, path, body).await;
        let status = answer.status();
        let content = tokio::time::timeout(PATIENCE, answer.into_body().collect()).await;
        let content = content.expect("an answer in time").unwrap().to_bytes();
        (status, String::from_utf8(content.to_vec()).unwrap())
    }

    pub(crate) async fn get(&self, path: &str) -> (StatusCode, String) {
        self.send_text("GET", path, "").await
    }

    /// Status and message of an error response.
    pub(crate) async fn problem(&self, method: &str, path: &str) -> (u16, String) {
        let (status, content) = self.send_text(method, path, "").await;
        let problem: Problem = serde_json::from_str(&content)
            .unwrap_or_else(|error| panic!("{path}: {error}: {content}"));
        (status.as_u16(), problem.message)
    }
}

/// A response that is read line by line.
pub(crate) struct Lines {
    body: Incoming,
    buffer: Vec<u8>,
}

impl Lines {
    pub(crate) fn of(answer: Response<Incoming>) -> Self {
        Self { body: answer.into_body(), buffer: Vec::new() }
    }

    /// The next line; `None` at the end.
    pub(crate) async fn next(&mut self) -> Option<String> {
        let reading = async {
            loop {
                if let Some(end) = self.buffer.iter().position(|byte| *byte == b'\n') {
                    let line: Vec<u8> = self.buffer.drain(..=end).collect();
                    return Some(String::from_utf8(line).unwrap().trim_end().to_owned());
                }
                let frame = self.body.frame().await?;
                self.buffer.extend(frame.unwrap().into_data().unwrap());
            }
        };
        tokio::time::timeout(PATIENCE, reading).await.expect("a line in time")
    }
}
