//! Checks whether the node can run a pod of a manifest.

use std::fmt::Debug;

use k8s_openapi::api::core::v1::Pod;

/// Checks pods against the node. The result must not depend on other running pods: a version of a manifest is
/// checked once.
pub trait SupportCheck: Debug + Send + Sync {
    /// Why the node cannot run a pod; `None` if it can.
    fn unsupported(&self, pod: &Pod) -> Option<String>;
}

/// A node that supports everything but volumes.
#[cfg(test)]
#[derive(Debug)]
pub(super) struct NoVolumes;

#[cfg(test)]
impl SupportCheck for NoVolumes {
    fn unsupported(&self, pod: &Pod) -> Option<String> {
        let volumes = podspec::view::spec(pod)?.volumes.as_ref()?;
        (!volumes.is_empty()).then(|| "not supported: spec.volumes".to_owned())
    }
}
