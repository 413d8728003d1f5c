use serde_json::{Value, json};

use super::*;

fn mounted() -> BTreeMap<String, MountedVolume> {
    let volume = |path: &str| MountedVolume {
        spec_name: "data".to_owned(),
        host_path: path.into(),
        relabel: true,
        ..MountedVolume::default()
    };
    BTreeMap::from([
        ("data".to_owned(), volume("/pods/u/volumes/kubernetes.io~empty-dir/data")),
        ("keys".to_owned(), MountedVolume { read_only: true, ..volume("/pods/u/keys") }),
        ("disk".to_owned(), MountedVolume { is_block: true, ..volume("/dev/loop1") }),
        ("image".to_owned(), MountedVolume { image: "sha256:1".to_owned(), ..volume("") }),
    ])
}

fn container(mount: &Value) -> Container {
    let container = json!({ "name": "main", "volumeMounts": [mount] });
    serde_json::from_value(container).unwrap()
}

fn planned(mount: &Value) -> Result<VolumeMountPlan, String> {
    let envs = [("POD".to_owned(), "web-1".to_owned()), ("EMPTY".to_owned(), String::new())];
    let context =
        MountContext { volumes: &mounted(), envs: &envs, recursive_read_only: true, selinux: true };
    let plans = volume_mounts(&container(mount), &context).map_err(|error| error.to_string())?;
    Ok(plans.into_iter().next().unwrap())
}

// behaviour: VOL-20
#[test]
fn mount_has_path_mode_and_propagation_of_its_volume() {
    let plan = planned(&json!({ "name": "data", "mountPath": "srv/data" })).unwrap();
    assert_eq!(plan.mount.container_path, "/srv/data");
    assert_eq!(plan.mount.host_path, "/pods/u/volumes/kubernetes.io~empty-dir/data");
    assert!(!plan.mount.read_only && plan.mount.relabel);
    assert_eq!(plan.subpath, None);
    let plan = planned(&json!({ "name": "keys", "mountPath": "/k" })).unwrap();
    assert!(plan.mount.read_only, "its volume is read-only");
    let rows = [
        ("None", MountPropagation::Private),
        ("HostToContainer", MountPropagation::HostToContainer),
        ("Bidirectional", MountPropagation::Bidirectional),
    ];
    for (mode, expected) in rows {
        let mount = json!({ "name": "data", "mountPath": "/a", "mountPropagation": mode });
        assert_eq!(planned(&mount).unwrap().mount.propagation, expected);
    }
}

// behaviour: VOL-21
#[test]
fn subpath_stays_relative_and_expands_variables_that_have_a_value() {
    let with = |field: &str, path: &str| {
        let mut mount = json!({ "name": "data", "mountPath": "/a" });
        mount[field] = path.into();
        planned(&mount).map(|plan| plan.subpath.map(|subpath| subpath.path))
    };
    assert_eq!(with("subPath", ""), Ok(None));
    assert_eq!(with("subPath", "a/b"), Ok(Some("a/b".into())));
    assert_eq!(with("subPathExpr", "x/$(POD)"), Ok(Some("x/web-1".into())));
    let rows = [
        ("subPath", "/a", "error SubPath `/a` must not be an absolute path"),
        ("subPath", "a/../b", "unable to provision SubPath `a/../b`: must not contain '..'"),
        ("subPathExpr", "$(NONE)/$(EMPTY)", "missing value for EMPTY, NONE"),
    ];
    for (field, path, expected) in rows {
        assert_eq!(with(field, path), Err(expected.to_owned()), "{path}");
    }
}

// behaviour: VOL-22
#[test]
fn image_volume_is_mounted_by_the_runtime_with_its_subpath() {
    let mount = json!({ "name": "image", "mountPath": "/i", "subPath": "etc" });
    let plan = planned(&mount).unwrap();
    assert_eq!(plan.mount.image, "sha256:1");
    assert_eq!(plan.mount.image_subpath, "etc");
    assert_eq!(plan.subpath, None);
}

// behaviour: VOL-23
#[test]
fn recursive_read_only_needs_a_read_only_mount_without_propagation() {
    let with = |more: &Value| {
        let mut mount =
            json!({ "name": "data", "mountPath": "/a", "recursiveReadOnly": "Enabled" });
        for (field, value) in more.as_object().unwrap() {
            mount[field] = value.clone();
        }
        planned(&mount).map(|plan| plan.mount.recursive_read_only)
    };
    assert_eq!(with(&json!({ "readOnly": true })), Ok(true));
    assert_eq!(with(&json!({ "recursiveReadOnly": "Disabled" })), Ok(false));
    let refused = "failed to resolve recursive read-only mode: volume \"data\" requested recursive \
                   read-only mode, but it is ";
    let rows = [
        (json!({}), "not read-only"),
        (
            json!({ "readOnly": true, "mountPropagation": "Bidirectional" }),
            "not compatible with propagation \"Bidirectional\"",
        ),
    ];
    for (more, problem) in rows {
        assert_eq!(with(&more), Err(format!("{refused}{problem}")));
    }
}

// behaviour: VOL-24
#[test]
fn missing_volume_is_named_with_its_container() {
    for name in ["none", "disk"] {
        let error = planned(&json!({ "name": name, "mountPath": "/a" })).unwrap_err();
        assert_eq!(error, format!("cannot find volume {name:?} to mount into container \"main\""));
    }
}

// behaviour: VOL-25
#[test]
fn block_volume_becomes_a_device() {
    let device = json!({ "name": "disk", "devicePath": "/dev/xda" });
    let container = json!({ "name": "main", "volumeDevices": [device] });
    let container: Container = serde_json::from_value(container).unwrap();
    let devices = volume_devices(&container, &mounted()).unwrap();
    assert_eq!(devices[0].host_path, "/dev/loop1");
    assert_eq!(devices[0].container_path, "/dev/xda");
    assert_eq!(devices[0].permissions, "mrw");
}
