//! Whether the observations of a run are complete: anything missing with both agents would compare as equal.

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use crate::node::NODE_NAME;
use crate::observations::{NODE, Observations};

/// The parts that a pod must have.
const OF_A_POD: [&str; 4] =
    ["/object/metadata/managedFields", "/object/spec/containers", "/object/status", "/events"];

/// The parts that the node's object must have.
const OF_ITS_OBJECT: [&str; 4] =
    ["/metadata/labels", "/status/capacity", "/status/conditions", "/status/nodeInfo"];

impl Observations {
    /// Fails if a scenario, a part of a pod, or a part of the node has no observations. A scenario has pods, and the
    /// files of at least one of them.
    pub fn ensure_whole(&self) -> Result<()> {
        for scenario in &self.scenarios {
            let pods = self.play.get(*scenario).with_context(|| format!("no pod of {scenario}"))?;
            for (pod, parts) in pods {
                for path in OF_A_POD {
                    ensure!(is_there(parts.pointer(path)), "{scenario}: {pod}: nothing in {path}");
                }
            }
            let has_files = pods.values().any(|parts| is_there(parts.get("files")));
            let is_looked_at = pods.values().any(|parts| parts.get("files").is_some());
            ensure!(has_files || !is_looked_at, "{scenario}: no pod has files");
        }
        let agent = format!("node {NODE_NAME}");
        let parts = [(&*agent, "events"), ("directories", "files"), ("packet filter", "rules")];
        for (object, part) in parts {
            let found = self.play.get(NODE).and_then(|all| all.get(object)?.get(part));
            ensure!(is_there(found), "{object}: there are no {part}");
        }
        for path in OF_ITS_OBJECT {
            ensure!(is_there(self.node.pointer(path)), "the object of the node: nothing in {path}");
        }
        Ok(())
    }
}

fn is_there(value: Option<&Value>) -> bool {
    match value {
        Some(Value::Object(map)) => !map.is_empty(),
        Some(Value::Array(list)) => !list.is_empty(),
        Some(Value::Null) | None => false,
        Some(_) => true,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{from_value, json};

    use super::*;

    /// Complete observations with one value replaced.
    fn seen_with(path: &str, value: Value) -> Observations {
        let pod = json!({
            "object": {
                "metadata": { "managedFields": { "kubelet Update status": "wrote" } },
                "spec": { "containers": [{ "name": "main" }] },
                "status": { "phase": "Running" },
            },
            "events": { "Normal Started": "once" },
            "files": { "logs main": "there" },
        });
        let mut all = json!({
            "play": {
                "a taint": { "pod never": pod },
                "the node": {
                    "node e2e": { "events": { "Normal Starting": "once" } },
                    "directories": { "files": { "root pods": "there" } },
                    "packet filter": { "rules": { "iptables mangle": 1 } },
                },
            },
            "node": {
                "metadata": { "labels": { "a": "b" } },
                "status": { "capacity": { "cpu": "2" }, "conditions": [{}], "nodeInfo": { "a": "b" } },
            },
        });
        if let Some(place) = all.pointer_mut(path) {
            *place = value;
        }
        let play = from_value(all["play"].take()).unwrap();
        Observations { scenarios: vec!["a taint"], play, node: all["node"].take() }
    }

    #[test]
    fn record_is_complete_when_every_part_has_values() {
        seen_with("/", Value::Null).ensure_whole().unwrap();
        // The files of a pod in a transient state are not recorded.
        let mut seen = seen_with("/", Value::Null);
        let pod = seen.play.get_mut("a taint").and_then(|pods| pods.get_mut("pod never"));
        pod.and_then(Value::as_object_mut).unwrap().remove("files");
        seen.ensure_whole().unwrap();
    }

    #[test]
    fn record_without_values_is_an_error() {
        let pod = "/play/a taint/pod never";
        let rows = [
            (format!("{pod}/object/metadata/managedFields"), json!({})),
            (format!("{pod}/object/spec/containers"), json!([])),
            (format!("{pod}/object/status"), json!({})),
            (format!("{pod}/events"), Value::Null),
            (format!("{pod}/files"), json!({})),
            ("/play/the node/node e2e".to_owned(), json!({})),
            ("/play/the node/directories/files".to_owned(), json!({})),
            ("/play/the node/packet filter/rules".to_owned(), json!({})),
            ("/node/status/conditions".to_owned(), json!([])),
        ];
        for (path, nothing) in rows {
            assert!(seen_with(&path, nothing).ensure_whole().is_err(), "{path}");
        }
        let mut without_pods = seen_with("/", Value::Null);
        without_pods.play.remove("a taint");
        assert!(without_pods.ensure_whole().is_err());
    }
}
