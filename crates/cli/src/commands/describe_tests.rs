//! The text of descriptions.

use serde_json::json;

use super::*;
use crate::commands::test_pods::{crashing, now};

/// The description of a pod without incidents and processes.
fn description(
    item: &PodItem<Pod>,
    refused: &[&RefusedManifest],
    events: &[EventItem],
    now: Timestamp,
) -> String {
    let (incidents, process_ids) = (&[], &ProcessIds::new());
    pod_text(&PodDescription { item, refused, events, incidents, process_ids }, now)
}

fn event(reason: &str, count: u64, first: &str, last: &str) -> EventItem {
    EventItem {
        involved: "Pod".to_owned(),
        pod: "default/web".to_owned(),
        pod_uid: "uid-of-web".to_owned(),
        field_path: "spec.containers{main}".to_owned(),
        kind: "Warning".to_owned(),
        reason: reason.to_owned(),
        message: format!("about {reason}"),
        count,
        first_time: first.parse().unwrap(),
        last_time: last.parse().unwrap(),
    }
}

fn full() -> PodItem<Pod> {
    let mut item = crashing("default", "web");
    let pod = &mut item.pod;
    pod.metadata.labels = Some([("app".to_owned(), "web".to_owned())].into());
    let annotations = [("a".to_owned(), "1".to_owned()), ("b".to_owned(), "2\n3".to_owned())];
    pod.metadata.annotations = Some(annotations.into());
    pod.spec = serde_json::from_value(json!({
        "nodeName": "node",
        "volumes": [{"name": "data", "emptyDir": {}}],
        "containers": [{
            "name": "main", "image": "image:1", "command": ["/bin/web"], "args": ["--port", "80"],
            "ports": [{"containerPort": 80}, {"containerPort": 53, "protocol": "UDP"}],
            "env": [
                {"name": "MODE", "value": "fast"},
                {"name": "WHERE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
            ],
            "resources": {"limits": {"memory": "64Mi"}},
            "volumeMounts": [{"name": "data", "mountPath": "/data", "readOnly": true}],
        }],
    }))
    .unwrap();
    let status = pod.status.as_mut().unwrap();
    status.qos_class = Some("Burstable".to_owned());
    status.conditions = serde_json::from_value(json!([
        {"type": "Ready", "status": "False", "reason": "ContainersNotReady", "message": "wait"},
        {"type": "PodScheduled", "status": "True"},
    ]))
    .unwrap();
    item
}

const EXPECTED: &str = "\
Name:                web
Namespace:           default
UID:                 uid-of-web
Node:                node
Start Time:          2026-01-01T00:00:00Z (10m ago)
Labels:              app=web
Annotations:         a: 1
                     b: 2 3
Status:              CrashLoopBackOff
IPs:                 10.0.0.7
Containers:
  main:
    Container ID:    containerd://id
    Image:           image:1
    Image ID:        sha256:abc
    Ports:           80/TCP, 53/UDP
    Command:
      /bin/web
    Args:
      --port
      80
    State:           Waiting
      Reason:        CrashLoopBackOff
      Message:       back-off 40s
    Last State:      Terminated
      Reason:        OOMKilled
      Exit Code:     137
      Started:       2026-01-01T00:09:00Z
      Finished:      2026-01-01T00:09:30Z
    Ready:           False
    Restart Count:   3
    Limits:
      memory:        64Mi
    Environment:
      MODE:          fast
      WHERE:         (spec.nodeName)
    Mounts:
      /data from data (ro)
Conditions:
  Type           Status   Reason               Message
  Ready          False    ContainersNotReady   wait
  PodScheduled   True
Volumes:
  data:              emptyDir
QoS Class:           Burstable
Events:
  Type      Reason    Age                Object                  Message
  Warning   Failed    5m                 spec.containers{main}   about Failed
  Warning   BackOff   12s (x4 over 9m)   spec.containers{main}   about BackOff
";

#[test]
fn pod_description_is_complete() {
    let events = [
        event("Failed", 1, "2026-01-01T00:05:00Z", "2026-01-01T00:05:00Z"),
        event("BackOff", 4, "2026-01-01T00:01:00Z", "2026-01-01T00:09:48Z"),
    ];
    let text = description(&full(), &[], &events, now());
    assert_eq!(text, EXPECTED);
}

#[test]
fn pod_without_details_is_described() {
    let pod = testkit::pods::pod("new").container("main", "image", [""; 0]).build();
    let item = PodItem { pod, last_event: None, waiting_volumes: Vec::new(), probes: Vec::new() };
    let text = description(&item, &[], &[], now());
    for line in [
        "Start Time:          <none>",
        "Labels:              <none>",
        "Status:              Pending",
        "Events:              <none>",
    ] {
        assert!(text.contains(line), "{line}: {text}");
    }
    assert!(!text.contains("State:"), "{text}");
}

#[test]
fn refused_manifest_is_shown_with_the_pod_that_keeps_running() {
    let refused = RefusedManifest {
        manifest: "/m/web.yaml".to_owned(),
        message: "spec: bad".to_owned(),
        pod: Some("default/web".to_owned()),
        last_good_stays: true,
    };
    let text = description(&full(), &[&refused], &[], now());
    let line = "Refused Manifest:    /m/web.yaml was refused: spec: bad; default/web is unchanged";
    assert!(text.lines().any(|found| found == line), "{text}");
    let last_good_stays = false;
    let alone = refused_description(&RefusedManifest { pod: None, last_good_stays, ..refused });
    let expected = "Manifest:            /m/web.yaml\nStatus:              Refused\n\
                    Message:             spec: bad\n";
    assert_eq!(alone, expected);
}

#[test]
fn refused_manifest_is_found_by_its_path_or_file_name() {
    let refused = RefusedManifest {
        manifest: "/m/web.yaml".to_owned(),
        message: "spec: bad".to_owned(),
        pod: Some("default/web".to_owned()),
        last_good_stays: true,
    };
    let cases = [
        ("/m/web.yaml", true),
        ("web.yaml", true),
        ("m/web.yaml", true),
        ("web", false),
        ("/n/web.yaml", false),
        ("n/web.yaml", false),
    ];
    for (requested, expected) in cases {
        assert_eq!(is_file(&refused, requested), expected, "{requested}");
    }
    let text = refused_description(&refused);
    assert!(text.contains("In Effect:           the last accepted version\n"), "{text}");
}

#[test]
fn pull_that_is_under_way_is_described_with_its_container() {
    let pull = |reason: &str| {
        let mut event = event(reason, 1, "2026-01-01T00:09:00Z", "2026-01-01T00:09:10Z");
        event.message = "Pulling image \"image:1\"".to_owned();
        description(&full(), &[], &[event], now())
    };
    let line = "      Pull:          Pulling image \"image:1\", for 50s so far";
    assert!(pull("Pulling").lines().any(|found| found == line), "{}", pull("Pulling"));
    assert!(!pull("Failed").contains("Pull:"));
}

#[test]
fn volume_that_is_not_mounted_is_described_with_the_cause() {
    let mut item = full();
    let failure = Some("no space left on device".to_owned());
    item.waiting_volumes = vec![WaitingVolume { name: "data".to_owned(), failure }];
    let text = description(&item, &[], &[], now());
    let line = "  data:              emptyDir, not mounted: no space left on device";
    assert!(text.lines().any(|found| found == line), "{text}");
}

// behaviour: WHY-16
#[test]
fn last_restart_of_a_running_container_is_described_with_the_exit_before_it() {
    let mut item = full();
    let status = item.pod.status.as_mut().unwrap();
    let main = &mut status.container_statuses.as_mut().unwrap()[0];
    main.state =
        serde_json::from_value(json!({"running": {"startedAt": "2026-01-01T00:09:40Z"}})).unwrap();
    let end = main.last_state.as_mut().unwrap().terminated.as_mut().unwrap();
    end.reason = Some("Error".to_owned());
    end.message = Some("failed liveness probe: 3 failures in a row".to_owned());
    let text = description(&item, &[], &[], now());
    let line = "    Last Restart:    2026-01-01T00:09:40Z (20s ago): exit code 137, Error, \
                failed liveness probe: 3 failures in a row";
    assert!(text.lines().any(|found| found == line), "{text}");
}

fn incident(outcome: &str, rule: &str, detail: &serde_json::Value) -> Entry {
    serde_json::from_value(json!({
        "time": "2026-01-01T00:09:00Z", "kind": "restart", "id": "c2", "name": "main",
        "pod": "default/web", "podUid": "uid-of-web", "rule": rule, "detail": detail,
        "outcome": outcome, "version": "0.1.0",
    }))
    .unwrap()
}

// behaviour: WHY-17
#[test]
fn kills_and_restarts_of_a_container_are_described_with_their_reason() {
    let restart = incident("restarted", "exit", &json!({ "exitCode": 1, "restartCount": 4 }));
    let kill = incident("killed", "definition-changed", &json!({ "gracePeriod": "30s" }));
    let other = Entry { name: "other".to_owned(), ..restart.clone() };
    let mut incidents = vec![other, restart, kill];
    let kill = incidents[2].clone();
    incidents.extend(std::iter::repeat_n(kill, 5));
    let process_ids = ProcessIds::from([("containerd://id".to_owned(), 4711)]);
    let item = full();
    let described = PodDescription {
        item: &item,
        refused: &[],
        events: &[],
        incidents: &incidents,
        process_ids: &process_ids,
    };
    let text = pod_text(&described, now());
    let expected = "    Restart History:
      00:09:00 container main restarted: exit code 1, restart 4
      00:09:00 container main killed: its definition changed; grace 30s
      00:09:00 container main killed: its definition changed; grace 30s
    Limits:
";
    assert!(text.contains(expected), "{text}");
    assert!(text.contains("    Process ID:      4711\n"), "{text}");
    let yaml: serde_json::Value =
        serde_saphyr::from_str(&Output::Yaml.text(&described).unwrap()).unwrap();
    assert_eq!(yaml["pod"]["metadata"]["name"], "web");
    assert_eq!(yaml["incidents"][1]["detail"]["restartCount"], 4);
    assert_eq!(yaml["processIds"]["containerd://id"], 4711);
}
