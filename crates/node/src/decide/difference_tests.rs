use super::*;
use proptest::prelude::*;

fn node(value: Value) -> Node {
    serde_json::from_value(value).unwrap()
}

// behaviour: NODE-12
#[test]
fn patch_contains_only_differences_and_the_uid() {
    let old = node(json!({
        "metadata": { "name": "n", "uid": "u", "labels": { "a": "1", "b": "2" } },
        "status": {
            "capacity": { "cpu": "2", "hugepages-1Gi": "0" },
            "addresses": [{ "type": "Hostname", "address": "n" }],
            "images": [{ "names": ["a:1"], "sizeBytes": 1 }],
            "nodeInfo": {
                "architecture": "amd64", "bootID": "b", "containerRuntimeVersion": "x://1",
                "kernelVersion": "6", "kubeProxyVersion": "", "kubeletVersion": "v1",
                "machineID": "m", "operatingSystem": "linux", "osImage": "o", "systemUUID": "s",
            },
            "conditions": [
                { "type": "Theirs", "status": "True" },
                { "type": "Ready", "status": "True", "lastHeartbeatTime": "2026-01-01T00:00:00Z" },
            ],
        },
    }));
    let mut new = old.clone();
    new.metadata.labels = Some([("b".to_owned(), "3".to_owned())].into());
    let status = new.status.as_mut().unwrap();
    status.capacity.as_mut().unwrap().remove("hugepages-1Gi");
    status.images = None;
    status.addresses.as_mut().unwrap()[0].address = "m".to_owned();
    status.node_info.as_mut().unwrap().kubelet_version = "v2".to_owned();
    let found = difference(&old, &new);
    assert!(found.is_change);
    let expected = json!({
        "metadata": { "uid": "u", "labels": { "a": null, "b": "3" } },
        "status": {
            "capacity": { "hugepages-1Gi": null },
            "images": null,
            "addresses": [{ "type": "Hostname", "address": "m" }, { "$patch": "replace" }],
            "nodeInfo": { "kubeletVersion": "v2" },
            "conditions": [
                { "type": "Ready", "status": "True", "lastHeartbeatTime": "2026-01-01T00:00:00Z" },
            ],
        },
    });
    assert_eq!(found.patch, expected);
}

#[test]
fn heartbeat_is_not_a_change() {
    let of = |time: &str, status: &str| {
        node(json!({ "metadata": { "name": "n", "uid": "u" }, "status": { "conditions": [
            { "type": "Ready", "status": status, "lastHeartbeatTime": time },
        ] } }))
    };
    let (old, new) = (of("2026-01-01T00:00:00Z", "True"), of("2026-01-01T00:00:10Z", "True"));
    assert!(!difference(&old, &new).is_change);
    assert!(difference(&old, &of("2026-01-01T00:00:10Z", "False")).is_change);
    let first = node(json!({ "metadata": { "name": "n" } }));
    let found = difference(&first, &new);
    assert!(found.is_change && found.patch.get("metadata").is_none());
}

fn any_map() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![any::<bool>().prop_map(Value::from), "[a-c]{1,2}".prop_map(Value::from)];
    leaf.prop_recursive(3, 16, 3, |inner| {
        prop_oneof![
            prop::collection::btree_map("[a-c]", inner.clone(), 0..3)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
            prop::collection::vec(inner, 0..3).prop_map(Value::Array),
        ]
    })
    .prop_map(|value| json!({ "x": value }))
}

/// Applies a merge patch like the API, to an object without keyed lists.
fn apply(object: &mut Value, patch: &Value) {
    let (Some(object), Some(patch)) = (object.as_object_mut(), patch.as_object()) else {
        return *object = patch.clone();
    };
    for (name, wanted) in patch {
        if wanted.is_null() {
            object.remove(name);
        } else if wanted.is_object() && object.get(name).is_some_and(Value::is_object) {
            apply(object.get_mut(name).unwrap(), wanted);
        } else {
            object.insert(name.clone(), wanted.clone());
        }
    }
}

proptest! {
    #[test]
    fn map_patch_converts_old_to_new_map(old in any_map(), new in any_map()) {
        let changes = Value::Object(map_changes(&old, &new));
        let mut after = old.clone();
        apply(&mut after, &changes);
        prop_assert_eq!(&after, &new);
        prop_assert!(map_changes(&new, &new).is_empty());
    }
}
