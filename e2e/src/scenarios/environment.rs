//! Variables from config maps and secrets.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use crate::api::Patch;
use crate::cluster_node::{ClusterNode, PODS, pod};

const MAPS: &str = "/api/v1/namespaces/shop/configmaps";
const SECRETS: &str = "/api/v1/namespaces/shop/secrets";

/// A pod that prints its environment, which is not there yet.
struct Waiting {
    name: &'static str,
    container: Value,
    /// Why it waits.
    why: &'static str,
    /// What it prints in the end.
    prints: &'static [&'static str],
}

fn all() -> [Waiting; 3] {
    let of_map = |map: &str, key: &str| json!({ "name": "COLOR", "valueFrom": { "configMapKeyRef": { "name": map, "key": key } } });
    [
        Waiting {
            name: "lacks-map",
            container: json!({
                "env": [of_map("settings", "color"), { "name": "BOTH", "value": "$(COLOR)!" }],
            }),
            why: "configmap \"settings\" not found",
            prints: &["COLOR=blue", "BOTH=blue!"],
        },
        Waiting {
            name: "lacks-key",
            container: json!({ "env": [of_map("more", "color")] }),
            why: "couldn't find key color in ConfigMap shop/more",
            prints: &["COLOR=red"],
        },
        Waiting {
            name: "lacks-secret",
            container: json!({ "envFrom": [
                { "secretRef": { "name": "nobody-has-it", "optional": true } },
                { "prefix": "KEY_", "secretRef": { "name": "keys" } },
            ]}),
            why: "secret \"keys\" not found",
            prints: &["KEY_first=one", "KEY_second=two"],
        },
    ]
}

// behaviour: OBJ-5, OBJ-6, OBJ-7, OBJ-23
pub(super) fn environment(cluster: &ClusterNode) -> Result<()> {
    let api = cluster.api();
    let object = |kind: &str, name: &str| json!({ "apiVersion": "v1", "kind": kind, "metadata": { "name": name } });
    api.create(MAPS, &object("ConfigMap", "more"))?;
    for waiting in all() {
        let mut pod = pod(waiting.name, &["env"]);
        pod["spec"]["restartPolicy"] = "Never".into();
        for field in ["env", "envFrom"] {
            pod["spec"]["containers"][0][field] = waiting.container[field].clone();
        }
        api.create(PODS, &pod)?;
    }
    for waiting in all() {
        let path = ClusterNode::pod_path(waiting.name);
        cluster.wait_for(&path, &format!("{} waits", waiting.name), |pod| {
            let state = &pod?["status"]["containerStatuses"][0]["state"]["waiting"];
            let is_told = state["reason"] == "CreateContainerConfigError";
            (is_told && state["message"] == waiting.why).then_some(())
        })?;
        let event = cluster.wait_for_event(waiting.name, "Failed", waiting.why)?;
        ensure!(event["message"] == format!("Error: {}", waiting.why), "{event}");
    }
    let mut settings = object("ConfigMap", "settings");
    settings["data"] = json!({ "color": "blue" });
    api.create(MAPS, &settings)?;
    let more = json!({ "data": { "color": "red" } });
    api.patch(&format!("{MAPS}/more"), Patch::Merge, &more)?;
    let mut keys = object("Secret", "keys");
    keys["stringData"] = json!({ "first": "one", "second": "two" });
    api.create(SECRETS, &keys)?;
    for waiting in all() {
        let pod = cluster.wait_over(&ClusterNode::pod_path(waiting.name))?;
        ensure!(pod["status"]["phase"] == "Succeeded", "{pod}");
        let printed = cluster.log(&pod, "main")?;
        for line in waiting.prints {
            ensure!(printed.lines().any(|printed| printed == *line), "no {line}:\n{printed}");
        }
        cluster.remove_pod(waiting.name)?;
    }
    Ok(())
}
