//! Why a pod of the API waits: it relies on something that the agent does not support yet. It is not rejected: its
//! controller would only create another one, and containers that an earlier agent started keep running.

use k8s_openapi::api::core::v1::Pod;
use podspec::{unsupported, view};

use crate::decide::sync_plan::Unsupported;

/// The reason why a pod of the API waits; `None` if it does not.
pub(crate) fn unsupported_wait(pod: &Pod) -> Option<Unsupported> {
    if view::is_static(pod) {
        return None;
    }
    let fields = unsupported(pod);
    let message = format!("not supported yet: {}", fields.join(", "));
    (!fields.is_empty()).then_some(Unsupported { reason: "UnsupportedFields", message })
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::PodResourceClaim;
    use podspec::annotations;
    use testkit::pods::pod;

    use super::*;

    // behaviour: API-13
    #[test]
    fn api_pod_waits_for_unsupported_fields_and_static_pod_does_not() {
        let claiming = |pod: testkit::pods::PodBuilder| {
            let claims = vec![PodResourceClaim::default()];
            pod.spec(|spec| spec.resource_claims = Some(claims)).build()
        };
        let Unsupported { reason, message } = unsupported_wait(&claiming(pod("web"))).unwrap();
        assert_eq!(reason, "UnsupportedFields");
        assert_eq!(message, "not supported yet: spec.resourceClaims");
        let source = (annotations::CONFIG_SOURCE, annotations::SOURCE_FILE);
        assert_eq!(unsupported_wait(&claiming(pod("web").annotation(source.0, source.1))), None);
        let marked = pod("web").annotation("seccomp.security.alpha.kubernetes.io/pod", "x").build();
        assert_eq!(unsupported_wait(&marked), None, "the annotation has no effect on API pods");
        assert_eq!(unsupported_wait(&pod("web").build()), None);
    }
}
