//! Rejects pods while the node is short of a resource.

use k8s_openapi::api::core::v1::Pod;
use model::admission::Rejection;
use model::pressure::Pressure;
use podspec::{QosClass, qos_class, view};

use super::admission::{Node, tolerates_memory_pressure};

/// Why a pod is rejected under this pressure, if so. Critical pods are admitted. Memory pressure alone rejects pods
/// that request nothing, unless they tolerate its taint; any other pressure rejects all.
pub(super) fn pressure_rejection(pod: &Pod, pressure: Pressure, node: &Node) -> Option<Rejection> {
    let conditions = pressure.conditions();
    if conditions.is_empty() || view::is_critical(pod) {
        return None;
    }
    let only_memory = Pressure { memory: true, ..Pressure::default() };
    let requests_any = || !is_best_effort(pod);
    if pressure == only_memory && (requests_any() || tolerates_memory_pressure(pod, node)) {
        return None;
    }
    let message = format!("The node had condition: [{}]. ", conditions.join(" "));
    Some(Rejection::new("Evicted", message))
}

fn is_best_effort(pod: &Pod) -> bool {
    let reported = pod.status.as_ref().and_then(|status| status.qos_class.as_deref());
    let best_effort = QosClass::BestEffort.as_str();
    match reported.filter(|class| !class.is_empty()) {
        Some(class) => class == best_effort,
        None => qos_class(pod) == QosClass::BestEffort,
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{PodStatus, ResourceRequirements, Toleration};
    use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
    use testkit::pods::{PodBuilder, pod};

    use super::*;

    fn best_effort() -> PodBuilder {
        pod("web").container("main", "image", [])
    }

    fn tolerating(key: &str, effect: &str) -> PodBuilder {
        let toleration = Toleration {
            key: Some(key.to_owned()),
            operator: Some("Exists".to_owned()),
            effect: Some(effect.to_owned()),
            ..Toleration::default()
        };
        best_effort().spec(|spec| spec.tolerations = Some(vec![toleration]))
    }

    // behaviour: EVI-45, EVI-46, EVI-47
    #[test]
    fn pod_is_rejected_by_the_conditions_of_the_node() {
        let requests = [("memory".to_owned(), Quantity("1Mi".to_owned()))];
        let burstable = best_effort().spec(|spec| {
            let requests = Some(requests.into());
            let resources = ResourceRequirements { requests, ..ResourceRequirements::default() };
            spec.containers[0].resources = Some(resources);
        });
        let by_status = best_effort().with(|pod| {
            let qos_class = Some("Burstable".to_owned());
            pod.status = Some(PodStatus { qos_class, ..PodStatus::default() });
        });
        let critical = best_effort().spec(|spec| spec.priority = Some(2_000_000_000));
        let fixed = best_effort().annotation("kubernetes.io/config.source", "file");
        let memory_pressure = "node.kubernetes.io/memory-pressure";
        // The pod; whether it is admitted under memory pressure, and under disk pressure.
        let rows = vec![
            (best_effort(), false, false),
            (burstable, true, false),
            (by_status, true, false),
            (critical, true, true),
            (fixed, true, true),
            (tolerating(memory_pressure, "NoSchedule"), true, false),
            (tolerating(memory_pressure, "NoExecute"), false, false),
            (tolerating("node.kubernetes.io/disk-pressure", "NoSchedule"), false, false),
        ];
        let none = Pressure::default();
        let both = Pressure { memory: true, disk: true, pid: false };
        for (row, (builder, under_memory, under_disk)) in rows.into_iter().enumerate() {
            let (built, node) = (builder.build(), Node::default());
            let is_admitted = |pressure| pressure_rejection(&built, pressure, &node).is_none();
            assert!(is_admitted(none), "row {row}");
            assert_eq!(is_admitted(Pressure { memory: true, ..none }), under_memory, "row {row}");
            assert_eq!(is_admitted(Pressure { disk: true, ..none }), under_disk, "row {row}");
            assert_eq!(is_admitted(Pressure { pid: true, ..none }), under_disk, "row {row}");
            assert_eq!(is_admitted(both), under_disk, "row {row}");
        }
    }

    // behaviour: EVI-45
    #[test]
    fn rejection_names_the_conditions() {
        let rows = [
            (
                Pressure { disk: true, ..Pressure::default() },
                "The node had condition: [DiskPressure]. ",
            ),
            (
                Pressure { memory: true, disk: false, pid: true },
                "The node had condition: [MemoryPressure PIDPressure]. ",
            ),
        ];
        for (pressure, message) in rows {
            let rejection =
                pressure_rejection(&best_effort().build(), pressure, &Node::default()).unwrap();
            assert_eq!((&*rejection.reason, rejection.message.as_str()), ("Evicted", message));
        }
    }
}
