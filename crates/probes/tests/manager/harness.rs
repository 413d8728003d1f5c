//! A manager whose requests are scripted.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{
    Container, ContainerState, ContainerStateRunning, ContainerStatus, Pod, PodStatus, Probe,
    TCPSocketAction,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use model::ids::PodUid;
use model::panics::PanicGuard;
use model::ports::clock::WallClock as _;
use model::probe::{InstanceProbes, ProbeVerdict};
use podspec::view;
use probes::{ManagerParts, Metrics, ProbeManager};
use prometheus::{Registry, TextEncoder};
use testkit::clock::VirtualClock;
use testkit::events::KeptEvents;
use testkit::files::MemoryFiles;
use testkit::probes::{MemoryProbes, ProbeScript};
use testkit::runtime::MemoryRuntime;
use tokio::task::JoinSet;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

/// The address of each pod.
pub(crate) const IP: &str = "10.0.0.7";

pub(crate) struct Harness {
    pub(crate) manager: ProbeManager,
    pub(crate) network: Arc<MemoryProbes>,
    pub(crate) events: Arc<KeptEvents>,
    pub(crate) files: Arc<MemoryFiles>,
    pub(crate) runtime: Arc<MemoryRuntime>,
    pub(crate) metrics: Registry,
    pub(crate) clock: Arc<VirtualClock>,
    stop: CancellationToken,
    tasks: JoinSet<()>,
}

impl Harness {
    pub(crate) async fn start() -> Self {
        let clock = Arc::new(VirtualClock::new());
        let runtime = Arc::new(MemoryRuntime::new(Arc::clone(&clock) as _));
        Self::with(clock, Arc::new(MemoryFiles::new()), Arc::default(), runtime).await
    }

    async fn with(
        clock: Arc<VirtualClock>,
        files: Arc<MemoryFiles>,
        network: Arc<MemoryProbes>,
        runtime: Arc<MemoryRuntime>,
    ) -> Self {
        let (events, metrics) = (Arc::<KeptEvents>::default(), Registry::new());
        let manager = ProbeManager::new(ManagerParts {
            containers: Arc::clone(&runtime) as _,
            network: Arc::clone(&network) as _,
            events: Arc::clone(&events) as _,
            clock: Arc::clone(&clock) as _,
            files: Arc::clone(&files) as _,
            state: "/state".into(),
            metrics: Metrics::new(&metrics).expect("a new registry"),
            panics: PanicGuard::default(),
            resets_on_restart: false,
            jitter: || 0.5,
        });
        manager.load().await;
        let (stop, mut tasks) = (CancellationToken::new(), JoinSet::new());
        tasks.spawn(manager.clone().run(stop.clone()));
        tasks.spawn(manager.clone().keep(stop.clone()));
        Self { manager, network, events, files, runtime, metrics, clock, stop, tasks }
    }

    /// The next agent, after a kill of this one.
    pub(crate) async fn killed(mut self) -> Self {
        self.tasks.shutdown().await;
        Self::with(self.clock, self.files, self.network, self.runtime).await
    }

    /// Stops the agent as a signal does.
    pub(crate) async fn stop(&mut self) {
        self.stop.cancel();
        while self.tasks.join_next().await.is_some() {}
    }

    /// Lets probes of a port pass or fail.
    pub(crate) fn port(&self, port: i32, passes: bool) {
        let script = if passes {
            ProbeScript::verdict(ProbeVerdict::Success, "")
        } else {
            ProbeScript::verdict(ProbeVerdict::Failure, "dial tcp: refused")
        };
        self.network.set(format!("{IP}:{port}"), script);
    }

    pub(crate) fn calls(&self, port: i32) -> usize {
        self.network.calls(&format!("{IP}:{port}"))
    }

    /// Adds a pod whose first container runs as this instance from now on.
    pub(crate) fn run(&self, pod: &Pod, instance: &str) {
        self.manager.add_pod(&Arc::new(pod.clone()));
        self.show(pod, instance, true);
    }

    /// Publishes that the first container runs as an instance, from now on.
    pub(crate) fn show(&self, pod: &Pod, instance: &str, started: bool) {
        let since = self.clock.now();
        self.publish(pod, vec![running(&view::containers(pod)[0].name, instance, since, started)]);
    }

    pub(crate) fn publish(&self, pod: &Pod, containers: Vec<ContainerStatus>) {
        let status = PodStatus {
            phase: Some("Running".to_owned()),
            pod_ip: Some(IP.to_owned()),
            container_statuses: Some(containers),
            ..PodStatus::default()
        };
        self.manager.observe(&view::uid(pod), &Arc::new(status));
    }

    /// The results of an instance.
    pub(crate) fn results(&self, pod: &Pod, instance: &str) -> InstanceProbes {
        let results = self.manager.results(&view::uid(pod));
        results.instances.get(instance).cloned().unwrap_or_default()
    }

    /// The pods whose results have changed by now.
    pub(crate) async fn changed(&self) -> Vec<PodUid> {
        tokio::select! {
            biased;
            changed = self.manager.changed() => changed,
            () = sleep(Duration::from_millis(1)) => Vec::new(),
        }
    }

    pub(crate) fn metrics(&self) -> String {
        TextEncoder::new().encode_to_string(&self.metrics.gather()).expect("text")
    }
}

pub(crate) fn running(
    name: &str,
    instance: &str,
    since: jiff::Timestamp,
    started: bool,
) -> ContainerStatus {
    let running = ContainerStateRunning { started_at: Some(Time(since)) };
    ContainerStatus {
        name: name.to_owned(),
        container_id: Some(format!("memory://{instance}")),
        started: Some(started),
        state: Some(ContainerState { running: Some(running), ..ContainerState::default() }),
        ..ContainerStatus::default()
    }
}

/// A TCP probe each second.
pub(crate) fn tcp(port: i32) -> Probe {
    let tcp_socket = Some(TCPSocketAction { port: IntOrString::Int(port), host: None });
    Probe { tcp_socket, period_seconds: Some(1), ..Probe::default() }
}

/// A pod with one container.
pub(crate) fn pod(name: &str, change: impl FnOnce(&mut Container)) -> Pod {
    let mut container = Container { name: "main".to_owned(), ..Container::default() };
    change(&mut container);
    testkit::pods::pod(name).spec(|spec| spec.containers = vec![container]).build()
}

/// Lets time pass.
pub(crate) async fn seconds(seconds: f64) {
    sleep(Duration::from_secs_f64(seconds)).await;
}
