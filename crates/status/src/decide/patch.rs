//! Computes the patch that gives the API server a status.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::PodStatus;
use model::ids::PodUid;
use serde_json::{Map, Value, json};

/// Lists that the API server merges by a key of their elements. Address lists are replaced as a whole.
const REPLACED: [&str; 2] = ["podIPs", "hostIPs"];
const CONDITIONS: &str = "conditions";
/// Their order: conditions of other clients first, and then the node's own.
const CONDITIONS_ORDER: &str = "$setElementOrder/conditions";
/// The API server writes it for every container, empty if there is none.
const LAST_STATE: &str = "lastState";

/// A strategic merge patch from one status to the other, with the uid of the pod; `None` if
/// they are equal.
pub(crate) fn status_patch(uid: &PodUid, from: &PodStatus, to: &PodStatus) -> Option<String> {
    let mut changes = Map::new();
    let (from, to) = (fields(from), fields(to));
    for (name, value) in differing(&from, &to) {
        let value = match name.as_str() {
            CONDITIONS => {
                changes.insert(CONDITIONS_ORDER.to_owned(), order(to.get(CONDITIONS)));
                let patch_between = conditions(from.get(CONDITIONS), to.get(CONDITIONS));
                if patch_between.as_array().is_some_and(Vec::is_empty) {
                    continue;
                }
                patch_between
            }
            name if REPLACED.contains(&name) => replaced(value),
            name => changed(from.get(name), value),
        };
        changes.insert(name, value);
    }
    let patch = json!({ "metadata": { "uid": uid.as_str() }, "status": changes });
    let is_empty = patch["status"].as_object().is_none_or(Map::is_empty);
    (!is_empty).then(|| patch.to_string())
}

fn fields(status: &PodStatus) -> Map<String, Value> {
    match serde_json::to_value(status) {
        Ok(Value::Object(fields)) => fields,
        _ => unreachable!("a status serializes to an object"),
    }
}

/// The changed members with their new values.
fn differing(from: &Map<String, Value>, to: &Map<String, Value>) -> BTreeMap<String, Value> {
    let gone = from.iter().filter(|(name, value)| !to.contains_key(*name) && !is_none(name, value));
    let gone = gone.map(|(name, _)| (name.clone(), Value::Null));
    let new = to.iter().filter(|(name, value)| !is_equal(name, from.get(*name), value));
    gone.chain(new.map(|(name, value)| (name.clone(), value.clone()))).collect()
}

/// Whether two statuses are equal in the API.
pub(crate) fn is_equal_in_api(one: &PodStatus, other: &PodStatus) -> bool {
    differing(&fields(one), &fields(other)).is_empty()
}

/// Whether a member is equivalent to an absent one, because the API server drops it or adds it by itself.
fn is_none(name: &str, value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Object(members) => members.is_empty() && name == LAST_STATE,
        Value::Bool(_) | Value::Number(_) => false,
    }
}

fn is_equal(name: &str, from: Option<&Value>, to: &Value) -> bool {
    match (from, to) {
        (None, to) => is_none(name, to),
        (Some(Value::Object(from)), Value::Object(to)) => differing(from, to).is_empty(),
        (Some(Value::Array(from)), Value::Array(to)) => {
            let mut pairs = from.iter().zip(to);
            from.len() == to.len() && pairs.all(|(from, to)| is_equal("", Some(from), to))
        }
        (Some(from), to) => from == to,
    }
}

/// A member for a patch: of objects only the changes, anything else completely.
fn changed(from: Option<&Value>, to: Value) -> Value {
    match (from, to) {
        (Some(Value::Object(from)), Value::Object(to)) => {
            let members = differing(from, &to).into_iter();
            members.map(|(name, value)| (name.clone(), changed(from.get(&name), value))).collect()
        }
        (_, to) => to,
    }
}

/// A list that replaces the existing one.
fn replaced(list: Value) -> Value {
    match list {
        Value::Array(mut list) => {
            list.insert(0, json!({ "$patch": "replace" }));
            Value::Array(list)
        }
        other => other,
    }
}

/// The conditions of a list by type.
fn typed(list: Option<&Value>) -> impl Iterator<Item = (&str, &Map<String, Value>)> {
    let all = list.and_then(Value::as_array).into_iter().flatten();
    all.filter_map(|one| Some((one.get("type")?.as_str()?, one.as_object()?)))
}

fn order(list: Option<&Value>) -> Value {
    typed(list).map(|(kind, _)| json!({ "type": kind })).collect()
}

/// The conditions that differ, by type. The API server keeps them in its own order.
fn conditions(from: Option<&Value>, to: Option<&Value>) -> Value {
    let before: BTreeMap<&str, &Map<String, Value>> = typed(from).collect();
    let after: BTreeSet<&str> = typed(to).map(|(kind, _)| kind).collect();
    let none = Map::new();
    let mut patch_between = Vec::new();
    for (kind, condition) in typed(to) {
        let members = differing(before.get(kind).unwrap_or(&&none), condition);
        if !members.is_empty() {
            let mut members: Map<String, Value> = members.into_iter().collect();
            members.insert("type".to_owned(), kind.into());
            patch_between.push(Value::Object(members));
        }
    }
    let gone = before.keys().filter(|kind| !after.contains(*kind));
    patch_between.extend(gone.map(|kind| json!({ "$patch": "delete", "type": kind })));
    Value::Array(patch_between)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{
        ContainerState, ContainerStateWaiting, ContainerStatus, HostIP, PodCondition, PodIP,
    };

    use super::*;
    use crate::decide::test_pods::time;

    fn condition(type_: &str, status: &str, reason: Option<&str>) -> PodCondition {
        PodCondition {
            type_: type_.to_owned(),
            status: status.to_owned(),
            reason: reason.map(ToOwned::to_owned),
            last_transition_time: Some(time(5)),
            ..PodCondition::default()
        }
    }

    fn patch_between(from: &PodStatus, to: &PodStatus) -> Option<Value> {
        let patch = status_patch(&"u1".into(), from, to)?;
        let mut patch: Value = serde_json::from_str(&patch).unwrap();
        assert_eq!(patch["metadata"], json!({ "uid": "u1" }));
        Some(patch["status"].take())
    }

    // behaviour: STW-10
    #[test]
    fn patch_contains_differences_and_the_uid() {
        let before = PodStatus {
            phase: Some("Pending".to_owned()),
            reason: Some("Old".to_owned()),
            pod_ips: Some(vec![PodIP { ip: "10.0.0.1".to_owned() }]),
            host_ips: Some(vec![HostIP { ip: "192.0.2.1".to_owned() }]),
            conditions: Some(vec![
                condition("Ready", "False", Some("ContainersNotReady")),
                condition("Theirs", "True", None),
                condition("PodResizePending", "True", None),
            ]),
            ..PodStatus::default()
        };
        assert_eq!(patch_between(&before, &before), None);
        let after = PodStatus {
            phase: Some("Running".to_owned()),
            reason: None,
            pod_ips: Some(vec![PodIP { ip: "10.0.0.2".to_owned() }]),
            conditions: Some(vec![
                condition("Theirs", "True", None),
                condition("Ready", "True", None),
                condition("Initialized", "True", None),
            ]),
            ..before.clone()
        };
        let expected = json!({
            "phase": "Running",
            "reason": null,
            "podIPs": [{ "$patch": "replace" }, { "ip": "10.0.0.2" }],
            "$setElementOrder/conditions":
                [{ "type": "Theirs" }, { "type": "Ready" }, { "type": "Initialized" }],
            "conditions": [
                { "type": "Ready", "status": "True", "reason": null },
                { "type": "Initialized", "status": "True", "lastTransitionTime": "1970-01-01T00:00:05Z" },
                { "$patch": "delete", "type": "PodResizePending" },
            ],
        });
        assert_eq!(patch_between(&before, &after), Some(expected));
    }

    #[test]
    fn conditions_are_reordered_when_only_their_order_differs() {
        let of = |types: &[&str]| PodStatus {
            conditions: Some(types.iter().map(|one| condition(one, "True", None)).collect()),
            ..PodStatus::default()
        };
        let expected = json!({
            "$setElementOrder/conditions": [{ "type": "Initialized" }, { "type": "Ready" }],
        });
        let patch_between =
            patch_between(&of(&["Ready", "Initialized"]), &of(&["Initialized", "Ready"]));
        assert_eq!(patch_between, Some(expected));
    }

    // behaviour: STW-7
    #[test]
    fn fields_defaulted_or_dropped_by_the_server_are_not_differences() {
        let main = |last_state| ContainerStatus {
            name: "main".to_owned(),
            last_state,
            ..ContainerStatus::default()
        };
        let ours = PodStatus {
            reason: Some(String::new()),
            container_statuses: Some(vec![main(None)]),
            init_container_statuses: Some(Vec::new()),
            ..PodStatus::default()
        };
        let theirs = PodStatus {
            container_statuses: Some(vec![main(Some(ContainerState::default()))]),
            ..PodStatus::default()
        };
        assert!(is_equal_in_api(&ours, &theirs) && is_equal_in_api(&theirs, &ours));
        assert_eq!(patch_between(&theirs, &ours), None);
        let waits = ContainerState {
            waiting: Some(ContainerStateWaiting::default()),
            ..ContainerState::default()
        };
        let mut other = main(None);
        other.state = Some(waits);
        let other = PodStatus { container_statuses: Some(vec![other]), ..PodStatus::default() };
        assert!(!is_equal_in_api(&other, &theirs));
    }
}
