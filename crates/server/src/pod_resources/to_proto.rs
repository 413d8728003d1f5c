//! Converts pods to the protocols.

use model::pod_resources::PodContainers;
use proto::podresources_v1 as v1;
use proto::podresources_v1alpha1 as v1alpha1;

/// A pod with its sidecars, then its regular containers.
pub(crate) fn pod(pod: PodContainers) -> v1::PodResources {
    let PodContainers { namespace, name, sidecars, containers } = pod;
    let all = sidecars.into_iter().chain(containers);
    let containers = all.map(|name| v1::ContainerResources { name, ..Default::default() });
    v1::PodResources { name, namespace, containers: containers.collect() }
}

/// A pod with its regular containers: the old version has no others.
pub(crate) fn old_pod(pod: PodContainers) -> v1alpha1::PodResources {
    let PodContainers { namespace, name, sidecars: _, containers } = pod;
    let containers = containers.into_iter();
    let containers =
        containers.map(|name| v1alpha1::ContainerResources { name, devices: Vec::new() });
    v1alpha1::PodResources { name, namespace, containers: containers.collect() }
}
