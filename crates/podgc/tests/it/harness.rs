//! An in-memory cluster with a controller whose cycles the test runs.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use model::cluster::{ClusterEvent, PodPhase, PodRecord, Uid};
use model::ports::clock::WallClock as _;
use model::ports::cluster::{Nodes as _, PodFeed as _};
use podgc::cache::{Cache, SharedCache};
use podgc::decide::quarantine::QUARANTINE;
use podgc::events::WAITING;
use podgc::metrics::Metrics;
use podgc::plan::{Order, TerminatedPolicy};
use podgc::task::{Outside, PERIOD, PodGc, PodGcSettings};
use prometheus::Registry;
use prometheus::proto::LabelPair;
use testkit::clock::VirtualClock;
use testkit::cluster::MemoryCluster;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::reported::{Reported, Tee};

pub(crate) struct Harness {
    pub(crate) cluster: MemoryCluster,
    pub(crate) gc: PodGc,
    pub(crate) registry: Registry,
    pub(crate) metrics: Metrics,
    pub(crate) events: mpsc::Receiver<ClusterEvent>,
    pub(crate) stop: CancellationToken,
    cache: Arc<SharedCache>,
    reported: Arc<Reported>,
    /// The watches that fill the cache.
    _feeds: JoinSet<()>,
}

/// A view of the controller's cache.
pub(crate) struct CacheView {
    cache: Arc<SharedCache>,
    reported: Arc<Reported>,
    clock: VirtualClock,
}

impl CacheView {
    /// Names of nodes that pods have and the cache lacks.
    pub(crate) fn missing(&self) -> BTreeSet<String> {
        self.cache.lock().missing_nodes().map(str::to_owned).collect()
    }

    /// Terminated pods that the controller may delete, in their order.
    pub(crate) fn terminated(&self) -> Vec<Uid> {
        self.reported.terminated()
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }
}

/// Waits until the controller has received all changes.
pub(crate) async fn settle() {
    for _ in 0..20 {
        tokio::task::yield_now().await;
    }
}

pub(crate) fn settings() -> PodGcSettings {
    PodGcSettings {
        period: PERIOD,
        quarantine: QUARANTINE,
        terminated: TerminatedPolicy { threshold: 12_500, ..TerminatedPolicy::default() },
        max_deletion_percent: None,
        concurrency: 16,
        dry_run: false,
    }
}

pub(crate) fn threshold(threshold: i64) -> PodGcSettings {
    let terminated = TerminatedPolicy { threshold, ..TerminatedPolicy::default() };
    PodGcSettings { terminated, ..settings() }
}

impl Harness {
    pub(crate) fn new(settings: PodGcSettings) -> Self {
        Self::ordered(settings, Order::Creation)
    }

    pub(crate) fn ordered(settings: PodGcSettings, order: Order) -> Self {
        Self::on(MemoryCluster::default(), settings, order)
    }

    /// A controller on an existing cluster.
    pub(crate) fn on(cluster: MemoryCluster, settings: PodGcSettings, order: Order) -> Self {
        let cache = Cache::new(order, settings.terminated.ttl.is_some());
        let cache = Arc::new(SharedCache::new(cache));
        let mut feeds = JoinSet::new();
        let reported = Arc::new(Reported::default());
        let sink = Tee { cache: Arc::clone(&cache), reported: Arc::clone(&reported) };
        let server = cluster.clone();
        feeds.spawn(async move { server.follow_pods(&sink).await });
        let (server, sink) = (cluster.clone(), Arc::clone(&cache));
        feeds.spawn(async move { server.follow_nodes(&*sink).await });
        let registry = Registry::new();
        let metrics = Metrics::new(&registry).unwrap();
        let (sender, events) = mpsc::channel(WAITING);
        let outside = Outside {
            nodes: Arc::new(cluster.clone()),
            pods: Arc::new(cluster.clone()),
            clock: Arc::new(cluster.clock()),
            events: Some(sender),
        };
        let gc = PodGc::new(settings, outside, Arc::clone(&cache), metrics.clone());
        let stop = CancellationToken::new();
        Self { cluster, gc, registry, metrics, events, stop, cache, reported, _feeds: feeds }
    }

    /// Waits until the controller has received all changes.
    pub(crate) async fn settle(&self) {
        settle().await;
    }

    /// A view of the controller's cache.
    pub(crate) fn looking(&self) -> CacheView {
        let (cache, reported) = (Arc::clone(&self.cache), Arc::clone(&self.reported));
        CacheView { cache, reported, clock: self.cluster.clock() }
    }

    /// Runs one cycle; does nothing before the first lists are complete.
    pub(crate) async fn cycle(&mut self) {
        self.settle().await;
        if !self.cache.is_synced() {
            return;
        }
        let stop = self.stop.clone();
        self.gc.cycle(&stop).await;
        self.settle().await;
    }

    /// Runs cycles at the usual interval for this duration.
    pub(crate) async fn cycles(&mut self, duration: Duration) {
        let end = tokio::time::Instant::now() + duration;
        self.cycle().await;
        while tokio::time::Instant::now() + PERIOD <= end {
            tokio::time::sleep(PERIOD).await;
            self.cycle().await;
        }
    }

    /// Names of the remaining pods, without the namespace `default`.
    pub(crate) fn left(&self) -> Vec<String> {
        let names = self.cluster.pods().into_iter();
        names.map(|name| name.strip_prefix("default/").unwrap_or(&name).to_owned()).collect()
    }

    /// The value of a counter; zero if it never counted.
    pub(crate) fn count(&self, metric: &str, namespace: &str, reason: &str) -> u64 {
        for family in self.registry.gather() {
            if family.name() != metric {
                continue;
            }
            for one in family.get_metric() {
                let labels: Vec<&str> = one.get_label().iter().map(LabelPair::value).collect();
                if labels == [namespace, reason] {
                    #[expect(
                        clippy::cast_possible_truncation,
                        clippy::cast_sign_loss,
                        reason = "a count"
                    )]
                    return one.get_counter().get_value() as u64;
                }
            }
        }
        0
    }

    /// The value of a metric without labels; zero if there is none.
    pub(crate) fn value(&self, metric: &str) -> u64 {
        let families = self.registry.gather();
        let family = families.iter().find(|family| family.name() == metric);
        let one = family.and_then(|family| family.get_metric().first());
        // Each metric has one type, and zero for the other.
        let value =
            one.map_or(0.0, |one| one.get_gauge().get_value() + one.get_counter().get_value());
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count")]
        let value = value as u64;
        value
    }

    /// The numbers of attempted and of failed deletions in the namespace `default`.
    pub(crate) fn tried(&self, reason: &str) -> (u64, u64) {
        (
            self.count("pod_gc_collector_force_delete_pods_total", "default", reason),
            self.count("pod_gc_collector_force_delete_pod_errors_total", "default", reason),
        )
    }
}

/// A pod in a phase, created at this time.
pub(crate) fn aged(name: &str, phase: PodPhase, created: i64) -> PodRecord {
    PodRecord { phase, created, ..testkit::cluster::pod(name) }
}

/// A pod on a node.
pub(crate) fn on_node(name: &str, phase: PodPhase, node: &str) -> PodRecord {
    PodRecord { phase, node: node.to_owned(), ..testkit::cluster::pod(name) }
}
