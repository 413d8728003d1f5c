//! Rules for volumes that are mounted from other places.

use k8s_openapi::api::core::v1::{
    CSIVolumeSource, FCVolumeSource, ISCSIVolumeSource, NFSVolumeSource, Volume,
};

use super::word;
use crate::field_error::{FieldErrors, FieldPath};
use crate::names::{between, dns_subdomain};

const MAX_LUN: i32 = 255;
const CSI_DRIVER_MAX: usize = 63;
/// The kernel joins name and portal to one name.
const ISCSI_NAME_MAX: usize = 64;

pub(super) fn check(volume: &Volume, name: &str, path: &FieldPath, errors: &mut FieldErrors) {
    if let ("nfs", Some(source)) = (name, &volume.nfs) {
        check_nfs(source, path, errors);
    } else if let ("iscsi", Some(source)) = (name, &volume.iscsi) {
        check_iscsi(source, path, errors);
        let length = volume.name.len() + 1 + source.target_portal.len();
        if source.initiator_name.is_some() && length > ISCSI_NAME_MAX {
            let problem = "Total length of <volume name>:<iscsi.targetPortal> must be under 64 \
                           characters if iscsi.initiatorName is specified.";
            errors.invalid(path, volume.name.as_str(), problem);
        }
    } else if let ("fc", Some(source)) = (name, &volume.fc) {
        check_fc(source, path, errors);
    } else if let ("csi", Some(source)) = (name, &volume.csi) {
        check_csi(source, path, errors);
    } else if let ("persistentVolumeClaim", Some(source)) = (name, &volume.persistent_volume_claim)
    {
        if source.claim_name.is_empty() {
            errors.required(&path.child("claimName"), "");
        }
    } else if let ("ephemeral", Some(source)) = (name, &volume.ephemeral)
        && source.volume_claim_template.is_none()
    {
        errors.required(&path.child("volumeClaimTemplate"), "");
    }
}

fn check_nfs(source: &NFSVolumeSource, path: &FieldPath, errors: &mut FieldErrors) {
    if source.server.is_empty() {
        errors.required(&path.child("server"), "");
    }
    if source.path.is_empty() {
        errors.required(&path.child("path"), "");
    }
    if !source.path.starts_with('/') {
        errors.invalid(&path.child("path"), source.path.as_str(), "must be an absolute path");
    }
}

fn check_iscsi(source: &ISCSIVolumeSource, path: &FieldPath, errors: &mut FieldErrors) {
    if source.target_portal.is_empty() {
        errors.required(&path.child("targetPortal"), "");
    }
    if source.iqn.is_empty() {
        errors.required(&path.child("iqn"), "");
    } else {
        check_iscsi_name(&source.iqn, &path.child("iqn"), errors);
    }
    if let Some(name) = &source.initiator_name {
        check_iscsi_name(name, &path.child("initiatorName"), errors);
    }
    if !(0..=MAX_LUN).contains(&source.lun) {
        errors.invalid(&path.child("lun"), source.lun, between(0, MAX_LUN.into()));
    }
    let uses_chap =
        source.chap_auth_discovery == Some(true) || source.chap_auth_session == Some(true);
    if uses_chap && source.secret_ref.is_none() {
        errors.required(&path.child("secretRef"), "");
    }
}

fn check_iscsi_name(name: &str, path: &FieldPath, errors: &mut FieldErrors) {
    let is_id = |rest: &str, length: usize| {
        rest.strip_prefix('.').is_some_and(|id| {
            id.len() == length && id.bytes().all(|byte| byte.is_ascii_alphanumeric())
        })
    };
    let is_valid = if let Some(rest) = name.strip_prefix("iqn") {
        is_iqn(rest)
    } else if let Some(rest) = name.strip_prefix("eui") {
        is_id(rest, 16)
    } else if let Some(rest) = name.strip_prefix("naa") {
        is_id(rest, 32)
    } else {
        let problem = "must be valid format starting with iqn, eui, or naa";
        return errors.invalid(path, name, problem);
    };
    if !is_valid {
        errors.invalid(path, name, "must be valid format");
    }
}

/// `.2001-04.com.example:anything`, after `iqn`.
fn is_iqn(rest: &str) -> bool {
    let Some((date, authority)) = rest.strip_prefix('.').and_then(|rest| rest.split_once('.'))
    else {
        return false;
    };
    let is_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let is_date = date
        .split_once('-')
        .is_some_and(|(y, m)| y.len() == 4 && m.len() == 2 && is_digits(y) && is_digits(m));
    let is_domain = |text: &str| {
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.');
        !text.is_empty() && text.bytes().all(fits)
    };
    let is_own = |text: &str| {
        let breaks = |c: char| c.is_ascii_whitespace() || ",;*&$|".contains(c);
        !text.is_empty() && !text.contains(breaks)
    };
    is_date
        && authority.split_once(':').is_some_and(|(domain, own)| is_domain(domain) && is_own(own))
}

fn check_fc(source: &FCVolumeSource, path: &FieldPath, errors: &mut FieldErrors) {
    let names_path = path.child("targetWWNs");
    let names = source.target_wwns.as_deref().unwrap_or_default();
    let has_ids = source.wwids.as_ref().is_some_and(|ids| !ids.is_empty());
    if names.is_empty() && !has_ids {
        errors.required(&names_path, "must specify either targetWWNs or wwids, but not both");
    }
    if !names.is_empty() && has_ids {
        let problem = "targetWWNs and wwids can not be specified simultaneously";
        errors.invalid(&names_path, names, problem);
    }
    if names.is_empty() {
        return;
    }
    match source.lun {
        None => errors.required(&path.child("lun"), "lun is required if targetWWNs is specified"),
        Some(lun) if !(0..=MAX_LUN).contains(&lun) => {
            errors.invalid(&path.child("lun"), lun, between(0, MAX_LUN.into()));
        }
        Some(_) => {}
    }
}

fn check_csi(source: &CSIVolumeSource, path: &FieldPath, errors: &mut FieldErrors) {
    let driver_path = path.child("driver");
    let driver = source.driver.as_str();
    if driver.is_empty() {
        errors.required(&driver_path, "");
    } else {
        if driver.len() > CSI_DRIVER_MAX {
            errors.too_long(&driver_path, CSI_DRIVER_MAX);
        }
        errors.invalid_each(&driver_path, driver, dns_subdomain(&driver.to_lowercase()));
    }
    if let Some(secret) = &source.node_publish_secret_ref {
        let path = path.child("nodePublishSecretRef").child("name");
        let name = word(Some(&secret.name));
        if name.is_empty() {
            errors.required(&path, "");
        } else {
            errors.invalid_each(&path, name, dns_subdomain(name));
        }
    }
}
