//! Resource lists: names, amounts, and what the containers of a pod need together.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, Pod, PodSpec, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as ApiQuantity;
use model::names::qualified_name;

use crate::quantity::Quantity;
use crate::view::is_sidecar;

/// Resource name to amount, as the API keeps it.
pub(crate) type ResourceList = BTreeMap<String, ApiQuantity>;
/// Resource name to amount, as numbers.
pub type Amounts = BTreeMap<String, Quantity>;

/// Processors.
pub const CPU: &str = "cpu";
/// Memory.
pub const MEMORY: &str = "memory";
/// Disk for logs, writable layers and the like.
pub const EPHEMERAL_STORAGE: &str = "ephemeral-storage";
/// Huge pages; their size follows.
pub const HUGE_PAGES_PREFIX: &str = "hugepages-";

/// How many pods there can be.
pub const PODS: &str = "pods";

/// Whether a vendor adds it to nodes.
pub fn is_extended(name: &str) -> bool {
    !is_native(name)
        && !name.starts_with("requests.")
        && qualified_name(&format!("requests.{name}")).is_empty()
}

/// Whether it is counted in whole numbers, and is none of those that every node has.
pub fn is_scalar(name: &str) -> bool {
    is_extended(name)
        || is_huge_pages(name)
        || name.contains("kubernetes.io/")
        || name.starts_with("attachable-volumes-")
}

/// Whether it is a resource of the system itself and not one that a vendor adds.
pub(crate) fn is_native(name: &str) -> bool {
    !name.contains('/') || name.contains("kubernetes.io/")
}

pub(crate) fn is_huge_pages(name: &str) -> bool {
    name.starts_with(HUGE_PAGES_PREFIX)
}

/// Whether a container may use more of it than it asks for.
pub(crate) fn may_overcommit(name: &str) -> bool {
    is_native(name) && !is_huge_pages(name)
}

/// Whether a pod as a whole can ask for it.
pub(crate) fn is_pod_level(name: &str) -> bool {
    name == CPU || name == MEMORY || is_huge_pages(name)
}

/// The list as numbers, without what is no quantity: that is reported elsewhere.
pub(crate) fn amounts(list: Option<&ResourceList>) -> Amounts {
    list.into_iter()
        .flatten()
        .filter_map(|(name, text)| Some((name.clone(), Quantity::parse(&text.0).ok()?)))
        .collect()
}

/// What a pod asks for without its overhead: as a whole, and else what its containers need together.
pub fn pod_requests(pod: &Pod) -> Amounts {
    whole(pod, |part| part.requests.as_ref())
}

/// What a pod may use without its overhead: as a whole, and else what its containers may use together.
pub fn pod_limits(pod: &Pod) -> Amounts {
    whole(pod, |part| part.limits.as_ref())
}

/// What a pod asks for together with what it takes to run it.
pub fn pod_requests_with_overhead(pod: &Pod) -> Amounts {
    let mut requests = pod_requests(pod);
    add(&mut requests, &overhead(pod));
    requests
}

/// What a pod may use together with what it takes to run it. That is not limited alone, and a limit of
/// nothing is none.
pub fn pod_limits_with_overhead(pod: &Pod) -> Amounts {
    let mut limits = pod_limits(pod);
    let mut overhead = overhead(pod);
    overhead.retain(|name, _| limits.get(name).is_some_and(|limit| !limit.is_zero()));
    add(&mut limits, &overhead);
    limits
}

/// What it takes to run a pod besides its containers.
pub fn overhead(pod: &Pod) -> Amounts {
    amounts(pod.spec.as_ref().and_then(|spec| spec.overhead.as_ref()))
}

/// What the containers of a pod need together, whatever the pod asks for as a whole.
pub fn containers_requests(pod: &Pod) -> Amounts {
    pod.spec.as_ref().map(|spec| aggregate(spec, |part| part.requests.as_ref())).unwrap_or_default()
}

/// What a pod asks for as a whole, if it does.
pub fn requests_of_whole(pod: &Pod) -> Amounts {
    of_whole(pod, |part| part.requests.as_ref())
}

/// What a pod may use as a whole, if it says.
pub fn limits_of_whole(pod: &Pod) -> Amounts {
    of_whole(pod, |part| part.limits.as_ref())
}

/// Picks one of the two lists.
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

/// What a container asks for.
pub fn requests(container: &Container) -> Amounts {
    amounts(container.resources.as_ref().and_then(|part| part.requests.as_ref()))
}

/// What a container may use.
pub fn limits(container: &Container) -> Amounts {
    amounts(container.resources.as_ref().and_then(|part| part.limits.as_ref()))
}

/// What the containers of a pod need together: all regular ones and sidecars, or a regular init
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
    fn regular_init_containers_run_alone_and_one_after_the_other() {
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
    fn sidecars_run_beside_what_starts_after_them() {
        let sidecar = "{restartPolicy: Always, resources: {requests: {cpu: 1}}}";
        let init = "{resources: {requests: {cpu: 5}}}";
        let regular = "{resources: {requests: {cpu: 2}}}";
        let spec = |inits: &str| format!("initContainers: [{inits}], containers: [{regular}]");
        assert_eq!(requests(&spec(sidecar)), cpu("3"));
        assert_eq!(requests(&spec(&format!("{sidecar}, {init}"))), cpu("6"));
        assert_eq!(requests(&spec(&format!("{init}, {sidecar}"))), cpu("5"));
    }
    fn told(amounts: Amounts) -> String {
        let told = amounts.into_iter().map(|(name, amount)| format!("{name} {amount}"));
        told.collect::<Vec<_>>().join(", ")
    }

    #[test]
    fn what_a_pod_says_of_itself_counts_instead_of_its_containers() {
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
            assert_eq!(told(pod_requests(&pod)), requests, "{more}");
            assert_eq!(told(pod_limits(&pod)), limits, "{more}");
            assert_eq!(told(pod_requests_with_overhead(&pod)), with, "{more}");
            assert_eq!(told(pod_limits_with_overhead(&pod)), limited_with, "{more}");
        }
    }
}
