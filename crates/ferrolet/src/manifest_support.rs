//! Which manifests the node can run, for the sources of pods.

use allocation::decide::AdmissionChain;
use k8s_openapi::api::core::v1::Pod;
use pods::source::SupportCheck;

/// Checks manifests by the rules of admission.
#[derive(Debug)]
pub(crate) struct ManifestSupport(pub(crate) AdmissionChain);

impl SupportCheck for ManifestSupport {
    fn unsupported(&self, pod: &Pod) -> Option<String> {
        self.0.unsupported_manifest(pod)
    }
}
