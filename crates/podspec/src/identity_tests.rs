#![allow(clippy::too_many_lines, reason = "a table has one row per reference")]

use k8s_openapi::api::core::v1::{Pod, Toleration};
use proptest::prelude::*;
use serde_json::json;

use super::view::{is_mirror, is_static, pod_name, uid as pod_uid};
use super::{Origin, decode, is_content_uid, set_defaults, static_pod};
use crate::pod_strategy::arbitrary_manifest;

fn pod(metadata: &str, spec: &str) -> Pod {
    let manifest =
        format!("apiVersion: v1\nkind: Pod\nmetadata: {{{metadata}}}\nspec: {{{spec}}}\n");
    let mut pod = decode(manifest.as_bytes()).unwrap().pods.remove(0);
    set_defaults(&mut pod);
    pod
}

fn file(path: &str) -> Origin {
    Origin::File(path.into())
}

fn url(url: &str) -> Origin {
    Origin::Url(url.to_owned())
}

fn uid(pod: Pod, origin: &Origin, node: &str) -> String {
    pod_uid(&static_pod(pod, origin, node).unwrap()).to_string()
}

// behaviour: SRC-60
#[test]
fn static_pod_has_node_name_and_source_annotations() {
    let pod = static_pod(pod("name: a", ""), &file("/m/a.yaml"), "Node-1").unwrap();
    let uid = pod_uid(&pod).to_string();
    assert!(is_content_uid(&uid), "{uid}");
    assert!(!is_content_uid("0c6e5f5e-0000-4000-8000-000000000001"), "an API server's");
    assert_eq!(pod_name(&pod).to_string(), "default/a-node-1");
    let marks = json!({"kubernetes.io/config.hash": uid, "kubernetes.io/config.source": "file"});
    assert_eq!(json!(pod.metadata.annotations), marks);
    let spec = pod.spec.as_ref().unwrap();
    assert_eq!(spec.node_name.as_deref(), Some("Node-1"));
    assert_eq!(json!(pod.status), json!({"phase": "Pending"}));
    assert!(is_static(&pod) && !is_mirror(&pod));
}

// behaviour: SRC-60
#[test]
fn specified_namespace_and_uid_are_kept() {
    let pod = pod("name: a, namespace: b, uid: c", "");
    let pod = static_pod(pod, &url("http://x"), "n").unwrap();
    assert_eq!(pod_name(&pod).to_string(), "b/a-n");
    assert_eq!(pod_uid(&pod).as_str(), "c");
    let marks = json!({"kubernetes.io/config.hash": "c", "kubernetes.io/config.source": "http"});
    assert_eq!(json!(pod.metadata.annotations), marks);
}

// behaviour: SRC-60
#[test]
fn static_pod_from_a_file_tolerates_no_execute_taints() {
    let all = Toleration {
        effect: Some("NoExecute".to_owned()),
        operator: Some("Exists".to_owned()),
        ..Toleration::default()
    };
    let tolerations = |given: &str, origin: &Origin| {
        let pod = pod("name: a", &format!("tolerations: {given}"));
        static_pod(pod, origin, "n").unwrap().spec.unwrap().tolerations.unwrap_or_default()
    };
    assert_eq!(tolerations("[]", &file("/a")), std::slice::from_ref(&all));
    assert_eq!(tolerations("[]", &url("http://x")), []);
    let same = "[{operator: Exists, effect: NoExecute, tolerationSeconds: 5}]";
    assert_eq!(tolerations(same, &file("/a")), std::slice::from_ref(&all));
    let other = tolerations("[{key: k, operator: Exists}]", &file("/a"));
    assert_eq!((other.len(), &other[1]), (2, &all));
}

#[test]
fn api_only_fields_of_a_copied_object_are_dropped() {
    let manifest = r#"{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a",
        "deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": 5,
        "annotations": {"kubernetes.io/config.mirror": "x", "kubernetes.io/config.seen": "y",
            "kubernetes.io/config.source": "api", "keep": "z"}},
        "spec": {"containers": []}, "status": {"phase": "Succeeded", "podIP": "10.0.0.1"}}"#;
    let copy = decode(manifest.as_bytes()).unwrap().pods.remove(0);
    let pod = static_pod(copy, &file("/a"), "n").unwrap();
    assert_eq!(pod.metadata.deletion_timestamp, None);
    assert_eq!(pod.metadata.deletion_grace_period_seconds, None);
    let marks: Vec<_> = pod.metadata.annotations.iter().flatten().map(|(key, _)| key).collect();
    assert_eq!(marks, ["keep", "kubernetes.io/config.hash", "kubernetes.io/config.source"]);
    assert_eq!(json!(pod.status), json!({"phase": "Pending"}));
    assert!(!is_mirror(&pod) && is_static(&pod));
}

// behaviour: SRC-61
#[test]
fn uid_follows_from_content_origin_and_node() {
    let pod = |image: &str| pod("name: a", &format!("containers: [{{name: c, image: {image}}}]"));
    let base = uid(pod("i"), &file("/a"), "n");
    assert_eq!(base, uid(pod("i"), &file("/a"), "n"));
    let others = [
        ("another image", uid(pod("j"), &file("/a"), "n")),
        ("another file", uid(pod("i"), &file("/b"), "n")),
        ("another node", uid(pod("i"), &file("/a"), "m")),
        ("a URL", uid(pod("i"), &url("/a"), "n")),
    ];
    for (what, other) in others {
        assert_ne!(base, other, "{what}");
    }
}

/// A uid that changes with a version of the agent would restart every static pod of every node.
// behaviour: SRC-61
#[test]
fn uid_of_a_fixed_pod_is_stable() {
    let pod = pod("name: a", "containers: [{name: c, image: 'i:1'}]");
    assert_eq!(uid(pod, &file("/etc/pods/a.yaml"), "node"), "378fa5c2a9e8a43d52e461b028d589a8");
}

#[test]
fn explicit_default_does_not_change_the_uid() {
    let short = pod("name: a", "containers: [{name: c, image: i}]");
    let long = pod("name: a", "restartPolicy: Always, containers: [{image: i, name: c, tty: }]");
    assert_eq!(uid(short, &file("/a"), "n"), uid(long, &file("/a"), "n"));
}

// behaviour: SRC-62
#[test]
fn api_references_are_rejected_with_their_path() {
    let container = |fields: &str| format!("containers: [{{name: c, {fields}}}]");
    let volume = |source: &str| format!("volumes: [{{name: v, {source}}}]");
    let secret = "secretRef: {name: s}";
    let cases = [
        ("serviceAccountName: a".to_owned(), "spec.serviceAccountName", "serviceaccounts"),
        ("serviceAccount: a".to_owned(), "spec.serviceAccountName", "serviceaccounts"),
        ("imagePullSecrets: [{}, {name: a}]".to_owned(), "spec.imagePullSecrets[1]", "secrets"),
        (
            container("env: [{name: A, valueFrom: {secretKeyRef: {name: s, key: k}}}]"),
            "spec.containers[0].env[0].valueFrom.secretKeyRef",
            "secrets",
        ),
        (
            container("env: [{name: A, valueFrom: {configMapKeyRef: {name: s, key: k}}}]"),
            "spec.containers[0].env[0].valueFrom.configMapKeyRef",
            "configmaps",
        ),
        (
            container("envFrom: [{secretRef: {name: s}}]"),
            "spec.containers[0].envFrom[0].secretRef",
            "secrets",
        ),
        (
            "initContainers: [{envFrom: [{configMapRef: {name: s}}]}]".to_owned(),
            "spec.initContainers[0].envFrom[0].configMapRef",
            "configmaps",
        ),
        (
            "ephemeralContainers: [{envFrom: [{configMapRef: {name: s}}]}]".to_owned(),
            "spec.ephemeralContainers[0].envFrom[0].configMapRef",
            "configmaps",
        ),
        (
            "resourceClaims: [{name: a, resourceClaimName: b}]".to_owned(),
            "spec.resourceClaims",
            "resourceclaims",
        ),
        (
            volume("secret: {secretName: s}"),
            "spec.volumes[0].secret",
            "secrets (via secret volumes)",
        ),
        (
            volume("configMap: {name: s}"),
            "spec.volumes[0].configMap",
            "configmaps (via configmap volumes)",
        ),
        (volume("csi: {driver: d}"), "spec.volumes[0].csi", "csidrivers (via CSI volumes)"),
        (
            volume("glusterfs: {endpoints: e, path: p}"),
            "spec.volumes[0].glusterfs",
            "endpoints (via glusterFS volumes)",
        ),
        (
            volume("persistentVolumeClaim: {claimName: c}"),
            "spec.volumes[0].persistentVolumeClaim",
            "persistentvolumeclaims",
        ),
        (
            volume("ephemeral: {}"),
            "spec.volumes[0].ephemeral",
            "persistentvolumeclaims (via ephemeral volumes)",
        ),
        (
            volume("azureFile: {secretName: s, shareName: t}"),
            "spec.volumes[0].azureFile",
            "secrets (via azureFile volumes)",
        ),
        (volume(&format!("iscsi: {{{secret}}}")), "spec.volumes[0].iscsi.secretRef", "secrets"),
        (volume(&format!("rbd: {{{secret}}}")), "spec.volumes[0].rbd.secretRef", "secrets"),
        (volume(&format!("cephfs: {{{secret}}}")), "spec.volumes[0].cephfs.secretRef", "secrets"),
        (volume(&format!("cinder: {{{secret}}}")), "spec.volumes[0].cinder.secretRef", "secrets"),
        (volume(&format!("scaleIO: {{{secret}}}")), "spec.volumes[0].scaleIO.secretRef", "secrets"),
        (
            volume(&format!("storageos: {{{secret}}}")),
            "spec.volumes[0].storageos.secretRef",
            "secrets",
        ),
        (
            volume(&format!("flexVolume: {{{secret}}}")),
            "spec.volumes[0].flexVolume.secretRef",
            "secrets",
        ),
    ];
    for (spec, path, what) in cases {
        let errors = static_pod(pod("name: a", &spec), &file("/a"), "n").unwrap_err();
        let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
        assert_eq!(texts, [format!("{path}: Forbidden: static pods may not reference {what}")]);
    }
}

// behaviour: SRC-62
#[test]
fn api_projections_are_rejected_with_their_path() {
    let cases = [
        ("configMap: {name: a}", "configMap", "configmaps (via projected volumes)"),
        ("secret: {name: a}", "secret", "secrets (via projected volumes)"),
        (
            "serviceAccountToken: {path: t}",
            "serviceAccountToken",
            "serviceaccounts (via projected volumes)",
        ),
        ("clusterTrustBundle: {path: t}", "clusterTrustBundle", "clustertrustbundles"),
        ("podCertificate: {signerName: s, keyType: k}", "podCertificate", "podcertificates"),
    ];
    for (source, field, what) in cases {
        let spec = format!("volumes: [{{name: v, projected: {{sources: [{{{source}}}]}}}}]");
        let errors = static_pod(pod("name: a", &spec), &file("/a"), "n").unwrap_err();
        let expected = format!(
            "spec.volumes[0].projected.sources[0].{field}: Forbidden: static pods may not \
             reference {what}"
        );
        assert_eq!(errors.iter().map(ToString::to_string).collect::<Vec<_>>(), [expected]);
    }
    let unknown = pod("name: a", "volumes: [{name: v, projected: {sources: [{}]}}]");
    let errors = static_pod(unknown, &file("/a"), "n").unwrap_err();
    assert_eq!(
        errors[0].to_string(),
        "spec.volumes[0].projected.sources[0]: Forbidden: unknown source for projected volume \"v\""
    );
}

// behaviour: SRC-62
#[test]
fn pod_without_api_references_is_accepted() {
    let spec = "volumes: [{name: a}, {name: b, hostPath: {path: /}}, {name: c, downwardAPI: {}}, \
                {name: d, projected: {sources: [{downwardAPI: {}}]}}, {name: e, nfs: {}}, {name: f, \
                image: {}}, {name: g, iscsi: {secretRef: {}}}], imagePullSecrets: [{}]";
    assert!(static_pod(pod("name: a", spec), &file("/a"), "n").is_ok());
}

#[test]
fn pod_without_a_name_is_rejected() {
    for metadata in ["", "name: ''", "generateName: a"] {
        let errors = static_pod(pod(metadata, ""), &file("/a"), "n").unwrap_err();
        assert_eq!(
            errors[0].to_string(),
            "metadata.name: Required value: name is needed for the pod"
        );
    }
}

proptest! {
    #[test]
    fn key_order_does_not_change_the_uid(manifest in arbitrary_manifest()) {
        // JSON objects are sorted by key; this reverses every one of them.
        fn reversed(value: &serde_json::Value) -> String {
            match value {
                serde_json::Value::Object(map) => {
                    let fields = map.iter().rev();
                    let fields: Vec<String> =
                        fields.map(|(key, value)| format!("{}: {}", json!(key), reversed(value))).collect();
                    format!("{{{}}}", fields.join(", "))
                }
                serde_json::Value::Array(items) => {
                    let items: Vec<String> = items.iter().map(reversed).collect();
                    format!("[{}]", items.join(", "))
                }
                value => value.to_string(),
            }
        }
        let turned = reversed(&serde_json::from_str(&manifest).unwrap());
        let uid = |manifest: &str| {
            let mut pod = decode(manifest.as_bytes()).ok()?.pods.remove(0);
            set_defaults(&mut pod);
            pod.metadata.uid = None;
            Some(crate::identity::with_identity(pod, &file("/a"), "n").metadata.uid)
        };
        prop_assert_eq!(uid(&manifest), uid(&turned));
    }

    #[test]
    fn every_change_of_content_changes_the_uid(manifest in arbitrary_manifest(), other in arbitrary_manifest()) {
        let read = |manifest: &str| {
            let mut pod = decode(manifest.as_bytes()).ok()?.pods.remove(0);
            set_defaults(&mut pod);
            pod.metadata.uid = None;
            Some(pod)
        };
        if let (Some(one), Some(two)) = (read(&manifest), read(&other)) {
            let uid = |pod: &Pod| {
                crate::identity::with_identity(pod.clone(), &file("/a"), "n").metadata.uid
            };
            prop_assert_eq!(uid(&one) == uid(&two), one == two);
        }
    }
}
