//! Variables from config maps and secrets.

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use testbed::wait;

use crate::api::Patch;
use crate::cluster_node::{ClusterNode, PODS, pod};
use crate::containerd::RuntimeContainer;
use crate::node::PATIENCE;

const MAPS: &str = "/api/v1/namespaces/shop/configmaps";
const SECRETS: &str = "/api/v1/namespaces/shop/secrets";

/// A pod that prints its environment, whose sources do not exist yet.
struct Waiting {
    name: &'static str,
    container: Value,
    /// Why it waits.
    why: &'static str,
    /// Its output at the end.
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
                { "secretRef": { "name": "missing", "optional": true } },
                { "prefix": "KEY_", "secretRef": { "name": "keys" } },
            ]}),
            why: "secret \"keys\" not found",
            prints: &["KEY_first=one", "KEY_second=two"],
        },
    ]
}

/// An object without content.
fn object(kind: &str, name: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": kind, "metadata": { "name": name } })
}

pub(super) fn environment(cluster: &ClusterNode) -> Result<()> {
    let api = cluster.api();
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
            let is_config_error = state["reason"] == "CreateContainerConfigError";
            (is_config_error && state["message"] == waiting.why).then_some(())
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
        cluster.wait_log(&pod, "main", |printed| has_lines(printed, waiting.prints))?;
        cluster.remove_pod(waiting.name)?;
    }
    Ok(())
}

fn has_lines(printed: &str, wanted: &[&str]) -> bool {
    wanted.iter().all(|wanted| printed.lines().any(|line| line == *wanted))
}

/// Waits until the process of a container has these variables, which were set at its start.
fn wait_has(cluster: &ClusterNode, container: &RuntimeContainer, wanted: &[&str]) -> Result<()> {
    let file = format!("/proc/{}/environ", container.pid);
    cluster.node().explained(wait::until(&format!("it has {wanted:?}"), PATIENCE, || {
        let all = cluster.node().read(&file)?;
        let has = |one: &&str| all.split('\0').any(|found| found == *one);
        Ok(if wanted.iter().all(has) { Ok(()) } else { Err(all) })
    }))
}

/// A changed value reaches containers that start afterwards, and not those that run.
pub(super) fn another(cluster: &ClusterNode) -> Result<()> {
    let api = cluster.api();
    let (mut weather, mut code) = (object("ConfigMap", "weather"), object("Secret", "code"));
    weather["data"] = json!({ "sky": "clear" });
    code["stringData"] = json!({ "word": "open" });
    api.create(MAPS, &weather)?;
    api.create(SECRETS, &code)?;
    let reading = |name: &str, args: &[&str]| {
        let mut pod = pod(name, args);
        let main = &mut pod["spec"]["containers"][0];
        let sky = json!({ "configMapKeyRef": { "name": "weather", "key": "sky" } });
        main["env"] = json!([{ "name": "SKY", "valueFrom": sky }]);
        main["envFrom"] = json!([{ "secretRef": { "name": "code" } }]);
        pod
    };
    api.create(PODS, &reading("reads-twice", &["sleep", "forever"]))?;
    let path = ClusterNode::pod_path("reads-twice");
    cluster.wait_ready(&path)?;
    let first = cluster.running("reads-twice")?;
    wait_has(cluster, &first, &["SKY=clear", "word=open"])?;

    let (weather, code) = (format!("{MAPS}/weather"), format!("{SECRETS}/code"));
    api.patch(&weather, Patch::Merge, &json!({ "data": { "sky": "grey" } }))?;
    api.patch(&code, Patch::Merge, &json!({ "stringData": { "word": "sesame" } }))?;
    // Another pod gets it, so the agent has received it.
    let mut once = reading("reads-once", &["env"]);
    once["spec"]["restartPolicy"] = "Never".into();
    api.create(PODS, &once)?;
    let over = cluster.wait_over(&ClusterNode::pod_path("reads-once"))?;
    cluster.wait_log(&over, "main", |printed| has_lines(printed, &["SKY=grey", "word=sesame"]))?;
    ensure!(cluster.running("reads-twice")? == first, "a change restarted it");
    cluster.node().run("kill", &["-9", &first.pid.to_string()])?;
    cluster.wait_for(&path, "it runs again", |pod| {
        let status = &pod?["status"]["containerStatuses"][0];
        (status["restartCount"] == 1 && status["ready"] == true).then_some(())
    })?;
    wait_has(cluster, &cluster.running("reads-twice")?, &["SKY=grey", "word=sesame"])?;
    cluster.remove_pods(&["reads-twice", "reads-once"])
}
