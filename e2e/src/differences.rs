//! What two agents say of the same thing, and where they differ.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

/// The leaves of a value, by their paths.
pub fn leaves(value: &Value) -> BTreeMap<String, String> {
    let mut all = BTreeMap::new();
    gather(value, "", &mut all);
    all
}

fn gather(value: &Value, path: &str, all: &mut BTreeMap<String, String>) {
    match value {
        Value::Object(map) if !map.is_empty() => {
            for (name, inner) in map {
                let name = name.replace('~', "~0").replace('/', "~1");
                gather(inner, &format!("{path}/{name}"), all);
            }
        }
        Value::Array(list) if !list.is_empty() => {
            for (at, inner) in list.iter().enumerate() {
                gather(inner, &format!("{path}/{at}"), all);
            }
        }
        leaf => drop(all.insert(path.to_owned(), leaf.to_string())),
    }
}

/// Whether a leaf is a time, which is different for whoever writes it.
pub fn is_time(path: &str) -> bool {
    path.ends_with("Time")
        || path.ends_with("timeAdded")
        || path.ends_with("startedAt")
        || path.ends_with("finishedAt")
}

/// What is different without a reason, and reasons for which nothing is different. A reason is of all leaves
/// that have its words in their paths.
pub fn differences(
    ours: &BTreeMap<String, String>,
    theirs: &BTreeMap<String, String>,
    known: &[(&str, &str)],
) -> Vec<String> {
    let paths: BTreeSet<&String> = ours.keys().chain(theirs.keys()).collect();
    let mut found = Vec::new();
    let mut reasons: Vec<&str> = known.iter().map(|(path, _)| *path).collect();
    for path in paths {
        let (our, their) = (ours.get(path), theirs.get(path));
        if our == their {
            continue;
        }
        let reason = known.iter().find(|(explained, _)| path.contains(explained));
        match reason {
            Some((explained, _)) => reasons.retain(|reason| reason != explained),
            None => found.push(format!("{path}: ours {our:?}, upstream's {their:?}")),
        }
    }
    found.extend(reasons.iter().map(|path| format!("{path}: no difference any more")));
    found
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn differences_need_a_reason_and_reasons_a_difference() {
        let ours = leaves(&json!({ "a": { "x/y": 1 }, "list": [1, 2], "same": [] }));
        let theirs = leaves(&json!({ "a": { "x/y": 2 }, "list": [1], "same": [] }));
        let found = differences(&ours, &theirs, &[("/list", "why not"), ("/same", "no reason")]);
        assert_eq!(found[0], "/a/x~1y: ours Some(\"1\"), upstream's Some(\"2\")");
        assert_eq!(found[1..], ["/same: no difference any more"]);
    }
}
