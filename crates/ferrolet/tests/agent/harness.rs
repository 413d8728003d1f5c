//! An in-memory node for tests of the agent.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use allocation::decide::admission::Ability;
use config::KubeletConfiguration;
use eviction::EvictionSettings;
use ferrolet::wiring::{
    Agent, ClusterPorts, ImageRules, ManifestUrl, NodeCgroups, Ports, Registry, Settings,
    UsagePorts,
};
use gc::policy::ContainerPolicy;
use model::cgroup::CgroupName;
use model::observed::{Container, ContainerState, SandboxState};
use model::ports::cgroups::Cgroups;
use model::ports::events::EventType;
use model::ports::files::HostFiles;
use model::ports::http::Headers;
use model::ports::runtime::Runtime;
use runtime::decide::NodeSettings;
use testkit::addresses::MemoryAddresses;
use testkit::cgroups::MemoryCgroups;
use testkit::clock::VirtualClock;
use testkit::cluster::node_api::MemoryNodeApi;
use testkit::cluster::{MemoryCluster, MemoryPods};
use testkit::disk::MemoryDisk;
use testkit::events::{KeptEvents, KeptNodeEvents};
use testkit::files::MemoryFiles;
use testkit::http::MemoryHttp;
use testkit::node_usage::MemoryUsage;
use testkit::probes::MemoryProbes;
use testkit::programs::MemoryPrograms;
use testkit::reviews::NoReviews;
use testkit::runtime::{MemoryRuntime, RemoteImage};
use testkit::segments::MemorySegments;
use testkit::volumes::MemoryVolumes;

/// The limit of a wait, in the agent's time.
const PATIENCE: Duration = Duration::from_mins(5);

/// The ports of an agent. They outlive agents: the next agent finds the state of the previous one.
pub(crate) struct Harness {
    pub(crate) runtime: Arc<MemoryRuntime>,
    pub(crate) files: Arc<MemoryFiles>,
    pub(crate) events: Arc<KeptEvents>,
    pub(crate) journal: MemorySegments,
    pub(crate) node_events: Arc<KeptNodeEvents>,
    /// The disk of images.
    pub(crate) disk: Arc<MemoryDisk>,
    /// The agents' rules of image garbage collection.
    pub(crate) images: ImageRules,
    pub(crate) cgroups: Arc<MemoryCgroups>,
    pub(crate) web: Arc<MemoryHttp>,
    /// The URL of the agents' manifests.
    pub(crate) url: Option<&'static str>,
    /// The node's allocatable resources, if they are limited.
    pub(crate) allocatable: Vec<(&'static str, &'static str)>,
    /// Features that the node does not declare.
    pub(crate) lacks: Vec<Ability>,
    /// Whether each pod has a cgroup.
    pub(crate) per_pod_cgroups: bool,
    /// The agents' limits of dead containers.
    pub(crate) container_gc: ContainerPolicy,
    /// The results of probes.
    pub(crate) probes: Arc<MemoryProbes>,
    /// The API server; `None` without a cluster.
    pub(crate) api: Option<MemoryPods>,
    /// The metrics of the last started agent.
    pub(crate) counted: Mutex<Registry>,
    /// The store of the Node object, if agents maintain it.
    pub(crate) own_node: Option<MemoryNodeApi>,
    /// The machine's addresses.
    pub(crate) addresses: Arc<MemoryAddresses>,
    /// Further objects on the API server.
    pub(crate) rest: MemoryCluster,
    /// The usage of cgroups, if the agents have statistics.
    pub(crate) usage: Option<Arc<MemoryUsage>>,
    /// When the agents evict pods.
    pub(crate) eviction: EvictionSettings,
    /// Wraps the API server for agents, if set.
    pub(crate) through: Option<ClusterPorts>,
    clock: Arc<VirtualClock>,
}

impl Harness {
    pub(crate) fn new() -> Self {
        let clock = Arc::new(VirtualClock::new());
        let runtime = Arc::new(MemoryRuntime::new(Arc::clone(&clock) as _));
        let image = RemoteImage::new("ferrolet.test/workload:1").entrypoint(["/workload"]);
        runtime.add_image(&image);
        let (files, events) = (Arc::new(MemoryFiles::new()), Arc::new(KeptEvents::default()));
        let disk = MemoryDisk::new("/var/lib", 1 << 40).holding(Arc::clone(&runtime));
        let cgroups = MemoryCgroups::default();
        for class in ["burstable", "besteffort"] {
            let name = CgroupName::parse(&format!("/kubepods/{class}"));
            cgroups.make(&name.expect("a valid cgroup name"));
        }
        Self {
            runtime,
            files,
            events,
            journal: MemorySegments::default(),
            node_events: Arc::default(),
            web: Arc::default(),
            probes: Arc::default(),
            url: None,
            allocatable: Vec::new(),
            lacks: Vec::new(),
            per_pod_cgroups: true,
            container_gc: ContainerPolicy::default(),
            disk: Arc::new(disk),
            images: ImageRules::default(),
            cgroups: Arc::new(cgroups),
            api: None,
            counted: Mutex::default(),
            own_node: None,
            addresses: Arc::new(MemoryAddresses::one("192.0.2.1")),
            rest: MemoryCluster::new(VirtualClock::clone(&clock)),
            usage: None,
            eviction: EvictionSettings::default(),
            through: None,
            clock,
        }
    }

    /// A node with an API server that has its Node object.
    pub(crate) fn in_cluster() -> (Self, MemoryPods) {
        let mut harness = Self::new();
        let api = MemoryPods::new(VirtualClock::clone(&harness.clock));
        api.register_node("node");
        harness.api = Some(api.clone());
        (harness, api)
    }

    /// Writes the manifest of a pod with one container.
    pub(crate) fn write_manifest(&self, name: &str, policy: &str, args: &str) {
        let manifest = format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\nspec:\n  restartPolicy: {policy}\n  \
             containers:\n  - {{name: main, image: \"ferrolet.test/workload:1\", args: {args}}}\n"
        );
        self.files.write(format!("/manifests/{name}.yaml"), manifest);
    }

    /// Writes the manifest of a pod with this specification.
    pub(crate) fn write_spec(&self, name: &str, spec: &str) {
        let head = format!("apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\nspec:\n");
        self.files.write(format!("/manifests/{name}.yaml"), head + spec);
    }

    pub(crate) fn remove_manifest(&self, name: &str) {
        self.files.remove(format!("/manifests/{name}.yaml"));
    }

    pub(crate) fn start(&self) -> Agent {
        let (runtime, files) = (Runtime::new(Arc::clone(&self.runtime)), Arc::clone(&self.files));
        self.start_with(runtime, files as _, Arc::clone(&self.cgroups) as _)
    }

    /// Starts an agent whose ports are replaced by a function.
    pub(crate) fn start_with(
        &self,
        runtime: Runtime,
        files: Arc<dyn HostFiles>,
        cgroups: Arc<dyn Cgroups>,
    ) -> Agent {
        let node = NodeSettings {
            root_dir: "/var/lib/kubelet".into(),
            cluster_dns: vec![[10, 96, 0, 10].into()],
            ids_per_pod: 65_536,
            ..NodeSettings::default()
        };
        let mut settings = Settings {
            manifests: Some("/manifests".into()),
            manifest_url: self.url.map(|url| ManifestUrl {
                url: url.to_owned(),
                headers: Headers::default(),
                period: Duration::from_secs(20),
            }),
            host_ips: vec![[192, 0, 2, 1].into()],
            container_gc: self.container_gc,
            images: self.images.clone(),
            eviction: self.eviction.clone(),
            cgroups: NodeCgroups::of_pods("/kubepods").per_pod(self.per_pod_cgroups),
            ..Settings::new("node", "memory", node)
        };
        settings.own_node = self.own_node.is_some().then(|| own_node(&settings));
        for (name, amount) in &self.allocatable {
            let amount = amount.parse().expect("an amount");
            settings.admission.allocatable.insert((*name).to_owned(), amount);
        }
        for ability in &self.lacks {
            settings.admission.abilities.remove(ability);
        }
        let volumes = Arc::new(MemoryVolumes::new(Arc::clone(&self.files)));
        let ports = Ports {
            runtime,
            files,
            volumes,
            http: Arc::clone(&self.web) as _,
            pod_http: Arc::clone(&self.web) as _,
            probes: Arc::clone(&self.probes) as _,
            logs: Arc::new(testkit::logs::MemoryLogs::default()),
            log_files: None,
            programs: Arc::<MemoryPrograms>::default(),
            clock: Arc::clone(&self.clock) as _,
            events: Arc::clone(&self.events) as _,
            journal: Arc::new(self.journal.clone()),
            node_events: Arc::clone(&self.node_events) as _,
            disks: Arc::clone(&self.disk) as _,
            cgroups: Some(cgroups),
            usage: self.usage.as_ref().map(|usage| UsagePorts {
                cgroups: Arc::clone(usage) as _,
                node: Arc::clone(usage) as _,
                alarm: None,
            }),
            packet_filter: None,
            cluster: self.through.clone().or_else(|| self.cluster_ports()),
            pools: Vec::new(),
            metrics: Registry::new(),
            probe_metrics: Registry::new(),
        };
        *self.counted.lock().expect("no thread panicked with it") = ports.metrics.clone();
        Agent::start(&settings, ports, None)
    }

    /// The API server, if there is one.
    pub(crate) fn cluster_ports(&self) -> Option<ClusterPorts> {
        let api = self.api.as_ref()?;
        Some(ClusterPorts {
            pods: Arc::new(api.clone()),
            pod_writes: Arc::new(api.clone()),
            node: Arc::new(self.own_node.clone().unwrap_or_default()),
            leases: Arc::new(self.own_node.clone().unwrap_or_default()),
            csi_nodes: Arc::new(self.own_node.clone().unwrap_or_default()),
            addresses: Arc::clone(&self.addresses) as _,
            objects: Arc::new(self.rest.clone()),
            accounts: Arc::new(self.rest.clone()),
            tokens: Arc::new(self.rest.clone()),
            trust_bundles: Arc::new(self.rest.clone()),
            certificates: Arc::new(self.rest.clone()),
            storage: Arc::new(self.rest.clone()),
            services: Arc::new(self.rest.clone()),
            classes: Arc::new(self.rest.clone()),
            events: Arc::new(self.rest.clone()),
            reviews: Arc::new(NoReviews),
            own_certificates: None,
        })
    }

    /// The metrics of the last agent as text.
    pub(crate) fn metrics(&self) -> String {
        let counted = self.counted.lock().expect("no thread panicked with it").gather();
        prometheus::TextEncoder::new().encode_to_string(&counted).expect("metrics are text")
    }

    /// The running containers of a pod.
    pub(crate) fn running(&self, pod: &str) -> Vec<Container> {
        let name = format!("{pod}-node");
        let mut containers = self.runtime.containers();
        containers.retain(|container| {
            *container.pod.name == name && container.state == ContainerState::Running
        });
        containers
    }

    /// The reasons of warning events of the node.
    pub(crate) fn node_warnings(&self) -> Vec<&'static str> {
        let events = self.node_events.all().into_iter();
        let warnings = events.filter(|event| event.kind == EventType::Warning);
        warnings.map(|event| event.reason).collect()
    }

    /// The existing cgroups of pods.
    pub(crate) fn pod_cgroups(&self) -> Vec<String> {
        let names = self.cgroups.all().into_keys().filter(|name| name.last().starts_with("pod"));
        names.map(|name| name.to_string()).collect()
    }

    pub(crate) fn live_sandboxes(&self) -> usize {
        let sandboxes = self.runtime.sandboxes();
        sandboxes.iter().filter(|sandbox| sandbox.state == SandboxState::Ready).count()
    }

    /// Lets time pass until `look` returns a value.
    pub(crate) async fn until<T>(&self, what: &str, look: impl Fn(&Self) -> Option<T>) -> T {
        let looking = async {
            loop {
                if let Some(value) = look(self) {
                    return value;
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        let found = tokio::time::timeout(PATIENCE, looking).await;
        found.unwrap_or_else(|_| panic!("{what}: {:?}", self.runtime.containers()))
    }

    /// Waits until exactly one container of the pod runs.
    pub(crate) async fn one_runs(&self, pod: &str) -> Container {
        let one = |harness: &Self| {
            let mut running = harness.running(pod);
            (running.len() == 1).then(|| running.remove(0))
        };
        self.until(&format!("one container of {pod} runs"), one).await
    }

    /// The container of a pod that replaced an earlier one; they never run at the same time.
    pub(crate) async fn replaced(&self, pod: &str, old: &Container) -> Container {
        let new = |harness: &Self| {
            let running = harness.running(pod);
            assert!(running.len() <= 1, "both run: {running:?}");
            running.into_iter().find(|container| container.pod_uid != old.pod_uid)
        };
        self.until("the new one runs", new).await
    }
}

/// The settings of the Node object.
fn own_node(settings: &Settings) -> node::Settings {
    let own = node::NodeParameters {
        name: settings.node_name.clone(),
        hostname: settings.node_name.clone(),
        architecture: "amd64".to_owned(),
        capacity: settings.admission.allocatable.clone(),
        allocatable: settings.admission.allocatable.clone(),
        ..node::NodeParameters::default()
    };
    node::Settings::new(&KubeletConfiguration::of_empty_file(), own)
}
