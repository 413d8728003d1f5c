//! Puts the agent together: every part in the order of its needs, nothing set afterwards.

mod given;
pub mod node_api;

use std::sync::{Arc, Mutex};

use gc::containers::{
    ContainerGc, ContainerGcParts, Deletor, Removals, StopUnknown, background_stops, container_gc,
};
use gc::decide::PodStates;
use gc::images::ImageGc;
use model::acts::Acts;
use model::panics::PanicGuard;
use model::ports::streaming::Streaming;
use model::stamp::Stamps;
use node::NodeHandle;
use pleg::{Pleg, PlegParts};
use pods::WorkerStates;
pub use pods::decide::admission::Node;
use pods::source::api::ApiCopies;
use pods::source::file::{FileSourceSettings, file_source};
use pods::source::http::{HttpSourceSettings, http_source};
use pods::source::{SourceName, Sources};
use pods::workers::{WorkerParts, workers};
use process::tasks::Tasks;
pub use prometheus::Registry;
use runtime::decide::AllowedSysctls;
use runtime::{
    LogLayout, PodCgroups, PodDirectories, PodRuntime, RuntimeParts, TerminationMessages,
};
pub use server::EventLimits;
use server::{EventBook, HealthChecks, PodView, Verbosity};
use status::decide::NodeFacts;
use tokio::net::UnixListener;
use tokio::sync::watch;

pub use self::given::{ManifestUrl, Ports, Settings};
use self::node_api::{AgentParts, NodeApiPorts};
use crate::admission::Admission;
use crate::admission_metrics::AdmissionMetrics;
use crate::adopt::Adoption;
use crate::allocations::Allocations;
use crate::cgroup_metrics::tell_cgroup_version;
use crate::cgroup_sweep::CgroupSweep;
pub use crate::cluster_mode::ClusterPorts;
use crate::cluster_mode::{
    follow, follow_host_ips, host_ips, keep, provide, tell, tell_events, time_starts,
};
use crate::collection::Collection;
use crate::image_gc::ImageCollection;
pub use crate::image_gc::ImageRules;
pub use crate::node_cgroups::NodeCgroups;
use crate::node_cgroups::enforce;
use crate::node_view::{AgentHealth, Metrics, NodeHealth, NodeView, RuntimeLogs};
use crate::panic_reports::panic_guard;
use crate::pod_metrics::PodMetrics;
pub use crate::pod_resources::PodResourcesSocket;
use crate::pod_resources::ToldPods;
use crate::pulse::Pulse;
use crate::records::{JournalView, Records};
use crate::remains::{KnownPods, Remains, StopThroughRuntime};
use crate::resize_metrics::ResizeMetrics;
use crate::resizes::Resizes;
use crate::runtime_state::{Ready, runtime_state};
use crate::streams::streams;
use crate::stuck_calls::StuckCalls;
use crate::sync_loop::{SyncLoop, SyncLoopParts};
use crate::sync_metrics::{SyncMetrics, tell_node_name};
use crate::syncer::{PlegStatuses, Syncer};
use crate::utility_chains::keep_chains;
use crate::version::version;

/// How the agent is asked from this machine.
#[derive(Debug)]
pub struct Local {
    /// Where it listens.
    pub listener: UnixListener,
    /// How much is logged.
    pub verbosity: Arc<dyn Verbosity>,
    /// Where it is told which resources pods have.
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
    gc: (ContainerGc, ImageGc),
    collector: Arc<Collection>,
    view: Arc<NodeView>,
}

/// A long task of the agent ended, which none should.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Broken(String);

impl Agent {
    /// Starts all parts. Must be called inside a tokio runtime.
    pub fn start(settings: &Settings, mut ports: Ports, local: Option<Local>) -> Self {
        let (stamps, mut tasks) = (Stamps::default(), tasks_of_the_machine(&ports));
        let book = event_book(settings, &mut ports, &mut tasks);
        let panics = panics(&ports);
        let (times, resizes) = (time_starts(&mut ports), resizes(&ports));
        let (records, pulse) = (Records::new(settings, &mut ports), Pulse::new(settings.resync));
        let pleg = observer(settings, &ports, (&stamps, &panics));
        let node = keep(settings, &ports, pleg.health.clone(), &mut tasks);
        let view = Arc::new(node_view(settings, &ports, node.as_ref(), &resizes));
        let seen = (&view, &pleg.cache);
        let images =
            ImageCollection::new(settings, &ports, seen, records.claims(node.as_ref()), &panics);
        let (runtime_state, ready) = runtime_state(Arc::clone(&ports.runtime), node.as_ref());
        let pod_runtime = pod_runtime(settings, &ports, (&images, node.as_ref()), &mut tasks);
        let seen = (&view, &resizes, &pleg.requests);
        let syncer = syncer(settings, &ports, seen, (&pod_runtime, node.as_ref()));
        let seen = (statuses(&pleg, &ready), pleg.acts.clone(), stamps);
        let (workers_task, workers_handle, news) =
            workers(worker_parts(settings, &ports, syncer, seen, &panics));
        follow_host_ips(settings, node.as_ref(), (&workers_handle, &view), &mut tasks);
        let (sources, copies) = sources(settings, &ports, node.as_ref(), &mut tasks);
        let told = (copies.clone(), workers_handle.states(), times);
        let statics = tell(settings, &ports, told, (&view, &panics), &mut tasks);
        let pods = (workers_handle.states(), Arc::clone(&pod_runtime));
        let (remains, container_gc) =
            collect_containers(settings, &ports, pods, &panics, &mut tasks);
        let (gc, given) = ((container_gc, images.start(&mut tasks)), remains.known_pods());
        let collector = Arc::new(Collection::start(settings, &ports, &records, &gc, &mut tasks));
        let sync_loop = SyncLoop::new(SyncLoopParts {
            sources,
            pleg: pleg.health.clone(),
            lifecycle: pleg.events,
            cache: pleg.cache.clone(),
            news,
            directories: directories(settings, &ports),
            workers: workers_handle,
            events: Arc::clone(&ports.events),
            view: Arc::clone(&view),
            pulse: pulse.clone(),
            admission: admission(settings, &ports.metrics),
            runtime: ready,
            remains,
            allocations: Allocations::new(Arc::clone(&ports.files), &settings.state()),
            resizes,
            pod_runtime: Some(pod_runtime),
            clock: Arc::clone(&ports.clock),
            statics,
            node,
            metrics: sync_metrics(settings, &ports),
            panics,
        });
        let checked = (pleg.health, pulse, stuck_calls(&ports));
        let (health, shown) = start_health(settings, checked, &mut tasks);
        let known = (Arc::clone(&view), given, book, RuntimeLogs(pleg.cache), copies);
        let checks = (&shown, &health);
        answer(local, ports, known, (checks, &records, &collector), &mut tasks);
        tasks.spawn("journal", |stop| records.keep(stop));
        tasks.spawn("runtime state", |stop| runtime_state.run(stop));
        tasks.spawn("relist", |stop| pleg.task.run(stop));
        tasks.spawn("pod workers", |stop| workers_task.run(stop));
        tasks.spawn_fallible("sync loop", |stop| sync_loop.run(stop));
        Self { tasks, health, gc, collector, view }
    }

    /// Asks for plans and passes over everything, as people do.
    pub fn collector(&self) -> Arc<dyn server::Collector> {
        Arc::clone(&self.collector) as _
    }

    /// Asks things of the collection of dead containers.
    pub fn container_gc(&self) -> ContainerGc {
        self.gc.0.clone()
    }

    /// Asks things of the collection of images.
    pub fn image_gc(&self) -> ImageGc {
        self.gc.1.clone()
    }

    /// The checks that the systemd watchdog depends on.
    pub fn health(&self) -> Arc<dyn HealthChecks> {
        Arc::clone(&self.health)
    }

    /// A number that changes with every pod that comes, goes, or has another status.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.view.changes()
    }

    /// The pods, with what is known of them.
    pub fn pods(&self) -> Arc<dyn PodView> {
        Arc::clone(&self.view) as _
    }

    /// Waits for a part to break, which none should.
    pub async fn broken(&mut self) -> Broken {
        Broken(self.tasks.first_ended().await.to_string())
    }

    /// Stops all parts and leaves the pods running.
    pub async fn stop(self) {
        self.tasks.stop().await;
    }
}

/// What is kept of the machine itself, pods or not.
fn tasks_of_the_machine(ports: &Ports) -> Tasks {
    let mut tasks = Tasks::default();
    if let Some(filter) = ports.packet_filter.clone() {
        tasks.spawn("iptables chains", |stop| keep_chains(filter, stop));
    }
    tasks
}

/// The pods of the node: their statuses, names, events and logs, and their copies in the API server.
type Known = (Arc<NodeView>, Arc<KnownPods>, Arc<EventBook>, RuntimeLogs, Option<ApiCopies>);

/// The checks of the agent's own socket, and those of the node's API.
type Checks<'a> = (&'a Arc<dyn HealthChecks>, &'a Arc<dyn HealthChecks>);

/// Starts to answer on this machine, if anybody may ask.
fn answer(
    local: Option<Local>,
    ports: Ports,
    (view, given, events, log_paths, copies): Known,
    ((health, agent_health), records, collector): (Checks<'_>, &Records, &Arc<Collection>),
    tasks: &mut Tasks,
) {
    let Some(mut local) = local else { return };
    let runtime = (Arc::clone(&ports.runtime), Arc::clone(&local.streaming));
    let streams = streams(runtime, Arc::clone(&view) as _, copies, records);
    let shown = AgentParts {
        ports: &ports,
        view: &view,
        cache: &log_paths.0,
        health: agent_health,
        streams: &streams,
    };
    node_api::start(&mut local, &shown, tasks);
    let Local { listener, verbosity, pod_resources, .. } = local;
    let told = ToldPods::new(Arc::clone(&view), given);
    let lister = pod_resources.lister(told, &ports);
    tasks.spawn("pod resources", |stop| pod_resources.serve(lister, stop));
    let answers = server::Parts {
        pods: view,
        events,
        log_paths: Arc::new(log_paths),
        logs: ports.logs,
        health: Arc::clone(health),
        metrics: Arc::new(Metrics(ports.metrics)),
        removals: Arc::new(JournalView::new(records)),
        collector: Arc::clone(collector) as _,
        streams: Some(streams),
        verbosity,
        clock: ports.clock,
        version: version(),
    };
    tasks.spawn("server", |stop| server::serve(Arc::new(answers), listener, stop));
}

/// What is known of pods.
fn node_view(
    settings: &Settings,
    ports: &Ports,
    node: Option<&NodeHandle>,
    resizes: &Arc<Resizes>,
) -> NodeView {
    let metrics = PodMetrics::new(&ports.metrics).expect("nobody else times pods");
    let (clock, resizes) = (Arc::clone(&ports.clock), Arc::clone(resizes));
    let facts = NodeFacts {
        host_ips: Vec::new(),
        prefers_v6: settings.node.prefers_v6(),
        runtime_name: settings.runtime_name.clone(),
        stop_signals: settings.node.stop_signals,
    };
    NodeView::new((facts, host_ips(settings, node)), clock, resizes, metrics)
}

fn sync_metrics(settings: &Settings, ports: &Ports) -> SyncMetrics {
    tell_node_name(&ports.metrics, &settings.node_name).expect("nobody else tells the node's name");
    let version = settings.node.machine.cgroups;
    tell_cgroup_version(&ports.metrics, version).expect("nobody else tells of cgroups");
    SyncMetrics::new(&ports.metrics).expect("nobody else counts pods")
}

/// Keeps events on their way to whoever hears them, a cluster among them.
fn event_book(settings: &Settings, ports: &mut Ports, tasks: &mut Tasks) -> Arc<EventBook> {
    tell_events(settings, ports, tasks);
    let (clock, further) = (Arc::clone(&ports.clock), Arc::clone(&ports.events));
    let of_node = Arc::clone(&ports.node_events);
    let book = EventBook::new(clock, settings.events, further);
    let book = Arc::new(book.of_node(&settings.node_name, of_node));
    ports.events = Arc::clone(&book) as _;
    ports.node_events = Arc::clone(&book) as _;
    book
}

/// Catches panics in the work for single pods, and reports them.
fn panics(ports: &Ports) -> PanicGuard {
    let guard = panic_guard(&ports.metrics, Arc::clone(&ports.events));
    guard.expect("no other part counts panics")
}

/// Starts to collect dead containers; gives whom to tell of pods, and whom to ask.
fn collect_containers(
    settings: &Settings,
    ports: &Ports,
    (states, pod_runtime): (WorkerStates, Arc<PodRuntime>),
    panics: &PanicGuard,
    tasks: &mut Tasks,
) -> (Remains, ContainerGc) {
    let (known, cgroups) = (Arc::new(KnownPods::new(states)), pod_runtime.cgroups());
    let (stops, stop) = background_stops(Arc::new(StopThroughRuntime(pod_runtime)), panics.clone());
    tasks.spawn("stops of containers in an unknown state", |stop| stops.run(stop));
    let gc = container_gc_parts(settings, ports, (Arc::clone(&known) as _, stop), panics);
    let (deletor_task, deletor) = Deletor::new(gc.clone());
    let (gc_task, container_gc) = container_gc(gc);
    tasks.spawn("container deletor", |stop| deletor_task.run(stop));
    tasks.spawn("container garbage collection", |stop| gc_task.run(stop));
    let sweep = CgroupSweep::default();
    if let Some(cgroups) = cgroups {
        let (sweep, pods, panics) = (sweep.clone(), Arc::clone(&known), panics.clone());
        tasks.spawn("cgroups of pods that are gone", |stop| sweep.run(cgroups, pods, panics, stop));
    }
    let clock = Arc::clone(&ports.clock);
    let remains = Remains::new(known, (container_gc.clone(), deletor), clock, sweep);
    (remains, container_gc)
}

/// The pods' cgroups, if they have any. All pods together are limited from now on.
fn pod_cgroups(settings: &Settings, ports: &Ports, tasks: &mut Tasks) -> Option<Arc<PodCgroups>> {
    let (port, cgroups) = (Arc::clone(ports.cgroups.as_ref()?), &settings.cgroups);
    // Without cgroups of pods the root is somebody else's.
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

/// Starts the health port, if one is configured. Returns the checks of the agent itself, and those that its own
/// socket shows.
fn start_health(
    settings: &Settings,
    (pleg, sync_loop, stuck): (pleg::Health, Pulse, StuckCalls),
    tasks: &mut Tasks,
) -> (Arc<dyn HealthChecks>, Arc<dyn HealthChecks>) {
    if let Some(address) = settings.healthz {
        tasks.spawn("healthz", |stop| server::serve_health(address, stop));
    }
    let agent = AgentHealth { sync_loop };
    (Arc::new(agent.clone()), Arc::new(NodeHealth { agent, pleg, stuck }))
}

/// Starts the sources of pods; gives what the API server has of them too, where there is one.
fn sources(
    settings: &Settings,
    ports: &Ports,
    node: Option<&NodeHandle>,
    tasks: &mut Tasks,
) -> (Sources, Option<ApiCopies>) {
    let mut sources = Vec::new();
    // It has a registry for itself: what sources refuse is not a rejection of a pod.
    let support = Arc::new(admission(settings, &Registry::new()));
    if let Some(path) = settings.manifests.clone() {
        let wants = FileSourceSettings {
            path,
            period: settings.manifests_period,
            node_name: settings.node_name.clone(),
            last_good: settings.state().join("manifests"),
            clock: Arc::clone(&ports.clock),
            support: Arc::clone(&support) as _,
        };
        let (source, told) = file_source(wants, Arc::clone(&ports.files));
        tasks.spawn("manifests", |stop| source.run(stop));
        sources.push((SourceName::File, told));
    }
    if let Some(ManifestUrl { url, headers, period }) = settings.manifest_url.clone() {
        let wants = HttpSourceSettings {
            url,
            headers,
            period,
            node_name: settings.node_name.clone(),
            last_good: settings.state().join("manifest-url"),
            clock: Arc::clone(&ports.clock),
            support: Arc::clone(&support) as _,
        };
        let (source, told) = http_source(wants, Arc::clone(&ports.http), Arc::clone(&ports.files));
        tasks.spawn("manifest URL", |stop| source.run(stop));
        sources.push((SourceName::Http, told));
    }
    let copies = follow(settings, ports, node, tasks).map(|(told, copies)| {
        sources.push((SourceName::Api, told));
        copies
    });
    (Sources::new(sources), copies)
}

/// Pods whose resources change, none yet.
fn resizes(ports: &Ports) -> Arc<Resizes> {
    let metrics = ResizeMetrics::new(&ports.metrics).expect("nobody else counts resizes");
    Arc::new(Resizes::new(metrics))
}

/// The pods' own directories.
fn directories(settings: &Settings, ports: &Ports) -> PodDirectories {
    PodDirectories {
        files: Arc::clone(&ports.files),
        clock: Arc::clone(&ports.clock),
        pods: settings.pods(),
    }
}

/// What looks at the runtime.
fn observer(settings: &Settings, ports: &Ports, (stamps, panics): (&Stamps, &PanicGuard)) -> Pleg {
    let wants = PlegParts {
        runtime: Arc::clone(&ports.runtime),
        last_words: Arc::new(TerminationMessages {
            files: Arc::clone(&ports.files),
            logs: Arc::clone(&ports.logs),
            pods: settings.pods(),
        }),
        stamps: stamps.clone(),
        clock: Arc::clone(&ports.clock),
        metrics: pleg::Metrics::new(&ports.metrics).expect("a new registry has no metrics yet"),
        panics: panics.clone(),
    };
    pleg::pleg(wants, settings.pleg.clone())
}

/// What the pods' workers work with.
fn worker_parts(
    settings: &Settings,
    ports: &Ports,
    syncer: Syncer,
    (statuses, acts, stamps): (PlegStatuses, Acts, Stamps),
    panics: &PanicGuard,
) -> WorkerParts {
    WorkerParts {
        syncer: Arc::new(syncer),
        statuses: Arc::new(statuses),
        acts,
        stamps,
        clock: Arc::clone(&ports.clock),
        events: Arc::clone(&ports.events),
        resync: settings.resync,
        metrics: pods::Metrics::new(&ports.metrics).expect("nobody else times workers"),
        panics: panics.clone(),
    }
}

/// How workers learn what that sees.
fn statuses(pleg: &Pleg, ready: &Ready) -> PlegStatuses {
    let (cache, requests) = (pleg.cache.clone(), pleg.requests.clone());
    PlegStatuses { cache, requests, ready: ready.clone() }
}

/// What the node lets pods do.
fn admission(settings: &Settings, registry: &Registry) -> Admission {
    let machine = &settings.node.machine;
    let sysctls = AllowedSysctls::new(machine.kernel, &settings.unsafe_sysctls);
    Admission {
        sysctls,
        apparmor: machine.apparmor,
        restart_rules: settings.restart_rules,
        node: settings.admission.clone(),
        metrics: AdmissionMetrics::new(registry).expect("nobody else counts what is let in"),
    }
}

fn log_layout(settings: &Settings) -> LogLayout {
    LogLayout {
        pod_logs: settings.pod_logs.clone(),
        container_links: settings.container_links.clone(),
    }
}

/// What dead containers are collected with.
fn container_gc_parts(
    settings: &Settings,
    ports: &Ports,
    (pods, stop): (Arc<dyn PodStates>, Arc<dyn StopUnknown>),
    panics: &PanicGuard,
) -> ContainerGcParts {
    ContainerGcParts {
        runtime: Arc::clone(&ports.runtime),
        files: Arc::clone(&ports.files),
        clock: Arc::clone(&ports.clock),
        pods,
        stop,
        events: Arc::clone(&ports.node_events),
        logs: log_layout(settings),
        policy: settings.container_gc,
        removals: Removals::default(),
        panics: panics.clone(),
    }
}

/// What acts on the runtime for pods.
fn pod_runtime(
    settings: &Settings,
    ports: &Ports,
    (images, node): (&ImageCollection, Option<&NodeHandle>),
    tasks: &mut Tasks,
) -> Arc<PodRuntime> {
    Arc::new(PodRuntime::new(RuntimeParts {
        runtime: Arc::clone(&ports.runtime),
        files: Arc::clone(&ports.files),
        http: Arc::clone(&ports.pod_http),
        events: Arc::clone(&ports.events),
        node_events: Arc::clone(&ports.node_events),
        clock: Arc::clone(&ports.clock),
        logs: log_layout(settings),
        pods: settings.pods(),
        node: settings.node.clone(),
        host_ips: host_ips(settings, node),
        restart_backoff: settings.restart_backoff,
        claims: images.claims.clone(),
        cgroups: pod_cgroups(settings, ports, tasks),
        api: provide(settings, ports, node, tasks),
        metrics: runtime::Metrics::new(&ports.metrics).expect("nobody else counts resizes"),
    }))
}

/// What makes pods as specified.
fn syncer(
    settings: &Settings,
    ports: &Ports,
    (view, resizes, looks): (&Arc<NodeView>, &Arc<Resizes>, &pleg::Marks<()>),
    (pod_runtime, node): (&Arc<PodRuntime>, Option<&NodeHandle>),
) -> Syncer {
    let adoption = Adoption::new(Arc::clone(&ports.files), log_layout(settings));
    Syncer {
        pod_runtime: Arc::clone(pod_runtime),
        adoption,
        runtime: Arc::clone(&ports.runtime),
        events: Arc::clone(&ports.events),
        clock: Arc::clone(&ports.clock),
        view: Arc::clone(view),
        resizes: Arc::clone(resizes),
        node: node.cloned(),
        looks: looks.clone(),
        failures: Mutex::default(),
    }
}
