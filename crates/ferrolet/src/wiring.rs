//! Builds the agent: each part after the parts it needs, then the tasks.

mod container_gc;
mod decorated;
mod eviction;
mod image_access;
mod inputs;
mod logs;
pub mod node_api;
mod probes;
mod servers;
mod statistics;
mod volumes;

use std::sync::Arc;

use ::eviction::EvictionHandle;
pub use allocation::decide::admission::Node;
use allocation::decide::{AdmissionChain, AllowedSysctls};
use allocation::{AdmissionMetrics, AllocationManager, AllocationParts, ResizeMetrics, Resizes};
use gc::containers::ContainerGc;
use gc::images::ImageGc;
use model::image_claims::ImageClaims;
use model::panics::PanicGuard;
use model::ports::addresses::HostIps;
use model::ports::image_access::ImageAccess;
use model::ports::incidents::IncidentRecord;
use model::ports::streaming::Streaming;
use model::pressure::Pressure;
use model::seq::SeqCounter;
use node::NodeHandle;
use pleg::{Pleg, PlegParts};
use pods::source::api::ApiCopies;
use pods::source::file::{FileSourceSettings, file_source};
use pods::source::http::{HttpSourceSettings, http_source};
use pods::source::{SourceName, Sources};
use pods::workers::{WorkerParts, workers};
use process::tasks::Tasks;
pub use prometheus::Registry;
use runtime::{
    ApiParts, LogLayout, PodCgroups, PodDirectories, PodRuntime, PodRuntimeParts, PodVolumes,
    TerminationMessages,
};
pub use server::EventLimits;
use server::{HealthChecks, PodView, Verbosity};
use status::decide::{NodeFacts, SavedPods};
use status::manager::{PodStatusManager, StatusParts};
use status::{PodMetrics, StatusCheckpoint};
use tokio::net::UnixListener;
use tokio::sync::watch;

use self::container_gc::{ContainerGcInputs, start_container_gc};
use self::decorated::DecoratedPorts;
use self::eviction::{EvictionInputs, start_eviction};
use self::image_access::{AccessInputs, start_image_access};
pub use self::inputs::{ManifestUrl, Ports, Projections, Settings};
use self::logs::start_log_rotation;
use self::node_api::NodeApiPorts;
use self::probes::{probe_manager, start_probes};
use self::servers::{ServerInputs, start_servers};
pub use self::statistics::StatisticsRules;
use self::statistics::{StatisticsInputs, start_statistics};
use self::volumes::{VolumeInputs, start_volumes};
use crate::adopt::Adoption;
use crate::cgroup_metrics::register_cgroup_version;
pub use crate::cluster_mode::{ClusterPorts, OwnCertificates};
use crate::cluster_mode::{
    WriterInputs, follow_host_ips, host_ips, start_api_source, start_node, start_node_certificates,
    start_object_store, start_status_writer,
};
use crate::collection::{Collection, GcHandles};
use crate::health_checks::{AgentHealth, NodeHealth};
pub use crate::image_access_settings::ImageAccessSettings;
pub use crate::image_gc::ImageRules;
use crate::image_gc::{ImageCollection, PodsAndImages};
use crate::manifest_support::ManifestSupport;
pub use crate::node_cgroups::NodeCgroups;
use crate::node_cgroups::enforce;
use crate::panic_reports::panic_guard;
use crate::pleg_statuses::PlegStatuses;
use crate::pod_index::PodIndex;
pub use crate::pod_resources::PodResourcesSocket;
use crate::pulse::Pulse;
use crate::runtime_state::runtime_state;
use crate::served_pods::{PodWaits, ServedPods};
pub use crate::statistics::UsagePorts;
use crate::stuck_calls::StuckCalls;
use crate::sync_loop::{SyncLoop, SyncLoopParts};
use crate::sync_metrics::{SyncMetrics, register_node_name};
use crate::sync_pod::{SyncPod, SyncRecords};
use crate::utility_chains::keep_chains;

/// The local interfaces of the agent.
#[derive(Debug)]
pub struct Local {
    /// The agent's socket.
    pub listener: UnixListener,
    /// The log level.
    pub verbosity: Arc<dyn Verbosity>,
    /// The socket of the `PodResources` API.
    pub pod_resources: PodResourcesSocket,
    /// The ports of the node's API.
    pub node_api: Option<NodeApiPorts>,
    /// Prepares streams into containers.
    pub streaming: Arc<dyn Streaming>,
}

/// The agent, ready to run.
#[derive(Debug)]
pub struct Agent {
    tasks: Tasks,
    health: Arc<dyn HealthChecks>,
    gc: GcHandles,
    collector: Arc<Collection>,
    served: Arc<ServedPods>,
}

/// A long task of the agent ended, which is an error.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct AgentTaskEnded(String);

impl Agent {
    /// Starts all parts. Must be called inside a tokio runtime.
    #[expect(clippy::too_many_lines, reason = "the one list of all parts, in dependency order")]
    pub fn start(settings: &Settings, ports: Ports, local: Option<Local>) -> Self {
        let (seq, mut tasks) = (SeqCounter::default(), tasks_of_the_machine(&ports));
        let decorated = DecoratedPorts::new(settings, ports, &mut tasks);
        let DecoratedPorts { ports, event_book, start_timer, records } = decorated;
        let (panics, resizes, pulse) =
            (panics(&ports), resizes(&ports), Pulse::new(settings.resync));
        let pleg = observer(settings, &ports, &seq, &panics);
        let node = start_node(settings, &ports, pleg.health.clone(), &mut tasks);
        start_node_certificates(settings, &ports, node.as_ref(), &mut tasks);
        let (status, changes) = status_manager(settings, &ports, node.as_ref(), &mut tasks);
        let pods = PodsAndImages { cache: pleg.cache.clone(), statuses: status.reader().clone() };
        let images =
            ImageCollection::new(settings, &ports, pods, records.claims(node.as_ref()), &panics);
        let (runtime_state, ready) = runtime_state(Arc::clone(&ports.runtime.info), node.as_ref());
        let api = start_object_store(settings, &ports, node.as_ref(), &mut tasks);
        let (api, objects) = api.map(|api| (api.parts, api.objects)).unzip();
        let inputs = AccessInputs { objects: objects.clone(), left: images.left() };
        let image_access = start_image_access(settings, &ports, inputs, &mut tasks);
        let inputs = VolumeInputs { objects, node: node.as_ref(), panics: &panics };
        let volumes = start_volumes(settings, &ports, inputs, &mut tasks);
        let probes = probe_manager(settings, &ports, &panics);
        let waits = PodWaits { volumes: volumes.manager.clone(), probes: probes.clone() };
        let served = Arc::new(ServedPods::new(status.reader().clone(), waits, changes));
        let inputs = RuntimeInputs {
            claims: &images.claims,
            image_access,
            api,
            volumes: Arc::clone(&volumes) as _,
            host_ips: host_ips(settings, node.as_ref()),
            incidents: Arc::clone(&records.incidents) as _,
        };
        let pod_runtime = pod_runtime(settings, &ports, inputs, &mut tasks);
        let sync_pod = SyncPod {
            pod_runtime: Arc::clone(&pod_runtime),
            adoption: Adoption::new(Arc::clone(&ports.files), log_layout(settings)),
            runtime: ports.runtime.clone(),
            events: Arc::clone(&ports.events),
            clock: Arc::clone(&ports.clock),
            status: Arc::clone(&status),
            resizes: Arc::clone(&resizes),
            node: node.clone(),
            refreshes: pleg.requests.clone(),
            volumes: volumes.manager.clone(),
            probes: probes.clone(),
            records: SyncRecords::default(),
        };
        let (workers_task, workers_handle, worker_events) = workers(WorkerParts {
            syncer: Arc::new(sync_pod),
            statuses: Arc::new(PlegStatuses {
                cache: pleg.cache.clone(),
                requests: pleg.requests.clone(),
                ready: ready.clone(),
            }),
            in_flight: pleg.in_flight.clone(),
            seq,
            clock: Arc::clone(&ports.clock),
            events: Arc::clone(&ports.events),
            resync: settings.resync,
            metrics: pods::Metrics::new(&ports.metrics).expect("registered once"),
            panics: panics.clone(),
        });
        start_probes(&probes, &status, &workers_handle, &mut tasks);
        follow_host_ips(settings, node.as_ref(), &workers_handle, status.reader(), &mut tasks);
        let (sources, copies) = sources(settings, &ports, node.as_ref(), &mut tasks);
        let inputs = WriterInputs {
            copies: copies.clone(),
            states: workers_handle.states(),
            timer: start_timer,
            statuses: status.reader(),
        };
        let statics = start_status_writer(settings, &ports, inputs, &panics, &mut tasks);
        let index = Arc::new(PodIndex::new(workers_handle.states()));
        let inputs =
            ContainerGcInputs { index: &index, pod_runtime: &pod_runtime, panics: &panics };
        let notifier = start_container_gc(settings, &ports, inputs, &mut tasks);
        let containers = notifier.containers.clone();
        let images = images.start(&mut tasks);
        let directories = directories(settings, &ports);
        let gc = GcHandles {
            containers,
            images,
            volumes: volumes.manager.clone(),
            directories: directories.clone(),
        };
        let logs = start_log_rotation(settings, &ports, &panics, &mut tasks);
        let collector = Arc::new(Collection::start(settings, &ports, &records, &gc, &mut tasks));
        let inputs = StatisticsInputs { cache: &pleg.cache, volumes: &volumes.manager };
        let statistics = start_statistics(settings, &ports, inputs, &mut tasks);
        let inputs = EvictionInputs {
            usage: statistics.as_ref(),
            statuses: status.reader(),
            workers: &workers_handle,
            resizes: &resizes,
            gc: &gc,
            incidents: Arc::clone(&records.incidents) as _,
            node: node.as_ref(),
        };
        let eviction = start_eviction(settings, &ports, inputs, &mut tasks);
        let sync_loop = SyncLoop::new(SyncLoopParts {
            sources,
            pleg: pleg.health.clone(),
            lifecycle: pleg.events,
            cache: pleg.cache.clone(),
            worker_events,
            directories,
            volumes: volumes.manager.clone(),
            probes,
            workers: workers_handle,
            events: Arc::clone(&ports.events),
            incidents: Arc::clone(&records.incidents) as _,
            status: Arc::clone(&status),
            served: Arc::clone(&served),
            pulse: pulse.clone(),
            runtime: ready,
            gc: notifier,
            logs,
            allocation: allocation(settings, &ports, resizes),
            pod_runtime: Some(pod_runtime),
            statics,
            node,
            pressure: eviction.as_ref().map(EvictionHandle::pressure),
            metrics: sync_metrics(settings, &ports),
            panics,
        });
        if let Some(address) = settings.healthz {
            tasks.spawn("healthz", |stop| server::serve_health(address, stop));
        }
        let agent = AgentHealth { sync_loop: pulse };
        let health: Arc<dyn HealthChecks> = Arc::new(agent.clone());
        let shown = NodeHealth { agent, pleg: pleg.health, stuck: stuck_calls(&ports) };
        let inputs = ServerInputs {
            pods: Arc::clone(&served),
            index,
            events: event_book,
            cache: pleg.cache,
            copies,
            health: Arc::new(shown),
            agent_health: &health,
            records: &records,
            collector: &collector,
            eviction,
            statistics,
        };
        start_servers(local, ports, inputs, &mut tasks);
        tasks.spawn("journal", |stop| records.keep(stop));
        tasks.spawn("runtime state", |stop| runtime_state.run(stop));
        tasks.spawn("relist", |stop| pleg.task.run(stop));
        tasks.spawn("pod workers", |stop| workers_task.run(stop));
        tasks.spawn_fallible("sync loop", |stop| sync_loop.run(stop));
        Self { tasks, health, gc, collector, served }
    }

    /// The handle for plans and requested passes.
    pub fn collector(&self) -> Arc<dyn server::Collector> {
        Arc::clone(&self.collector) as _
    }

    /// The handle of container garbage collection.
    pub fn container_gc(&self) -> ContainerGc {
        self.gc.containers.clone()
    }

    /// The handle of image garbage collection.
    pub fn image_gc(&self) -> ImageGc {
        self.gc.images.clone()
    }

    /// The checks that the systemd watchdog depends on.
    pub fn health(&self) -> Arc<dyn HealthChecks> {
        Arc::clone(&self.health)
    }

    /// A counter of changes: each added or removed pod, and each changed status, increases it.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.served.changes()
    }

    /// The pods with their statuses.
    pub fn pods(&self) -> Arc<dyn PodView> {
        Arc::clone(&self.served) as _
    }

    /// Waits until a long task ends, which is an error.
    pub async fn task_ended(&mut self) -> AgentTaskEnded {
        AgentTaskEnded(self.tasks.first_ended().await.to_string())
    }

    /// Stops all tasks and leaves the pods running.
    pub async fn stop(self) {
        self.tasks.stop().await;
    }
}

/// Starts the upkeep of the machine, which does not depend on pods.
fn tasks_of_the_machine(ports: &Ports) -> Tasks {
    let mut tasks = Tasks::default();
    if let Some(filter) = ports.packet_filter.clone() {
        tasks.spawn("iptables chains", |stop| keep_chains(filter, stop));
    }
    tasks
}

/// The status manager, and the counter of its changes.
fn status_manager(
    settings: &Settings,
    ports: &Ports,
    node: Option<&NodeHandle>,
    tasks: &mut Tasks,
) -> (Arc<PodStatusManager>, watch::Sender<u64>) {
    let changes = watch::Sender::new(0);
    let facts = NodeFacts {
        host_ips: Vec::new(),
        prefers_v6: settings.node.prefers_v6(),
        runtime_name: settings.runtime_name.clone(),
        stop_signals: settings.node.stop_signals,
    };
    let manager = PodStatusManager::new(StatusParts {
        node: facts,
        host_ips: host_ips(settings, node),
        clock: Arc::clone(&ports.clock),
        metrics: PodMetrics::new(&ports.metrics).expect("no other part measures pod starts"),
        changes: changes.clone(),
    });
    let saved = if ports.cluster.is_some() { SavedPods::Static } else { SavedPods::All };
    let checkpoint = StatusCheckpoint::new(Arc::clone(&ports.files), &settings.state(), saved);
    let manager = Arc::new(manager.with_checkpoint(checkpoint));
    let saving = Arc::clone(&manager);
    tasks.spawn("pod status checkpoint", |stop| async move { saving.save(stop).await });
    (manager, changes)
}

fn sync_metrics(settings: &Settings, ports: &Ports) -> SyncMetrics {
    register_node_name(&ports.metrics, &settings.node_name)
        .expect("no other part has the node's name");
    let version = settings.node.machine.cgroups;
    register_cgroup_version(&ports.metrics, version)
        .expect("no other part has the version of cgroups");
    SyncMetrics::new(&ports.metrics).expect("no other part counts pods")
}

/// Catches panics in the work for single pods, and reports them.
fn panics(ports: &Ports) -> PanicGuard {
    let guard = panic_guard(&ports.metrics, Arc::clone(&ports.events));
    guard.expect("no other part counts panics")
}

/// The pods' cgroups, if they have any. Starts the task that sets the limit of all pods.
fn pod_cgroups(settings: &Settings, ports: &Ports, tasks: &mut Tasks) -> Option<Arc<PodCgroups>> {
    let (port, cgroups) = (Arc::clone(ports.cgroups.as_ref()?), &settings.cgroups);
    // Without pod cgroups the root belongs to others.
    if cgroups.per_pod && !cgroups.pods.root.is_root() {
        let (port, events) = (Arc::clone(&port), Arc::clone(&ports.node_events));
        let cgroups = cgroups.clone();
        tasks.spawn("node allocatable", |stop| enforce(port, cgroups, events, stop));
    }
    let clock = Arc::clone(&ports.clock);
    cgroups.per_pod.then(|| Arc::new(PodCgroups::new(port, clock, cgroups.pods.clone())))
}

/// Reports calls to files and the like that do not return.
fn stuck_calls(ports: &Ports) -> StuckCalls {
    let stuck = StuckCalls::new(ports.pools.clone(), &ports.metrics);
    stuck.expect("no other part counts stuck operations")
}

/// Starts the sources of pods; also returns the API server's copies, in a cluster.
fn sources(
    settings: &Settings,
    ports: &Ports,
    node: Option<&NodeHandle>,
    tasks: &mut Tasks,
) -> (Sources, Option<ApiCopies>) {
    let mut sources = Vec::new();
    let support = Arc::new(ManifestSupport(admission_chain(settings)));
    if let Some(path) = settings.manifests.clone() {
        let source_settings = FileSourceSettings {
            path,
            period: settings.manifests_period,
            node_name: settings.node_name.clone(),
            last_good: settings.state().join("manifests"),
            clock: Arc::clone(&ports.clock),
            support: Arc::clone(&support) as _,
        };
        let (source, updates) = file_source(source_settings, Arc::clone(&ports.files));
        tasks.spawn("manifests", |stop| source.run(stop));
        sources.push((SourceName::File, updates));
    }
    if let Some(ManifestUrl { url, headers, period }) = settings.manifest_url.clone() {
        let source_settings = HttpSourceSettings {
            url,
            headers,
            period,
            node_name: settings.node_name.clone(),
            last_good: settings.state().join("manifest-url"),
            clock: Arc::clone(&ports.clock),
            support: Arc::clone(&support) as _,
        };
        let (source, updates) =
            http_source(source_settings, Arc::clone(&ports.http), Arc::clone(&ports.files));
        tasks.spawn("manifest URL", |stop| source.run(stop));
        sources.push((SourceName::Http, updates));
    }
    let copies = start_api_source(settings, ports, node, tasks).map(|(pods, copies)| {
        sources.push((SourceName::Api, pods));
        copies
    });
    (Sources::new(sources), copies)
}

/// Pods whose resources change, none at the start.
fn resizes(ports: &Ports) -> Arc<Resizes> {
    let metrics = ResizeMetrics::new(&ports.metrics).expect("no other part counts resizes");
    Arc::new(Resizes::new(metrics))
}

/// The pods' own directories.
fn directories(settings: &Settings, ports: &Ports) -> PodDirectories {
    PodDirectories::new(Arc::clone(&ports.files), Arc::clone(&ports.clock), settings.pods())
}

/// Starts the PLEG.
fn observer(settings: &Settings, ports: &Ports, seq: &SeqCounter, panics: &PanicGuard) -> Pleg {
    let pleg_parts = PlegParts {
        runtime: ports.runtime.clone(),
        termination_messages: Arc::new(TerminationMessages {
            files: Arc::clone(&ports.files),
            logs: Arc::clone(&ports.logs),
            pods: settings.pods(),
        }),
        seq: seq.clone(),
        clock: Arc::clone(&ports.clock),
        metrics: pleg::Metrics::new(&ports.metrics).expect("a new registry has no metrics yet"),
        panics: panics.clone(),
    };
    pleg::pleg(pleg_parts, settings.pleg.clone())
}

/// Admits pods, and grants resizes.
fn allocation(settings: &Settings, ports: &Ports, resizes: Arc<Resizes>) -> AllocationManager {
    let metrics = AdmissionMetrics::new(&ports.metrics).expect("no other part counts admissions");
    let made_of = AllocationParts {
        chain: admission_chain(settings),
        resizes,
        metrics,
        events: Arc::clone(&ports.events),
        clock: Arc::clone(&ports.clock),
        files: Arc::clone(&ports.files),
    };
    AllocationManager::new(made_of, &settings.state())
}

/// The rules by which the node admits pods.
fn admission_chain(settings: &Settings) -> AdmissionChain {
    let machine = &settings.node.machine;
    let sysctls = AllowedSysctls::new(machine.kernel, &settings.unsafe_sysctls);
    AdmissionChain {
        sysctls,
        apparmor: machine.apparmor,
        invalid_restart_rules_have_upstream_errors: settings
            .invalid_restart_rules_have_upstream_errors,
        node: settings.admission.clone(),
        pressure: Pressure::default(),
    }
}

fn log_layout(settings: &Settings) -> LogLayout {
    LogLayout {
        pod_logs: settings.pod_logs.clone(),
        container_links: settings.container_links.clone(),
    }
}

/// The parts of the agent that the pod runtime needs.
struct RuntimeInputs<'a> {
    claims: &'a ImageClaims,
    image_access: Arc<dyn ImageAccess>,
    api: Option<ApiParts>,
    volumes: Arc<dyn PodVolumes>,
    host_ips: Arc<dyn HostIps>,
    incidents: Arc<dyn IncidentRecord>,
}

/// Builds the pod runtime.
fn pod_runtime(
    settings: &Settings,
    ports: &Ports,
    inputs: RuntimeInputs<'_>,
    tasks: &mut Tasks,
) -> Arc<PodRuntime> {
    let RuntimeInputs { claims, image_access, api, volumes, host_ips, incidents } = inputs;
    Arc::new(PodRuntime::new(PodRuntimeParts {
        runtime: ports.runtime.clone(),
        files: Arc::clone(&ports.files),
        http: Arc::clone(&ports.pod_http),
        events: Arc::clone(&ports.events),
        node_events: Arc::clone(&ports.node_events),
        incidents,
        clock: Arc::clone(&ports.clock),
        logs: log_layout(settings),
        pods: settings.pods(),
        node: settings.node.clone(),
        host_ips,
        restart_backoff: settings.restart_backoff,
        volumes,
        claims: claims.clone(),
        image_access,
        cgroups: pod_cgroups(settings, ports, tasks),
        api,
        metrics: runtime::Metrics::new(&ports.metrics).expect("no other part counts starts"),
    }))
}
