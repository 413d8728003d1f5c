//! The controller: consecutive cycles of four passes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use model::chain::Chain;
use model::cluster::ClusterEvent;
use model::ports::clock::WallClock;
use model::ports::cluster::{Nodes, PodWrites};
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use crate::act::{Deletions, Deletor, Events};
use crate::cache::SharedCache;
use crate::decide::orphaned::orphaned;
use crate::decide::out_of_service::{is_out_of_service, nodes_to_ask, out_of_service};
use crate::decide::pace::Pace;
use crate::decide::quarantine::{Due, Quarantine};
use crate::decide::share::{Allowance, most_removals};
use crate::decide::terminated::terminated;
use crate::decide::unscheduled::unscheduled;
use crate::metrics::Metrics;
use crate::plan::{Pass, Removal, TerminatedPods as _, TerminatedPolicy};

/// From the end of one cycle to the start of the next, like upstream.
pub const PERIOD: Duration = Duration::from_secs(20);

/// The settings of the controller.
#[derive(Debug, Clone, PartialEq)]
pub struct PodGcSettings {
    /// From the end of one cycle to the start of the next.
    pub period: Duration,
    /// How long a node must be missing before it is read from the API server.
    pub quarantine: Duration,
    /// Which terminated pods are kept.
    pub terminated: TerminatedPolicy,
    /// The percentage of all pods that one cycle may delete.
    pub max_deletion_percent: Option<f64>,
    /// The limit of concurrent deletions.
    pub concurrency: usize,
    /// Whether deletions are only logged.
    pub dry_run: bool,
}

/// The dependencies of the controller.
#[derive(Debug, Clone)]
pub struct Outside {
    /// Reads nodes.
    pub nodes: Arc<dyn Nodes>,
    /// Deletes pods.
    pub pods: Arc<dyn PodWrites>,
    /// The wall clock.
    pub clock: Arc<dyn WallClock>,
    /// The queue of events about deletions, if they are enabled.
    pub events: Option<mpsc::Sender<ClusterEvent>>,
}

/// The controller.
#[derive(Debug)]
pub struct PodGc {
    settings: PodGcSettings,
    nodes: Arc<dyn Nodes>,
    cache: Arc<SharedCache>,
    metrics: Metrics,
    deletions: Deletions,
    quarantine: Quarantine,
    start: Instant,
}

impl PodGc {
    /// A controller that reads this cache, which watches fill.
    pub fn new(
        settings: PodGcSettings,
        outside: Outside,
        cache: Arc<SharedCache>,
        metrics: Metrics,
    ) -> Self {
        let start = Instant::now();
        let deletor = Deletor {
            pods: outside.pods,
            cache: Arc::clone(&cache),
            clock: outside.clock,
            metrics: metrics.clone(),
            events: outside.events.map(Events::new),
            dry_run: settings.dry_run,
        };
        let deletions = Deletions { deletor, pace: Pace::new(settings.concurrency), start };
        let quarantine = Quarantine::new(settings.quarantine);
        Self { settings, nodes: outside.nodes, cache, metrics, deletions, quarantine, start }
    }

    /// Runs cycles once all pods and nodes are listed, one after the other, until it is
    /// stopped.
    pub async fn run(mut self, stop: CancellationToken) {
        info!("Waiting for the lists of pods and nodes");
        // Biased, here and below: the stop comes first.
        tokio::select! {
            biased;
            () = stop.cancelled() => return,
            () = self.cache.synced() => {}
        }
        info!(pods = self.cache.lock().pods(), "Pods and nodes are listed");
        self.metrics.runs(true);
        while !stop.is_cancelled() {
            let begun = Instant::now();
            self.cycle(&stop).await;
            self.metrics.cycled(begun.elapsed(), self.deletions.deletor.clock.now());
            tokio::select! {
                biased;
                () = stop.cancelled() => {}
                () = tokio::time::sleep(self.settings.period) => {}
            }
        }
        self.metrics.runs(false);
    }

    /// The four passes.
    pub async fn cycle(&mut self, stop: &CancellationToken) {
        let pods = {
            let cache = self.cache.lock();
            self.metrics.sizes(cache.pods(), cache.count(), cache.missing_count());
            cache.pods()
        };
        let most = self.settings.max_deletion_percent.map(|share| most_removals(pods, share));
        let mut allowance = Allowance(most);
        let waiting = if most.is_some() { self.waiting() } else { [0; 3] };
        for (position, pass) in Pass::ALL.into_iter().enumerate() {
            let removals = match pass {
                Pass::Terminated => self.terminated(),
                Pass::OutOfService => self.out_of_service(stop).await,
                Pass::Orphaned => self.orphaned(stop).await,
                Pass::Unscheduled => unscheduled(self.cache.lock().terminating()),
            };
            if stop.is_cancelled() {
                return;
            }
            let after: usize = waiting[position..].iter().sum();
            let (removals, put_off) = self.within(removals, after, &mut allowance);
            if pass == Pass::Orphaned && !put_off.is_empty() {
                let cache = self.cache.lock();
                let views = put_off.iter().filter_map(|removal| cache.view(removal.pod));
                self.quarantine.put_off(views.map(|pod| pod.node), self.start.elapsed());
            }
            if !removals.is_empty() {
                info!(pass = pass.label(), pods = removals.len(), "Deleting pods");
                self.deletions.carry_out(removals, stop).await;
            }
        }
    }

    /// How many pods wait for each pass but the first, according to the cache.
    fn waiting(&self) -> [usize; 3] {
        let cache = self.cache.lock();
        let out = nodes_to_ask(cache.terminating(), |name| cache.node(name));
        let waited = self.quarantine.waited(self.start.elapsed());
        let missing = waited.filter(|name| !cache.has_node(name));
        let missing: BTreeMap<String, Duration> =
            missing.map(|name| (name.to_owned(), Duration::ZERO)).collect();
        let orphans = if missing.is_empty() { 0 } else { orphaned(cache.all(), &missing).len() };
        [
            out_of_service(cache.terminating(), &out).len(),
            orphans,
            unscheduled(cache.terminating()).len(),
        ]
    }

    fn terminated(&self) -> Vec<Removal> {
        let now = self.deletions.deletor.clock.now();
        terminated(&*self.cache.lock(), &self.settings.terminated, now)
    }

    /// The nodes are read again: the cache may be outdated, and a node that came back runs its pods.
    async fn out_of_service(&self, stop: &CancellationToken) -> Vec<Removal> {
        let requested = {
            let cache = self.cache.lock();
            nodes_to_ask(cache.terminating(), |name| cache.node(name))
        };
        let mut proven = BTreeSet::new();
        for name in requested {
            if stop.is_cancelled() {
                return Vec::new();
            }
            match self.nodes.node(&name).await {
                Ok(Some(node)) if is_out_of_service(&node) => drop(proven.insert(name)),
                Ok(_) => debug!(node = name, "Node is no longer out of service"),
                Err(error) => {
                    let error = Chain(&error);
                    warn!(node = name, %error, "Cannot read node, keeping its pods");
                }
            }
        }
        if proven.is_empty() {
            return Vec::new();
        }
        out_of_service(self.cache.lock().terminating(), &proven)
    }

    async fn orphaned(&mut self, stop: &CancellationToken) -> Vec<Removal> {
        let now = self.start.elapsed();
        let due = {
            let cache = self.cache.lock();
            self.metrics.queue().delayed(cache.missing_pods());
            self.quarantine.due(cache.missing_nodes(), now)
        };
        self.metrics.queue().due(due.values().map(|due| due.due_for));
        let mut gone = BTreeMap::new();
        for (name, Due { missing_for, .. }) in due {
            if stop.is_cancelled() {
                return Vec::new();
            }
            let looking = self.metrics.queue().looking();
            let answer = self.nodes.node(&name).await;
            drop(looking);
            match answer {
                Ok(None) => drop(gone.insert(name, missing_for)),
                Ok(Some(_)) => debug!(node = name, "Node exists that the cache does not have"),
                Err(error) => {
                    let error = Chain(&error);
                    warn!(node = name, %error, "Cannot read missing node, keeping its pods");
                }
            }
        }
        if gone.is_empty() {
            return Vec::new();
        }
        orphaned(self.cache.lock().all(), &gone)
    }

    /// The decisions that fit into the cycle's share while `waiting` pods wait for later passes; and the
    /// deferred ones.
    fn within(
        &self,
        mut removals: Vec<Removal>,
        waiting: usize,
        allowance: &mut Allowance,
    ) -> (Vec<Removal>, Vec<Removal>) {
        let put_off = removals.split_off(allowance.take(removals.len(), waiting));
        if !put_off.is_empty() {
            let percent = self.settings.max_deletion_percent;
            let pods = put_off.len();
            warn!(pods, ?percent, "Deferring deletions beyond the limit of one cycle");
            self.metrics.put_off(pods);
        }
        (removals, put_off)
    }
}
