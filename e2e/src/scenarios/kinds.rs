//! Pods of many kinds side by side, and their final states: everything except volumes and probes.

use std::time::Duration;

use anyhow::Result;
use serde_json::{Value, json};
use testbed::wait;

use crate::cluster_node::{ClusterNode, IMAGE, PODS, is_ready, pod};
use crate::node::PATIENCE;

/// How long no pod may change until their statuses are taken as final.
const QUIET: Duration = Duration::from_secs(1);

/// A pod and its expected state.
struct Kind {
    pod: Value,
    has_come: fn(&Value) -> bool,
    /// Whether the state is final. If not, the pod is recorded at that moment.
    lasts: bool,
}

fn is_over(pod: &Value) -> bool {
    let status = &pod["status"];
    let main = &status["containerStatuses"][0]["state"];
    let is_reported = main["terminated"].is_object() || main.is_null();
    is_reported && (status["phase"] == "Succeeded" || status["phase"] == "Failed")
}

fn waits(pod: &Value, reason: &str) -> bool {
    pod["status"]["containerStatuses"][0]["state"]["waiting"]["reason"] == reason
}

/// A pod with one container and additional fields of the pod and of the container.
fn kind(
    name: &str,
    args: &[&str],
    spec: Value,
    container: Value,
    has_come: fn(&Value) -> bool,
) -> Kind {
    let mut pod = pod(name, args);
    add(&mut pod["spec"]["containers"][0], container);
    add(&mut pod["spec"], spec);
    Kind { pod, has_come, lasts: true }
}

fn add(to: &mut Value, more: Value) {
    let Value::Object(more) = more else { return };
    for (name, value) in more {
        to[name] = value;
    }
}

const SLEEP: &[&str] = &["sleep", "forever"];

fn container(name: &str, args: &[&str]) -> Value {
    json!({ "name": name, "image": IMAGE, "args": args })
}

/// Pods that run.
fn running() -> Vec<Kind> {
    let none = || json!({});
    let sized = json!({ "resources": {
        "requests": { "cpu": "10m", "memory": "16Mi" },
        "limits": { "cpu": "100m", "memory": "64Mi" },
    }});
    let mut sidecar = container("beside", SLEEP);
    sidecar["restartPolicy"] = "Always".into();
    let staged = json!({ "initContainers": [container("first", &["exit", "0"]), sidecar] });
    let two = json!({ "containers": [container("main", SLEEP), container("second", SLEEP)] });
    let placed = json!({ "env": [
        { "name": "NODE", "valueFrom": { "fieldRef": { "fieldPath": "spec.nodeName" } } },
    ]});
    let limited = json!({ "securityContext": {
        "runAsUser": 1000, "runAsGroup": 3000, "readOnlyRootFilesystem": true,
        "allowPrivilegeEscalation": false, "capabilities": { "drop": ["ALL"] },
    }});
    let groups = json!({ "securityContext": { "fsGroup": 2000, "supplementalGroups": [4000] } });
    let hosts = json!({ "hostAliases": [{ "ip": "127.0.0.9", "hostnames": ["nine.example"] }] });
    vec![
        kind("plain", SLEEP, hosts, placed, is_ready),
        kind("sized", SLEEP, none(), sized, is_ready),
        kind("staged", SLEEP, staged, none(), is_ready),
        kind("two", SLEEP, two, none(), is_ready),
        kind("host", SLEEP, json!({ "hostNetwork": true }), none(), is_ready),
        kind("limited", SLEEP, groups, limited, is_ready),
    ]
}

/// Pods that end.
fn ending() -> Vec<Kind> {
    let none = || json!({});
    let never = || json!({ "restartPolicy": "Never" });
    let message =
        json!({ "args": ["write", "/dev/termination-log", "that was it", "--exit", "3"] });
    let stuck =
        json!({ "initContainers": [container("first", &["exit", "4"])], "restartPolicy": "Never" });
    let selector = json!({ "nodeSelector": { "is": "elsewhere" } });
    let hook =
        json!({ "lifecycle": { "postStart": { "exec": { "command": ["/no-such-program"] } } } });
    vec![
        kind("good", &["exit", "0"], never(), none(), is_over),
        kind("bad", &[], never(), message, is_over),
        kind("stuck", SLEEP, stuck, none(), |pod| pod["status"]["phase"] == "Failed"),
        kind("late", SLEEP, json!({ "activeDeadlineSeconds": 3 }), none(), is_over),
        kind("elsewhere", SLEEP, selector, none(), is_over),
        kind("misspelt", SLEEP, never(), json!({ "command": ["/no-such-program"] }), is_over),
        kind("hooked", SLEEP, never(), hook, is_over),
    ]
}

/// Pods that wait.
fn waiting() -> Vec<Kind> {
    let none = || json!({});
    let absent = json!({ "image": "ferrolet.test/none:1", "imagePullPolicy": "Never" });
    // No registry listens there.
    let unreachable = json!({ "image": "127.0.0.1:1/none:1" });
    let rootless = json!({ "securityContext": { "runAsNonRoot": true } });
    // Upstream may report the back-off only with the next restart, and then for a moment.
    let crashes = kind("crashes", &["exit", "5"], none(), none(), |pod| {
        let restarts = pod["status"]["containerStatuses"][0]["restartCount"].as_u64();
        waits(pod, "CrashLoopBackOff") && restarts.is_some_and(|restarts| restarts > 1)
    });
    let unpulled =
        kind("unpulled", SLEEP, none(), unreachable, |pod| waits(pod, "ImagePullBackOff"));
    vec![
        Kind { lasts: false, ..unpulled },
        Kind { lasts: false, ..crashes },
        kind("imageless", SLEEP, none(), absent, |pod| waits(pod, "ErrImageNeverPull")),
        kind("rootless", SLEEP, rootless, none(), |pod| waits(pod, "CreateContainerConfigError")),
    ]
}

/// A pod in a crash loop, without its restart count at the time of the look.
fn without_count(mut pod: Value) -> Value {
    let main = &mut pod["status"]["containerStatuses"][0];
    if main["restartCount"].as_u64().is_some_and(|restarts| restarts > 1) {
        main["restartCount"] = "more than one".into();
        let message = &mut main["state"]["waiting"]["message"];
        let text = message.as_str().unwrap_or_default();
        let plain = ["20s", "40s", "1m20s", "2m40s"].iter().fold(text.to_owned(), |text, time| {
            text.replace(&format!("back-off {time} "), "back-off TIME ")
        });
        *message = plain.into();
    }
    pod
}

/// Waits until no pod changes any more.
fn wait_quiet(cluster: &ClusterNode) -> Result<()> {
    let mut before = Vec::new();
    wait::every(QUIET, "the pods stop changing", PATIENCE, || {
        let version = |pod: &Value| pod["metadata"]["resourceVersion"].to_string();
        let now: Vec<String> = cluster.api().list(PODS)?.iter().map(version).collect();
        let is_quiet = now == before;
        before = now;
        Ok(if is_quiet { Ok(()) } else { Err(format!("{before:?}")) })
    })
}

pub(super) fn kinds(cluster: &ClusterNode) -> Result<()> {
    let mut all = waiting();
    all.extend(running());
    all.extend(ending());
    for kind in &all {
        cluster.api().create(PODS, &kind.pod)?;
    }
    // First those whose state is not final.
    all.sort_by_key(|kind| kind.lasts);
    let name = |pod: &Value| pod["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    for kind in &all {
        let name = name(&kind.pod);
        let path = ClusterNode::pod_path(&name);
        let what = format!("{name} has come so far");
        if kind.lasts {
            cluster.wait_for(&path, &what, |pod| (kind.has_come)(pod?).then_some(()))?;
        } else {
            let pod =
                cluster.watch_pod(&name, &what, |pod| (kind.has_come)(pod).then(|| pod.clone()))?;
            // The files of a pod in a transient state depend on timing.
            cluster.look_at_object(&without_count(pod));
        }
    }
    wait_quiet(cluster)?;
    let names: Vec<String> = all.iter().map(|kind| name(&kind.pod)).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    cluster.remove_pods(&names)
}
