//! Computes the patch from one node object to another.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Node, NodeCondition, NodeStatus};
use serde_json::{Map, Value, json};

use super::conditions::{OWN, same};

/// The difference between two node objects.
#[derive(Debug, Clone, PartialEq)]
pub struct Difference {
    /// A strategic merge patch of the node's status; of labels and annotations too.
    pub patch: Value,
    /// Whether anything but heartbeat times differs.
    pub is_change: bool,
}

/// Computes the patch. The agent's own conditions are always written completely, which overrides changes by other
/// clients. The patch applies only to the object with the same uid.
pub fn difference(old: &Node, new: &Node) -> Difference {
    let mut metadata = Map::new();
    let pairs = |map: Option<&BTreeMap<String, String>>| value(map);
    for (name, before, after) in [
        ("labels", &old.metadata.labels, &new.metadata.labels),
        ("annotations", &old.metadata.annotations, &new.metadata.annotations),
    ] {
        let changes = map_changes(&pairs(before.as_ref()), &pairs(after.as_ref()));
        if !changes.is_empty() {
            metadata.insert(name.to_owned(), Value::Object(changes));
        }
    }
    let none = NodeStatus::default();
    let old_status = old.status.as_ref().unwrap_or(&none);
    let new_status = new.status.as_ref().unwrap_or(&none);
    let mut status = status_changes(old_status, new_status);
    let (before, after) = (listed(old_status), listed(new_status));
    let is_change = !metadata.is_empty() || !status.is_empty() || !same(before, after);
    let own = after.iter().filter(|condition| OWN.contains(&condition.type_.as_str()));
    status.insert("conditions".to_owned(), own.map(|one| value(Some(one))).collect());
    if let Some(uid) = &old.metadata.uid {
        metadata.insert("uid".to_owned(), json!(uid));
    }
    let mut patch = Map::new();
    if !metadata.is_empty() {
        patch.insert("metadata".to_owned(), Value::Object(metadata));
    }
    patch.insert("status".to_owned(), Value::Object(status));
    Difference { patch: Value::Object(patch), is_change }
}

fn listed(status: &NodeStatus) -> &[NodeCondition] {
    status.conditions.as_deref().unwrap_or_default()
}

/// The changes of the status without conditions.
fn status_changes(old: &NodeStatus, new: &NodeStatus) -> Map<String, Value> {
    let without = |status: &NodeStatus| {
        let status = NodeStatus { conditions: None, addresses: None, ..status.clone() };
        value(Some(&status))
    };
    let mut changes = map_changes(&without(old), &without(new));
    let (before, after) = (old.addresses.as_deref(), new.addresses.as_deref());
    let (before, after) = (before.unwrap_or_default(), after.unwrap_or_default());
    if before != after {
        let mut list: Vec<Value> = after.iter().map(|one| value(Some(one))).collect();
        // The API would merge the list by types, and a node can have several addresses of one type.
        if !before.is_empty() {
            list.push(json!({ "$patch": "replace" }));
        }
        changes.insert("addresses".to_owned(), Value::Array(list));
    }
    changes
}

/// The changed members of an object with their new values; `null` for removed members.
/// Nested objects likewise; lists are written completely.
fn map_changes(old: &Value, new: &Value) -> Map<String, Value> {
    let none = Map::new();
    let (old, new) = (old.as_object().unwrap_or(&none), new.as_object().unwrap_or(&none));
    let mut changes = Map::new();
    for (name, after) in new {
        match old.get(name) {
            Some(before) if before == after => {}
            Some(before @ Value::Object(_)) if after.is_object() => {
                let inner = map_changes(before, after);
                changes.insert(name.clone(), Value::Object(inner));
            }
            _ => drop(changes.insert(name.clone(), after.clone())),
        }
    }
    for name in old.keys().filter(|name| !new.contains_key(*name)) {
        changes.insert(name.clone(), Value::Null);
    }
    changes
}

fn value<T: k8s_openapi::serde::Serialize>(of: Option<&T>) -> Value {
    of.map_or(Value::Null, |of| serde_json::to_value(of).expect("an API object serializes to JSON"))
}

#[cfg(test)]
#[path = "difference_tests.rs"]
mod tests;
