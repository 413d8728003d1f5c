//! A manager with its ports in memory.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use model::ids::PodUid;
use model::objects::{DataObject, ObjectKey, ServiceAccountToken, TokenRequest};
use model::ports::clock::WallClock;
use model::ports::cluster::ApiError;
use model::ports::files::HostFiles as _;
use model::ports::objects::{PodObjects as _, StorageReads};
use model::ports::volumes::{MountPoint, VolumeHost as _};
use model::storage::{ClaimName, ClaimRecord, PersistentVolumeRecord};
use model::volume::VolumeLayout;
use model::wait::Wait;
use podspec::resources::Amounts;
use podspec::view;
use serde_json::{Value, json};
use testkit::clock::VirtualClock;
use testkit::events::KeptEvents;
use testkit::files::MemoryFiles;
use testkit::objects::MemoryObjects;
use testkit::panics::KeptPanics;
use testkit::volumes::{MemoryVolumes, Operation};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use volumes::{ManagerParts, Metrics, NodeFacts, PodTokens, VolumeManager};

pub(crate) const PODS: &str = "/var/lib/kubelet/pods";
pub(crate) const RESYNC: Duration = Duration::from_mins(1);

/// The host and the cluster. They stay when a manager is replaced.
#[derive(Debug, Clone)]
pub(crate) struct Ports {
    pub(crate) files: Arc<MemoryFiles>,
    pub(crate) host: Arc<MemoryVolumes>,
    pub(crate) objects: MemoryObjects,
    pub(crate) tokens: Arc<Tokens>,
    pub(crate) storage: Arc<Storage>,
    pub(crate) events: Arc<KeptEvents>,
    pub(crate) clock: Arc<VirtualClock>,
}

/// A manager that runs.
#[derive(Debug)]
pub(crate) struct Harness {
    ports: Ports,
    pub(crate) manager: VolumeManager,
    registry: prometheus::Registry,
    _tasks: JoinSet<()>,
}

impl Deref for Harness {
    type Target = Ports;

    fn deref(&self) -> &Ports {
        &self.ports
    }
}

impl Harness {
    pub(crate) fn new() -> Self {
        let files = Arc::new(MemoryFiles::new());
        let clock = Arc::new(VirtualClock::new());
        Self::on(Ports {
            host: Arc::new(MemoryVolumes::new(Arc::clone(&files))),
            files,
            objects: MemoryObjects::default(),
            tokens: Arc::new(Tokens::new(Arc::clone(&clock))),
            storage: Arc::default(),
            events: Arc::default(),
            clock,
        })
    }

    fn on(ports: Ports) -> Self {
        let (kept, registry) = (ports.clone(), prometheus::Registry::new());
        let manager = VolumeManager::new(ManagerParts {
            host: ports.host,
            files: ports.files,
            objects: Some(Arc::new(ports.objects)),
            tokens: Some(ports.tokens),
            trust_bundles: None,
            certificates: None,
            storage: Some(ports.storage),
            events: ports.events,
            clock: ports.clock,
            layout: VolumeLayout { pods: PODS.into() },
            node: Arc::new(Node),
            resync: RESYNC,
            metrics: Metrics::new(&registry).unwrap(),
            panics: KeptPanics::guard().1,
        });
        let stop = CancellationToken::new();
        let mut tasks = JoinSet::new();
        tasks.spawn(manager.clone().run(stop));
        Self { ports: kept, manager, registry, _tasks: tasks }
    }

    /// Another manager on the same host, as after a restart of the agent.
    pub(crate) fn restarted(self) -> Self {
        Self::on(self.ports.clone())
    }

    /// Syncs a pod and waits for its volumes.
    pub(crate) async fn sync(&self, pod: &Arc<Pod>) -> Option<Wait> {
        self.register(pod);
        self.manager.update(pod);
        self.manager.wait(pod, &CancellationToken::new()).await
    }

    /// The pod refers to the config map `app`.
    pub(crate) fn register(&self, pod: &Pod) {
        let objects = BTreeSet::from([ObjectKey::config_map("shop", "app")]);
        self.objects.register(&view::uid(pod), objects);
    }

    /// Puts the config map `app` there, with one key.
    pub(crate) fn put_config(&self, value: &str) {
        let data = BTreeMap::from([("mode".into(), value.as_bytes().into())]);
        let object = DataObject { data, ..DataObject::default() };
        self.objects.put(ObjectKey::config_map("shop", "app"), object);
    }

    pub(crate) async fn mounts(&self) -> Vec<MountPoint> {
        self.host.mounts("/".as_ref()).await.unwrap()
    }

    /// The names in a directory.
    pub(crate) async fn names(&self, directory: &str) -> Vec<String> {
        self.files.list(directory.as_ref()).await.unwrap()
    }

    pub(crate) async fn release(&self, pod: &Pod) {
        self.manager.release(&view::uid(pod), Some(view::pod_name(pod))).await.unwrap();
    }

    /// The content of a file in a volume.
    pub(crate) async fn content(&self, volume: &Path, file: &str) -> Option<String> {
        let content = self.host.read_in_volume(volume, file.as_ref(), 1 << 10).await.ok()?;
        Some(String::from_utf8(content).unwrap())
    }

    /// The operations so far that change something on the host.
    pub(crate) fn changes(&self) -> Vec<(Operation, PathBuf)> {
        let mut all = self.host.calls();
        all.retain(|(operation, _)| {
            !matches!(
                operation,
                Operation::Mounts | Operation::Directories | Operation::ReadInVolume
            )
        });
        all
    }

    /// The lines of the metrics that begin with a name, without those that are zero.
    pub(crate) fn counted(&self, name: &str) -> Vec<String> {
        let text = prometheus::TextEncoder::new().encode_to_string(&self.registry.gather());
        let text = text.unwrap();
        let lines = text.lines().filter(|line| line.starts_with(name) && !line.ends_with(" 0"));
        lines.map(ToOwned::to_owned).collect()
    }

    pub(crate) fn messages(&self) -> Vec<String> {
        self.events.all().into_iter().map(|event| event.message).collect()
    }
}

/// The directory of a volume, by its plugin on disk.
pub(crate) fn volume(pod: &Pod, plugin: &str, name: &str) -> PathBuf {
    let uid = view::uid(pod);
    PathBuf::from(format!("{PODS}/{uid}/volumes/kubernetes.io~{plugin}/{name}"))
}

/// A pod whose container mounts all its volumes.
pub(crate) fn pod(uid: &str, volumes: &Value) -> Arc<Pod> {
    let names = volumes.as_array().unwrap().iter().map(|volume| volume["name"].clone());
    let mounts: Vec<Value> =
        names.map(|name| json!({ "name": name, "mountPath": format!("/{name}") })).collect();
    let pod = json!({
        "metadata": { "name": format!("web-{uid}"), "namespace": "shop", "uid": uid },
        "spec": {
            "containers": [{ "name": "main", "volumeMounts": mounts }],
            "volumes": volumes,
        },
    });
    Arc::new(serde_json::from_value(pod).unwrap())
}

pub(crate) fn with_config(uid: &str) -> Arc<Pod> {
    pod(uid, &json!([{ "name": "conf", "configMap": { "name": "app" } }]))
}

pub(crate) fn with_claim(uid: &str) -> Arc<Pod> {
    pod(uid, &json!([{ "name": "data", "persistentVolumeClaim": { "claimName": "disk" } }]))
}

#[derive(Debug)]
struct Node;

impl NodeFacts for Node {
    fn allocatable(&self) -> Amounts {
        Amounts::default()
    }

    fn labels(&self) -> BTreeMap<String, String> {
        BTreeMap::new()
    }
}

/// Tokens that are valid for an hour and renewed after 48 minutes.
#[derive(Debug)]
pub(crate) struct Tokens {
    clock: Arc<VirtualClock>,
    issued: AtomicU64,
    refresh_at: Mutex<Option<Timestamp>>,
}

impl Tokens {
    fn new(clock: Arc<VirtualClock>) -> Self {
        Self { clock, issued: AtomicU64::new(0), refresh_at: Mutex::default() }
    }
}

#[async_trait]
impl PodTokens for Tokens {
    async fn token(&self, request: &TokenRequest) -> Result<Arc<ServiceAccountToken>, String> {
        assert_ne!(&*request.service_account, "panics", "requested by a test");
        let now = self.clock.now();
        let mut refresh_at = self.refresh_at.lock().unwrap();
        if refresh_at.is_none_or(|at| at <= now) {
            *refresh_at = Some(now + Duration::from_mins(48));
            self.issued.fetch_add(1, Ordering::Relaxed);
        }
        let token = format!("token {}", self.issued.load(Ordering::Relaxed));
        let expires = now + Duration::from_hours(1);
        Ok(Arc::new(ServiceAccountToken { token, expiration_seconds: 3600, expires }))
    }

    fn refresh_at(&self, _: &TokenRequest) -> Option<Timestamp> {
        *self.refresh_at.lock().unwrap()
    }

    fn forget(&self, _: &PodUid) {
        *self.refresh_at.lock().unwrap() = None;
    }
}

/// Claims and persistent volumes.
#[derive(Debug, Default)]
pub(crate) struct Storage {
    state: Mutex<Option<PersistentVolumeRecord>>,
    pub(crate) is_down: std::sync::atomic::AtomicBool,
}

impl Storage {
    /// The claim `disk` is bound to this persistent volume, `pv`.
    pub(crate) fn bind(&self, volume: PersistentVolumeRecord) {
        *self.state.lock().unwrap() = Some(volume);
    }

    fn get(&self) -> Result<Option<PersistentVolumeRecord>, ApiError> {
        if self.is_down.load(Ordering::Relaxed) {
            return Err(ApiError::TooSlow(Duration::from_secs(10)));
        }
        Ok(self.state.lock().unwrap().clone())
    }
}

#[async_trait]
impl StorageReads for Storage {
    async fn claim(&self, _: &ClaimName) -> Result<Option<ClaimRecord>, ApiError> {
        Ok(self.get()?.map(|_| ClaimRecord {
            uid: "c1".into(),
            is_bound: true,
            volume: "pv".into(),
            ..ClaimRecord::default()
        }))
    }

    async fn persistent_volume(&self, _: &str) -> Result<Option<PersistentVolumeRecord>, ApiError> {
        self.get()
    }
}
