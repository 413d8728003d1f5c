use super::*;
use serde_json::{from_value, json, to_value};

fn node(value: serde_json::Value) -> Node {
    from_value(value).unwrap()
}

// behaviour: NODE-2
#[test]
fn existing_node_gets_agent_fields_and_keeps_others() {
    let wanted = node(json!({
        "metadata": {
            "name": "n",
            "labels": { "kubernetes.io/hostname": "n", "kubernetes.io/os": "linux", "mine": "new" },
            "annotations": { ATTACH_DETACH: "true" },
        },
        "spec": { "providerID": "p://new", "taints": [{ "key": "new", "effect": "NoSchedule" }] },
        "status": {
            "capacity": { "cpu": "4", "hugepages-2Mi": "4Mi" },
            "allocatable": { "cpu": "3", "hugepages-2Mi": "4Mi" },
        },
    }));
    let mut existing = node(json!({
        "metadata": {
            "name": "n",
            "labels": { "kubernetes.io/hostname": "old", "mine": "old", "theirs": "x" },
            "annotations": { "other": "y" },
        },
        "spec": { "providerID": "p://old", "taints": [{ "key": "old", "effect": "NoExecute" }] },
        "status": {
            "capacity": { "cpu": "2", "hugepages-1Gi": "1Gi", "example.com/x": "1" },
            "allocatable": { "cpu": "2", "hugepages-1Gi": "1Gi" },
        },
    }));
    reconcile(&mut existing, &wanted);
    let found = to_value(&existing).unwrap();
    let labels = json!({
        "kubernetes.io/hostname": "n", "kubernetes.io/os": "linux", "mine": "old", "theirs": "x",
    });
    assert_eq!(found["metadata"]["labels"], labels);
    let annotations = json!({ ATTACH_DETACH: "true", "other": "y" });
    assert_eq!(found["metadata"]["annotations"], annotations);
    assert_eq!(found["spec"]["providerID"], "p://old");
    assert_eq!(found["spec"]["taints"][0]["key"], "old");
    assert_eq!(found["status"]["capacity"], json!({ "cpu": "2", "example.com/x": "1" }));
    assert_eq!(found["status"]["allocatable"], json!({ "cpu": "2" }));
}

// behaviour: NODE-2
#[test]
fn disabled_label_and_annotation_are_removed() {
    let wanted = node(json!({
        "metadata": { "name": "n", "labels": { "topology.kubernetes.io/zone": "" } },
    }));
    let mut existing = node(json!({
        "metadata": {
            "name": "n",
            "labels": { "topology.kubernetes.io/zone": "a" },
            "annotations": { ATTACH_DETACH: "true" },
        },
    }));
    reconcile(&mut existing, &wanted);
    let found = to_value(&existing).unwrap();
    assert_eq!(found["metadata"]["labels"], json!({}));
    assert_eq!(found["metadata"]["annotations"], json!({}));
    let once = existing.clone();
    reconcile(&mut existing, &wanted);
    assert_eq!(existing, once, "reconciling again changes nothing");
}

// behaviour: NODE-56
#[test]
fn replaced_machine_has_no_devices() {
    let of_machine = |id: &str, gpus: &str| {
        let amounts = json!({ "cpu": "2", "nvidia.com/gpu": gpus });
        node(json!({
            "metadata": { "name": "n", "labels": {} },
            "status": {
                "capacity": amounts, "allocatable": amounts,
                "nodeInfo": {
                    "machineID": id, "architecture": "", "bootID": "", "containerRuntimeVersion": "",
                    "kernelVersion": "", "kubeProxyVersion": "", "kubeletVersion": "",
                    "operatingSystem": "", "osImage": "", "systemUUID": "",
                },
            },
        }))
    };
    // The machine id, and the number of remaining devices.
    for (id, gpus) in [("same", "4"), ("", "4"), ("other", "0")] {
        let mut existing = of_machine(id, "4");
        reconcile(&mut existing, &of_machine("same", "9"));
        assert_eq!(existing, of_machine(id, gpus), "{id}");
    }
}
