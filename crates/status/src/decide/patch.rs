//! What must be said to the API server so that it has a status.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::PodStatus;
use model::ids::PodUid;
use serde_json::{Map, Value, json};

/// Lists that the API server merges by a key of their elements. Addresses are told anew as a whole.
const REPLACED: [&str; 2] = ["podIPs", "hostIPs"];
const CONDITIONS: &str = "conditions";

/// A strategic merge patch that makes one status of the other, with the uid of the pod that is meant; `None` if
/// there is nothing to say.
pub fn status_patch(uid: &PodUid, from: &PodStatus, to: &PodStatus) -> Option<String> {
    let mut changes = Map::new();
    let (from, to) = (fields(from), fields(to));
    for (name, value) in differing(&from, &to) {
        let value = match name.as_str() {
            CONDITIONS => conditions(from.get(CONDITIONS), to.get(CONDITIONS)),
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
        _ => unreachable!("a status is written as an object with text keys"),
    }
}

/// The members that are different, with what they become.
fn differing(from: &Map<String, Value>, to: &Map<String, Value>) -> BTreeMap<String, Value> {
    let gone = from.keys().filter(|name| !to.contains_key(*name));
    let gone = gone.map(|name| (name.clone(), Value::Null));
    let new = to.iter().filter(|(name, value)| from.get(*name) != Some(value));
    gone.chain(new.map(|(name, value)| (name.clone(), value.clone()))).collect()
}

/// A member as a patch says it: of objects only what changes, anything else whole.
fn changed(from: Option<&Value>, to: Value) -> Value {
    match (from, to) {
        (Some(Value::Object(from)), Value::Object(to)) => {
            let members = differing(from, &to).into_iter();
            members.map(|(name, value)| (name.clone(), changed(from.get(&name), value))).collect()
        }
        (_, to) => to,
    }
}

/// A list that takes the place of the one that is there.
fn replaced(list: Value) -> Value {
    match list {
        Value::Array(mut list) => {
            list.insert(0, json!({ "$patch": "replace" }));
            Value::Array(list)
        }
        other => other,
    }
}

/// Of conditions those that differ, by their types.
fn conditions(from: Option<&Value>, to: Option<&Value>) -> Value {
    let by_type = |list: Option<&Value>| -> BTreeMap<String, Map<String, Value>> {
        let all = list.and_then(Value::as_array).into_iter().flatten();
        let named = all.filter_map(|one| {
            let one = one.as_object()?;
            Some((one.get("type")?.as_str()?.to_owned(), one.clone()))
        });
        named.collect()
    };
    let (before, after) = (by_type(from), by_type(to));
    let none = Map::new();
    let mut said = Vec::new();
    for (kind, condition) in &after {
        let members = differing(before.get(kind).unwrap_or(&none), condition);
        if !members.is_empty() {
            let mut members: Map<String, Value> = members.into_iter().collect();
            members.insert("type".to_owned(), kind.clone().into());
            said.push(Value::Object(members));
        }
    }
    let gone = before.keys().filter(|kind| !after.contains_key(*kind));
    said.extend(gone.map(|kind| json!({ "$patch": "delete", "type": kind })));
    Value::Array(said)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{HostIP, PodCondition, PodIP};

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

    fn said(from: &PodStatus, to: &PodStatus) -> Option<Value> {
        let patch = status_patch(&"u1".into(), from, to)?;
        let mut patch: Value = serde_json::from_str(&patch).unwrap();
        assert_eq!(patch["metadata"], json!({ "uid": "u1" }));
        Some(patch["status"].take())
    }

    // behaviour: STW-10
    #[test]
    fn a_patch_says_what_differs_and_whom_it_is_about() {
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
        assert_eq!(said(&before, &before), None);
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
            "conditions": [
                { "type": "Initialized", "status": "True", "lastTransitionTime": "1970-01-01T00:00:05Z" },
                { "type": "Ready", "status": "True", "reason": null },
                { "$patch": "delete", "type": "PodResizePending" },
            ],
        });
        assert_eq!(said(&before, &after), Some(expected));
    }
}
