//! Computes the status of the node.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{
    DaemonEndpoint, Node, NodeDaemonEndpoints, NodeFeatures, NodeRuntimeHandler,
    NodeRuntimeHandlerFeatures, NodeStatus, NodeSwapStatus, NodeSystemInfo,
};
use model::ports::events::{EventType, NodeEvent};
use model::ports::runtime::{RuntimeFeatures, RuntimeHandler};

use super::addresses::{PROVIDED_NODE_IP, hostname_only, provided_node_ip};
use super::conditions::{Health, conditions, status_event};
use super::facts::Facts;
use super::health::{UnhealthyPart, problems};
use super::resources;
use super::settings::Settings;

/// The reason of the event for a reboot of the machine.
pub const REBOOTED: &str = "Rebooted";

/// The runtime version before the runtime was reached.
const UNKNOWN_RUNTIME: &str = "unknown://Unknown";

/// Upstream's message on a machine with cgroup v1.
const CGROUP_V1: &str = "cgroup v1 detected. cgroup v1 support is deprecated and will be removed in a \
    future release. Please migrate to cgroup v2. More information at \
    https://git.k8s.io/enhancements/keps/sig-node/5573-remove-cgroup-v1";

/// A feature that the runtime must support, too.
const OF_RUNTIME: &str = "UserNamespacesHostNetworkSupport";

/// The inputs of the status.
#[derive(Debug, Clone, Copy)]
pub struct StatusFacts<'a> {
    /// The fixed settings.
    pub settings: &'a Settings,
    /// The observed state.
    pub facts: &'a Facts,
    /// Unhealthy parts of the agent.
    pub unwell: &'a [UnhealthyPart],
    /// The time since the start of the agent.
    pub since_start: Duration,
}

/// Sets the status of a node; returns the events to record.
pub fn set_status(node: &mut Node, known: StatusFacts<'_>, now: Timestamp) -> Vec<NodeEvent> {
    let StatusFacts { settings, facts, .. } = known;
    set_provided_ip(node, settings);
    let mut status = node.status.take().unwrap_or_default();
    set_addresses(&mut status, settings, facts);
    set_resources(&mut status, settings);
    let mut events = set_info(&mut status, settings, facts);
    let port = i32::from(settings.port);
    status.daemon_endpoints =
        Some(NodeDaemonEndpoints { kubelet_endpoint: Some(DaemonEndpoint { port }) });
    if let Some(images) = &facts.images {
        status.images = Some((**images).clone()).filter(|images| !images.is_empty());
    }
    set_abilities(&mut status, &facts.runtime.handlers, facts.runtime.features);
    events.extend(set_conditions(&mut status, known, now));
    let runtime = facts.runtime.features.unwrap_or_default();
    let declared = settings.own.declared_features.iter();
    let declared =
        declared.filter(|name| **name != OF_RUNTIME || runtime.user_namespaces_host_network);
    let declared: Vec<String> = declared.map(|name| (*name).to_owned()).collect();
    status.declared_features = Some(declared).filter(|all| !all.is_empty());
    node.status = Some(status);
    events
}

/// Sets the annotation with the configured addresses for an external cloud provider.
fn set_provided_ip(node: &mut Node, settings: &Settings) {
    let ip = provided_node_ip(&settings.own.ips).filter(|_| settings.own.external_cloud);
    match ip {
        Some(ip) => {
            let annotations = node.metadata.annotations.get_or_insert_default();
            annotations.insert(PROVIDED_NODE_IP.to_owned(), ip);
        }
        None => {
            if let Some(annotations) = &mut node.metadata.annotations {
                annotations.remove(PROVIDED_NODE_IP);
            }
        }
    }
}

fn set_addresses(status: &mut NodeStatus, settings: &Settings, facts: &Facts) {
    let has_some = status.addresses.as_ref().is_some_and(|addresses| !addresses.is_empty());
    if settings.own.external_cloud {
        if has_some {
            return;
        }
        if settings.own.ips.is_empty() {
            status.addresses = Some(hostname_only(&settings.own.hostname));
            return;
        }
    }
    if let Some(Ok(addresses)) = &facts.addresses {
        status.addresses = Some(addresses.clone());
    }
}

fn set_resources(status: &mut NodeStatus, settings: &Settings) {
    let own = &settings.own;
    let capacity = resources::capacity(&status.capacity.take().unwrap_or_default(), &own.capacity);
    let previous = status.allocatable.take().unwrap_or_default();
    status.allocatable = Some(resources::allocatable(&previous, &capacity, &own.allocatable));
    status.capacity = Some(capacity);
}

fn set_info(status: &mut NodeStatus, settings: &Settings, facts: &Facts) -> Vec<NodeEvent> {
    let (own, machine) = (&settings.own, &settings.own.identity);
    let before = status.node_info.take().unwrap_or_default();
    let rebooted = !before.boot_id.is_empty() && before.boot_id != machine.boot_id;
    let event = rebooted.then(|| NodeEvent {
        kind: EventType::Warning,
        reason: REBOOTED,
        message: format!("Node {} has been rebooted, boot id: {}", own.name, machine.boot_id),
    });
    let swap = i64::try_from(machine.swap).ok().filter(|bytes| *bytes > 0);
    let previous = Some(before.container_runtime_version).filter(|version| !version.is_empty());
    let version = facts.runtime.version.clone().or(previous);
    status.node_info = Some(NodeSystemInfo {
        architecture: own.architecture.clone(),
        boot_id: machine.boot_id.clone(),
        container_runtime_version: version.unwrap_or_else(|| UNKNOWN_RUNTIME.to_owned()),
        kernel_version: machine.kernel_version.clone(),
        kube_proxy_version: String::new(),
        kubelet_version: own.kubelet_version.clone(),
        machine_id: machine.machine_id.clone(),
        operating_system: "linux".to_owned(),
        os_image: machine.os_image.clone(),
        swap: swap.map(|bytes| NodeSwapStatus { capacity: Some(bytes) }),
        system_uuid: machine.system_uuid.clone(),
    });
    event.into_iter().collect()
}

fn set_abilities(
    status: &mut NodeStatus,
    handlers: &[RuntimeHandler],
    features: Option<RuntimeFeatures>,
) {
    let handlers = handlers.iter().map(|handler| NodeRuntimeHandler {
        name: Some(handler.name.clone()),
        features: Some(NodeRuntimeHandlerFeatures {
            recursive_read_only_mounts: Some(handler.recursive_read_only_mounts),
            user_namespaces: Some(handler.user_namespaces),
        }),
    });
    status.runtime_handlers = Some(handlers.collect()).filter(|all: &Vec<_>| !all.is_empty());
    if let Some(features) = features {
        status.features = Some(NodeFeatures {
            supplemental_groups_policy: Some(features.supplemental_groups_policy),
        });
    }
}

fn set_conditions(
    status: &mut NodeStatus,
    known: StatusFacts<'_>,
    now: Timestamp,
) -> Vec<NodeEvent> {
    let StatusFacts { settings, facts, unwell, since_start } = known;
    let capacity = status.capacity.clone().unwrap_or_default();
    let missing = resources::missing(&capacity, settings.local_storage);
    let health = Health {
        pressure: facts.pressure,
        problems: problems(facts, unwell, &missing, since_start),
        lacks: settings.own.lacks,
    };
    let previous = status.conditions.take().unwrap_or_default();
    let (all, changes) = conditions(&previous, &health, now);
    status.conditions = Some(all);
    changes.into_iter().map(|state| status_event(&settings.own.name, state)).collect()
}

/// The events at the start of the agent.
pub fn starting_events(settings: &Settings) -> Vec<NodeEvent> {
    let starting = ("Starting", EventType::Normal, "Starting kubelet.");
    let old = ("CgroupV1", EventType::Warning, CGROUP_V1);
    let events = [Some(starting), settings.own.cgroup_v1.then_some(old)].into_iter().flatten();
    let event = |(reason, kind, message): (_, _, &str)| NodeEvent {
        kind,
        reason,
        message: message.to_owned(),
    };
    events.map(event).collect()
}

/// The event when the node becomes schedulable or unschedulable.
pub fn schedulable_event(node: &Node, was_unschedulable: bool) -> Option<NodeEvent> {
    let is_unschedulable = is_unschedulable(node);
    if is_unschedulable == was_unschedulable {
        return None;
    }
    let state = if is_unschedulable { "NodeNotSchedulable" } else { "NodeSchedulable" };
    Some(status_event(node.metadata.name.as_deref().unwrap_or_default(), state))
}

/// Whether the node is unschedulable.
pub fn is_unschedulable(node: &Node) -> bool {
    node.spec.as_ref().and_then(|spec| spec.unschedulable).unwrap_or_default()
}
