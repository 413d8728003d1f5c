//! Creates the node object.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, NodeSpec, Taint};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use model::ports::events::NodeEvent;

use super::configured::{labels, required_labels};
use super::resources::set_to_zero;
use super::settings::Settings;
use super::status::{StatusFacts, set_status};

/// The annotation that lets a controller attach volumes.
pub const ATTACH_DETACH: &str = "volumes.kubernetes.io/controller-managed-attach-detach";
/// The label of the operating system.
pub const OS_LABEL: &str = "kubernetes.io/os";
/// The label of the architecture.
pub const ARCH_LABEL: &str = "kubernetes.io/arch";
/// The only operating system that the agent runs on.
pub const OS: &str = "linux";

/// The taint that a cloud provider removes once it has initialized the node.
const UNINITIALIZED: &str = "node.cloudprovider.kubernetes.io/uninitialized";

/// A new node object, and the events to record.
pub fn node_object(known: StatusFacts<'_>, now: Timestamp) -> (Node, Vec<NodeEvent>) {
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
    set_to_zero(&mut node, own.former_devices.iter());
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

/// Sets the two labels that scheduling relies on.
pub fn set_required_labels(node: &mut Node, settings: &Settings) {
    let required = required_labels(&settings.own.architecture);
    node.metadata.labels.get_or_insert_default().extend(required);
}

#[cfg(test)]
#[path = "object_tests.rs"]
mod tests;
