//! What can be seen of a pod just before it is deleted: its object, its events, and its files on the node, without
//! what is another thing each time.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::cluster_node::{ClusterNode, NAMESPACE};

/// Pods by their names.
pub type Seen = BTreeMap<String, Value>;

/// Keys of an object that are another thing each time.
const CHANGING: [&str; 8] = [
    "containerID",
    "creationTimestamp",
    "managedFields",
    "podIP",
    "podIPs",
    "resourceVersion",
    "uid",
    "deletionTimestamp",
];

/// Looks at a pod.
pub(crate) fn look(cluster: &ClusterNode, name: &str) -> Result<Value> {
    let pod = cluster.api().get(&ClusterNode::pod_path(name))?.context("the pod is there")?;
    let uid = pod["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
    let events =
        format!("/api/v1/namespaces/{NAMESPACE}/events?fieldSelector=involvedObject.uid%3D{uid}");
    // How often something was said, and in which order, is a matter of time.
    let events = cluster.api().list(&events)?;
    let told: BTreeMap<String, bool> =
        events.iter().map(|event| (line(event, &uid), true)).collect();
    let root = cluster.node().root_dir().join("pods").join(&uid).display().to_string();
    let logs = crate::cluster_node::log_directory(&pod);
    let mut files = BTreeMap::new();
    for directory in [&root, &logs] {
        let list = format!("cd {directory} 2>/dev/null && find . -printf '%y %m %P\\n' || true");
        let list = cluster.node().run("sh", &["-c", &list])?;
        let kind = if directory == &root { "root" } else { "log" };
        files.extend(list.lines().map(|line| (format!("{kind} {}", without_ids(line)), true)));
    }
    let mut status = pod["status"].clone();
    strip(&mut status);
    Ok(json!({ "status": status, "events": told, "files": files }))
}

fn line(event: &Value, uid: &str) -> String {
    let text = |key: &str| event[key].as_str().unwrap_or_default();
    let from = event["source"]["component"].as_str().unwrap_or_default();
    let message = without_ids(&text("message").replace(uid, "UID"));
    format!("{} {} from {from}: {message}", text("type"), text("reason"))
}

/// A text with `ID` for each number of a container, or of one of its tries.
fn without_ids(text: &str) -> String {
    let is_id = |word: &&str| {
        (word.len() == 8 || word.len() == 64) && word.bytes().all(|byte| byte.is_ascii_hexdigit())
    };
    let ids: BTreeSet<&str> =
        text.split(|c: char| !c.is_ascii_alphanumeric()).filter(is_id).collect();
    ids.into_iter().fold(text.to_owned(), |text, id| text.replace(id, "ID"))
}

fn strip(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.retain(|key, _| !CHANGING.contains(&key.as_str()));
            map.values_mut().for_each(strip);
            // Who writes conditions may put them in any order.
            if let Some(Value::Array(conditions)) = map.get_mut("conditions") {
                conditions.sort_by_key(|one| one["type"].to_string());
            }
        }
        Value::Array(list) => list.iter_mut().for_each(strip),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_another_thing_each_time_is_left_out() {
        let id = "0123456789abcdef".repeat(4);
        assert_eq!(without_ids(&format!("f 644 main/{id}.log")), "f 644 main/ID.log");
        assert_eq!(without_ids("f 666 containers/main/1a2b3c4d"), "f 666 containers/main/ID");
        assert_eq!(without_ids("Started container main"), "Started container main");
        let mut status = json!({
            "podIP": "10.0.0.1",
            "conditions": [{ "type": "Ready" }, { "type": "Initialized" }],
            "containerStatuses": [{ "containerID": "x", "name": "main" }],
        });
        strip(&mut status);
        let expected = json!({
            "conditions": [{ "type": "Initialized" }, { "type": "Ready" }],
            "containerStatuses": [{ "name": "main" }],
        });
        assert_eq!(status, expected);
    }
}
