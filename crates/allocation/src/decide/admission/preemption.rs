//! Selects the victims for a critical pod: as few as possible, of the lowest QoS class, and with as little
//! excess as possible.

use std::fmt::{self, Write as _};
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use model::ids::PodUid;
use podspec::resources::{CPU, MEMORY};
use podspec::{QosClass, qos_class, view};

use super::resources::{Insufficient, freed_by};

/// The outcome of the selection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum VictimSelection {
    /// These pods are preempted.
    Victims(Vec<PodUid>),
    /// Even without all candidates, these resources would be missing.
    NotEnough(Needs),
}

/// The missing resources.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Needs(Vec<(String, i64)>);

impl fmt::Display for Needs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = String::new();
        for (resource, amount) in &self.0 {
            write!(text, "(res: {resource}, q: {amount}), ")?;
        }
        write!(f, "[{text}]")
    }
}

impl Needs {
    /// The resources that are missing without these pods, too.
    fn after(&self, gone: &[&Arc<Pod>]) -> Self {
        let left = self.0.iter().filter_map(|(resource, amount)| {
            let freed = gone.iter().map(|pod| freed_by(pod, resource));
            let left = freed.fold(*amount, i64::saturating_sub);
            (left > 0).then(|| (resource.clone(), left))
        });
        Self(left.collect())
    }

    /// Whether a resource is missing.
    pub(super) fn has(&self, resource: &str) -> bool {
        self.0.iter().any(|(missing, _)| missing == resource)
    }

    fn are_met(&self) -> bool {
        self.0.is_empty()
    }

    /// The distance of a pod from providing everything that is missing, with equal weights of the resources.
    #[expect(clippy::cast_precision_loss, reason = "fractions are compared, as upstream does")]
    fn distance(&self, pod: &Pod) -> f64 {
        let parts = self.0.iter().map(|(resource, amount)| {
            let missing = amount.saturating_sub(freed_by(pod, resource)).max(0);
            (missing as f64 / *amount as f64).powi(2)
        });
        parts.sum()
    }
}

/// Selects the pods that must terminate for a pod.
pub(super) fn victims(pod: &Pod, there: &[Arc<Pod>], lacking: &[Insufficient]) -> VictimSelection {
    let needs = lacking.iter().map(|lack| (lack.resource.clone(), lack.missing()));
    let needs = Needs(needs.collect());
    let of = |class: QosClass| -> Vec<&Arc<Pod>> {
        let those = there.iter().filter(|other| class_of(other) == class);
        those.filter(|other| may_preempt(pod, other)).collect()
    };
    let best_effort = of(QosClass::BestEffort);
    let burstable = of(QosClass::Burstable);
    let guaranteed = of(QosClass::Guaranteed);
    let with = |one: &[&Arc<Pod>], other: &[&Arc<Pod>]| needs.after(&[one, other].concat());
    let least = with(&best_effort, &burstable).after(&guaranteed);
    if !least.are_met() {
        return VictimSelection::NotEnough(least);
    }
    // Each QoS class provides only the resources that lower classes cannot provide.
    let guaranteed = nearest(guaranteed, with(&best_effort, &burstable));
    let burstable = nearest(burstable, with(&best_effort, &guaranteed));
    let best_effort = nearest(best_effort, with(&burstable, &guaranteed));
    let all = best_effort.into_iter().chain(burstable).chain(guaranteed);
    VictimSelection::Victims(all.map(|pod| view::uid(pod)).collect())
}

/// Selects pods until the needs are met: each time the one nearest to the remaining needs.
fn nearest(mut pods: Vec<&Arc<Pod>>, mut needs: Needs) -> Vec<&Arc<Pod>> {
    let mut chosen = Vec::new();
    while !needs.are_met() {
        let mut best: Option<(usize, f64)> = None;
        for (index, pod) in pods.iter().enumerate() {
            let distance = needs.distance(pod);
            let is_better = best.is_none_or(|(before, shortest)| {
                // Of two equally near pods, the one with smaller requests, and otherwise the later one.
                distance < shortest
                    || distance.total_cmp(&shortest).is_eq() && !requests_more(pod, pods[before])
            });
            if is_better {
                best = Some((index, distance));
            }
        }
        let Some((index, _)) = best else { return chosen };
        let pod = pods.swap_remove(index);
        needs = needs.after(&[pod]);
        chosen.push(pod);
    }
    chosen
}

fn requests_more(pod: &Pod, other: &Pod) -> bool {
    let requested = |pod: &Pod| (freed_by(pod, MEMORY), freed_by(pod, CPU));
    requested(pod) > requested(other)
}

/// Whether one pod may preempt another.
fn may_preempt(pod: &Pod, other: &Pod) -> bool {
    if view::is_critical(pod) && !view::is_critical(other) {
        return true;
    }
    let priorities = view::priority(pod).zip(view::priority(other));
    priorities.is_some_and(|(priority, of_other)| priority > of_other)
}

/// The QoS class from the API server; for pods of manifests it is computed.
fn class_of(pod: &Pod) -> QosClass {
    let given = pod.status.as_ref().and_then(|status| status.qos_class.as_deref());
    let all = [QosClass::BestEffort, QosClass::Burstable, QosClass::Guaranteed];
    let named = all.into_iter().find(|class| given == Some(class.as_str()));
    named.unwrap_or_else(|| qos_class(pod))
}
