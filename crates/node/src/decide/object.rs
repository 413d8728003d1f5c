//! The node object, as it is made.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, NodeSpec, Taint};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use model::ports::events::NodeEvent;

use super::configured::{labels, required_labels};
use super::resources::tell_none;
use super::settings::Settings;
use super::status::{Known, set_status};

/// The annotation that says that a controller attaches volumes.
pub const ATTACH_DETACH: &str = "volumes.kubernetes.io/controller-managed-attach-detach";
/// The label of the operating system.
pub const OS_LABEL: &str = "kubernetes.io/os";
/// The label of the kind of machine.
pub const ARCH_LABEL: &str = "kubernetes.io/arch";
/// The only operating system that the agent runs on.
pub const OS: &str = "linux";

/// The taint that a cloud provider takes away once it knows the node.
const UNINITIALIZED: &str = "node.cloudprovider.kubernetes.io/uninitialized";

/// The node as it is made, and what there is to tell about that.
pub fn node_object(known: Known<'_>, now: Timestamp) -> (Node, Vec<NodeEvent>) {
    let (settings, own) = (known.settings, &known.settings.own);
    let annotation = (ATTACH_DETACH.to_owned(), "true".to_owned());
    let attached = settings.controller_attach_detach.then(|| BTreeMap::from([annotation]));
    let provider_id = Some(settings.provider_id.clone()).filter(|id| !id.is_empty());
    let spec = NodeSpec { provider_id, taints: taints(settings), ..NodeSpec::default() };
    let mut node = Node {
        metadata: ObjectMeta {
            name: Some(own.name.clone()),
            labels: Some(labels(&own.hostname, &own.architecture, &own.labels)),
            annotations: attached,
            ..ObjectMeta::default()
        },
        spec: Some(spec),
        status: None,
    };
    tell_none(&mut node, own.former_devices.iter());
    let events = set_status(&mut node, known, now);
    (node, events)
}

fn taints(settings: &Settings) -> Option<Vec<Taint>> {
    let mut taints = settings.taints.clone();
    if settings.own.external_cloud {
        taints.push(Taint {
            key: UNINITIALIZED.to_owned(),
            value: Some("true".to_owned()),
            effect: "NoSchedule".to_owned(),
            time_added: None,
        });
    }
    Some(taints).filter(|taints| !taints.is_empty())
}

/// Puts the two labels on a node that others place pods by.
pub fn set_required_labels(node: &mut Node, settings: &Settings) {
    let required = required_labels(&settings.own.architecture);
    node.metadata.labels.get_or_insert_default().extend(required);
}

#[cfg(test)]
#[path = "object_tests.rs"]
mod tests;
