use proptest::prelude::*;
use serde_json::{Value, json};

use super::{decode, set_defaults};
use crate::pod_strategy::arbitrary_pod;

/// A pod with its defaults, from the fields of its specification.
fn spec(fields: &str) -> Value {
    let manifest = format!("apiVersion: v1\nkind: Pod\nspec: {{{fields}}}\n");
    let mut pod = decode(manifest.as_bytes()).unwrap().pods.remove(0);
    set_defaults(&mut pod);
    serde_json::to_value(pod.spec).unwrap()
}

fn container(fields: &str) -> Value {
    spec(&format!("containers: [{{name: c, {fields}}}]"))["containers"][0].clone()
}

fn volume(fields: &str) -> Value {
    spec(&format!("volumes: [{{name: v, {fields}}}]"))["volumes"][0].clone()
}

#[test]
fn pod_defaults_are_set() {
    let expected = json!({
        "containers": [],
        "dnsPolicy": "ClusterFirst",
        "enableServiceLinks": true,
        "restartPolicy": "Always",
        "schedulerName": "default-scheduler",
        "securityContext": {},
        "terminationGracePeriodSeconds": 30,
    });
    assert_eq!(spec(""), expected);
    // An empty string counts as not set.
    assert_eq!(spec("restartPolicy: '', dnsPolicy: '', schedulerName: ''"), expected);
}

#[test]
fn set_values_are_kept() {
    let fields = "dnsPolicy: None, enableServiceLinks: false, restartPolicy: Never, \
                  schedulerName: s, terminationGracePeriodSeconds: 0";
    let expected = json!({
        "containers": [],
        "dnsPolicy": "None",
        "enableServiceLinks": false,
        "restartPolicy": "Never",
        "schedulerName": "s",
        "securityContext": {},
        "terminationGracePeriodSeconds": 0,
    });
    assert_eq!(spec(fields), expected);
}

#[test]
fn negative_grace_period_defaults_to_one_second() {
    let grace = spec("terminationGracePeriodSeconds: -5")["terminationGracePeriodSeconds"].clone();
    assert_eq!(grace, json!(1));
}

#[test]
fn service_account_has_two_names() {
    let accounts = |fields| {
        let spec = spec(fields);
        (spec["serviceAccountName"].clone(), spec["serviceAccount"].clone())
    };
    assert_eq!(accounts("serviceAccount: a"), (json!("a"), json!("a")));
    assert_eq!(accounts("serviceAccountName: a"), (json!("a"), json!("a")));
    assert_eq!(accounts("serviceAccount: a, serviceAccountName: b"), (json!("b"), json!("b")));
}

#[test]
fn container_defaults_are_set() {
    let expected = json!({
        "image": "i:1",
        "imagePullPolicy": "IfNotPresent",
        "name": "c",
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
    });
    assert_eq!(container("image: 'i:1'"), expected);
    let all = spec(
        "initContainers: [{name: c, image: 'i:1'}], containers: [{name: c, image: 'i:1'}], \
         ephemeralContainers: [{name: c, image: 'i:1', targetContainerName: t}]",
    );
    assert_eq!(all["initContainers"][0], expected);
    let mut ephemeral = expected;
    ephemeral["targetContainerName"] = json!("t");
    assert_eq!(all["ephemeralContainers"][0], ephemeral);
}

#[test]
fn pull_policy_follows_from_the_tag() {
    let digest = format!("a@sha256:{}", "0".repeat(64));
    let cases = [
        ("a", "Always"),
        ("a:latest", "Always"),
        ("localhost:5000/a", "Always"),
        ("a:1", "IfNotPresent"),
        ("localhost:5000/a:1", "IfNotPresent"),
        (&digest, "IfNotPresent"),
        // An invalid image name: validation reports it.
        ("UPPER:latest", "IfNotPresent"),
        ("", "IfNotPresent"),
    ];
    for (image, expected) in cases {
        let policy = container(&format!("image: '{image}'"))["imagePullPolicy"].clone();
        assert_eq!(policy, json!(expected), "{image}");
        let policy = volume(&format!("image: {{reference: '{image}'}}"))["image"].clone();
        assert_eq!(policy["pullPolicy"], json!(expected), "{image} as a volume");
    }
    assert_eq!(container("image: a, imagePullPolicy: Never")["imagePullPolicy"], json!("Never"));
}

#[test]
fn port_protocol_and_host_port_defaults_are_set() {
    let ports = |fields: &str| spec(fields)["containers"][0]["ports"].clone();
    assert_eq!(
        ports("containers: [{ports: [{containerPort: 80}, {containerPort: 53, protocol: UDP}]}]"),
        json!([{"containerPort": 80, "protocol": "TCP"}, {"containerPort": 53, "protocol": "UDP"}])
    );
    let host = spec(
        "hostNetwork: true, containers: [{ports: [{containerPort: 80}, {containerPort: 81, \
         hostPort: 82}, {containerPort: 83, hostPort: 0}]}], initContainers: [{ports: \
         [{containerPort: 9}]}]",
    );
    let numbers = |list: &Value| -> Vec<Value> {
        list.as_array().unwrap().iter().map(|port| port["hostPort"].clone()).collect()
    };
    assert_eq!(numbers(&host["containers"][0]["ports"]), [json!(80), json!(82), json!(83)]);
    assert_eq!(numbers(&host["initContainers"][0]["ports"]), [json!(9)]);
}

#[test]
fn probe_and_handler_defaults_are_set() {
    let numbers = json!({
        "exec": {},
        "failureThreshold": 3,
        "periodSeconds": 10,
        "successThreshold": 1,
        "timeoutSeconds": 1,
    });
    for probe in ["livenessProbe", "readinessProbe", "startupProbe"] {
        assert_eq!(container(&format!("{probe}: {{exec: {{}}}}"))[probe], numbers, "{probe}");
        let zero = "{exec: {}, failureThreshold: 0, periodSeconds: 0, successThreshold: 0, \
                    timeoutSeconds: 0}";
        assert_eq!(container(&format!("{probe}: {zero}"))[probe], numbers, "{probe}");
    }
    let http = json!({"path": "/", "port": 80, "scheme": "HTTP"});
    let probe = container("livenessProbe: {httpGet: {port: 80}}");
    assert_eq!(probe["livenessProbe"]["httpGet"], http);
    let probe = container("livenessProbe: {grpc: {port: 80}}");
    assert_eq!(probe["livenessProbe"]["grpc"], json!({"port": 80, "service": ""}));
    for hook in ["postStart", "preStop"] {
        let container = container(&format!("lifecycle: {{{hook}: {{httpGet: {{port: 80}}}}}}"));
        assert_eq!(container["lifecycle"][hook]["httpGet"], http, "{hook}");
    }
}

#[test]
fn variable_source_defaults_are_set() {
    let source = |source: &str| {
        container(&format!("env: [{{name: A, valueFrom: {source}}}]"))["env"][0]["valueFrom"]
            .clone()
    };
    assert_eq!(
        source("{fieldRef: {fieldPath: metadata.name}}"),
        json!({"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"}})
    );
    assert_eq!(source("{fileKeyRef: {key: a}}")["fileKeyRef"]["optional"], json!(false));
}

#[test]
fn requests_follow_limits() {
    let resources =
        |fields: &str| container(&format!("resources: {{{fields}}}"))["resources"].clone();
    assert_eq!(
        resources("limits: {cpu: 2, memory: 1Gi}, requests: {cpu: 1}"),
        json!({"limits": {"cpu": "2", "memory": "1Gi"}, "requests": {"cpu": "1", "memory": "1Gi"}})
    );
    assert_eq!(resources("requests: {cpu: 1}"), json!({"requests": {"cpu": "1"}}));
}

#[test]
fn quantities_are_normalized() {
    let resources =
        container("resources: {requests: {cpu: 1000m, memory: 1024Mi, x/y: 1n, z: bad}}");
    assert_eq!(
        resources["resources"]["requests"],
        json!({"cpu": "1", "memory": "1Gi", "x/y": "1m", "z": "bad"})
    );
    assert_eq!(spec("overhead: {cpu: 0.5}")["overhead"], json!({"cpu": "500m"}));
    assert_eq!(volume("emptyDir: {sizeLimit: 2048Mi}")["emptyDir"], json!({"sizeLimit": "2Gi"}));
}

#[test]
fn pod_level_requests_default_to_container_requests() {
    let resources = |containers: &str, pod: &str| {
        spec(&format!("containers: [{containers}], resources: {{{pod}}}"))["resources"].clone()
    };
    let one = "{resources: {requests: {cpu: 1}}}";
    assert_eq!(
        resources(&format!("{one}, {one}"), "limits: {cpu: 4, memory: 1Gi}"),
        json!({"limits": {"cpu": "4", "memory": "1Gi"}, "requests": {"cpu": "2", "memory": "1Gi"}})
    );
    // Without pod-level limits it has no pod-level requests.
    assert_eq!(resources(one, "requests: {memory: 1Gi}"), json!({"requests": {"memory": "1Gi"}}));
    let pages = "{resources: {limits: {hugepages-2Mi: 4Mi, cpu: 1}}}";
    assert_eq!(
        resources(pages, "limits: {cpu: 4}"),
        json!({
            "limits": {"cpu": "4", "hugepages-2Mi": "4Mi"},
            "requests": {"cpu": "1", "hugepages-2Mi": "4Mi"},
        })
    );
    assert_eq!(
        resources(pages, "requests: {cpu: 4, hugepages-2Mi: 4Mi}"),
        json!({"requests": {"cpu": "4", "hugepages-2Mi": "4Mi"}})
    );
}

#[test]
fn volume_defaults_are_set() {
    let cases = [
        ("", json!({"emptyDir": {}})),
        ("secret: {}", json!({"secret": {"defaultMode": 420}})),
        ("configMap: {}", json!({"configMap": {"name": "", "defaultMode": 420}})),
        (
            "downwardAPI: {items: [{path: a, fieldRef: {fieldPath: b}}]}",
            json!({"downwardAPI": {"defaultMode": 420, "items": [
                {"path": "a", "fieldRef": {"apiVersion": "v1", "fieldPath": "b"}},
            ]}}),
        ),
        (
            "projected: {sources: [{serviceAccountToken: {path: t}}, {downwardAPI: {items: [{path: \
             a, fieldRef: {fieldPath: b}}]}}]}",
            json!({"projected": {"defaultMode": 420, "sources": [
                {"serviceAccountToken": {"path": "t", "expirationSeconds": 3600}},
                {"downwardAPI": {"items": [
                    {"path": "a", "fieldRef": {"apiVersion": "v1", "fieldPath": "b"}},
                ]}},
            ]}}),
        ),
        ("secret: {defaultMode: 0400}", json!({"secret": {"defaultMode": 256}})),
        ("hostPath: {path: /a}", json!({"hostPath": {"path": "/a", "type": ""}})),
        (
            "iscsi: {iqn: a, lun: 0, targetPortal: b}",
            json!({"iscsi": {"iqn": "a", "iscsiInterface": "default", "lun": 0, "targetPortal": "b"}}),
        ),
        (
            "rbd: {image: a, monitors: []}",
            json!({"rbd": {"image": "a", "keyring": "/etc/ceph/keyring", "monitors": [],
                "pool": "rbd", "user": "admin"}}),
        ),
        (
            "azureDisk: {diskName: a, diskURI: b}",
            json!({"azureDisk": {"cachingMode": "ReadWrite", "diskName": "a", "diskURI": "b",
                "fsType": "ext4", "kind": "Shared", "readOnly": false}}),
        ),
        (
            "scaleIO: {gateway: a, secretRef: {}, system: b}",
            json!({"scaleIO": {"fsType": "xfs", "gateway": "a", "secretRef": {"name": ""},
                "storageMode": "ThinProvisioned", "system": "b"}}),
        ),
        (
            "ephemeral: {volumeClaimTemplate: {spec: {resources: {requests: {storage: 1024Mi}}}}}",
            json!({"ephemeral": {"volumeClaimTemplate": {"spec": {
                "resources": {"requests": {"storage": "1Gi"}},
                "volumeMode": "Filesystem",
            }}}}),
        ),
    ];
    for (fields, mut expected) in cases {
        expected["name"] = json!("v");
        assert_eq!(volume(fields), expected, "{fields}");
    }
}

proptest! {
    #[test]
    fn setting_defaults_is_idempotent(mut pod in arbitrary_pod()) {
        set_defaults(&mut pod);
        let once = pod.clone();
        set_defaults(&mut pod);
        prop_assert_eq!(pod, once);
    }
}
