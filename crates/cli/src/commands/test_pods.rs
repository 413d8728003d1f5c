//! Pods with a status, for tests of the output.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};
use server::wire::{LastEvent, PodItem};

/// The time of the tests: ten minutes after the pods started.
pub(crate) fn now() -> Timestamp {
    "2026-01-01T00:10:00Z".parse().unwrap()
}

/// A pod on the node `node` with one container, `main`, in this state.
pub(crate) fn pod(namespace: &str, name: &str, container: &Value) -> Pod {
    let mut status = json!({
        "name": "main", "image": "image:1", "imageID": "sha256:abc", "ready": false,
        "restartCount": 0, "containerID": "containerd://id",
    });
    for (field, value) in container.as_object().unwrap() {
        status[field] = value.clone();
    }
    serde_json::from_value(json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "uid": format!("uid-of-{name}")},
        "spec": {"nodeName": "node", "containers": [{"name": "main", "image": "image:1"}]},
        "status": {
            "phase": "Running", "startTime": "2026-01-01T00:00:00Z", "podIP": "10.0.0.7",
            "podIPs": [{"ip": "10.0.0.7"}], "containerStatuses": [status],
        },
    }))
    .unwrap()
}

/// A running pod without events.
pub(crate) fn running(namespace: &str, name: &str) -> PodItem<Pod> {
    let state = json!({
        "ready": true, "state": {"running": {"startedAt": "2026-01-01T00:00:01Z"}},
    });
    let pod = pod(namespace, name, &state);
    PodItem { pod, last_event: None, waiting_volumes: Vec::new(), probes: Vec::new() }
}

/// A pod whose container keeps failing.
pub(crate) fn crashing(namespace: &str, name: &str) -> PodItem<Pod> {
    let state = json!({
        "restartCount": 3,
        "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 40s"}},
        "lastState": {"terminated": {
            "exitCode": 137, "reason": "OOMKilled", "containerID": "containerd://old",
            "startedAt": "2026-01-01T00:09:00Z", "finishedAt": "2026-01-01T00:09:30Z",
        }},
    });
    let event = LastEvent {
        kind: "Warning".to_owned(),
        reason: "BackOff".to_owned(),
        message: "Back-off restarting failed container".to_owned(),
        time: "2026-01-01T00:09:48Z".parse().unwrap(),
    };
    let pod = pod(namespace, name, &state);
    PodItem { pod, last_event: Some(event), waiting_volumes: Vec::new(), probes: Vec::new() }
}
