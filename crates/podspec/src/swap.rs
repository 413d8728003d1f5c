//! Which containers may use swap.

use k8s_openapi::api::core::v1::{Container, Pod};
use model::quantity::Quantity;

use crate::resources::{MEMORY, limits, requests};
use crate::{QosClass, qos_class, view};

/// Whether a container may use swap on a node with `LimitedSwap`: it is in a burstable pod that is not critical, and its
/// memory may grow beyond its request.
pub fn may_swap(pod: &Pod, container: &Container) -> bool {
    if view::is_critical(pod) || qos_class(pod) != QosClass::Burstable {
        return false;
    }
    let (requests, limits) = (requests(container), limits(container));
    let memory = |amounts: &crate::resources::Amounts| {
        amounts.get(MEMORY).copied().unwrap_or(Quantity::ZERO)
    };
    let (request, limit) = (memory(&requests), memory(&limits));
    request != limit
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Origin, read_manifest};

    fn pod(more: &str, resources: &str) -> Pod {
        let manifest = format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: web, uid: web}}\nspec: {{{more} containers: \
             [{{name: main, image: 'image:1', resources: {{{resources}}}}}]}}\n"
        );
        let origin = Origin::File("/manifests/web.yaml".into());
        let mut pod = read_manifest(manifest.as_bytes(), &origin, "node").unwrap().pods.remove(0);
        // Static pods are critical.
        pod.metadata.annotations = None;
        pod
    }

    // behaviour: CON-91
    #[test]
    fn burstable_container_that_may_exceed_its_request_may_swap() {
        let rows = [
            ("", "requests: {memory: 64Mi}", true),
            ("", "requests: {memory: 64Mi}, limits: {memory: 128Mi}", true),
            ("", "requests: {memory: 64Mi}, limits: {memory: 64Mi}", false),
            ("", "requests: {cpu: 100m}", false),
            ("", "requests: {cpu: 100m, memory: 0}, limits: {memory: 128Mi}", true),
            ("", "", false),
            ("", "limits: {cpu: 1, memory: 64Mi}", false),
            ("priority: 2000000000,", "requests: {memory: 64Mi}", false),
            ("priority: 1999999999,", "requests: {memory: 64Mi}", true),
        ];
        for (more, resources, expected) in rows {
            let pod = pod(more, resources);
            assert_eq!(may_swap(&pod, &view::containers(&pod)[0]), expected, "{more} {resources}");
        }
    }
}
