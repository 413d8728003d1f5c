//! Pods by name.

use std::sync::Arc;

use k8s_openapi::api::core::v1::PodStatus;
use podspec::view;

use crate::parts::{PodAndStatus, PodView};

/// The pod of a name. Of two with one name, the one that is not being deleted.
pub(crate) fn find_pod(pods: &dyn PodView, namespace: &str, name: &str) -> Option<PodAndStatus> {
    let is_named = |found: &PodAndStatus| {
        let found = view::pod_name(&found.pod);
        *found.namespace == *namespace && *found.name == *name
    };
    let named = pods.pods().into_iter().filter(is_named);
    named.min_by_key(|found| view::is_being_deleted(&found.pod))
}

/// The status of a pod: the agent's, else the one that the pod was received with.
pub(crate) fn status_of(found: &PodAndStatus) -> Arc<PodStatus> {
    let own = || Arc::new(found.pod.status.clone().unwrap_or_default());
    found.status.clone().unwrap_or_else(own)
}
