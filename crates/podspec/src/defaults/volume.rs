//! Defaults of volumes.

use k8s_openapi::api::core::v1::{
    DownwardAPIVolumeFile, EphemeralVolumeSource, ProjectedVolumeSource, Volume,
};

use super::container::{pull_policy, set_field_ref_defaults};
use super::resources::normalize_list;
use super::set_word;
use crate::quantity::Quantity;
use crate::volume_source;

/// The default file mode of a volume: all may read, the owner may write.
const FILE_MODE: i32 = 0o644;
/// The default lifetime of a service account token.
const TOKEN_SECONDS: i64 = 3600;

pub(super) fn set_defaults(volume: &mut Volume) {
    if volume_source::names(volume).is_empty() {
        volume.empty_dir.get_or_insert_default();
    }
    set_file_defaults(volume);
    set_storage_defaults(volume);
    set_vendor_defaults(volume);
}

/// Volumes whose files the agent writes.
fn set_file_defaults(volume: &mut Volume) {
    if let Some(secret) = &mut volume.secret {
        secret.default_mode.get_or_insert(FILE_MODE);
    }
    if let Some(config_map) = &mut volume.config_map {
        config_map.default_mode.get_or_insert(FILE_MODE);
    }
    if let Some(downward_api) = &mut volume.downward_api {
        downward_api.default_mode.get_or_insert(FILE_MODE);
        downward_api.items.iter_mut().flatten().for_each(set_item_defaults);
    }
    if let Some(projected) = &mut volume.projected {
        set_projected_defaults(projected);
    }
}

fn set_projected_defaults(projected: &mut ProjectedVolumeSource) {
    projected.default_mode.get_or_insert(FILE_MODE);
    for source in projected.sources.iter_mut().flatten() {
        if let Some(downward_api) = &mut source.downward_api {
            downward_api.items.iter_mut().flatten().for_each(set_item_defaults);
        }
        if let Some(token) = &mut source.service_account_token {
            token.expiration_seconds.get_or_insert(TOKEN_SECONDS);
        }
    }
}

fn set_item_defaults(item: &mut DownwardAPIVolumeFile) {
    if let Some(field_ref) = &mut item.field_ref {
        set_field_ref_defaults(field_ref);
    }
}

/// Volumes that are mounted from other places.
fn set_storage_defaults(volume: &mut Volume) {
    if let Some(limit) = volume.empty_dir.as_mut().and_then(|source| source.size_limit.as_mut())
        && let Ok(quantity) = Quantity::parse(&limit.0)
    {
        limit.0 = quantity.to_string();
    }
    if let Some(host_path) = &mut volume.host_path {
        host_path.type_.get_or_insert_default();
    }
    if let Some(image) = &mut volume.image {
        let reference = image.reference.as_deref().unwrap_or_default();
        set_word(&mut image.pull_policy, pull_policy(reference));
    }
    if let Some(iscsi) = &mut volume.iscsi {
        set_word(&mut iscsi.iscsi_interface, "default");
    }
    if let Some(ephemeral) = &mut volume.ephemeral {
        set_ephemeral_defaults(ephemeral);
    }
}

fn set_ephemeral_defaults(ephemeral: &mut EphemeralVolumeSource) {
    let Some(template) = &mut ephemeral.volume_claim_template else {
        return;
    };
    template.spec.volume_mode.get_or_insert_with(|| "Filesystem".to_owned());
    if let Some(resources) = &mut template.spec.resources {
        for list in [&mut resources.limits, &mut resources.requests].into_iter().flatten() {
            normalize_list(list);
        }
    }
}

/// Volumes of former in-tree plugins.
fn set_vendor_defaults(volume: &mut Volume) {
    if let Some(rbd) = &mut volume.rbd {
        set_word(&mut rbd.pool, "rbd");
        set_word(&mut rbd.user, "admin");
        set_word(&mut rbd.keyring, "/etc/ceph/keyring");
    }
    if let Some(disk) = &mut volume.azure_disk {
        disk.caching_mode.get_or_insert_with(|| "ReadWrite".to_owned());
        disk.fs_type.get_or_insert_with(|| "ext4".to_owned());
        disk.read_only.get_or_insert(false);
        disk.kind.get_or_insert_with(|| "Shared".to_owned());
    }
    if let Some(scale_io) = &mut volume.scale_io {
        set_word(&mut scale_io.storage_mode, "ThinProvisioned");
        set_word(&mut scale_io.fs_type, "xfs");
    }
}
