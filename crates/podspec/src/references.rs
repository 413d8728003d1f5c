//! References to objects of the API, which a static pod must not have.
//!
//! A static pod runs without an API. It also must not bypass the API's
//! access control: the author of a manifest has no rights there.

use k8s_openapi::api::core::v1::{
    Container, LocalObjectReference, PodSpec, Volume, VolumeProjection,
};

use crate::ephemeral;
use crate::field_error::{FieldErrors, FieldPath};

pub(crate) fn check(spec: &PodSpec, path: &FieldPath, errors: &mut FieldErrors) {
    if spec.service_account_name.as_deref().is_some_and(|name| !name.is_empty()) {
        refuse("serviceaccounts", &path.child("serviceAccountName"), errors);
    }
    for (index, secret) in spec.image_pull_secrets.iter().flatten().enumerate() {
        let path = path.child("imagePullSecrets").index(index);
        check_secret(Some(secret), &path, errors);
    }
    let lists = [
        ("initContainers", spec.init_containers.as_deref().unwrap_or_default()),
        ("containers", spec.containers.as_slice()),
    ];
    for (field, containers) in lists {
        for (index, container) in containers.iter().enumerate() {
            check_container(container, &path.child(field).index(index), errors);
        }
    }
    for (index, container) in spec.ephemeral_containers.iter().flatten().enumerate() {
        let path = path.child("ephemeralContainers").index(index);
        check_container(&ephemeral::to_container(container.clone()), &path, errors);
    }
    if spec.resource_claims.as_ref().is_some_and(|claims| !claims.is_empty()) {
        refuse("resourceclaims", &path.child("resourceClaims"), errors);
    }
    for (index, volume) in spec.volumes.iter().flatten().enumerate() {
        check_volume(volume, &path.child("volumes").index(index), errors);
    }
}

fn refuse(what: &str, path: &FieldPath, errors: &mut FieldErrors) {
    errors.forbidden(path, format!("static pods may not reference {what}"));
}

/// References without a name are ignored.
fn check_secret(secret: Option<&LocalObjectReference>, path: &FieldPath, errors: &mut FieldErrors) {
    if secret.is_some_and(|secret| !secret.name.is_empty()) {
        refuse("secrets", path, errors);
    }
}

fn check_container(container: &Container, path: &FieldPath, errors: &mut FieldErrors) {
    for (index, variable) in container.env.iter().flatten().enumerate() {
        let Some(source) = &variable.value_from else {
            continue;
        };
        let path = path.child("env").index(index).child("valueFrom");
        if source.secret_key_ref.is_some() {
            refuse("secrets", &path.child("secretKeyRef"), errors);
        }
        if source.config_map_key_ref.is_some() {
            refuse("configmaps", &path.child("configMapKeyRef"), errors);
        }
    }
    for (index, source) in container.env_from.iter().flatten().enumerate() {
        let path = path.child("envFrom").index(index);
        if source.secret_ref.is_some() {
            refuse("secrets", &path.child("secretRef"), errors);
        }
        if source.config_map_ref.is_some() {
            refuse("configmaps", &path.child("configMapRef"), errors);
        }
    }
}

fn check_volume(volume: &Volume, path: &FieldPath, errors: &mut FieldErrors) {
    let sources = [
        ("secret", volume.secret.is_some(), "secrets (via secret volumes)"),
        ("configMap", volume.config_map.is_some(), "configmaps (via configmap volumes)"),
        ("csi", volume.csi.is_some(), "csidrivers (via CSI volumes)"),
        ("glusterfs", volume.glusterfs.is_some(), "endpoints (via glusterFS volumes)"),
        (
            "persistentVolumeClaim",
            volume.persistent_volume_claim.is_some(),
            "persistentvolumeclaims",
        ),
        ("ephemeral", volume.ephemeral.is_some(), "persistentvolumeclaims (via ephemeral volumes)"),
        ("azureFile", volume.azure_file.is_some(), "secrets (via azureFile volumes)"),
    ];
    for (field, is_set, what) in sources {
        if is_set {
            refuse(what, &path.child(field), errors);
        }
    }
    for (field, secret) in secrets(volume) {
        check_secret(secret, &path.child(field).child("secretRef"), errors);
    }
    let projections = volume.projected.iter().flat_map(|source| source.sources.iter().flatten());
    for (index, projection) in projections.enumerate() {
        let path = path.child("projected").child("sources").index(index);
        check_projection(projection, &volume.name, &path, errors);
    }
}

/// The secrets of volumes that may also be used without one.
pub(crate) fn secrets(volume: &Volume) -> [(&'static str, Option<&LocalObjectReference>); 7] {
    [
        ("cephfs", volume.cephfs.as_ref().and_then(|source| source.secret_ref.as_ref())),
        ("cinder", volume.cinder.as_ref().and_then(|source| source.secret_ref.as_ref())),
        ("flexVolume", volume.flex_volume.as_ref().and_then(|source| source.secret_ref.as_ref())),
        ("iscsi", volume.iscsi.as_ref().and_then(|source| source.secret_ref.as_ref())),
        ("rbd", volume.rbd.as_ref().and_then(|source| source.secret_ref.as_ref())),
        ("scaleIO", volume.scale_io.as_ref().map(|source| &source.secret_ref)),
        ("storageos", volume.storageos.as_ref().and_then(|source| source.secret_ref.as_ref())),
    ]
}

fn check_projection(
    projection: &VolumeProjection,
    volume: &str,
    path: &FieldPath,
    errors: &mut FieldErrors,
) {
    let sources = [
        ("configMap", projection.config_map.is_some(), "configmaps (via projected volumes)"),
        ("secret", projection.secret.is_some(), "secrets (via projected volumes)"),
        (
            "serviceAccountToken",
            projection.service_account_token.is_some(),
            "serviceaccounts (via projected volumes)",
        ),
        ("clusterTrustBundle", projection.cluster_trust_bundle.is_some(), "clustertrustbundles"),
        ("podCertificate", projection.pod_certificate.is_some(), "podcertificates"),
    ];
    let mut is_known = projection.downward_api.is_some();
    for (field, is_set, what) in sources {
        if is_set {
            is_known = true;
            refuse(what, &path.child(field), errors);
        }
    }
    if !is_known {
        errors.forbidden(path, format!("unknown source for projected volume {volume:?}"));
    }
}
