//! Strategic merge patches of a node.

use k8s_openapi::api::core::v1::Node;
use model::ports::cluster::ApiError;
use serde_json::{Map, Value, json};

/// Lists of a node that are merged by the type of their elements.
const BY_TYPE: [&str; 2] = ["conditions", "addresses"];

/// The node after a patch. One that names another uid is refused.
pub(super) fn patched(node: &Node, patch: &Value) -> Result<Node, ApiError> {
    let unreadable = |error| ApiError::Unreadable(Box::new(error));
    let mut object = serde_json::to_value(node).map_err(unreadable)?;
    let uid = &patch["metadata"]["uid"];
    if !uid.is_null() && *uid != object["metadata"]["uid"] {
        return Err(ApiError::Conflict("the uid is another".to_owned()));
    }
    if let (Some(object), Some(patch)) = (object.as_object_mut(), patch.as_object()) {
        merge(object, patch);
    }
    serde_json::from_value(object).map_err(unreadable)
}

fn merge(object: &mut Map<String, Value>, patch: &Map<String, Value>) {
    for (name, wanted) in patch {
        match (object.get_mut(name), wanted) {
            (_, Value::Null) => drop(object.remove(name)),
            (Some(Value::Object(inner)), Value::Object(wanted)) => merge(inner, wanted),
            (_, Value::Object(wanted)) => {
                let mut inner = Map::new();
                merge(&mut inner, wanted);
                object.insert(name.clone(), Value::Object(inner));
            }
            (found, Value::Array(wanted)) if BY_TYPE.contains(&name.as_str()) => {
                let found = found.and_then(|found| found.as_array().cloned());
                let merged = merge_list(found.unwrap_or_default(), wanted);
                object.insert(name.clone(), Value::Array(merged));
            }
            (_, wanted) => drop(object.insert(name.clone(), wanted.clone())),
        }
    }
}

fn merge_list(mut found: Vec<Value>, wanted: &[Value]) -> Vec<Value> {
    let replace = json!({ "$patch": "replace" });
    if wanted.contains(&replace) {
        return wanted.iter().filter(|one| **one != replace).cloned().collect();
    }
    for element in wanted {
        let same = found.iter_mut().find(|one| one["type"] == element["type"]);
        match (same.and_then(Value::as_object_mut), element.as_object()) {
            (Some(same), Some(element)) => merge(same, element),
            _ => found.push(element.clone()),
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maps_are_merged_and_lists_by_their_types() {
        let node: Node = serde_json::from_value(json!({
            "metadata": { "name": "n", "uid": "u", "labels": { "a": "1", "b": "2" } },
            "status": {
                "conditions": [{ "type": "Ready", "status": "True", "reason": "r" }],
                "addresses": [{ "type": "InternalIP", "address": "10.0.0.1" }],
                "volumesInUse": ["x", "y"],
            },
        }))
        .unwrap();
        let patch = json!({
            "metadata": { "uid": "u", "labels": { "a": null, "c": "3" } },
            "status": {
                "conditions": [
                    { "type": "Ready", "status": "False" },
                    { "type": "PIDPressure", "status": "False" },
                ],
                "addresses": [{ "type": "Hostname", "address": "n" }, { "$patch": "replace" }],
                "volumesInUse": ["z"],
            },
        });
        let after = serde_json::to_value(patched(&node, &patch).unwrap()).unwrap();
        assert_eq!(after["metadata"]["labels"], json!({ "b": "2", "c": "3" }));
        assert_eq!(after["status"]["conditions"][0]["reason"], "r");
        assert_eq!(after["status"]["conditions"][0]["status"], "False");
        assert_eq!(after["status"]["conditions"][1]["type"], "PIDPressure");
        let addresses = json!([{ "type": "Hostname", "address": "n" }]);
        assert_eq!(after["status"]["addresses"], addresses);
        assert_eq!(after["status"]["volumesInUse"], json!(["z"]));
        let other = json!({ "metadata": { "uid": "v" } });
        assert!(matches!(patched(&node, &other), Err(ApiError::Conflict(_))));
    }
}
