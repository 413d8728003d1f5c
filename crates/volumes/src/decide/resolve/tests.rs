use serde_json::{Value, json};

use model::storage::PersistentVolumeSource;

use super::*;

/// A pod with one container that mounts the volumes of these names.
fn pod(volumes: &Value, mounts: &[&str]) -> Pod {
    let mounts: Vec<Value> = mounts
        .iter()
        .map(|name| json!({ "name": name, "mountPath": format!("/{name}") }))
        .collect();
    let pod = json!({
        "metadata": { "name": "web", "namespace": "shop", "uid": "u1" },
        "spec": {
            "containers": [{ "name": "main", "volumeMounts": mounts }],
            "volumes": volumes,
        },
    });
    serde_json::from_value(pod).unwrap()
}

fn with_devices(mut pod: Pod, names: &[&str]) -> Pod {
    let container = &mut pod.spec.as_mut().unwrap().containers[0];
    let devices = names.iter().map(|name| json!({ "name": name, "devicePath": "/dev/x" }));
    container.volume_devices = Some(serde_json::from_value(devices.collect()).unwrap());
    pod
}

fn inline(pod: &Pod) -> Resolved {
    resolve(pod, &Storage { claims: &Claims::new(), volumes: &PersistentVolumes::new() })
}

/// The source of a volume that a container mounts.
fn source(source: &Value) -> Result<VolumeSource, String> {
    let mut volume = source.clone();
    volume["name"] = "v".into();
    let mut resolved = inline(&pod(&json!([volume]), &["v"]));
    assert_eq!(resolved.volumes.len() + resolved.failed.len(), 1);
    resolved
        .volumes
        .pop()
        .map(|spec| spec.source)
        .ok_or_else(|| resolved.failed[0].error.to_string())
}

// behaviour: VOL-30
#[test]
fn unreferenced_volumes_are_ignored() {
    let names = ["a", "b", "c", "d", "e", "f"];
    let volumes: Vec<Value> = names.map(|name| json!({ "name": name, "emptyDir": {} })).into();
    let mount = |name: &str| json!([{ "name": name, "mountPath": "/m" }]);
    let pod: Pod = serde_json::from_value(json!({
        "metadata": { "name": "web", "namespace": "shop", "uid": "u1" },
        "spec": {
            "initContainers": [
                { "name": "i", "volumeMounts": mount("a") },
                { "name": "s", "restartPolicy": "Always", "volumeMounts": mount("b") },
            ],
            "containers": [{ "name": "m", "volumeMounts": mount("c"),
                             "volumeDevices": [{ "name": "d", "devicePath": "/dev/d" }] }],
            "ephemeralContainers": [{ "name": "e", "volumeMounts": mount("e") }],
            "volumes": volumes,
        },
    }))
    .unwrap();
    let resolved = inline(&pod);
    let found: Vec<&str> = resolved.volumes.iter().map(|spec| &*spec.id.name).collect();
    assert_eq!(found, ["a", "b", "c", "d", "e"]);
}

// behaviour: VOL-31
#[test]
fn inline_volumes_keep_their_settings() {
    let disk = VolumeSource::EmptyDir { medium: Medium::Disk, size_limit: None };
    let host_path = |path: &str, kind| VolumeSource::HostPath { path: path.to_owned(), kind };
    let rows = [
        (json!({}), disk.clone()),
        (json!({ "emptyDir": {} }), disk.clone()),
        (json!({ "emptyDir": { "sizeLimit": "0" } }), disk),
        (
            json!({ "emptyDir": { "medium": "Memory", "sizeLimit": "1Ki" } }),
            VolumeSource::EmptyDir { medium: Medium::Memory, size_limit: Some(1024) },
        ),
        (
            json!({ "emptyDir": { "medium": "HugePages" } }),
            VolumeSource::EmptyDir { medium: Medium::HugePages(None), size_limit: None },
        ),
        (
            json!({ "emptyDir": { "medium": "HugePages-2Mi" } }),
            VolumeSource::EmptyDir {
                medium: Medium::HugePages(Some("2Mi".to_owned())),
                size_limit: None,
            },
        ),
        (json!({ "hostPath": { "path": "/x" } }), host_path("/x", HostPathKind::Any)),
        (
            json!({ "hostPath": { "path": "/x", "type": "FileOrCreate" } }),
            host_path("/x", HostPathKind::FileOrCreate),
        ),
        (
            json!({ "nfs": { "server": "s", "path": "/p" } }),
            VolumeSource::Nfs { server: "s".to_owned(), path: "/p".to_owned(), options: vec![] },
        ),
        (
            json!({ "image": { "reference": "i:1", "pullPolicy": "Always" } }),
            VolumeSource::Image { reference: "i:1".to_owned(), pull_policy: "Always".to_owned() },
        ),
        (json!({ "configMap": { "name": "m" } }), VolumeSource::Content),
        (json!({ "secret": { "secretName": "s" } }), VolumeSource::Content),
        (json!({ "downwardAPI": {} }), VolumeSource::Content),
        (json!({ "projected": {} }), VolumeSource::Content),
    ];
    for (volume, expected) in rows {
        assert_eq!(source(&volume), Ok(expected), "{volume}");
    }
}

// behaviour: VOL-32
#[test]
fn unusable_inline_volumes_are_refused() {
    let rows = [
        (json!({ "csi": { "driver": "d" } }), "volumes of kind csi are not supported"),
        (
            json!({ "iscsi": { "targetPortal": "p", "iqn": "i", "lun": 0 } }),
            "volumes of kind iscsi are not supported",
        ),
        (json!({ "fc": {} }), "volumes of kind fc are not supported"),
        (json!({ "gitRepo": { "repository": "r" } }), "volumes of kind gitRepo are not supported"),
        (json!({ "emptyDir": { "medium": "Tape" } }), "unknown storage medium \"Tape\""),
        (json!({ "emptyDir": { "sizeLimit": "big" } }), "invalid sizeLimit \"big\""),
        (
            json!({ "hostPath": { "path": "/a/../b" } }),
            "invalid HostPath `/a/../b`: must not contain '..'",
        ),
        (json!({ "hostPath": { "path": "/a", "type": "Door" } }), "Door is an invalid volume type"),
    ];
    for (volume, expected) in rows {
        assert_eq!(source(&volume), Err(expected.to_owned()), "{volume}");
    }
}

// behaviour: VOL-33
#[test]
fn fs_group_and_read_only_depend_on_the_plugin() {
    let volumes = json!([
        { "name": "e", "emptyDir": {} },
        { "name": "c", "configMap": { "name": "m" } },
        { "name": "h", "hostPath": { "path": "/x" } },
        { "name": "n", "nfs": { "server": "s", "path": "/p" } },
        { "name": "r", "nfs": { "server": "s", "path": "/p", "readOnly": true } },
        { "name": "i", "image": { "reference": "i" } },
    ]);
    let resolved = inline(&pod(&volumes, &["e", "c", "h", "n", "r", "i"]));
    let found: Vec<_> = resolved
        .volumes
        .iter()
        .map(|spec| (&*spec.id.name, spec.read_only, spec.fs_group_applies))
        .collect();
    let expected = [
        ("e", false, true),
        ("c", true, true),
        ("h", false, false),
        ("n", false, false),
        ("r", true, false),
        ("i", true, false),
    ];
    assert_eq!(found, expected);
}

/// A valid claim and its persistent volume.
struct Bound {
    claim: Result<ClaimRecord, ObjectError>,
    volume: Result<PersistentVolumeRecord, ObjectError>,
}

fn bound() -> Bound {
    let claim = ClaimRecord {
        uid: "c1".into(),
        is_bound: true,
        volume: "pv".into(),
        ..ClaimRecord::default()
    };
    let volume = PersistentVolumeRecord {
        claim_uid: Some("c1".into()),
        mode: Some("Filesystem".into()),
        access_modes: vec!["ReadWriteOnce".to_owned()],
        mount_options: Vec::new(),
        group: None,
        node_affinity: None,
        source: PersistentVolumeSource::Local { path: "/disk".to_owned(), fs_type: None },
    };
    Bound { claim: Ok(claim), volume: Ok(volume) }
}

impl Bound {
    fn resolve(self, pod: &Pod, claim: &str) -> Resolved {
        let name = ClaimName { namespace: "shop".into(), name: claim.into() };
        let claims = Claims::from([(name, self.claim.map(Arc::new))]);
        let volumes = PersistentVolumes::from([("pv".into(), self.volume.map(Arc::new))]);
        resolve(pod, &Storage { claims: &claims, volumes: &volumes })
    }
}

fn claim_volume() -> Value {
    json!([{ "name": "v", "persistentVolumeClaim": { "claimName": "data" } }])
}

/// Changes a claim and its persistent volume.
type Damage = fn(&mut Bound);

fn claim(bound: &mut Bound) -> &mut ClaimRecord {
    bound.claim.as_mut().unwrap()
}

fn volume(bound: &mut Bound) -> &mut PersistentVolumeRecord {
    bound.volume.as_mut().unwrap()
}

fn check(rows: &[(Damage, &str)]) {
    for (damage, expected) in rows {
        let mut bound = bound();
        damage(&mut bound);
        let resolved = bound.resolve(&pod(&claim_volume(), &["v"]), "data");
        let error = resolved.failed.first().map(|failed| failed.error.to_string());
        assert_eq!(error.unwrap_or_default(), *expected);
        assert_eq!(resolved.volumes.len(), usize::from(expected.is_empty()));
    }
}

// behaviour: VOL-34
#[test]
fn claims_that_are_not_ready_are_refused_with_upstream_texts() {
    let rows: [(Damage, &str); 7] = [
        (
            |bound| {
                let name = "data".into();
                bound.claim =
                    Err(ObjectError::NotFound { resource: "persistentvolumeclaims", name });
            },
            "error processing PVC shop/data: failed to fetch PVC from API server: \
             persistentvolumeclaims \"data\" not found",
        ),
        (
            |bound| claim(bound).is_being_deleted = true,
            "error processing PVC shop/data: PVC is being deleted",
        ),
        (|bound| claim(bound).is_bound = false, "error processing PVC shop/data: PVC is not bound"),
        (
            |bound| claim(bound).volume = "".into(),
            "error processing PVC shop/data: PVC has empty pvc.Spec.VolumeName",
        ),
        // Protected claims are kept until their pods are gone.
        (
            |bound| {
                claim(bound).is_being_deleted = true;
                claim(bound).is_protected = true;
            },
            "",
        ),
        (|bound| volume(bound).access_modes = vec!["ReadWriteOncePod".to_owned()], ""),
        (|_| (), ""),
    ];
    check(&rows);
}

// behaviour: VOL-35
#[test]
fn unusable_persistent_volumes_are_refused_with_upstream_texts() {
    let rows: [(Damage, &str); 9] = [
        (
            |bound| bound.volume = Err(ObjectError::NotRead("timeout".to_owned())),
            "error processing PVC shop/data: failed to fetch PV pv from API server: timeout",
        ),
        (
            |bound| volume(bound).claim_uid = None,
            "error processing PVC shop/data: found PV object pv but it has a nil pv.Spec.ClaimRef \
             indicating it is not yet bound to the claim",
        ),
        (
            |bound| volume(bound).claim_uid = Some("c2".into()),
            "error processing PVC shop/data: found PV object pv but its pv.Spec.ClaimRef.UID c2 \
             does not point to claim.UID c1",
        ),
        (|bound| volume(bound).mode = None, "cannot get volumeMode for volume: pv"),
        (
            |bound| volume(bound).mode = Some("Block".into()),
            "volume v has volumeMode Block, but is specified in volumeMounts",
        ),
        (
            |bound| volume(bound).source = PersistentVolumeSource::Other("csi".into()),
            "volumes of kind csi are not supported",
        ),
        (
            |bound| {
                let path = "/x".to_owned();
                volume(bound).source =
                    PersistentVolumeSource::HostPath { path, kind: String::new() };
                volume(bound).mount_options = vec!["ro".to_owned()];
            },
            "mount options are not supported for this volume type",
        ),
        (
            |bound| {
                let path = String::new();
                volume(bound).source = PersistentVolumeSource::Local { path, fs_type: None };
            },
            "LocalVolume volume \"pv\" path is empty",
        ),
        (
            |bound| {
                let path = "/a/..".to_owned();
                volume(bound).source = PersistentVolumeSource::Local { path, fs_type: None };
            },
            "invalid path: /a/.. must not contain '..'",
        ),
    ];
    check(&rows);
}

// behaviour: VOL-36
#[test]
fn claim_volumes_resolve_to_their_persistent_volume() {
    let mut bound = bound();
    let record = volume(&mut bound);
    record.access_modes = vec!["ReadWriteOncePod".to_owned()];
    record.group = Some("1234".into());
    record.mount_options = vec!["noatime".to_owned()];
    let volumes = json!([
        { "name": "v", "persistentVolumeClaim": { "claimName": "data" } },
        { "name": "w", "persistentVolumeClaim": { "claimName": "data", "readOnly": true } },
    ]);
    let pod = pod(&volumes, &["v", "w"]);
    assert_eq!(claims(&pod).len(), 1);
    let resolved = bound.resolve(&pod, "data");
    let [spec] = &*resolved.volumes else { panic!("{resolved:?}") };
    assert_eq!((spec.id.plugin, &*spec.id.name), (model::volume::Plugin::Local, "pv"));
    let outer: Vec<_> = spec.outer_names.iter().map(|one| (&*one.name, one.read_only)).collect();
    assert_eq!(outer, [("v", false), ("w", true)]);
    assert!(!spec.read_only && spec.fs_group_applies && !spec.is_block);
    let (path, fs_type) = ("/disk".to_owned(), "ext4".to_owned());
    let options = vec!["noatime".to_owned()];
    assert_eq!(spec.source, VolumeSource::Local { path, fs_type, options });
    let persistent = spec.persistent.as_ref().unwrap();
    assert_eq!(persistent.claim.to_string(), "shop/data");
    assert!(persistent.is_for_one_pod);
    assert_eq!(persistent.group, Some(1234));
}

// behaviour: VOL-31
#[test]
fn local_device_has_ext4_unless_its_volume_names_another_file_system() {
    for (fs_type, expected) in [(None, "ext4"), (Some(""), "ext4"), (Some("xfs"), "xfs")] {
        let source = source::local("pv", "/dev/d", fs_type, Vec::new());
        let (path, fs_type) = ("/dev/d".to_owned(), expected.to_owned());
        assert_eq!(source, Ok(VolumeSource::Local { path, fs_type, options: Vec::new() }));
    }
}

// behaviour: VOL-37
#[test]
fn block_devices_are_local_only() {
    let rows = [
        (PersistentVolumeSource::Local { path: "/dev/d".to_owned(), fs_type: None }, ""),
        (
            PersistentVolumeSource::HostPath { path: "/dev/d".to_owned(), kind: String::new() },
            "block volumes of kind hostPath are not supported",
        ),
        (
            PersistentVolumeSource::Nfs { server: "s".to_owned(), path: "/p".to_owned() },
            "block volumes of kind nfs are not supported",
        ),
    ];
    let pod = with_devices(pod(&claim_volume(), &[]), &["v"]);
    for (source, expected) in rows {
        let mut bound = bound();
        volume(&mut bound).mode = Some("Block".into());
        volume(&mut bound).source = source;
        let resolved = bound.resolve(&pod, "data");
        let error = resolved.failed.first().map(|failed| failed.error.to_string());
        assert_eq!(error.unwrap_or_default(), expected);
        assert!(resolved.volumes.iter().all(|spec| spec.is_block && !spec.fs_group_applies));
    }
    let mounted = bound().resolve(&pod, "data").failed[0].error.to_string();
    assert_eq!(mounted, "volume v has volumeMode Filesystem, but is specified in volumeDevices");
}

// behaviour: VOL-38
#[test]
fn generic_ephemeral_claim_must_be_controlled_by_the_pod() {
    let volumes = json!([{ "name": "scratch", "ephemeral": {} }]);
    let pod = pod(&volumes, &["scratch"]);
    let expected = ClaimName { namespace: "shop".into(), name: "web-scratch".into() };
    assert_eq!(claims(&pod), BTreeSet::from([expected]));
    let foreign = bound().resolve(&pod, "web-scratch").failed[0].error.to_string();
    assert_eq!(foreign, "PVC shop/web-scratch was not created for pod shop/web (pod is not owner)");
    let mut own = bound();
    claim(&mut own).controller = Some("u1".into());
    assert_eq!(own.resolve(&pod, "web-scratch").volumes.len(), 1);
}

#[test]
fn persistent_volumes_are_read_for_ready_claims_only() {
    let name = |name: &str| ClaimName { namespace: "shop".into(), name: name.into() };
    let ready = bound().claim.unwrap();
    let unbound = ClaimRecord { is_bound: false, volume: "other".into(), ..ready.clone() };
    let claims = Claims::from([
        (name("a"), Ok(Arc::new(ready))),
        (name("b"), Ok(Arc::new(unbound))),
        (name("c"), Err(ObjectError::NotRead("timeout".to_owned()))),
    ]);
    assert_eq!(persistent_volumes(&claims), BTreeSet::from(["pv".into()]));
}

// behaviour: VOL-39
#[test]
fn node_affinity_is_checked_by_labels() {
    let term = |value: &str| {
        let expression =
            json!({ "key": "kubernetes.io/hostname", "operator": "In", "values": [value] });
        serde_json::from_value(json!({ "matchExpressions": [expression] })).unwrap()
    };
    let labels = BTreeMap::from([("kubernetes.io/hostname".to_owned(), "n1".to_owned())]);
    let rows = [
        (None, Ok(())),
        (Some(vec![term("n2"), term("n1")]), Ok(())),
        (Some(vec![term("n2")]), Err(WrongNode)),
        (Some(vec![]), Err(WrongNode)),
        (Some(vec![NodeSelectorTerm::default()]), Err(WrongNode)),
    ];
    for (terms, expected) in rows {
        let mut bound = bound();
        volume(&mut bound).node_affinity = terms;
        let resolved = bound.resolve(&pod(&claim_volume(), &["v"]), "data");
        assert_eq!(check_node(&resolved.volumes[0], &labels), expected);
    }
    assert_eq!(WrongNode.to_string(), "no matching NodeSelectorTerms");
}
