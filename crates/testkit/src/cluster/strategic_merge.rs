//! Strategic merge patches, limited to the features that pod and node statuses need.

use model::ports::cluster::ApiError;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

/// Lists with the merge key of their elements.
const KEYS: [(&str, &str); 4] =
    [("conditions", "type"), ("addresses", "type"), ("podIPs", "ip"), ("hostIPs", "ip")];

/// The prefix of the directive with the order of such a list.
const ORDER: &str = "$setElementOrder/";

/// The metadata of a patch that restricts it to one UID and version of an object.
const PRECONDITIONS: [&str; 2] = ["uid", "resourceVersion"];

/// An object after a patch. A patch for another UID or version of it is a conflict.
pub(super) fn patched<T>(object: &T, patch: &Value) -> Result<T, ApiError>
where
    T: Serialize + DeserializeOwned,
{
    let unreadable = |error| ApiError::Unreadable(Box::new(error));
    let mut object = serde_json::to_value(object).map_err(unreadable)?;
    for field in PRECONDITIONS {
        let wanted = &patch["metadata"][field];
        if !wanted.is_null() && *wanted != object["metadata"][field] {
            return Err(ApiError::Conflict(format!("metadata.{field} is another")));
        }
    }
    if let (Some(object), Some(patch)) = (object.as_object_mut(), patch.as_object()) {
        apply(object, patch);
    }
    serde_json::from_value(object).map_err(unreadable)
}

fn apply(to: &mut Map<String, Value>, patch: &Map<String, Value>) {
    for (name, change) in patch.iter().filter(|(name, _)| !name.starts_with(ORDER)) {
        let key = KEYS.iter().find(|(list, _)| list == name).map(|(_, key)| *key);
        let there = to.remove(name);
        let merged = match (change, key) {
            (Value::Null, _) => continue,
            (Value::Array(elements), Some(key)) => {
                let there = match there {
                    Some(Value::Array(there)) => there,
                    _ => Vec::new(),
                };
                Value::Array(merged_list(there, elements, key))
            }
            (Value::Object(members), _) => {
                let there = match there {
                    Some(Value::Object(there)) => there,
                    _ => Map::new(),
                };
                Value::Object(merged(there, members))
            }
            (value, _) => value.clone(),
        };
        to.insert(name.clone(), merged);
    }
    for (list, key) in KEYS {
        let order = patch.get(&format!("{ORDER}{list}")).and_then(Value::as_array);
        if let (Some(order), Some(Value::Array(there))) = (order, to.get_mut(list)) {
            *there = ordered(there, order, key);
        }
    }
}

/// Reorders a list. An element that `order` does not contain stays before its next neighbour.
fn ordered(list: &[Value], order: &[Value], key: &str) -> Vec<Value> {
    let place = |one: &Value, all: &[Value]| all.iter().position(|other| other[key] == one[key]);
    let named = order.iter().filter_map(|one| place(one, list).map(|at| list[at].clone()));
    let mut all: Vec<Value> = named.collect();
    for (at, one) in list.iter().enumerate().filter(|(_, one)| place(one, order).is_none()) {
        let next = all.iter().position(|other| place(other, list).is_some_and(|other| other > at));
        all.insert(next.unwrap_or(all.len()), one.clone());
    }
    all
}

fn merged(mut there: Map<String, Value>, members: &Map<String, Value>) -> Map<String, Value> {
    apply(&mut there, members);
    there
}

/// The patch directive of a list element, if it is not merged.
fn directive(members: &Map<String, Value>) -> Option<&str> {
    members.get("$patch").and_then(Value::as_str)
}

fn merged_list(mut list: Vec<Value>, elements: &[Value], key: &str) -> Vec<Value> {
    let elements: Vec<&Map<String, Value>> = elements.iter().filter_map(Value::as_object).collect();
    if elements.iter().any(|members| directive(members) == Some("replace")) {
        let new = elements.into_iter().filter(|members| directive(members).is_none());
        return new.map(|members| Value::Object(merged(Map::new(), members))).collect();
    }
    for members in elements {
        let place = list.iter().position(|one| one.get(key) == members.get(key));
        match (directive(members), place) {
            (Some("delete"), Some(place)) => drop(list.remove(place)),
            (Some(_), _) => {}
            (None, Some(place)) => {
                if let Value::Object(there) = &mut list[place] {
                    apply(there, members);
                }
            }
            (None, None) => list.push(Value::Object(merged(Map::new(), members))),
        }
    }
    list
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{Node, Pod};
    use serde_json::json;

    use super::*;

    fn after<T: Serialize + DeserializeOwned>(object: Value, patch: &Value) -> Value {
        let object: T = serde_json::from_value(object).unwrap();
        serde_json::to_value(patched(&object, patch).unwrap()).unwrap()
    }

    #[test]
    fn patch_sets_removes_and_merges_members_and_lists() {
        let pod = json!({ "status": {
            "phase": "Pending", "reason": "Old", "podIPs": [{ "ip": "a" }],
            "conditions": [
                { "type": "A", "status": "False", "reason": "x" },
                { "type": "B", "status": "True" },
            ],
        }});
        let patch = json!({ "status": {
            "phase": "Running", "reason": null, "podIPs": [{ "$patch": "replace" }, { "ip": "b" }],
            "conditions": [
                { "type": "A", "status": "True", "reason": null },
                { "type": "C", "status": "True" },
                { "$patch": "delete", "type": "B" },
            ],
        }});
        let expected = json!({
            "phase": "Running", "podIPs": [{ "ip": "b" }],
            "conditions": [{ "type": "A", "status": "True" }, { "type": "C", "status": "True" }],
        });
        assert_eq!(after::<Pod>(pod, &patch)["status"], expected);
    }

    #[test]
    fn patch_orders_lists() {
        let list = |types: &[&str]| -> Vec<Value> {
            types.iter().map(|name| json!({ "type": name, "status": "True" })).collect()
        };
        let pod = json!({ "status": { "conditions": list(&["A", "T", "B", "U"]) } });
        let order = json!([{ "type": "C" }, { "type": "B" }, { "type": "A" }]);
        let patch = json!({ "status": {
            "$setElementOrder/conditions": order, "conditions": list(&["C"]),
        }});
        let after = after::<Pod>(pod, &patch);
        assert_eq!(after["status"], json!({ "conditions": list(&["T", "U", "C", "B", "A"]) }));
    }

    #[test]
    fn patch_merges_maps_and_replaces_atomic_lists() {
        let node = json!({
            "metadata": { "name": "n", "labels": { "a": "1", "b": "2" } },
            "status": {
                "addresses": [{ "type": "InternalIP", "address": "10.0.0.1" }],
                "volumesInUse": ["x", "y"],
            },
        });
        let patch = json!({
            "metadata": { "labels": { "a": null, "c": "3" } },
            "status": {
                "addresses": [{ "type": "Hostname", "address": "n" }, { "$patch": "replace" }],
                "volumesInUse": ["z"],
            },
        });
        let after = after::<Node>(node, &patch);
        assert_eq!(after["metadata"]["labels"], json!({ "b": "2", "c": "3" }));
        let addresses = json!([{ "type": "Hostname", "address": "n" }]);
        assert_eq!(after["status"]["addresses"], addresses, "at every position of the directive");
        assert_eq!(after["status"]["volumesInUse"], json!(["z"]));
    }

    #[test]
    fn patch_for_another_uid_or_version_is_a_conflict() {
        let metadata = json!({ "name": "n", "uid": "u", "resourceVersion": "7" });
        let node: Node = serde_json::from_value(json!({ "metadata": metadata })).unwrap();
        patched(&node, &json!({ "metadata": { "uid": "u", "resourceVersion": "7" } })).unwrap();
        for (field, value) in [("uid", "v"), ("resourceVersion", "6")] {
            let refused = patched(&node, &json!({ "metadata": { field: value } }));
            assert!(matches!(refused, Err(ApiError::Conflict(_))), "{field}: {refused:?}");
        }
    }
}
