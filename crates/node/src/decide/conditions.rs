//! The node conditions that the agent writes. Other conditions belong to other clients.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::NodeCondition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use model::ports::events::{EventType, NodeEvent};

use super::health::{Pressure, aggregate};

/// The type of the condition that shows whether the node can run pods.
pub const READY: &str = "Ready";

/// The conditions that the agent writes, in the order in which they are created.
pub const OWN: [&str; 4] = ["MemoryPressure", "DiskPressure", "PIDPressure", READY];

/// The status, reason, message and event of a condition.
type ConditionText = (&'static str, &'static str, &'static str, &'static str);

/// The pressure conditions: the type, the text under pressure and the text without.
const PRESSURES: [(&str, ConditionText, ConditionText); 3] = [
    (
        OWN[0],
        (
            "True",
            "KubeletHasInsufficientMemory",
            "kubelet has insufficient memory available",
            "NodeHasInsufficientMemory",
        ),
        (
            "False",
            "KubeletHasSufficientMemory",
            "kubelet has sufficient memory available",
            "NodeHasSufficientMemory",
        ),
    ),
    (
        OWN[1],
        ("True", "KubeletHasDiskPressure", "kubelet has disk pressure", "NodeHasDiskPressure"),
        (
            "False",
            "KubeletHasNoDiskPressure",
            "kubelet has no disk pressure",
            "NodeHasNoDiskPressure",
        ),
    ),
    (
        OWN[2],
        (
            "True",
            "KubeletHasInsufficientPID",
            "kubelet has insufficient PID available",
            "NodeHasInsufficientPID",
        ),
        (
            "False",
            "KubeletHasSufficientPID",
            "kubelet has sufficient PID available",
            "NodeHasSufficientPID",
        ),
    ),
];

/// The inputs of the conditions.
#[derive(Debug, Clone, Default)]
pub struct Health {
    /// Resources under pressure.
    pub pressure: Pressure,
    /// Problems that keep the node from being ready.
    pub problems: Vec<String>,
    /// Problems that do not affect readiness: appended to the message of the ready condition.
    pub lacks: Option<&'static str>,
}

/// The conditions that follow `previous` at `now`, and the reasons of the events to record.
pub fn conditions(
    previous: &[NodeCondition],
    health: &Health,
    now: Timestamp,
) -> (Vec<NodeCondition>, Vec<&'static str>) {
    // With the precision of the API, so that a written value equals the one read back.
    let now = Time(Timestamp::from_second(now.as_second()).unwrap_or(now));
    let mut all = previous.to_vec();
    let mut events = Vec::new();
    let short = [health.pressure.memory, health.pressure.disk, health.pressure.pid];
    for ((kind, yes, no), short) in PRESSURES.into_iter().zip(short) {
        let (status, reason, message, event) = if short { yes } else { no };
        let condition = entry(&mut all, kind, &now);
        condition.last_heartbeat_time = Some(now.clone());
        // Reason and message change only with the status.
        if condition.status != status {
            status.clone_into(&mut condition.status);
            condition.reason = Some(reason.to_owned());
            condition.message = Some(message.to_owned());
            condition.last_transition_time = Some(now.clone());
            events.push(event);
        }
    }
    events.extend(set_ready(&mut all, health, &now));
    (all, events)
}

/// The condition of this type; a new one has status unknown.
fn entry<'a>(all: &'a mut Vec<NodeCondition>, kind: &str, now: &Time) -> &'a mut NodeCondition {
    let at = all.iter().position(|condition| condition.type_ == kind).unwrap_or_else(|| {
        all.push(NodeCondition {
            type_: kind.to_owned(),
            status: "Unknown".to_owned(),
            last_transition_time: Some(now.clone()),
            ..NodeCondition::default()
        });
        all.len() - 1
    });
    &mut all[at]
}

fn set_ready(all: &mut Vec<NodeCondition>, health: &Health, now: &Time) -> Option<&'static str> {
    let is_ready = health.problems.is_empty();
    let (status, reason, event) = if is_ready {
        ("True", "KubeletReady", "NodeReady")
    } else {
        ("False", "KubeletNotReady", "NodeNotReady")
    };
    let message = if is_ready {
        "kubelet is posting ready status".to_owned()
    } else {
        aggregate(&health.problems)
    };
    let message = match health.lacks {
        Some(lacks) => format!("{message}. WARNING: {lacks}"),
        None => message,
    };
    let is_new = !all.iter().any(|condition| condition.type_ == READY);
    let ready = entry(all, READY, now);
    let flips = ready.status != status;
    if flips {
        ready.last_transition_time = Some(now.clone());
    }
    status.clone_into(&mut ready.status);
    ready.reason = Some(reason.to_owned());
    ready.message = Some(message);
    ready.last_heartbeat_time = Some(now.clone());
    // A node is created without being ready; that needs no event.
    (flips && (is_ready || !is_new)).then_some(event)
}

/// The event for a new state of the node.
pub fn status_event(node: &str, state: &'static str) -> NodeEvent {
    let message = format!("Node {node} status is now: {state}");
    NodeEvent { kind: EventType::Normal, reason: state, message }
}

/// Whether the conditions show the node as ready.
pub fn is_ready(conditions: Option<&Vec<NodeCondition>>) -> bool {
    let mut all = conditions.into_iter().flatten();
    all.any(|condition| condition.type_ == READY && condition.status == "True")
}

/// Whether two lists of conditions are equal, except for order and heartbeat times.
pub fn same(one: &[NodeCondition], other: &[NodeCondition]) -> bool {
    let sorted = |list: &[NodeCondition]| {
        let without = |condition: &NodeCondition| NodeCondition {
            last_heartbeat_time: None,
            ..condition.clone()
        };
        let mut list: Vec<NodeCondition> = list.iter().map(without).collect();
        list.sort_by(|one, other| one.type_.cmp(&other.type_));
        list
    };
    one.len() == other.len() && sorted(one) == sorted(other)
}

#[cfg(test)]
#[path = "conditions_tests.rs"]
mod tests;
