//! Resource lists: names, quantities, and the sums over containers.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, Pod, PodSpec, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as ApiQuantity;
use model::names::qualified_name;

use crate::quantity::Quantity;
use crate::view::is_sidecar;

/// Resource name to quantity, as in the API.
pub(crate) type ResourceList = BTreeMap<String, ApiQuantity>;
/// Resource name to quantity, as numbers.
pub type Amounts = BTreeMap<String, Quantity>;

/// CPU.
pub const CPU: &str = "cpu";
/// Memory.
pub const MEMORY: &str = "memory";
/// Local ephemeral storage.
pub const EPHEMERAL_STORAGE: &str = "ephemeral-storage";
/// The prefix of huge pages; their size follows.
pub const HUGE_PAGES_PREFIX: &str = "hugepages-";

/// The number of pods.
pub const PODS: &str = "pods";

/// Whether it is an extended resource.
pub fn is_extended(name: &str) -> bool {
    !is_native(name)
        && !name.starts_with("requests.")
        && qualified_name(&format!("requests.{name}")).is_empty()
}

/// Whether it is counted in whole numbers, and is not a standard resource.
pub fn is_scalar(name: &str) -> bool {
    is_extended(name)
        || is_huge_pages(name)
        || name.contains("kubernetes.io/")
        || name.starts_with("attachable-volumes-")
}

/// Whether it is a native resource rather than an extended one.
pub(crate) fn is_native(name: &str) -> bool {
    !name.contains('/') || name.contains("kubernetes.io/")
}

pub(crate) fn is_huge_pages(name: &str) -> bool {
    name.starts_with(HUGE_PAGES_PREFIX)
}

/// Whether a container's limit may exceed its request.
pub(crate) fn may_overcommit(name: &str) -> bool {
    is_native(name) && !is_huge_pages(name)
}

/// Whether it may be a pod-level resource.
pub(crate) fn is_pod_level(name: &str) -> bool {
    name == CPU || name == MEMORY || is_huge_pages(name)
}

/// The list as numbers, without invalid quantities, which validation reports.
pub(crate) fn amounts(list: Option<&ResourceList>) -> Amounts {
    list.into_iter()
        .flatten()
        .filter_map(|(name, text)| Some((name.clone(), Quantity::parse(&text.0).ok()?)))
        .collect()
}

/// The requests of a pod without overhead: pod-level ones, and else the sum of its containers.
pub fn pod_requests(pod: &Pod) -> Amounts {
    whole(pod, |part| part.requests.as_ref())
}

/// The limits of a pod without overhead: pod-level limits, or else the sum of its containers.
pub fn pod_limits(pod: &Pod) -> Amounts {
    whole(pod, |part| part.limits.as_ref())
}

/// The requests of a pod with overhead.
pub fn pod_requests_with_overhead(pod: &Pod) -> Amounts {
    let mut requests = pod_requests(pod);
    add(&mut requests, &overhead(pod));
    requests
}

/// The limits of a pod with overhead. Overhead alone is not a limit, and a limit of zero is none.
pub fn pod_limits_with_overhead(pod: &Pod) -> Amounts {
    let mut limits = pod_limits(pod);
    let mut overhead = overhead(pod);
    overhead.retain(|name, _| limits.get(name).is_some_and(|limit| !limit.is_zero()));
    add(&mut limits, &overhead);
    limits
}

/// The overhead of a pod.
pub fn overhead(pod: &Pod) -> Amounts {
    amounts(pod.spec.as_ref().and_then(|spec| spec.overhead.as_ref()))
}

/// The sum of container requests, regardless of pod-level requests.
pub fn containers_requests(pod: &Pod) -> Amounts {
    pod.spec.as_ref().map(|spec| aggregate(spec, |part| part.requests.as_ref())).unwrap_or_default()
}

/// The pod-level requests, if any.
pub fn requests_of_whole(pod: &Pod) -> Amounts {
    of_whole(pod, |part| part.requests.as_ref())
}

/// The pod-level limits, if any.
pub fn limits_of_whole(pod: &Pod) -> Amounts {
    of_whole(pod, |part| part.limits.as_ref())
}

/// Selects requests or limits.
type Select = fn(&ResourceRequirements) -> Option<&ResourceList>;

fn whole(pod: &Pod, select: Select) -> Amounts {
    let Some(spec) = &pod.spec else { return Amounts::new() };
    let mut amounts = aggregate(spec, select);
    amounts.extend(of_whole(pod, select));
    amounts
}

fn of_whole(pod: &Pod, select: Select) -> Amounts {
    let part = pod.spec.as_ref().and_then(|spec| spec.resources.as_ref());
    let mut amounts = amounts(part.and_then(select));
    amounts.retain(|name, _| is_pod_level(name));
    amounts
}

/// The requests of a container.
pub fn requests(container: &Container) -> Amounts {
    amounts(container.resources.as_ref().and_then(|part| part.requests.as_ref()))
}

/// The limits of a container.
pub fn limits(container: &Container) -> Amounts {
    amounts(container.resources.as_ref().and_then(|part| part.limits.as_ref()))
}

/// The sum over containers: all regular ones and sidecars, or a regular init
/// container with the sidecars before it, whichever is more.
pub(crate) fn aggregate(spec: &PodSpec, select: Select) -> Amounts {
    let of = |container: &Container| amounts(container.resources.as_ref().and_then(select));
    let mut total = Amounts::new();
    for container in &spec.containers {
        add(&mut total, &of(container));
    }
    let mut sidecars = Amounts::new();
    let mut initializing = Amounts::new();
    for container in spec.init_containers.iter().flatten() {
        let mut needed = of(container);
        if is_sidecar(container) {
            add(&mut total, &needed);
            add(&mut sidecars, &needed);
            needed = sidecars.clone();
        } else {
            add(&mut needed, &sidecars);
        }
        raise(&mut initializing, needed);
    }
    raise(&mut total, initializing);
    total
}

pub(crate) fn add(to: &mut Amounts, more: &Amounts) {
    for (name, amount) in more {
        let sum = to.get(name).map_or(*amount, |had| *had + *amount);
        to.insert(name.clone(), sum);
    }
}

fn raise(to: &mut Amounts, at_least: Amounts) {
    for (name, amount) in at_least {
        if to.get(&name).is_none_or(|had| *had < amount) {
            to.insert(name, amount);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{
        Amounts, aggregate, pod_limits, pod_limits_with_overhead, pod_requests,
        pod_requests_with_overhead,
    };
    use crate::decode;

    fn requests(containers: &str) -> Vec<(String, String)> {
        let manifest = format!("{{apiVersion: v1, kind: Pod, spec: {{{containers}}}}}");
        let pod = decode(format!("# YAML\n{manifest}").as_bytes()).unwrap().pods.remove(0);
        let total: Amounts = aggregate(&pod.spec.unwrap(), |r| r.requests.as_ref());
        total.into_iter().map(|(name, amount)| (name, amount.to_string())).collect()
    }

    fn cpu(amount: &str) -> Vec<(String, String)> {
        vec![("cpu".to_owned(), amount.to_owned())]
    }

    #[test]
    fn regular_containers_add_up() {
        let one = "{resources: {requests: {cpu: 1}}}";
        assert_eq!(requests(&format!("containers: [{one}, {one}]")), cpu("2"));
    }

    #[test]
    fn regular_init_containers_run_one_by_one() {
        let container = |cpu| format!("{{resources: {{requests: {{cpu: {cpu}}}}}}}");
        let spec = |a, b| {
            format!(
                "initContainers: [{}, {}], containers: [{}]",
                container(a),
                container(b),
                container(2)
            )
        };
        assert_eq!(requests(&spec(1, 1)), cpu("2"));
        assert_eq!(requests(&spec(5, 1)), cpu("5"));
    }

    #[test]
    fn sidecars_keep_running_with_later_containers() {
        let sidecar = "{restartPolicy: Always, resources: {requests: {cpu: 1}}}";
        let init = "{resources: {requests: {cpu: 5}}}";
        let regular = "{resources: {requests: {cpu: 2}}}";
        let spec = |inits: &str| format!("initContainers: [{inits}], containers: [{regular}]");
        assert_eq!(requests(&spec(sidecar)), cpu("3"));
        assert_eq!(requests(&spec(&format!("{sidecar}, {init}"))), cpu("6"));
        assert_eq!(requests(&spec(&format!("{init}, {sidecar}"))), cpu("5"));
    }
    fn text(amounts: Amounts) -> String {
        let texts = amounts.into_iter().map(|(name, amount)| format!("{name} {amount}"));
        texts.collect::<Vec<_>>().join(", ")
    }

    #[test]
    fn pod_level_resources_count_instead_of_containers() {
        let container = "{name: a, resources: {requests: {cpu: 1, memory: 1Gi}, limits: {cpu: 2}}}";
        let rows = [
            ("", "cpu 1, memory 1Gi", "cpu 2", "cpu 1, memory 1Gi", "cpu 2"),
            (
                "resources: {requests: {cpu: 3}, limits: {memory: 4Gi}}",
                "cpu 3, memory 1Gi",
                "cpu 2, memory 4Gi",
                "cpu 3, memory 1Gi",
                "cpu 2, memory 4Gi",
            ),
            (
                "resources: {limits: {hugepages-2Mi: 4Mi, ephemeral-storage: 1Gi}}",
                "cpu 1, memory 1Gi",
                "cpu 2, hugepages-2Mi 4Mi",
                "cpu 1, memory 1Gi",
                "cpu 2, hugepages-2Mi 4Mi",
            ),
            (
                "overhead: {cpu: 250m, memory: 64Mi}",
                "cpu 1, memory 1Gi",
                "cpu 2",
                "cpu 1250m, memory 1088Mi",
                "cpu 2250m",
            ),
            (
                "resources: {limits: {memory: 0}}, overhead: {memory: 64Mi}",
                "cpu 1, memory 1Gi",
                "cpu 2, memory 0",
                "cpu 1, memory 1088Mi",
                "cpu 2, memory 0",
            ),
        ];
        for (more, requests, limits, with, limited_with) in rows {
            let manifest = format!(
                "# YAML\n{{apiVersion: v1, kind: Pod, spec: {{containers: [{container}], {more}}}}}"
            );
            let pod = decode(manifest.as_bytes()).unwrap().pods.remove(0);
            assert_eq!(text(pod_requests(&pod)), requests, "{more}");
            assert_eq!(text(pod_limits(&pod)), limits, "{more}");
            assert_eq!(text(pod_requests_with_overhead(&pod)), with, "{more}");
            assert_eq!(text(pod_limits_with_overhead(&pod)), limited_with, "{more}");
        }
    }
}
