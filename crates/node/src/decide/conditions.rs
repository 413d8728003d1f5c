//! The conditions that the agent writes. Others of a node are others'.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::NodeCondition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use model::ports::events::{EventType, NodeEvent};

use super::health::{Pressure, aggregate};

/// The type of the condition that says whether the node can run pods.
pub const READY: &str = "Ready";

/// The conditions that the agent writes, in the order in which they are made.
pub const OWN: [&str; 4] = ["MemoryPressure", "DiskPressure", "PIDPressure", READY];

/// One answer to the question that a condition asks: status, reason, message, event.
type Answer = (&'static str, &'static str, &'static str, &'static str);

/// A condition of shortage: its type, what it says when there is one, and when there is none.
const PRESSURES: [(&str, Answer, Answer); 3] = [
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

/// What the conditions are made from.
#[derive(Debug, Clone, Default)]
pub struct Health {
    /// What the node is short of.
    pub pressure: Pressure,
    /// What keeps it from being ready.
    pub problems: Vec<String>,
    /// What it lacks and can do without: told with its readiness, whatever that is.
    pub lacks: Option<&'static str>,
}

/// The conditions after `previous`, at `now`, and the names of what there is to tell about that.
pub fn conditions(
    previous: &[NodeCondition],
    health: &Health,
    now: Timestamp,
) -> (Vec<NodeCondition>, Vec<&'static str>) {
    // As exact as the API has it, so that what is read back is what was written.
    let now = Time(Timestamp::from_second(now.as_second()).unwrap_or(now));
    let mut all = previous.to_vec();
    let mut events = Vec::new();
    let short = [health.pressure.memory, health.pressure.disk, health.pressure.pid];
    for ((kind, yes, no), short) in PRESSURES.into_iter().zip(short) {
        let (status, reason, message, event) = if short { yes } else { no };
        let condition = entry(&mut all, kind, &now);
        condition.last_heartbeat_time = Some(now.clone());
        // Reason and message change with the status alone.
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

/// The condition of that type; a new one says that nothing is known.
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
    // A node begins without being ready; that is no news.
    (flips && (is_ready || !is_new)).then_some(event)
}

/// The event that says that the node is in a state by now.
pub fn status_event(node: &str, state: &'static str) -> NodeEvent {
    let message = format!("Node {node} status is now: {state}");
    NodeEvent { kind: EventType::Normal, reason: state, message }
}

/// Whether the node is ready, as its conditions say.
pub fn is_ready(conditions: Option<&Vec<NodeCondition>>) -> bool {
    let mut all = conditions.into_iter().flatten();
    all.any(|condition| condition.type_ == READY && condition.status == "True")
}

/// Whether two lists of conditions say the same, whatever their order and the times of their last signs.
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
