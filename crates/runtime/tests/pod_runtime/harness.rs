//! A pod runtime with its environment in memory.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::try_join_all;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use model::cgroup::CgroupName;
use model::ids::{ContainerId, PodUid, SandboxId};
use model::image_claims::ImageClaims;
use model::observed::{ContainerState, RuntimePodStatus, pods_by_uid};
use model::ports::cgroups::Cgroups;
use model::ports::clock::WallClock;
use model::ports::files::FileError;
use model::ports::image_access::{ImageAccess, OpenAccess};
use model::ports::runtime::{
    ContainerFilter, ContainerService, Runtime, SandboxFilter, SandboxService,
};
use model::ports::termination_message::TerminationMessageReader as _;
use model::ports::volumes::SubpathError;
use model::wait::Wait;
use podspec::view;
use runtime::decide::{BackoffLimits, NodeSettings, PodCgroupSettings, ProbeResults, SyncContext};
use runtime::decide::{MountedVolume, Progress, PullSettings, SubpathMount};
use runtime::{
    ApiParts, Applied, LogLayout, NoVolumes, PodCgroups, PodRuntime, PodRuntimeParts, PodVolumes,
    SyncError, TerminationMessages,
};
use testkit::clock::VirtualClock;
use testkit::events::{KeptEvents, KeptNodeEvents};
use testkit::files::MemoryFiles;
use testkit::http::MemoryHttp;
use testkit::incidents::KeptIncidents;
use testkit::logs::MemoryLogs;
use testkit::objects::MemoryObjects;
use testkit::pods::{self, PodBuilder};
use testkit::runtime::{MemoryRuntime, Method, RemoteImage};
use tokio_util::sync::CancellationToken;

pub(crate) const IMAGE: &str = "ferrolet.test/workload:1";
/// The root of the pods' directories.
pub(crate) const PODS: &str = "/var/lib/kubelet/pods";
/// The log directory of the pod `web`.
pub(crate) const WEB_LOGS: &str = "/var/log/pods/default_web_uid-of-web";

/// Volumes that are ready by default.
#[derive(Debug, Default)]
pub(crate) struct Gate {
    wait: Mutex<Option<Wait>>,
    files: Mutex<BTreeMap<PathBuf, Vec<u8>>>,
}

impl Gate {
    /// Sets the volumes that pods wait for.
    pub(crate) fn set(&self, wait: Option<Wait>) {
        *self.wait.lock().unwrap() = wait;
    }

    /// Writes a file of a volume.
    pub(crate) fn write(&self, volume: &str, path: &str, content: &str) {
        let path = Path::new("/volumes").join(volume).join(path);
        self.files.lock().unwrap().insert(path, content.as_bytes().to_vec());
    }
}

#[async_trait]
impl PodVolumes for Gate {
    async fn wait(&self, _: &Pod, _: &CancellationToken) -> Option<Wait> {
        self.wait.lock().unwrap().clone()
    }

    fn mounted(&self, _: &PodUid, volume: &str) -> Option<MountedVolume> {
        let (spec_name, host_path) = (volume.to_owned(), Path::new("/volumes").join(volume));
        Some(MountedVolume { spec_name, host_path, ..MountedVolume::default() })
    }

    async fn mount_subpath(
        &self,
        pod: &PodUid,
        subpath: &SubpathMount,
    ) -> Result<PathBuf, SubpathError> {
        NoVolumes.mount_subpath(pod, subpath).await
    }

    async fn read_file(&self, root: &Path, path: &Path, limit: u64) -> Result<Vec<u8>, FileError> {
        let content = self.files.lock().unwrap().get(&root.join(path)).cloned();
        match content {
            Some(content) => Ok(content),
            None => NoVolumes.read_file(root, path, limit).await,
        }
    }
}

/// The optional parts of a node.
#[derive(Default)]
struct Outside {
    api: Option<ApiParts>,
    access: Option<Arc<dyn ImageAccess>>,
}

pub(crate) struct Harness {
    pub(crate) runtime: Arc<MemoryRuntime>,
    pub(crate) files: Arc<MemoryFiles>,
    pub(crate) events: Arc<KeptEvents>,
    pub(crate) node_events: Arc<KeptNodeEvents>,
    pub(crate) incidents: Arc<KeptIncidents>,
    pub(crate) pods: PodRuntime,
    pub(crate) cgroups: Option<Arc<PodCgroups>>,
    pub(crate) web: Arc<MemoryHttp>,
    pub(crate) logs: Arc<MemoryLogs>,
    pub(crate) claims: ImageClaims,
    pub(crate) gate: Arc<Gate>,
    words: TerminationMessages,
    restart_all: AtomicBool,
    clock: Arc<VirtualClock>,
    registry: prometheus::Registry,
}

impl Harness {
    pub(crate) fn new() -> Self {
        let node = NodeSettings {
            root_dir: "/var/lib/kubelet".into(),
            cluster_dns: vec![[10, 96, 0, 10].into()],
            cluster_domain: "cluster.local".to_owned(),
            ids_per_pod: 65_536,
            ..NodeSettings::default()
        };
        Self::with(node)
    }

    pub(crate) fn with(node: NodeSettings) -> Self {
        Self::with_cgroups(node, None)
    }

    /// On a node with pod cgroups.
    pub(crate) fn with_cgroups(node: NodeSettings, cgroups: Option<Arc<dyn Cgroups>>) -> Self {
        let clock = Arc::new(VirtualClock::new());
        let runtime = Arc::new(MemoryRuntime::new(Arc::clone(&clock) as _));
        runtime.add_image(&RemoteImage::new(IMAGE));
        Self::on(runtime, clock, node, cgroups, Outside::default())
    }

    /// With these pull settings.
    pub(crate) fn with_pulls(pulls: PullSettings) -> Self {
        Self::with(NodeSettings { pulls, ..NodeSettings::default() })
    }

    /// With this image access.
    pub(crate) fn with_access(pulls: PullSettings, access: Arc<dyn ImageAccess>) -> Self {
        let clock = Arc::new(VirtualClock::new());
        let runtime = Arc::new(MemoryRuntime::new(Arc::clone(&clock) as _));
        let node = NodeSettings { pulls, ..NodeSettings::default() };
        Self::on(runtime, clock, node, None, Outside { access: Some(access), api: None })
    }

    /// On a node of a cluster.
    pub(crate) fn with_api(node: NodeSettings, api: &MemoryObjects) -> Self {
        let clock = Arc::new(VirtualClock::new());
        let runtime = Arc::new(MemoryRuntime::new(Arc::clone(&clock) as _));
        runtime.add_image(&RemoteImage::new(IMAGE));
        let api = Arc::new(api.clone());
        let api = ApiParts {
            objects: Arc::clone(&api) as _,
            services: Arc::clone(&api) as _,
            classes: api,
        };
        Self::on(runtime, clock, node, None, Outside { api: Some(api), access: None })
    }

    /// Another agent on the same runtime.
    pub(crate) fn again(&self, node: NodeSettings, cgroups: Option<Arc<dyn Cgroups>>) -> Self {
        Self::on(Arc::clone(&self.runtime), Arc::clone(&self.clock), node, cgroups, <_>::default())
    }

    fn on(
        runtime: Arc<MemoryRuntime>,
        clock: Arc<VirtualClock>,
        node: NodeSettings,
        cgroups: Option<Arc<dyn Cgroups>>,
        outside: Outside,
    ) -> Self {
        let files = Arc::new(MemoryFiles::new());
        let events = Arc::new(KeptEvents::default());
        let node_events = Arc::new(KeptNodeEvents::default());
        let incidents = Arc::new(KeptIncidents::default());
        let (web, logs) = (Arc::new(MemoryHttp::default()), Arc::new(MemoryLogs::default()));
        let cgroups = cgroups.map(|port| {
            let root = CgroupName::parse("/kubepods").unwrap();
            let settings = PodCgroupSettings { root, ..PodCgroupSettings::default() };
            Arc::new(PodCgroups::new(port, Arc::clone(&clock) as _, settings))
        });
        let gate = Arc::new(Gate::default());
        let (registry, claims) = (prometheus::Registry::new(), ImageClaims::default());
        let pods = PodRuntime::new(PodRuntimeParts {
            metrics: runtime::Metrics::new(&registry).unwrap(),
            api: outside.api,
            image_access: outside.access.unwrap_or_else(|| Arc::new(OpenAccess)),
            cgroups: cgroups.clone(),
            volumes: Arc::clone(&gate) as _,
            claims: claims.clone(),
            runtime: Runtime::new(Arc::clone(&runtime)),
            files: Arc::clone(&files) as _,
            http: Arc::clone(&web) as _,
            pods: PODS.into(),
            events: Arc::clone(&events) as _,
            node_events: Arc::clone(&node_events) as _,
            incidents: Arc::clone(&incidents) as _,
            clock: Arc::clone(&clock) as _,
            logs: LogLayout {
                pod_logs: "/var/log/pods".into(),
                container_links: "/var/log/containers".into(),
            },
            node,
            host_ips: Arc::new(vec![IpAddr::from([192, 0, 2, 1])]),
            restart_backoff: BackoffLimits::up_to(Duration::from_mins(5)),
        });
        let words = TerminationMessages {
            files: Arc::clone(&files) as _,
            logs: Arc::clone(&logs) as _,
            pods: PODS.into(),
        };
        let restart_all = AtomicBool::new(false);
        Self {
            runtime,
            files,
            events,
            node_events,
            incidents,
            pods,
            cgroups,
            web,
            logs,
            claims,
            gate,
            words,
            restart_all,
            clock,
            registry,
        }
    }

    /// The current status of the pod.
    pub(crate) async fn status(&self, pod: &Pod) -> RuntimePodStatus {
        let (runtime, uid) = (&self.runtime, view::uid(pod));
        let sandboxes = SandboxFilter { pod_uid: Some(uid.clone()), ..SandboxFilter::default() };
        let containers =
            ContainerFilter { pod_uid: Some(uid.clone()), ..ContainerFilter::default() };
        let sandboxes = runtime.list_pod_sandboxes(&sandboxes).await.unwrap();
        let containers = runtime.list_containers(&containers).await.unwrap();
        let Some(listed) = pods_by_uid(sandboxes, containers).remove(&uid) else {
            return RuntimePodStatus::empty(uid);
        };
        let sandboxes = listed.sandboxes.iter().map(|one| runtime.pod_sandbox_status(&one.id));
        let containers = listed.containers.iter().map(|one| runtime.container_status(&one.id));
        let sandboxes = try_join_all(sandboxes).await.unwrap();
        let mut containers = try_join_all(containers).await.unwrap();
        for (status, listed) in containers.iter_mut().zip(&listed.containers) {
            status.sandbox_id = listed.sandbox_id.clone();
            self.words.add(status).await;
        }
        let ips = sandboxes.first().map(|sandbox| sandbox.ips.clone()).unwrap_or_default();
        RuntimePodStatus { ips, sandboxes, containers, ..RuntimePodStatus::empty(uid) }
    }

    /// A sync with the current status. Afterwards only the calls of the sync are recorded.
    pub(crate) async fn sync(&self, pod: &Pod) -> Result<bool, SyncError> {
        let progress = self.sync_until(pod, &CancellationToken::new()).await?;
        Ok(progress != Progress::Nothing)
    }

    /// A sync that is cancelled when the pod terminates.
    pub(crate) async fn sync_until(
        &self,
        pod: &Pod,
        cancel: &CancellationToken,
    ) -> Result<Progress, SyncError> {
        self.pods.register_objects(pod);
        let status = self.status(pod).await;
        self.runtime.forget_calls();
        let restart_all = self.restart_all.load(Ordering::Relaxed);
        let probes = &ProbeResults::default();
        let sizes = &self.pods.sizes().await;
        let cgroup = self.pods.cgroup_facts(pod, &status).await?;
        let context = SyncContext { pod, status: &status, probes, restart_all, sizes, cgroup };
        self.act(&context, cancel).await
    }

    /// A sync with results of probes.
    pub(crate) async fn sync_with(
        &self,
        pod: &Pod,
        probes: &ProbeResults,
    ) -> Result<Progress, SyncError> {
        let status = &self.status(pod).await;
        let sizes = &self.pods.sizes().await;
        let cgroup = self.pods.cgroup_facts(pod, status).await?;
        let context = SyncContext { pod, status, probes, restart_all: false, sizes, cgroup };
        self.act(&context, &CancellationToken::new()).await
    }

    /// The first part of a sync, up to a new sandbox.
    pub(crate) async fn apply(&self, pod: &Pod) -> Result<Applied, SyncError> {
        let status = self.status(pod).await;
        self.runtime.forget_calls();
        let (probes, sizes) = (&ProbeResults::default(), &self.pods.sizes().await);
        let cgroup = self.pods.cgroup_facts(pod, &status).await?;
        let context =
            SyncContext { pod, status: &status, probes, restart_all: false, sizes, cgroup };
        self.pods.apply(&context, &CancellationToken::new()).await
    }

    /// A sync with an earlier status.
    pub(crate) async fn sync_on(
        &self,
        pod: &Pod,
        status: &RuntimePodStatus,
    ) -> Result<Progress, SyncError> {
        let probes = &ProbeResults::default();
        let sizes = &self.pods.sizes().await;
        let cgroup = self.pods.cgroup_facts(pod, status).await?;
        let context = SyncContext { pod, status, probes, restart_all: false, sizes, cgroup };
        self.act(&context, &CancellationToken::new()).await
    }

    /// The first sync of a pod, concurrent with others: recorded calls are kept.
    pub(crate) async fn first_sync(
        &self,
        pod: &Pod,
        cancel: &CancellationToken,
    ) -> Result<Progress, SyncError> {
        let status = &RuntimePodStatus::empty(view::uid(pod));
        let (probes, sizes) = (&ProbeResults::default(), &self.pods.sizes().await);
        let cgroup = self.pods.cgroup_facts(pod, status).await?;
        let context = SyncContext { pod, status, probes, restart_all: false, sizes, cgroup };
        self.act(&context, cancel).await
    }

    async fn act(
        &self,
        context: &SyncContext<'_>,
        cancel: &CancellationToken,
    ) -> Result<Progress, SyncError> {
        match self.pods.apply(context, cancel).await? {
            Applied::Done(progress) => Ok(progress),
            Applied::NotReady { wait, .. } => panic!("{wait:?}"),
            Applied::SandboxReady(pending) => self.pods.start(context, *pending, cancel).await,
        }
    }

    /// Sets whether all containers of pods restart.
    pub(crate) fn set_restart_all(&self, restart_all: bool) {
        self.restart_all.store(restart_all, Ordering::Relaxed);
    }

    /// A sync that converges the pod.
    pub(crate) async fn synced(&self, pod: &Pod) {
        assert!(self.sync(pod).await.unwrap(), "there was nothing to do");
    }

    /// A sync that fails to start containers. Returns their names and reasons.
    pub(crate) async fn failed(&self, pod: &Pod) -> (Vec<(String, &'static str)>, SyncError) {
        let error = self.sync(pod).await.unwrap_err();
        let SyncError::StartContainers(failed) = &error else { panic!("{error}") };
        let reasons = failed.iter().map(|(name, error)| (name.clone(), error.label())).collect();
        (reasons, error)
    }

    /// The one running instance of a container of the pod.
    pub(crate) async fn running(&self, pod: &Pod, name: &str) -> ContainerId {
        let status = self.status(pod).await;
        let named = status.running().filter(|container| &*container.name == name);
        let running: Vec<_> = named.map(|container| container.id.clone()).collect();
        assert_eq!(running.len(), 1, "{name}: {running:?}");
        running[0].clone()
    }

    pub(crate) async fn sandbox(&self, pod: &Pod) -> SandboxId {
        self.status(pod).await.sandboxes[0].id.clone()
    }

    /// Numbers and states of the instances of a container, the newest first.
    pub(crate) fn instances(&self, name: &str) -> Vec<(u32, ContainerState)> {
        let mut instances: Vec<_> = self
            .runtime
            .containers()
            .iter()
            .filter(|container| &*container.name == name)
            .map(|container| (container.attempt, container.state))
            .collect();
        instances.sort_by_key(|(attempt, _)| std::cmp::Reverse(*attempt));
        instances
    }

    /// The methods that the last sync called.
    pub(crate) fn calls(&self) -> Vec<Method> {
        self.runtime.calls().iter().map(|call| call.method).collect()
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Lets the clock reach a time.
    pub(crate) async fn at(&self, time: Timestamp) {
        let ahead = Duration::try_from(time.duration_since(self.now())).unwrap();
        tokio::time::sleep(ahead).await;
    }

    /// The counters with this prefix, without the buckets of histograms.
    pub(crate) fn counted(&self, prefix: &str) -> Vec<String> {
        let text = prometheus::TextEncoder::new().encode_to_string(&self.registry.gather());
        let text = text.unwrap();
        let lines = text.lines().filter(|line| line.starts_with(prefix));
        lines.filter(|line| !line.contains("_bucket{")).map(ToOwned::to_owned).collect()
    }

    /// The message of the last event with a reason.
    pub(crate) fn last_message(&self, reason: &str) -> String {
        let events = self.events.all();
        let last = events.iter().rfind(|event| event.reason == reason);
        last.unwrap_or_else(|| panic!("no {reason} among {:?}", self.events.reasons()))
            .message
            .clone()
    }
}

/// The pod `web`; containers are added by the test.
pub(crate) fn web() -> PodBuilder {
    pods::pod("web").grace(30)
}

/// The pod `web` with one container that runs until it is ended.
pub(crate) fn forever() -> Pod {
    web().container("main", IMAGE, ["sleep", "forever"]).build()
}

pub(crate) fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}
