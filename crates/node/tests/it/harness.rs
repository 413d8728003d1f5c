//! A node, an API server and a runtime under a paused clock.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use config::KubeletConfiguration;
use k8s_openapi::api::core::v1::{Node, NodeCondition};
use model::ports::node_api::{NodeApi, NodeLeases};
use model::ports::runtime::Runtime;
use node::{
    Metrics, NodeHandle, NodeParameters, NodePorts, NodeTasks, SelfCheck, Settings, UnhealthyPart,
};
use podspec::quantity::Quantity;
use prometheus::Registry;
use testkit::addresses::MemoryAddresses;
use testkit::clock::VirtualClock;
use testkit::cluster::node_api::MemoryNodeApi;
use testkit::events::KeptNodeEvents;
use testkit::runtime::MemoryRuntime;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

/// The timeout of waits: virtual time, so a long one costs nothing.
const PATIENCE: Duration = Duration::from_mins(20);

/// The node's name.
pub(crate) const NAME: &str = "n";

/// A part of the agent whose health the test sets.
#[derive(Debug, Default)]
pub(crate) struct Part(watch::Sender<Option<String>>);

impl Part {
    pub(crate) fn set(&self, problem: Option<&str>) {
        self.0.send_replace(problem.map(ToOwned::to_owned));
    }
}

#[async_trait]
impl SelfCheck for Part {
    fn unwell(&self) -> Option<UnhealthyPart> {
        let problem = self.0.borrow().clone()?;
        Some(UnhealthyPart { part: "PLEG", problem })
    }

    async fn well(&self) {
        drop(self.0.subscribe().wait_for(Option::is_none).await);
    }
}

/// The dependencies of a node.
#[derive(Debug)]
pub(crate) struct Harness {
    pub(crate) api: MemoryNodeApi,
    pub(crate) runtime: Arc<MemoryRuntime>,
    pub(crate) addresses: Arc<MemoryAddresses>,
    pub(crate) events: Arc<KeptNodeEvents>,
    pub(crate) part: Arc<Part>,
    /// The metrics of the last running node.
    pub(crate) timed: Mutex<Registry>,
    /// When the machine booted.
    pub(crate) booted: Option<Instant>,
    clock: VirtualClock,
}

/// A running node. It stops when this is dropped.
#[derive(Debug)]
pub(crate) struct Running {
    pub(crate) handle: NodeHandle,
    _tasks: JoinSet<()>,
}

impl Harness {
    pub(crate) fn new() -> Self {
        let clock = VirtualClock::new();
        Self {
            api: MemoryNodeApi::default(),
            runtime: Arc::new(MemoryRuntime::new(Arc::new(clock.clone()))),
            addresses: Arc::new(MemoryAddresses::one("10.0.0.1")),
            events: Arc::default(),
            part: Arc::default(),
            timed: Mutex::default(),
            booted: None,
            clock,
        }
    }

    pub(crate) fn settings(change: impl FnOnce(&mut KubeletConfiguration)) -> Settings {
        let mut config = KubeletConfiguration::default();
        change(&mut config);
        let amounts = |cpu: &str| {
            let all =
                [("cpu", cpu), ("memory", "4Gi"), ("pods", "110"), ("ephemeral-storage", "9Gi")];
            let quantity = |text: &str| Quantity::parse(text).unwrap();
            all.iter().map(|(name, text)| ((*name).to_owned(), quantity(text))).collect()
        };
        let own = NodeParameters {
            name: NAME.to_owned(),
            hostname: NAME.to_owned(),
            architecture: "amd64".to_owned(),
            kubelet_version: "v1.36.3+ferrolet.0.1.0".to_owned(),
            capacity: amounts("2"),
            allocatable: amounts("1500m"),
            ..NodeParameters::default()
        };
        Settings::new(&config, own)
    }

    pub(crate) fn start(&self) -> Running {
        self.start_with(Self::settings(|_| {}))
    }

    pub(crate) fn start_with(&self, settings: Settings) -> Running {
        let api: Arc<dyn NodeApi> = Arc::new(self.api.clone());
        let leases: Arc<dyn NodeLeases> = Arc::new(self.api.clone());
        let timed = Registry::new();
        *self.timed.lock().unwrap() = timed.clone();
        let ports = NodePorts {
            metrics: Metrics::new(&timed).unwrap().booted(self.booted),
            api,
            leases,
            csi_nodes: Arc::new(self.api.clone()),
            runtime: Runtime::new(self.runtime.clone()),
            addresses: self.addresses.clone(),
            events: self.events.clone(),
            clock: Arc::new(self.clock.clone()),
            checks: vec![self.part.clone()],
        };
        let (tasks, handle) = node::node(settings, ports);
        let NodeTasks { feed, observer, check, status, lease, pod_cidrs, csi_node } = tasks;
        let stop = CancellationToken::new();
        let mut set = JoinSet::new();
        set.spawn(feed.run(stop.clone()));
        set.spawn(observer.run(stop.clone()));
        set.spawn(check.run(stop.clone()));
        set.spawn(status.run(stop.clone()));
        set.spawn(lease.run(stop.clone()));
        set.spawn(csi_node.run(stop.clone()));
        set.spawn(pod_cidrs.run(stop));
        Running { handle, _tasks: set }
    }

    /// Waits for a node object that satisfies the condition.
    pub(crate) async fn node(&self, wanted: impl Fn(&Node) -> bool) -> Node {
        wait(|| self.api.node(NAME).filter(|node| wanted(node))).await
    }

    pub(crate) fn reasons(&self) -> Vec<&'static str> {
        self.events.all().iter().map(|event| event.reason).collect()
    }
}

/// Polls until there is a value.
pub(crate) async fn wait<T>(mut value: impl FnMut() -> Option<T>) -> T {
    let look = async {
        loop {
            if let Some(value) = value() {
                return value;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(PATIENCE, look).await.expect("a value within the timeout")
}

/// Advances the clock.
pub(crate) async fn pass(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}

pub(crate) fn condition(node: &Node, kind: &str) -> NodeCondition {
    let all = node.status.as_ref().and_then(|status| status.conditions.clone());
    let mut all = all.unwrap_or_default().into_iter();
    all.find(|condition| condition.type_ == kind).unwrap_or_default()
}

pub(crate) fn is_ready(node: &Node) -> bool {
    condition(node, "Ready").status == "True"
}
