//! The task that evicts pods, and its handle.

mod act;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use model::pressure::Pressure;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};

use model::ids::PodUid;
use model::log_throttle::LogThrottle;
use model::stats::NodeStats;

use crate::decide::layout::DiskLayout;
use crate::decide::local_storage::has_limit;
use crate::decide::observation::{Observations, observations};
use crate::decide::plan::{EvictionPlan, rankings, signals, violations};
use crate::decide::rank::PodUsage;
use crate::decide::signal::Signal;
use crate::decide::threshold::Threshold;
use crate::decide::tracker::{Round, Tracker};
use crate::parts::{EvictionParts, EvictionSettings};

/// The time between two rounds.
const PERIOD: Duration = Duration::from_secs(10);
/// How often the clean-up of an evicted pod is checked.
const CLEANUP_CHECK: Duration = Duration::from_secs(1);
/// The longest wait for the clean-up of an evicted pod.
const CLEANUP_PATIENCE: Duration = Duration::from_secs(30);
/// The shortest time between two rounds that were requested.
const LEAST_PERIOD: Duration = Duration::from_secs(1);

/// Creates the eviction manager: its task, and its handle.
pub fn eviction(
    parts: EvictionParts,
    settings: EvictionSettings,
) -> (EvictionTask, EvictionHandle) {
    let shared = Arc::new(Shared {
        parts,
        settings,
        state: Mutex::default(),
        requested: Notify::new(),
        begun: Instant::now(),
    });
    let (pressure, current) = watch::channel(Pressure::default());
    let (node, measured) = watch::channel(NodeStats::default());
    let task = EvictionTask {
        shared: Arc::clone(&shared),
        pressure,
        node,
        throttle: LogThrottle::default(),
        unobserved: Vec::new(),
    };
    (task, EvictionHandle { shared, pressure: current, node: measured })
}

#[derive(Debug)]
struct Shared {
    parts: EvictionParts,
    settings: EvictionSettings,
    /// Written by the task. Never held across an await.
    state: Mutex<Option<State>>,
    /// Notified to begin a round early.
    requested: Notify,
    /// The origin of the tracker's times.
    begun: Instant,
}

/// The state after the first round, which finds out where the disks are.
#[derive(Debug)]
struct State {
    layout: DiskLayout,
    tracker: Tracker,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, Option<State>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_resolved(&self, observations: &Observations) -> bool {
        self.state().as_ref().is_some_and(|state| state.tracker.is_resolved(observations))
    }

    fn layout(&self) -> Option<DiskLayout> {
        self.state().as_ref().map(|state| state.layout)
    }
}

/// Requests rounds and plans, and follows the conditions.
#[derive(Debug, Clone)]
pub struct EvictionHandle {
    shared: Arc<Shared>,
    pressure: watch::Receiver<Pressure>,
    node: watch::Receiver<NodeStats>,
}

impl EvictionHandle {
    /// The resources under pressure. The sender ends with the task.
    pub fn pressure(&self) -> watch::Receiver<Pressure> {
        self.pressure.clone()
    }

    /// Begins the next round now, because something reports that memory is short.
    pub fn begin_round(&self) {
        self.shared.requested.notify_one();
    }

    /// The configured thresholds.
    pub(crate) fn thresholds(&self) -> &[Threshold] {
        &self.shared.settings.thresholds
    }

    /// The usage of the node in the last round; without values before the first. The sender ends with the task.
    pub(crate) fn node(&self) -> watch::Receiver<NodeStats> {
        self.node.clone()
    }

    /// The signals and rankings now. Changes nothing.
    pub async fn plan(&self) -> EvictionPlan {
        let Shared { parts, begun, .. } = &*self.shared;
        let mut plan =
            EvictionPlan { pressure: *self.pressure.borrow(), ..EvictionPlan::default() };
        let summary = match parts.usage.summary(Duration::ZERO).await {
            Ok(summary) => summary,
            Err(error) => {
                plan.problems.push(error.to_string());
                return plan;
            }
        };
        let observed = observations(&summary.node);
        let Some(layout) = self.shared.layout() else {
            plan.problems.push("the eviction manager has not completed a round yet".to_owned());
            return plan;
        };
        if let Some(state) = &*self.shared.state() {
            plan.signals = signals(state.tracker.states(), &observed, begun.elapsed());
        }
        let (pods, usage) = (parts.pods.candidates(), PodUsage::new(&summary));
        plan.rankings = rankings(&plan.signals, layout, &pods, usage);
        if self.shared.settings.local_limits {
            let found = violations(layout, &pods, usage).into_iter();
            plan.violations =
                found.map(|(pod, violation)| (podspec::view::pod_name(&pod), violation)).collect();
        }
        plan.layout = Some(layout);
        plan
    }
}

/// Evicts pods, round by round.
#[derive(Debug)]
pub struct EvictionTask {
    shared: Arc<Shared>,
    /// Closed with the task.
    pressure: watch::Sender<Pressure>,
    node: watch::Sender<NodeStats>,
    throttle: LogThrottle,
    /// The signals without an observation, as logged.
    unobserved: Vec<Signal>,
}

impl EvictionTask {
    /// Runs until `stop` is cancelled, which may interrupt a round: pods that are being killed are killed
    /// by their workers.
    pub async fn run(mut self, stop: CancellationToken) {
        if self.shared.settings.are_off() {
            info!("Eviction manager: no thresholds and no limits are configured");
            stop.cancelled().await;
            return;
        }
        // Biased: the stop comes once.
        tokio::select! {
            biased;
            () = stop.cancelled() => {}
            () = self.rounds() => unreachable!("rounds have no end"),
        }
    }

    async fn rounds(&mut self) {
        info!("Eviction manager: starting control loop");
        let (mut is_regular, mut next) = (true, Instant::now());
        loop {
            let began = Instant::now();
            let evicted = self.round(is_regular).await;
            if is_regular {
                next = Instant::now() + PERIOD;
            }
            is_regular = if evicted.is_empty() {
                self.wait(began, next).await
            } else {
                self.wait_for_cleanup(&evicted).await;
                true
            };
        }
    }

    /// Waits for the next regular round, or until one is requested. Requests do not postpone the regular round. Returns
    /// whether the period ended.
    async fn wait(&self, began: Instant, next: Instant) -> bool {
        let next = tokio::time::sleep_until(next);
        let requested = async {
            self.shared.requested.notified().await;
            tokio::time::sleep_until(began + LEAST_PERIOD).await;
        };
        // Biased: each ends the wait.
        tokio::select! {
            biased;
            () = next => true,
            () = requested => false,
        }
    }

    async fn wait_for_cleanup(&self, evicted: &[PodUid]) {
        let pods = &self.shared.parts.pods;
        let begun = Instant::now();
        while begun.elapsed() < CLEANUP_PATIENCE {
            tokio::time::sleep(CLEANUP_CHECK).await;
            if evicted.iter().all(|uid| pods.is_cleaned_up(uid)) {
                info!(?evicted, "Eviction manager: pods successfully cleaned up");
                return;
            }
        }
        warn!(?evicted, "Eviction manager: timed out waiting for pods to be cleaned up");
    }

    /// Makes a round; returns the evicted pods. Only a regular one checks limits of local storage, because that measures
    /// all pods.
    async fn round(&mut self, is_regular: bool) -> Vec<PodUid> {
        let EvictionSettings { thresholds, local_limits, .. } = &self.shared.settings;
        let pods = self.shared.parts.pods.candidates();
        let check_limits = is_regular && *local_limits && pods.iter().any(|pod| has_limit(pod));
        if thresholds.is_empty() && !check_limits {
            return Vec::new();
        }
        let Some(layout) = self.find_layout().await else { return Vec::new() };
        let node = match self.shared.parts.usage.node().await {
            Ok(node) => node,
            Err(error) => {
                if self.throttle.failed(Instant::now().into_std()) {
                    error!(%error, "Eviction manager: failed to get summary stats");
                }
                return Vec::new();
            }
        };
        self.throttle.recovered(Instant::now().into_std());
        let round = self.evaluate(observations(&node));
        self.node.send_replace(node);
        self.report(&round);
        if !check_limits && round.active.is_empty() {
            return Vec::new();
        }
        self.act(layout, &round, pods, check_limits).await
    }

    /// The layout of the disks, which the first round finds out. An error is retried by the next round.
    async fn find_layout(&mut self) -> Option<DiskLayout> {
        if let Some(layout) = self.shared.layout() {
            return Some(layout);
        }
        let devices = match self.shared.parts.file_systems.devices().await {
            Ok(devices) => devices,
            Err(error) => {
                if self.throttle.failed(Instant::now().into_std()) {
                    error!(error, "Eviction manager: failed to find out where the disks are");
                }
                return None;
            }
        };
        let settings = &self.shared.settings;
        let layout = DiskLayout::of(devices);
        info!(layout = layout.as_str(), "Eviction manager: disks found");
        for signal in DiskLayout::replaced(&settings.thresholds) {
            error!(%signal, "Eviction manager: ignoring configured containerfs threshold");
        }
        let thresholds = layout.with_container_fs(&settings.thresholds);
        let tracker = Tracker::new(thresholds, settings.transition);
        *self.shared.state() = Some(State { layout, tracker });
        Some(layout)
    }

    fn evaluate(&self, observations: Observations) -> Round {
        let now = self.shared.begun.elapsed();
        let mut state = self.shared.state();
        state.as_mut().map(|state| state.tracker.round(observations, now)).unwrap_or_default()
    }

    /// Publishes the conditions, and logs what is new.
    fn report(&mut self, round: &Round) {
        let Round { pressure, unobserved, .. } = round;
        let changed = self.pressure.send_if_modified(|before| {
            let changed = before != pressure;
            *before = *pressure;
            changed
        });
        if changed {
            info!(conditions = ?pressure.conditions(), "Eviction manager: node conditions changed");
        }
        if self.unobserved != *unobserved {
            for signal in unobserved.iter().filter(|signal| !self.unobserved.contains(signal)) {
                warn!(%signal, "Eviction manager: no observation found for eviction signal");
            }
            self.unobserved.clone_from(unobserved);
        }
    }
}

#[cfg(test)]
#[path = "manager_tests.rs"]
pub(crate) mod tests;
