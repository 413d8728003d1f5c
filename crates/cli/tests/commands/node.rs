//! A node without an agent: pods set by a test, their logs in real files, and a server.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use cli::commands::agent::AgentClient;
use hostfs::{HostLogs, Socket};
use k8s_openapi::api::core::v1::{Pod, PodStatus};
use model::ids::{ContainerId, PodName, PodUid};
use model::ports::events::{EventType, Events, PodEvent};
use serde_json::{Value, json};
use server::streaming::Streams;
use server::wire::{RefusedManifest, SOCKET, Version};
use server::{
    Check, EventBook, EventLimits, HealthChecks, LogPaths, MetricsText, Parts, PodAndStatus,
    PodView, Verbosity,
};
use tempfile::TempDir;
use testkit::clock::VirtualClock;
use testkit::events::KeptEvents;
use tokio::net::UnixListener;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::garbage::Garbage;

/// The agent's views for the server.
#[derive(Debug)]
struct Views {
    pods: Mutex<BTreeMap<PodUid, PodAndStatus>>,
    refused: Mutex<Vec<RefusedManifest>>,
    changes: watch::Sender<u64>,
    logs: PathBuf,
}

impl PodView for Views {
    fn pods(&self) -> Vec<PodAndStatus> {
        self.pods.lock().unwrap().values().cloned().collect()
    }

    fn refused(&self) -> Vec<RefusedManifest> {
        self.refused.lock().unwrap().clone()
    }

    fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }
}

impl LogPaths for Views {
    fn log_path(&self, pod: &PodUid, _: &ContainerId) -> Option<PathBuf> {
        Some(self.logs.join(pod.as_str()).join("main/0.log"))
    }
}

impl HealthChecks for Views {
    fn checks(&self) -> Vec<Check> {
        Vec::new()
    }
}

impl MetricsText for Views {
    fn text(&self) -> String {
        String::new()
    }
}

impl Verbosity for Views {
    fn set(&self, _: u32) -> Result<(), String> {
        Ok(())
    }
}

pub(crate) struct Node {
    root: TempDir,
    views: Arc<Views>,
    events: Arc<EventBook>,
    pub(crate) garbage: Arc<Garbage>,
    pub(crate) clock: Arc<VirtualClock>,
}

/// A running server, until it is dropped.
pub(crate) struct Server {
    _socket: Socket,
    _task: JoinSet<()>,
}

fn uid(namespace: &str, name: &str) -> PodUid {
    format!("{namespace}_{name}_uid").into()
}

fn status(state: &Value, ready: bool) -> PodStatus {
    serde_json::from_value(json!({
        "phase": "Running", "startTime": "2025-12-31T23:50:00Z",
        "podIP": "10.0.0.7", "podIPs": [{"ip": "10.0.0.7"}],
        "containerStatuses": [{
            "name": "main", "image": "image:1", "imageID": "sha256:abc", "ready": ready,
            "restartCount": 0, "containerID": "containerd://id", "state": state,
        }],
    }))
    .unwrap()
}

impl Node {
    pub(crate) fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        let clock = Arc::new(VirtualClock::new());
        let quiet = Arc::new(KeptEvents::default());
        let events = EventBook::new(Arc::clone(&clock) as _, EventLimits::default(), quiet);
        let views = Views {
            pods: Mutex::default(),
            refused: Mutex::default(),
            changes: watch::Sender::new(0),
            logs: root.path().join("logs"),
        };
        let (views, events) = (Arc::new(views), Arc::new(events));
        Self { root, views, events, garbage: Arc::default(), clock }
    }

    pub(crate) fn client(&self) -> AgentClient {
        AgentClient::new(self.root.path())
    }

    /// The pods, as the server sees them.
    pub(crate) fn pod_view(&self) -> Arc<dyn PodView> {
        Arc::clone(&self.views) as _
    }

    /// Starts a server. Must be called inside a tokio runtime.
    pub(crate) fn start(&self) -> Server {
        self.start_with(None)
    }

    /// Like `start`, with streams into containers.
    pub(crate) fn start_with(&self, streams: Option<Arc<Streams>>) -> Server {
        let path = self.root.path().join(SOCKET);
        hostfs::claim(path.parent().unwrap()).unwrap();
        let socket = hostfs::listen(&path).unwrap();
        let listener = UnixListener::from_std(socket.listener().unwrap()).unwrap();
        let parts = Parts {
            pods: Arc::clone(&self.views) as _,
            events: Arc::clone(&self.events),
            log_paths: Arc::clone(&self.views) as _,
            logs: Arc::new(HostLogs::default()),
            health: Arc::clone(&self.views) as _,
            metrics: Arc::clone(&self.views) as _,
            removals: Arc::clone(&self.garbage) as _,
            collector: Arc::clone(&self.garbage) as _,
            eviction: Arc::clone(&self.garbage) as _,
            streams,
            verbosity: Arc::clone(&self.views) as _,
            clock: Arc::clone(&self.clock) as _,
            version: Version { kubernetes: String::new(), ferrolet: String::new() },
        };
        let mut task = JoinSet::new();
        task.spawn(server::serve(Arc::new(parts), listener, CancellationToken::new()));
        Server { _socket: socket, _task: task }
    }

    /// Adds a running pod, or restarts it.
    pub(crate) fn run(&self, namespace: &str, name: &str) {
        let state = json!({"running": {"startedAt": "2025-12-31T23:50:01Z"}});
        self.set(namespace, name, status(&state, true));
    }

    /// Adds a refused manifest.
    pub(crate) fn refuse(&self, manifest: &str, pod: Option<&str>) {
        let refused = RefusedManifest {
            manifest: manifest.to_owned(),
            message: "spec: bad".to_owned(),
            pod: pod.map(str::to_owned),
            last_good_stays: pod.is_some(),
        };
        self.views.refused.lock().unwrap().push(refused);
        self.views.changes.send_modify(|count| *count += 1);
    }

    /// Ends the pod's container.
    pub(crate) fn end(&self, namespace: &str, name: &str) {
        let state = json!({"terminated": {
            "exitCode": 1, "reason": "Error", "containerID": "containerd://id",
        }});
        self.set(namespace, name, status(&state, false));
    }

    pub(crate) fn remove(&self, namespace: &str, name: &str) {
        self.views.pods.lock().unwrap().remove(&uid(namespace, name));
        self.views.changes.send_modify(|count| *count += 1);
    }

    fn set(&self, namespace: &str, name: &str, status: PodStatus) {
        let mut pod = testkit::pods::pod(name).container("main", "image:1", ["a"; 1]).build();
        pod.metadata.namespace = Some(namespace.to_owned());
        pod.metadata.uid = Some(uid(namespace, name).to_string());
        pod.spec.as_mut().unwrap().node_name = Some("node".to_owned());
        let pod = PodAndStatus { pod: Arc::new(pod), status: Some(Arc::new(status)) };
        self.views.pods.lock().unwrap().insert(uid(namespace, name), pod);
        self.views.changes.send_modify(|count| *count += 1);
    }

    /// The pod as the API returns it.
    pub(crate) fn pod(&self, namespace: &str, name: &str) -> Pod {
        self.views.pods.lock().unwrap()[&uid(namespace, name)].joined()
    }

    pub(crate) fn record_event(&self, namespace: &str, name: &str, reason: &'static str) {
        Events::record(
            &*self.events,
            PodEvent {
                pod_uid: uid(namespace, name),
                pod: PodName::new(namespace, name),
                field_path: "".into(),
                kind: EventType::Normal,
                reason: reason.into(),
                message: format!("about {reason}"),
                annotations: Vec::new(),
            },
        );
    }

    /// Writes a line into the log of a pod's container.
    pub(crate) fn log(&self, namespace: &str, name: &str, line: &str) {
        let directory = self.views.logs.join(uid(namespace, name).as_str()).join("main");
        std::fs::create_dir_all(&directory).unwrap();
        let path = directory.join("0.log");
        let mut file = std::fs::OpenOptions::new().create(true).append(true).open(path).unwrap();
        writeln!(file, "2025-12-31T23:59:59Z stdout F {line}").unwrap();
    }
}
