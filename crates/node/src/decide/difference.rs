//! What has to be written to make one node object another.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Node, NodeCondition, NodeStatus};
use serde_json::{Map, Value, json};

use super::conditions::{OWN, same};

/// The way from one node object to another.
#[derive(Debug, Clone, PartialEq)]
pub struct Difference {
    /// A strategic merge patch of the node's status; of labels and annotations too.
    pub patch: Value,
    /// Whether anything is different but the times of last signs.
    pub is_change: bool,
}

/// What has to be written. The agent's own conditions are written whole each time: whatever others made
/// of them in the meantime does not stay. The patch holds for the very object, not for one of its name.
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

/// Everything but the conditions.
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
        // The API would merge the list by types, of which a node can have several addresses.
        if !before.is_empty() {
            list.push(json!({ "$patch": "replace" }));
        }
        changes.insert("addresses".to_owned(), Value::Array(list));
    }
    changes
}

/// The members of an object that are others, each as it should be; those that are gone as nothing.
/// Members of members likewise, while a list is written whole.
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
    of.map_or(Value::Null, |of| serde_json::to_value(of).expect("an object of the API is JSON"))
}

#[cfg(test)]
#[path = "difference_tests.rs"]
mod tests;
