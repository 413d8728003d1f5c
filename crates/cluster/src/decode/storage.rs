//! Persistent volumes and their claims.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::NodeSelector;
use model::storage::{ClaimRecord, PersistentVolumeRecord, PersistentVolumeSource};
use serde::Deserialize;
use serde::de::IgnoredAny;

/// Keeps a claim that pods use from being deleted.
const PROTECTION: &str = "kubernetes.io/pvc-protection";
/// The group that may use a persistent volume.
const GROUP: &str = "pv.beta.kubernetes.io/gid";
/// The former place of mount options, which still comes first.
const MOUNT_OPTIONS: &str = "volume.beta.kubernetes.io/mount-options";

/// Kinds of persistent volumes that are not supported, by their fields.
const OTHER_KINDS: [&str; 19] = [
    "awsElasticBlockStore",
    "azureDisk",
    "azureFile",
    "cephfs",
    "cinder",
    "csi",
    "fc",
    "flexVolume",
    "flocker",
    "gcePersistentDisk",
    "glusterfs",
    "iscsi",
    "photonPersistentDisk",
    "portworxVolume",
    "quobyte",
    "rbd",
    "scaleIO",
    "storageos",
    "vsphereVolume",
];

/// The fields of `metadata` that storage needs.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Metadata {
    uid: Box<str>,
    deletion_timestamp: Option<IgnoredAny>,
    finalizers: Option<Vec<String>>,
    owner_references: Option<Vec<OwnerReference>>,
    annotations: Option<BTreeMap<String, String>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct OwnerReference {
    uid: Box<str>,
    controller: Option<bool>,
}

/// A claim.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Claim {
    metadata: Metadata,
    spec: ClaimSpec,
    status: ClaimStatus,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ClaimSpec {
    volume_name: Box<str>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ClaimStatus {
    phase: String,
}

impl Claim {
    pub(crate) fn record(self) -> ClaimRecord {
        let owners = self.metadata.owner_references.unwrap_or_default().into_iter();
        let finalizers = self.metadata.finalizers.unwrap_or_default();
        ClaimRecord {
            uid: self.metadata.uid,
            controller: owners.filter(|one| one.controller == Some(true)).map(|one| one.uid).next(),
            is_being_deleted: self.metadata.deletion_timestamp.is_some(),
            is_protected: finalizers.iter().any(|one| one == PROTECTION),
            is_bound: self.status.phase == "Bound",
            volume: self.spec.volume_name,
        }
    }
}

/// A persistent volume.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct PersistentVolume {
    metadata: Metadata,
    spec: VolumeSpec,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct VolumeSpec {
    claim_ref: Option<ClaimRef>,
    volume_mode: Option<Box<str>>,
    access_modes: Option<Vec<String>>,
    mount_options: Option<Vec<String>>,
    node_affinity: Option<NodeAffinity>,
    host_path: Option<HostPath>,
    local: Option<Local>,
    nfs: Option<Nfs>,
    #[serde(flatten)]
    #[allow(clippy::zero_sized_map_values, reason = "serde only flattens into maps")]
    rest: BTreeMap<String, IgnoredAny>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ClaimRef {
    uid: Box<str>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct NodeAffinity {
    required: Option<NodeSelector>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct HostPath {
    path: String,
    #[serde(rename = "type")]
    kind: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Local {
    path: String,
    fs_type: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Nfs {
    server: String,
    path: String,
}

impl PersistentVolume {
    pub(crate) fn record(self) -> PersistentVolumeRecord {
        let Self { metadata, mut spec } = self;
        let mut annotations = metadata.annotations.unwrap_or_default();
        let annotated = annotations.remove(MOUNT_OPTIONS);
        let annotated = annotated.map(|text| text.split(',').map(str::to_owned).collect());
        let required = spec.node_affinity.take().and_then(|affinity| affinity.required);
        PersistentVolumeRecord {
            claim_uid: spec.claim_ref.take().map(|claim| claim.uid),
            mode: spec.volume_mode.take(),
            access_modes: spec.access_modes.take().unwrap_or_default(),
            mount_options: annotated.or(spec.mount_options.take()).unwrap_or_default(),
            group: annotations.remove(GROUP).map(Into::into),
            node_affinity: required.map(|selector| selector.node_selector_terms),
            source: spec.source(),
        }
    }
}

impl VolumeSpec {
    fn source(self) -> PersistentVolumeSource {
        if let Some(HostPath { path, kind }) = self.host_path {
            return PersistentVolumeSource::HostPath { path, kind: kind.unwrap_or_default() };
        }
        if let Some(Local { path, fs_type }) = self.local {
            return PersistentVolumeSource::Local { path, fs_type };
        }
        if let Some(Nfs { server, path }) = self.nfs {
            return PersistentVolumeSource::Nfs { server, path };
        }
        let kind = OTHER_KINDS.into_iter().find(|kind| self.rest.contains_key(*kind));
        PersistentVolumeSource::Other(kind.unwrap_or("unknown").into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(json: &str) -> ClaimRecord {
        serde_json::from_str::<Claim>(json).unwrap().record()
    }

    fn volume(json: &str) -> PersistentVolumeRecord {
        serde_json::from_str::<PersistentVolume>(json).unwrap().record()
    }

    #[test]
    fn claims_are_decoded() {
        let bound = claim(
            r#"{"kind":"PersistentVolumeClaim","metadata":{"uid":"c1","deletionTimestamp":"2026-01-01T00:00:00Z",
            "finalizers":["kubernetes.io/pvc-protection"],"ownerReferences":[{"uid":"x"},
            {"uid":"p1","controller":true,"kind":"Pod"}]},
            "spec":{"volumeName":"pv","resources":{}},"status":{"phase":"Bound"}}"#,
        );
        let expected = ClaimRecord {
            uid: "c1".into(),
            controller: Some("p1".into()),
            is_being_deleted: true,
            is_protected: true,
            is_bound: true,
            volume: "pv".into(),
        };
        assert_eq!(bound, expected);
        let pending = claim(r#"{"metadata":{"uid":"c1"},"spec":{},"status":{"phase":"Pending"}}"#);
        assert_eq!(pending, ClaimRecord { uid: "c1".into(), ..ClaimRecord::default() });
    }

    #[test]
    fn persistent_volumes_are_decoded() {
        let local = volume(
            r#"{"metadata":{"annotations":{"pv.beta.kubernetes.io/gid":"7"}},"spec":{
            "claimRef":{"uid":"c1","name":"c"},"volumeMode":"Filesystem",
            "accessModes":["ReadWriteOncePod"],"mountOptions":["noatime"],
            "nodeAffinity":{"required":{"nodeSelectorTerms":[{"matchExpressions":[
            {"key":"k","operator":"Exists"}]}]}},"local":{"path":"/disk","fsType":"xfs"},
            "capacity":{"storage":"1Gi"},"persistentVolumeReclaimPolicy":"Retain"}}"#,
        );
        assert_eq!(local.claim_uid.as_deref(), Some("c1"));
        assert_eq!(local.mode.as_deref(), Some("Filesystem"));
        assert_eq!(local.access_modes, ["ReadWriteOncePod"]);
        assert_eq!(local.mount_options, ["noatime"]);
        assert_eq!(local.group.as_deref(), Some("7"));
        assert_eq!(local.node_affinity.map(|terms| terms.len()), Some(1));
        let (path, fs_type) = ("/disk".to_owned(), Some("xfs".to_owned()));
        assert_eq!(local.source, PersistentVolumeSource::Local { path, fs_type });
    }

    #[test]
    fn volume_sources_and_mount_options_are_decoded() {
        let rows = [
            (
                r#"{"hostPath":{"path":"/x","type":"Directory"}}"#,
                PersistentVolumeSource::HostPath {
                    path: "/x".to_owned(),
                    kind: "Directory".to_owned(),
                },
            ),
            (
                r#"{"nfs":{"server":"s","path":"/p"}}"#,
                PersistentVolumeSource::Nfs { server: "s".to_owned(), path: "/p".to_owned() },
            ),
            (r#"{"csi":{"driver":"d"}}"#, PersistentVolumeSource::Other("csi".into())),
            ("{}", PersistentVolumeSource::Other("unknown".into())),
        ];
        for (spec, expected) in rows {
            let found = volume(&format!(r#"{{"metadata":{{}},"spec":{spec}}}"#));
            assert_eq!(found.source, expected, "{spec}");
        }
        let annotated = volume(
            r#"{"metadata":{"annotations":{"volume.beta.kubernetes.io/mount-options":"ro,hard"}},
            "spec":{"mountOptions":["rw"]}}"#,
        );
        assert_eq!(annotated.mount_options, ["ro", "hard"]);
    }
}
