//! What a round does: evicts pods beyond their limits, reclaims resources of the node, or evicts one pod.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use k8s_openapi::api::core::v1::Pod;
use model::ids::PodUid;
use model::pod_failure::PodFailure;
use model::ports::events::{EventAnnotations, EventType, NodeEvent, PodEvent};
use model::ports::incidents::Incident;
use model::stats::Summary;
use podspec::view;
use tokio::time::Instant;
use tracing::{error, info, warn};

use super::EvictionTask;
use crate::decide::layout::{DiskLayout, NodeReclaim};
use crate::decide::message::{EVICTED, message};
use crate::decide::observation::observations;
use crate::decide::plan::violations;
use crate::decide::rank::{PodUsage, Ranked, rank};
use crate::decide::record::{by_limit, by_threshold};
use crate::decide::settle::Settling;
use crate::decide::signal::Signal;
use crate::decide::threshold::Threshold;
use crate::decide::tracker::{Crossed, Round};

/// The grace period of an eviction that cannot wait.
const IMMEDIATE: Duration = Duration::from_secs(1);

/// The eviction of one pod.
#[derive(Debug)]
struct Eviction {
    pod: Arc<Pod>,
    /// The signal, as the metric names it.
    signal: &'static str,
    grace: Duration,
    message: String,
    annotations: EventAnnotations,
    /// Whether the status gets the condition `DisruptionTarget`.
    is_disruption: bool,
    incident: Option<Incident>,
}

/// The result of reclaim on the node.
#[derive(Debug)]
struct Reclaimed {
    /// Whether all thresholds are resolved.
    is_resolved: bool,
    /// How many objects were removed.
    removed: u64,
}

impl EvictionTask {
    /// Acts on the statistics of pods. Returns the evicted ones.
    pub(super) async fn act(
        &self,
        layout: DiskLayout,
        round: &Round,
        pods: Vec<Arc<Pod>>,
        check_limits: bool,
    ) -> Vec<PodUid> {
        let Some(summary) = self.measure_pods().await else { return Vec::new() };
        if check_limits {
            let evicted = self.enforce_limits(layout, &pods, &summary).await;
            if !evicted.is_empty() {
                return evicted;
            }
        }
        let Some(crossed) = round.active.first() else { return Vec::new() };
        let reclaimed = self.reclaim_from_node(layout, crossed).await;
        if reclaimed.is_resolved {
            return Vec::new();
        }
        let (pods, summary) = if reclaimed.removed == 0 {
            (pods, summary)
        } else {
            let pods = self.shared.parts.pods.candidates();
            let Some(summary) = self.measure_pods().await else { return Vec::new() };
            (pods, summary)
        };
        self.evict_first(layout, round, &self.still_active(pods), &summary).await
    }

    async fn measure_pods(&self) -> Option<Arc<Summary>> {
        let summary = self.shared.parts.usage.summary(Duration::ZERO).await;
        summary
            .inspect_err(|error| {
                error!(%error, "Eviction manager: failed to get summary stats of pods");
            })
            .ok()
    }

    /// The pods without those that terminated since they were listed: reclaim may take minutes. Pods that started since
    /// are not added, because they have no statistics and would rank first.
    fn still_active(&self, mut pods: Vec<Arc<Pod>>) -> Vec<Arc<Pod>> {
        let active = self.shared.parts.pods.candidates();
        let active: BTreeSet<PodUid> = active.iter().map(|pod| view::uid(pod)).collect();
        pods.retain(|pod| active.contains(&view::uid(pod)));
        pods
    }

    /// Evicts all pods beyond a limit of local storage.
    async fn enforce_limits(
        &self,
        layout: DiskLayout,
        pods: &[Arc<Pod>],
        summary: &Summary,
    ) -> Vec<PodUid> {
        let found = violations(layout, pods, PodUsage::new(summary)).into_iter();
        let evictions = found.map(|(pod, violation)| Eviction {
            incident: Some(by_limit(&pod, &violation, IMMEDIATE)),
            pod,
            signal: violation.signal,
            grace: IMMEDIATE,
            message: violation.message,
            annotations: EventAnnotations::new(),
            is_disruption: false,
        });
        join_all(evictions.map(|eviction| self.evict(eviction))).await
    }

    /// Removes dead containers and unused images, as far as they are on the disk that is full.
    async fn reclaim_from_node(&self, layout: DiskLayout, crossed: &Crossed) -> Reclaimed {
        let (signal, resource) = (crossed.threshold.signal, crossed.resource());
        info!(
            %signal, %resource, threshold = %crossed.quantity(), available = %crossed.available(),
            "Eviction manager: attempting to reclaim"
        );
        self.shared.parts.node_events.record(NodeEvent {
            kind: EventType::Warning,
            reason: "EvictionThresholdMet",
            message: format!("Attempting to reclaim {resource}"),
        });
        let NodeReclaim { containers, images } = layout.reclaim(signal);
        let reclaimer = &self.shared.parts.reclaimer;
        let mut removed = 0;
        if containers {
            removed += reclaimer.delete_unused_containers().await;
        }
        if images {
            removed += reclaimer.delete_unused_images().await;
        }
        let is_resolved = (containers || images)
            && self.settle(signal, crossed.observed.available, removed).await;
        if is_resolved {
            info!(%resource, "Eviction manager: able to reduce resource pressure without evicting pods");
        }
        Reclaimed { is_resolved, removed }
    }

    /// Measures until all thresholds are resolved, or the disk has released what was removed.
    async fn settle(&self, signal: Signal, before: i64, removed: u64) -> bool {
        let (begun, mut settling) = (Instant::now(), Settling::new(before));
        loop {
            let node = match self.shared.parts.usage.node().await {
                Ok(node) => node,
                Err(error) => {
                    error!(%error, "Eviction manager: failed to get summary stats after resource reclaim");
                    return false;
                }
            };
            let observations = observations(&node);
            if self.shared.is_resolved(&observations) {
                return true;
            }
            if removed == 0 {
                return false;
            }
            let available = observations.get(&signal).map_or(before, |observed| observed.available);
            let Some(wait) = settling.measured(available, begun.elapsed()) else { return false };
            tokio::time::sleep(wait).await;
        }
    }

    /// Evicts the first pod of the ranking that is not critical.
    async fn evict_first(
        &self,
        layout: DiskLayout,
        round: &Round,
        pods: &[Arc<Pod>],
        summary: &Summary,
    ) -> Vec<PodUid> {
        let Some(crossed) = round.active.first() else { return Vec::new() };
        if pods.is_empty() {
            error!(
                "Eviction manager: eviction thresholds have been met, but no pods are active to evict"
            );
            return Vec::new();
        }
        let usage = PodUsage::new(summary);
        let ranking = rank(crossed.threshold.signal, layout, pods, usage);
        let names: Vec<String> = ranking.iter().map(|ranked| ranked.name.to_string()).collect();
        info!(pods = ?names, "Eviction manager: pods ranked for eviction");
        self.observe_ages(round);
        let Some(position) = ranking.iter().position(|ranked| !ranked.critical) else {
            info!("Eviction manager: unable to evict any pods from the node");
            return Vec::new();
        };
        let Ranked { pod, uid, .. } = &ranking[position];
        let grace = grace(&crossed.threshold, pod, self.shared.settings.most_grace);
        let message = message(pod, crossed, usage.get(uid));
        let eviction = Eviction {
            pod: Arc::clone(pod),
            signal: crossed.threshold.signal.as_str(),
            grace,
            message: message.text,
            annotations: message.annotations,
            is_disruption: true,
            incident: by_threshold(crossed, &ranking, position, grace),
        };
        vec![self.evict(eviction).await]
    }

    /// Records how old the statistics are that a pod is evicted for.
    fn observe_ages(&self, round: &Round) {
        let now = self.shared.parts.clock.now();
        for crossed in &round.active {
            let age = now.duration_since(crossed.observed.at);
            let age = Duration::try_from(age).unwrap_or_default();
            self.shared.parts.metrics.observe_age(crossed.threshold.signal.as_str(), age);
        }
    }

    /// Evicts a pod and waits until nothing of it runs. A pod that takes too long counts as evicted.
    async fn evict(&self, eviction: Eviction) -> PodUid {
        let Eviction { pod, signal, grace, message, annotations, is_disruption, incident } =
            eviction;
        let parts = &self.shared.parts;
        let (uid, name) = (view::uid(&pod), view::pod_name(&pod));
        info!(pod = %name, %uid, signal, ?grace, %message, "Eviction manager: evicting pod");
        let event = PodEvent::warning(uid.clone(), name.clone(), EVICTED, message.clone());
        parts.events.record(PodEvent { annotations, ..event });
        if let Some(incident) = incident {
            parts.incidents.record_incident(incident);
        }
        let disruption = is_disruption.then(|| message.clone().into());
        let failure = PodFailure { reason: EVICTED, message, disruption };
        match parts.pods.evict(&pod, grace, failure).await {
            Ok(()) => info!(pod = %name, %uid, "Eviction manager: pod is evicted successfully"),
            Err(error) => {
                warn!(pod = %name, %uid, %error, "Eviction manager: pod failed to evict");
            }
        }
        parts.metrics.evicted(signal);
        uid
    }
}

/// The grace period of an eviction by a threshold. A soft one leaves the pod its own, up to a limit.
fn grace(threshold: &Threshold, pod: &Pod, most: Duration) -> Duration {
    if threshold.is_hard() {
        return IMMEDIATE;
    }
    let own = view::spec(pod).and_then(|spec| spec.termination_grace_period_seconds);
    let own = own.map(|seconds| Duration::from_secs(u64::try_from(seconds).unwrap_or(0)));
    own.map_or(most, |own| own.min(most))
}
