//! The QoS class of a pod.

use k8s_openapi::api::core::v1::{Pod, ResourceRequirements};

use crate::resources::{self, Amounts, CPU, MEMORY};
use crate::view;

/// The QoS class, which decides which pods lose resources first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum QosClass {
    /// No requests and limits.
    BestEffort,
    /// Some requests or limits.
    Burstable,
    /// Limits equal to the requests.
    Guaranteed,
}

impl QosClass {
    /// The name in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::BestEffort => "BestEffort",
            Self::Burstable => "Burstable",
            Self::Guaranteed => "Guaranteed",
        }
    }
}

/// The class of a pod by its specification; upstream's `ComputePodQOS`. Pod-level
/// resources count instead of those of its containers.
pub fn qos_class(pod: &Pod) -> QosClass {
    let of_pod = view::spec(pod).and_then(|spec| spec.resources.as_ref());
    let each: Vec<Option<&ResourceRequirements>> = match of_pod {
        Some(of_pod) => vec![Some(of_pod)],
        None => view::containers(pod)
            .iter()
            .chain(view::init_containers(pod))
            .map(|container| container.resources.as_ref())
            .collect(),
    };
    let mut requests = Amounts::new();
    let mut limits = Amounts::new();
    let mut all_limited = true;
    for part in each {
        let part_limits = counted(resources::amounts(part.and_then(|part| part.limits.as_ref())));
        all_limited &= part_limits.contains_key(CPU) && part_limits.contains_key(MEMORY);
        resources::add(&mut limits, &part_limits);
        let part_requests = part.and_then(|part| part.requests.as_ref());
        resources::add(&mut requests, &counted(resources::amounts(part_requests)));
    }
    if requests.is_empty() && limits.is_empty() {
        QosClass::BestEffort
    } else if all_limited && requests == limits {
        QosClass::Guaranteed
    } else {
        QosClass::Burstable
    }
}

/// Only CPU and memory count, and only quantities above zero.
fn counted(mut amounts: Amounts) -> Amounts {
    amounts.retain(|name, amount| {
        matches!(name.as_str(), CPU | MEMORY) && !amount.is_zero() && !amount.is_negative()
    });
    amounts
}

#[cfg(test)]
mod tests {
    use super::{QosClass, qos_class};
    use crate::decode;

    fn class(spec: &str) -> QosClass {
        let manifest = format!("# YAML\n{{apiVersion: v1, kind: Pod, spec: {{{spec}}}}}");
        qos_class(&decode(manifest.as_bytes()).unwrap().pods[0])
    }

    #[test]
    fn cpu_and_memory_resources_determine_the_class() {
        let full =
            "{resources: {requests: {cpu: 1, memory: 1Gi}, limits: {cpu: '1', memory: 1024Mi}}}";
        let rows = [
            ("nothing", "containers: [{name: a}]".to_owned(), QosClass::BestEffort),
            (
                "nothing but storage",
                "containers: [{resources: {limits: {ephemeral-storage: 1Gi}}}]".to_owned(),
                QosClass::BestEffort,
            ),
            (
                "an amount of nothing",
                "containers: [{resources: {requests: {cpu: 0}}}]".to_owned(),
                QosClass::BestEffort,
            ),
            (
                "a request alone",
                "containers: [{resources: {requests: {cpu: 1}}}]".to_owned(),
                QosClass::Burstable,
            ),
            (
                "a limit for one of the two",
                "containers: [{resources: {requests: {cpu: 1}, limits: {cpu: 1}}}]".to_owned(),
                QosClass::Burstable,
            ),
            (
                "a limit above the request",
                "containers: [{resources: {requests: {cpu: 1, memory: 1Gi}, limits: {cpu: 2, memory: 1Gi}}}]".to_owned(),
                QosClass::Burstable,
            ),
            ("equal amounts", format!("containers: [{full}, {full}]"), QosClass::Guaranteed),
            (
                "one container without",
                format!("containers: [{full}, {{name: b}}]"),
                QosClass::Burstable,
            ),
            (
                "an init container without",
                format!("containers: [{full}], initContainers: [{{name: b}}]"),
                QosClass::Burstable,
            ),
            (
                "amounts of the pod, whatever its containers say",
                "containers: [{name: a}], resources: {requests: {cpu: 1, memory: 1Gi}, limits: {cpu: 1, memory: 1Gi}}".to_owned(),
                QosClass::Guaranteed,
            ),
            (
                "a request of the pod alone",
                format!("containers: [{full}], resources: {{requests: {{cpu: 1}}}}"),
                QosClass::Burstable,
            ),
        ];
        for (what, spec, expected) in rows {
            assert_eq!(class(&spec), expected, "{what}");
        }
    }
}
