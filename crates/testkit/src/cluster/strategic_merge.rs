//! Strategic merge patches, as far as statuses of pods need them.

use serde_json::{Map, Value};

/// Lists that are merged by a key of their elements.
const KEYS: [(&str, &str); 3] = [("conditions", "type"), ("podIPs", "ip"), ("hostIPs", "ip")];

/// Changes an object as a patch says.
pub(super) fn apply(to: &mut Map<String, Value>, patch: &Map<String, Value>) {
    for (name, change) in patch {
        let key = KEYS.iter().find(|(list, _)| list == name).map(|(_, key)| *key);
        match (change, key) {
            (Value::Null, _) => drop(to.remove(name)),
            (Value::Array(elements), Some(key)) => {
                let list = to.entry(name).or_insert_with(|| Value::Array(Vec::new()));
                if let Value::Array(list) = list {
                    merge_list(list, elements, key);
                }
            }
            (Value::Object(members), _) => {
                let object = to.entry(name).or_insert_with(|| Value::Object(Map::new()));
                if let Value::Object(object) = object {
                    apply(object, members);
                }
            }
            (value, _) => drop(to.insert(name.clone(), value.clone())),
        }
    }
}

fn merge_list(list: &mut Vec<Value>, elements: &[Value], key: &str) {
    for element in elements {
        let Value::Object(members) = element else { continue };
        let place = list.iter().position(|one| one.get(key) == members.get(key));
        match (members.get("$patch").and_then(Value::as_str), place) {
            (Some("replace"), _) => list.clear(),
            (Some("delete"), Some(place)) => drop(list.remove(place)),
            (Some(_), _) => {}
            (None, Some(place)) => {
                if let Value::Object(there) = &mut list[place] {
                    apply(there, members);
                }
            }
            (None, None) => {
                let mut new = Map::new();
                apply(&mut new, members);
                list.push(Value::Object(new));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn members_lists_and_what_is_taken_away_are_as_the_patch_says() {
        let mut status = json!({
            "phase": "Pending", "reason": "Old", "podIPs": [{ "ip": "a" }],
            "conditions": [{ "type": "A", "status": "False", "reason": "x" }, { "type": "B", "status": "True" }],
        });
        let patch = json!({
            "phase": "Running", "reason": null, "podIPs": [{ "$patch": "replace" }, { "ip": "b" }],
            "conditions": [
                { "type": "A", "status": "True", "reason": null },
                { "type": "C", "status": "True" },
                { "$patch": "delete", "type": "B" },
            ],
        });
        apply(status.as_object_mut().unwrap(), patch.as_object().unwrap());
        let expected = json!({
            "phase": "Running", "podIPs": [{ "ip": "b" }],
            "conditions": [{ "type": "A", "status": "True" }, { "type": "C", "status": "True" }],
        });
        assert_eq!(status, expected);
    }
}
